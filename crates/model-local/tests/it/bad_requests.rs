//! Is each bad request refused as llama-server refuses it, and does the server live on?

use std::io::Write;

use model_local::{Behaviour, Options, Reply, Server, Template};
use serde_json::{Value, json};

use crate::client::{chat, get, parse, read_all, request, send};

macro_rules! fixture {
    ($name:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!("../fixtures/", $name, ".json")))
            .unwrap()
    };
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "read_file", "arguments": arguments}})
}

fn messages(list: Value) -> Value {
    json!({"messages": list})
}

#[test]
fn refusals_are_the_recorded_ones() {
    let user = json!({"role": "user", "content": "x"});
    let assistant = json!({"role": "assistant", "content": "y"});
    let calls =
        json!({"role": "assistant", "content": "", "tool_calls": [call("c00000001", "{}")]});
    let mut untyped = calls.clone();
    untyped["tool_calls"][0]
        .as_object_mut()
        .unwrap()
        .remove("type");
    let rows = [
        ("no messages", 400, json!({}), fixture!("err-no-messages")),
        (
            "max_tokens",
            400,
            json!({"messages": [user], "max_tokens": "5"}),
            fixture!("err-max-tokens-string"),
        ),
        (
            "tool_choice",
            400,
            json!({"messages": [user], "tool_choice": "any"}),
            fixture!("err-tool-choice-any"),
        ),
        (
            "call last",
            400,
            messages(json!([user, calls])),
            fixture!("err-last-message-is-tool-call"),
        ),
        (
            "two assistants",
            400,
            messages(json!([user, assistant, assistant])),
            fixture!("err-two-assistants-at-end"),
        ),
        (
            "no content",
            400,
            messages(json!([user, calls, {"role": "tool", "tool_call_id": "c"}])),
            fixture!("err-tool-message-without-content"),
        ),
        (
            "null reasoning",
            500,
            messages(
                json!([{"role": "assistant", "content": "", "reasoning_content": null}, user]),
            ),
            fixture!("err-history-reasoning-null"),
        ),
    ];
    let server = Server::start(Behaviour::Script(vec![Reply::text("still here")]));
    for (name, status, body, want) in rows {
        let answer = chat(server.address(), &body);
        assert_eq!((answer.status, answer.json()), (status, want), "{name}");
    }
    let answer = chat(
        server.address(),
        &messages(json!([user, untyped, {"role": "tool", "content": "x"}])),
    );
    let recorded = fixture!("err-history-call-without-type");
    let opening = |json: &Value| json["error"]["message"].as_str().unwrap()[..50].to_owned();
    assert_eq!(
        (answer.status, opening(&answer.json())),
        (500, opening(&recorded))
    );
    // None of them took the script's reply.
    assert_eq!(
        chat(server.address(), &request("x")).json()["choices"][0]["message"]["content"],
        "still here"
    );
}

#[test]
fn broken_arguments_in_the_history_are_refused_for_ever() {
    let server = Server::start(Behaviour::Rules);
    for arguments in ["{\"path\": \"a", ""] {
        let body = messages(json!([{"role": "user", "content": "x"},
            {"role": "assistant", "content": "", "tool_calls": [call("c00000001", arguments)]},
            {"role": "tool", "tool_call_id": "c00000001", "content": "y"}]));
        let answer = chat(server.address(), &body);
        assert_eq!(answer.status, 500);
        let message = answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            message.starts_with("Failed to parse tool call arguments as JSON"),
            "{message}"
        );
    }
}

#[test]
fn bodies_that_are_not_json_are_refused() {
    let server = Server::start(Behaviour::Rules);
    for body in [&b"{\"messages\":"[..], b"", b"\"\xff\"", b"[1]", b"null"] {
        for path in ["/v1/chat/completions", "/v1/chat/completions/input_tokens"] {
            let answer = parse(&read_all(send(server.address(), "POST", path, "", body)));
            assert_eq!(
                (answer.status, &answer.json()["error"]["code"]),
                (400, &json!(400)),
                "{body:?}"
            );
        }
    }
}

#[test]
fn broken_tools_are_refused() {
    let server = Server::start(Behaviour::Rules);
    for (status, tools) in [
        (
            500,
            json!([{"type": "function", "function": {"parameters": {}}}]),
        ),
        (500, json!([{"type": "other", "function": {"name": "a"}}])),
        (500, json!([{"type": "function"}])),
        (500, json!("a")),
        (
            400,
            json!([{"type": "function", "function": {"name": "a", "parameters": []}}]),
        ),
    ] {
        let mut body = request("x");
        body["tools"] = tools;
        assert_eq!(chat(server.address(), &body).status, status, "{body}");
    }
}

#[test]
fn a_strict_template_wants_its_order() {
    let options = Options {
        template: Template::Strict,
        ..Options::default()
    };
    let server = Server::start_with(Behaviour::Rules, options).unwrap();
    let (user, assistant) = (
        json!({"role": "user", "content": "x"}),
        json!({"role": "assistant", "content": "y"}),
    );
    let system = json!({"role": "system", "content": "s"});
    let calls =
        |id: &str| json!({"role": "assistant", "content": "", "tool_calls": [call(id, "{}")]});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    let good = "c00000001";
    let rows = [
        (
            200,
            json!([system, user, calls(good), result(good), assistant, user]),
        ),
        (200, json!([user])),
        (400, json!([user, system])),
        (400, json!([user, user])),
        (400, json!([user, calls(good), result(good), user])),
        (400, json!([user, calls(good), user])),
        (400, json!([user, calls("c1"), result("c1")])),
        (400, json!([user, calls(good), result("c00000002")])),
        (400, json!([user, result(good)])),
        (400, json!([system, assistant, user])),
        (400, json!([system])),
    ];
    for (status, list) in rows {
        assert_eq!(
            chat(server.address(), &messages(list.clone())).status,
            status,
            "{list}"
        );
    }
}

#[test]
fn what_is_not_http_is_closed() {
    let server = Server::start(Behaviour::Rules);
    let rows: [(&[u8], u16); 5] = [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (
            b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
            413,
        ),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            400,
        ),
    ];
    for (bytes, status) in rows {
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(
            parse(&read_all(stream)).status,
            status,
            "{}",
            String::from_utf8_lossy(bytes)
        );
    }
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(70_000));
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.write_all(long.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(parse(&read_all(stream)).status, 431);
    assert_eq!(get(server.address(), "/health").status, 200);
}

#[test]
fn the_key_is_asked_for_except_for_health() {
    let options = Options {
        api_key: Some("k".into()),
        ..Options::default()
    };
    let server = Server::start_with(Behaviour::Rules, options).unwrap();
    let status = |path: &str, headers: &str| {
        parse(&read_all(send(server.address(), "GET", path, headers, b""))).status
    };
    assert_eq!(status("/health", ""), 200);
    assert_eq!(status("/props", ""), 401);
    assert_eq!(status("/props", "Authorization: Bearer wrong\r\n"), 401);
    assert_eq!(status("/props", "Authorization: Bearer k\r\n"), 200);
    assert_eq!(status("/props", "X-Api-Key: k\r\n"), 200);
}

#[test]
fn loading_lasts_for_so_many_requests() {
    let options = Options {
        loading_requests: 2,
        ..Options::default()
    };
    let server = Server::start_with(Behaviour::Rules, options).unwrap();
    let first = chat(server.address(), &request("hi"));
    let recorded = fixture!("err-loading-chat");
    assert_eq!((first.status, first.json()), (503, recorded));
    assert_eq!(get(server.address(), "/health").status, 503);
    assert_eq!(get(server.address(), "/health").status, 200);
    server.load_for(1);
    assert_eq!(get(server.address(), "/health").status, 503);
    assert_eq!(chat(server.address(), &request("hi")).status, 200);
}
