//! Are the bytes those of llama-server? Compared with recordings of it, numbers and names blanked.

use model_local::{Behaviour, Call, Completion, Options, Reply, Server};
use serde_json::{Value, json};

use crate::client::{chat, get, post, request};

fn call(path: &str) -> Call {
    Call {
        name: "read_file".into(),
        arguments: format!("{{\"path\": \"{path}\"}}"),
        id: None,
    }
}

fn scripted(completion: Completion) -> Server {
    Server::start(Behaviour::Script(vec![Reply::completion(completion)]))
}

/// The text with the values that differ from one run to the next blanked.
fn blanked(text: &str) -> String {
    let mut text = text.to_owned();
    for key in [
        "created",
        "id",
        "model",
        "system_fingerprint",
        "completion_tokens",
        "prompt_tokens",
        "total_tokens",
        "cached_tokens",
        "cache_n",
        "prompt_n",
        "prompt_ms",
        "prompt_per_token_ms",
        "prompt_per_second",
        "predicted_n",
        "predicted_ms",
        "predicted_per_token_ms",
        "predicted_per_second",
    ] {
        let opening = format!("\"{key}\":");
        let mut parts = text.split(&opening);
        let mut out = parts.next().unwrap().to_owned();
        for part in parts {
            let end = part.find([',', '}']).unwrap();
            out.push_str(&format!("{opening}_{}", &part[end..]));
        }
        text = out;
    }
    text
}

#[test]
fn a_streamed_call_is_the_recording() {
    let server = scripted(Completion {
        calls: vec![call("notes.md")],
        ..Completion::default()
    });
    let mut asked = request("x");
    asked["stream"] = true.into();
    asked["stream_options"] = json!({"include_usage": true});
    let answer = chat(server.address(), &asked);
    assert!(answer.head.contains("Content-Type: text/event-stream"));
    let recorded = include_str!("../fixtures/stream-tool-call.sse");
    assert_eq!(
        blanked(&answer.text()).trim_end(),
        blanked(recorded).trim_end()
    );
    let events = answer.text().matches("data: ").count();
    assert_eq!(
        answer.chunks.map(|chunks| chunks.len()),
        Some(events),
        "one chunk an event"
    );
}

#[test]
fn streamed_text_and_two_calls_are_the_recording() {
    let calls = vec![call("g.txt"), call("h.txt")];
    let server = scripted(Completion {
        text: "Reading both. ".into(),
        calls,
        ..Completion::default()
    });
    let mut asked = request("x");
    asked["stream"] = true.into();
    let answer = chat(server.address(), &asked);
    let recorded = include_str!("../fixtures/stream-parallel-calls.sse");
    assert_eq!(
        blanked(&answer.text()).trim_end(),
        blanked(recorded).trim_end()
    );
}

#[test]
fn a_whole_reply_has_the_recorded_shape() {
    let server = scripted(Completion {
        reasoning: "Hm, two.".into(),
        text: "Reading both. ".into(),
        calls: vec![call("g.txt"), call("h.txt")],
        ..Completion::default()
    });
    let reply = chat(server.address(), &request("x")).json();
    let message = &reply["choices"][0]["message"];
    assert_eq!(reply["object"], "chat.completion");
    assert_eq!(message["content"], "Reading both. ");
    assert_eq!(message["reasoning_content"], "Hm, two.");
    assert_eq!(
        message["tool_calls"][1]["function"]["arguments"],
        "{\"path\": \"h.txt\"}"
    );
    assert_ne!(
        message["tool_calls"][0]["id"],
        message["tool_calls"][1]["id"]
    );
    assert_eq!(message["tool_calls"][0]["id"].as_str().unwrap().len(), 32);
}

#[test]
fn max_tokens_cuts_text_and_calls() {
    let long = Completion {
        text: "one two three four".into(),
        ..Completion::default()
    };
    let with_call = Completion {
        calls: vec![call("notes.md")],
        ..Completion::default()
    };
    let script = vec![
        Reply::completion(long.clone()),
        Reply::completion(with_call.clone()),
        Reply::completion(with_call),
        Reply::completion(long),
    ];
    let server = Server::start(Behaviour::Script(script));
    let mut asked = request("x");
    let mut choice = |limit: Value| {
        asked["max_tokens"] = limit;
        let reply = chat(server.address(), &asked).json();
        (
            reply["choices"][0].clone(),
            reply["usage"]["completion_tokens"].as_u64().unwrap(),
        )
    };
    let (text, tokens) = choice(2.into());
    assert_eq!(
        (&text["message"]["content"], &text["finish_reason"], tokens),
        (&json!("one two"), &json!("length"), 2)
    );
    let (cut_in_arguments, _) = choice(8.into());
    assert_eq!(cut_in_arguments["finish_reason"], "length");
    let arguments = cut_in_arguments["message"]["tool_calls"][0]["function"]["arguments"]
        .as_str()
        .unwrap();
    assert!(
        !arguments.is_empty() && serde_json::from_str::<Value>(arguments).is_err(),
        "{arguments}"
    );
    let (cut_in_name, _) = choice(2.into());
    assert_eq!(cut_in_name["finish_reason"], "length");
    assert!(cut_in_name["message"].get("tool_calls").is_none());
    assert_eq!(choice(Value::Null).0["finish_reason"], "stop");
}

#[test]
fn a_full_context_ends_the_reply_or_refuses_it() {
    let asked = json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 500});
    let start = |n_ctx| {
        let script = vec![Reply::text("a b c d e f g h")];
        Server::start_with(
            Behaviour::Script(script),
            Options {
                n_ctx,
                ..Options::default()
            },
        )
        .unwrap()
    };
    let server = start(1_000);
    let count = post(
        server.address(),
        "/v1/chat/completions/input_tokens",
        &asked,
    )
    .json();
    assert_eq!(count["object"], "response.input_tokens");
    let prompt = count["input_tokens"].as_u64().unwrap() as usize;
    let cut = chat(start(prompt + 3).address(), &asked).json();
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
    assert_eq!(cut["usage"]["total_tokens"], prompt + 3);
    let refused = chat(start(prompt).address(), &asked);
    assert_eq!(refused.status, 400);
    let mut want: Value =
        serde_json::from_str(include_str!("../fixtures/err-context-stream.json")).unwrap();
    want["error"]["n_prompt_tokens"] = prompt.into();
    want["error"]["n_ctx"] = prompt.into();
    want["error"]["message"] = format!(
        "request ({prompt} tokens) exceeds the available context size ({prompt} tokens), try increasing it"
    ).into();
    assert_eq!(refused.json(), want);
}

#[test]
fn small_endpoints_answer() {
    let server = Server::start_with(
        Behaviour::Rules,
        Options {
            n_ctx: 4_096,
            total_slots: 2,
            ..Options::default()
        },
    )
    .unwrap();
    let at = server.address();
    assert_eq!(get(at, "/health").json(), json!({"status": "ok"}));
    assert_eq!(
        get(at, "/v1/models").json()["data"][0]["meta"]["n_ctx"],
        4_096
    );
    let tokens = post(
        at,
        "/tokenize",
        &json!({"content": "Hello world", "with_pieces": true}),
    )
    .json();
    assert_eq!(tokens["tokens"][1]["piece"], " world");
    let template = post(at, "/apply-template", &request("hi there")).json();
    assert!(
        template["prompt"]
            .as_str()
            .unwrap()
            .ends_with("hi there<|im_end|><|im_start|>assistant\n")
    );
    let unknown = get(at, "/nowhere");
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["type"]),
        (404, &json!("not_found_error"))
    );
}

#[test]
fn props_have_the_recorded_members() {
    let options = Options {
        n_ctx: 4_096,
        total_slots: 2,
        supports_tools: false,
        ..Options::default()
    };
    let without = Server::start_with(Behaviour::Rules, options.clone()).unwrap();
    let with = Server::start_with(
        Behaviour::Rules,
        Options {
            supports_tools: true,
            ..options
        },
    )
    .unwrap();
    let recorded: Value = serde_json::from_str(include_str!("../fixtures/props.json")).unwrap();
    let props = get(with.address(), "/props").json();
    for (key, value) in props.as_object().unwrap() {
        let same = std::mem::discriminant(value) == std::mem::discriminant(&recorded[key]);
        assert!(same, "{key}: {value}");
    }
    for key in recorded["chat_template_caps"].as_object().unwrap().keys() {
        assert!(props["chat_template_caps"][key].is_boolean(), "{key}");
    }
    assert_eq!(
        props["default_generation_settings"]["n_ctx"],
        recorded["default_generation_settings"]["n_ctx"]
    );
    assert_eq!(props["total_slots"], 2);
    assert_eq!(props["chat_template_caps"]["supports_tools"], true);
    assert_eq!(
        get(without.address(), "/props").json()["chat_template_caps"]["supports_tools"],
        false
    );
    // Such a server drops tools in silence.
    let reply = chat(without.address(), &request("note x")).json();
    assert!(reply["choices"][0]["message"].get("tool_calls").is_none());
}
