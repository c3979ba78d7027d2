//! Does a script put exactly its bytes on the wire, hold them back, cut them, and see who leaves?

use std::io::Read;
use std::net::TcpStream;

use model_local::{Behaviour, Gate, Outcome, Reply, Server};
use serde_json::{Value, json};

use crate::client::{PATIENCE, chat, chat_open, parse, read_all, read_some, request};

fn server(script: Vec<Reply>) -> Server {
    Server::start(Behaviour::Script(script))
}

fn streamed() -> Value {
    let mut asked = request("x");
    asked["stream"] = true.into();
    asked
}

#[test]
fn chunks_are_cut_where_the_script_says() {
    // The euro sign's three bytes come apart.
    let chunks: Vec<Vec<u8>> = vec![
        b"data: \xe2".to_vec(),
        b"\x82".to_vec(),
        b"\xac\r".to_vec(),
        b"\n\n".to_vec(),
    ];
    let server = server(vec![Reply::stream(chunks.clone())]);
    let answer = chat(server.address(), &streamed());
    assert_eq!(answer.body, chunks.concat());
    assert_eq!(answer.chunks.unwrap(), [7, 1, 2, 2]);
}

#[test]
fn raw_bytes_are_all_there_is() {
    let pieces = vec![
        b"HTTP/1.1 200".to_vec(),
        b" OK\r\n\r\nnot even".to_vec(),
        b" JSON".to_vec(),
    ];
    let server = server(vec![Reply::raw(pieces.clone())]);
    assert_eq!(
        read_all(chat_open(server.address(), &streamed())),
        pieces.concat()
    );
}

#[test]
fn status_headers_and_body_are_the_scripts() {
    let server = server(vec![
        Reply::answer(
            429,
            &[("Retry-After", "3"), ("Content-Type", "text/html")],
            "<b>busy</b>",
        ),
        Reply::error(500, "server_error", "Context size has been exceeded."),
    ]);
    let busy = chat(server.address(), &streamed());
    assert_eq!((busy.status, busy.text().as_str()), (429, "<b>busy</b>"));
    assert!(busy.head.contains("Retry-After: 3") && busy.head.contains("Content-Length: 11"));
    let error = chat(server.address(), &streamed());
    assert_eq!(error.status, 500);
    assert_eq!(
        error.json()["error"]["message"],
        "Context size has been exceeded."
    );
}

#[test]
fn broken_arguments_stay_broken() {
    let server = server(vec![
        Reply::call_raw("read_file", "{\"path\": "),
        Reply::call_raw("read_file", ""),
    ]);
    let function =
        |answer: Value| answer["choices"][0]["message"]["tool_calls"][0]["function"].clone();
    let first = function(chat(server.address(), &request("x")).json());
    assert_eq!(
        first,
        json!({"name": "read_file", "arguments": "{\"path\": "})
    );
    let second = function(chat(server.address(), &request("x")).json());
    assert_eq!(second, json!({"name": "read_file", "arguments": ""}));
}

#[test]
fn empty_replies_repeat_and_the_end_is_told() {
    let server = server(vec![Reply::loading(), Reply::empty(), Reply::empty()]);
    assert_eq!(chat(server.address(), &request("x")).status, 503);
    for _ in 0..2 {
        let reply = chat(server.address(), &request("x")).json();
        assert_eq!(reply["choices"][0]["message"]["content"], "");
        assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    }
    assert_eq!(server.calls_beyond_script(), 0);
    assert_eq!(chat(server.address(), &request("x")).status, 500);
    assert_eq!(server.calls_beyond_script(), 1);
    server.push(Reply::text("more"));
    assert_eq!(chat(server.address(), &request("x")).status, 200);
}

#[test]
fn an_answer_can_depend_on_the_request() {
    let echo = |request: &Value| {
        Reply::text(
            request["messages"][0]["content"]
                .as_str()
                .unwrap_or_default(),
        )
    };
    let always = Server::start(Behaviour::answer(echo));
    let once = server(vec![
        Reply::compute(echo),
        Reply::compute(|_| Reply::rules()),
    ]);
    for address in [always.address(), once.address()] {
        let reply = chat(address, &request("say this")).json();
        assert_eq!(reply["choices"][0]["message"]["content"], "say this");
    }
    let ruled = chat(once.address(), &request("note x")).json();
    assert_eq!(ruled["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn a_held_reply_comes_when_the_gate_opens() {
    let gate = Gate::new();
    let server = server(vec![
        Reply::stream(vec![b"one".to_vec(), b"two".to_vec()]).hold_before(2, &gate),
    ]);
    let mut stream = chat_open(server.address(), &streamed());
    assert!(gate.wait_held(PATIENCE));
    let mut seen = Vec::new();
    while !seen.ends_with(b"one\r\n") {
        seen.extend(read_some(&mut stream, 1));
    }
    assert_eq!(server.chats()[0].outcome, Outcome::Running);
    gate.open();
    seen.extend(read_all(stream));
    assert_eq!(parse(&seen).body, b"onetwo");
    assert!(server.wait_for_outcome(0, Outcome::Done, PATIENCE));
}

#[test]
fn a_client_that_leaves_is_seen_during_silence() {
    // Before the head, and in the middle of the stream.
    for piece in [0, 2] {
        let gate = Gate::new();
        let server = server(vec![Reply::text("a b c d").hold_before(piece, &gate)]);
        let stream = chat_open(server.address(), &streamed());
        assert!(server.wait_for_chats(1, PATIENCE) && gate.wait_held(PATIENCE));
        drop(stream);
        assert!(
            server.wait_for_outcome(0, Outcome::Disconnected, PATIENCE),
            "piece {piece}"
        );
    }
}

#[test]
fn a_reader_that_takes_all_is_not_a_leaver() {
    let server = server(vec![Reply::text("a b c d"); 50]);
    for number in 0..50 {
        let mut stream = chat_open(server.address(), &streamed());
        let mut seen = Vec::new();
        while !seen.ends_with(b"[DONE]\n\n") {
            seen.extend(read_some(&mut stream, 1));
        }
        drop(stream);
        assert!(
            server.wait_for_outcome(number, Outcome::Done, PATIENCE),
            "call {number}"
        );
    }
}

#[test]
fn a_cut_closes_the_socket_after_those_bytes() {
    let whole = {
        let server = server(vec![Reply::stream(vec![b"0123456789".to_vec()])]);
        read_all(chat_open(server.address(), &streamed()))
    };
    for bytes in [0, 1, 20, whole.len() - 7, whole.len() - 1] {
        let server = server(vec![
            Reply::stream(vec![b"0123456789".to_vec()]).cut_after(bytes),
        ]);
        assert_eq!(
            read_all(chat_open(server.address(), &streamed())),
            whole[..bytes],
            "{bytes}"
        );
        assert!(server.wait_for_outcome(0, Outcome::Done, PATIENCE));
    }
}

#[test]
fn a_cut_between_events_ends_without_a_last_chunk() {
    let server = server(vec![
        Reply::text("a b c").cut_before(3),
        Reply::text("a").cut_before(0),
    ]);
    let answer = chat(server.address(), &streamed());
    assert_eq!(answer.chunks, None);
    let text = answer.text();
    assert!(
        text.contains("\"content\":\"a\"")
            && !text.contains("finish_reason\":\"stop")
            && !text.contains("\" b\"")
    );
    assert!(read_all(chat_open(server.address(), &streamed())).is_empty());
}

#[test]
fn requests_are_recorded() {
    let server = server(vec![Reply::text("a")]);
    let asked = streamed();
    let agent = ureq::Agent::new_with_defaults();
    let url = format!("{}/v1/chat/completions", server.url());
    let mut response = agent
        .post(&url)
        .header("X-Mark", "m")
        .send(asked.to_string())
        .unwrap();
    assert!(
        response
            .body_mut()
            .read_to_string()
            .unwrap()
            .ends_with("data: [DONE]\n\n")
    );
    let chats = server.chats();
    assert_eq!((chats.len(), &chats[0].body), (1, &asked));
    assert_eq!(chats[0].header("x-mark"), Some("m"));
    assert_eq!(chats[0].raw, asked.to_string().into_bytes());
}

#[test]
fn a_chunked_request_is_read() {
    let server = server(vec![Reply::text("a")]);
    let asked = request("x").to_string();
    let agent = ureq::Agent::new_with_defaults();
    let url = format!("{}/v1/chat/completions", server.url());
    let body = ureq::SendBody::from_owned_reader(std::io::Cursor::new(asked.clone()));
    assert_eq!(agent.post(&url).send(body).unwrap().status(), 200);
    assert_eq!(
        server.chats()[0].header("transfer-encoding"),
        Some("chunked")
    );
    assert_eq!(server.chats()[0].raw, asked.into_bytes());
}

#[test]
fn dropping_the_server_ends_a_held_reply() {
    let gate = Gate::new();
    let server = server(vec![Reply::text("a").hold_before(0, &gate)]);
    let address = server.address();
    let mut stream = chat_open(address, &streamed());
    assert!(gate.wait_held(PATIENCE));
    drop(server);
    let mut rest = Vec::new();
    // A reset is as good an end as a close.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert!(
        TcpStream::connect(address).is_err(),
        "nobody listens any more"
    );
}
