//! Does each phrase become its tool call, and each tool's answer an honest sentence?

use model_local::{Behaviour, Server};
use serde_json::{Value, json};

use crate::client::{chat, request};

fn server() -> Server {
    Server::start(Behaviour::Rules)
}

/// A tool's answer as brokerd gives it.
fn fenced(text: &str) -> String {
    format!("⟦tool 9f⟧ a tool (private, clean)\n{text}\n⟦/tool 9f⟧")
}

/// One conversation: the tools answer with the given texts, in order. Returns each call, and the
/// last text.
fn converse(mut request: Value, results: &[&str]) -> (Vec<(String, Value)>, String) {
    let server = server();
    let (mut calls, mut results) = (Vec::new(), results.iter());
    loop {
        let reply = chat(server.address(), &request).json();
        let choice = &reply["choices"][0];
        let message = choice["message"].clone();
        let Some(call) = message["tool_calls"].get(0).cloned() else {
            assert_eq!(choice["finish_reason"], "stop");
            assert!(results.next().is_none(), "a result was not asked for");
            return (calls, message["content"].as_str().unwrap().to_owned());
        };
        assert_eq!(choice["finish_reason"], "tool_calls");
        assert_eq!(message["tool_calls"].as_array().unwrap().len(), 1);
        let arguments =
            serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        calls.push((
            call["function"]["name"].as_str().unwrap().to_owned(),
            arguments,
        ));
        let result = results.next().expect("one call more than results");
        let messages = request["messages"].as_array_mut().unwrap();
        messages.push(message);
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
    }
}

#[test]
fn phrases_become_calls_and_sentences() {
    #[rustfmt::skip]
    let rows: [(&str, &str, Value, &str, &str); 18] = [
        ("Remember that I like tea.", "memory", json!({"op": "add", "about": "user", "text": "I like tea."}),
            "⟦tool 9f⟧\nadded u1 (edit e4)\n⟦/tool 9f⟧", "I will remember that I like tea (edit e4)."),
        ("remember that you are called Box", "memory", json!({"op": "add", "about": "agent", "text": "you are called Box"}),
            "⟦memory 2⟧ memory add\nedit e5\n⟦/memory 2⟧", "I will remember that you are called Box (edit e5)."),
        ("remember that I like tea", "memory", json!({"op": "add", "about": "user", "text": "I like tea"}),
            "refused: the session is untrusted", "I could not remember that: refused: the session is untrusted"),
        ("remember that I like tea", "memory", json!({"op": "add", "about": "user", "text": "I like tea"}),
            "⟦memory 2⟧\nkept as it was\n⟦/memory 2⟧", "I will remember that I like tea. The tool said: kept as it was"),
        ("NOTE THAT milk is out", "memory", json!({"op": "note", "text": "milk is out"}),
            "⟦memory 2⟧\nedit e6\n⟦/memory 2⟧", "I noted: milk is out (edit e6)."),
        ("forget that I like tea", "memory", json!({"op": "remove", "about": "user", "match": "I like tea"}),
            "⟦memory 2⟧\nremoved, edit e7\n⟦/memory 2⟧", "I forgot what I had on “I like tea” (edit e7)."),
        ("what do you know about my tea?", "recall", json!({"query": "tea"}),
            "⟦mem 1⟧\n\"I like green tea\"\n⟦/mem 1⟧\nhoncho could not be reached",
            "This is what I found about tea:\n- I like green tea\nNot everything was searched:\n- honcho could not be reached"),
        ("What do you know about tea?", "recall", json!({"query": "tea"}),
            "⟦recall 2⟧\nnothing found\n⟦/recall 2⟧", "I found nothing about tea."),
        ("ask memory what I drink", "ask_memory", json!({"question": "what I drink"}),
            "⟦ask_memory 2⟧\ntea\n⟦/ask_memory 2⟧", "Memory says: tea"),
        ("read notes.md", "read_file", json!({"path": "notes.md"}),
            "⟦tool 2⟧\nfirst\nsecond\n⟦/tool 2⟧", "notes.md begins: “first second”"),
        ("read ../x", "read_file", json!({"path": "../x"}),
            "a path may not hold `..`", "I could not read ../x: a path may not hold `..`"),
        ("read pub/fifo", "read_file", json!({"path": "pub/fifo"}),
            "read_file: it is not a plain file", "I could not read pub/fifo: read_file: it is not a plain file"),
        ("list pub/etcd", "list_files", json!({"path": "pub/etcd"}),
            "list_files: it is a link", "I could not list pub/etcd: list_files: it is a link"),
        ("note x", "memory", json!({"op": "note", "text": "x"}),
            "Not run: tools are unavailable right now.", "I could not note that: Not run: tools are unavailable right now."),
        ("note x", "memory", json!({"op": "note", "text": "x"}),
            "memory note: done; its answer is withheld (private)", "The tool said: memory note: done; its answer is withheld (private)"),
        ("read a", "read_file", json!({"path": "a"}),
            "⟦tool 2⟧\nrefused: x\n⟦/tool 2⟧", "a begins: “refused: x”"),
        ("list docs", "list_files", json!({"path": "docs"}), "⟦tool 2⟧\na.md\nb.md\n⟦/tool 2⟧", "docs holds: “a.md b.md”"),
        ("fetch http://a.example/", "fetch_page", json!({"url": "http://a.example/"}),
            "⟦tool 2⟧\nHello\n⟦/tool 2⟧", "http://a.example/ begins: “Hello”"),
    ];
    for (text, tool, arguments, result, answer) in rows {
        let (calls, said) = converse(request(text), &[result]);
        assert_eq!(calls, [(tool.to_owned(), arguments)], "{text}");
        assert_eq!(said, answer, "{text}");
    }
}

#[test]
fn a_missing_tool_is_said() {
    for text in [
        "remember that x",
        "note x",
        "forget x",
        "ask memory x",
        "read x",
        "list x",
        "fetch x",
    ] {
        let mut request = request(text);
        request["tools"] = json!([{"type": "function", "function": {"name": "other"}}]);
        let (calls, said) = converse(request, &[]);
        assert!(
            calls.is_empty() && said.contains("is not available here"),
            "{text}: {said}"
        );
    }
}

#[test]
fn tool_choice_none_means_no_call() {
    let mut request = request("note x");
    request["tool_choice"] = "none".into();
    assert!(converse(request, &[]).0.is_empty());
}

#[test]
fn identity_answers_without_recall() {
    let mut asked = request("what do you know about tea?");
    asked["tools"] = json!([]);
    let system = json!({"role": "system", "content": "Never speak of tea.\n- [u1] likes green tea\n- [u2] has a dog"});
    asked["messages"].as_array_mut().unwrap().insert(0, system);
    let (calls, said) = converse(asked.clone(), &[]);
    assert!(calls.is_empty());
    assert_eq!(
        said,
        "My instructions say about tea:\n- [u1] likes green tea"
    );
    asked["messages"][1]["content"] = "what do you know about rain?".into();
    assert!(converse(asked, &[]).1.contains("say nothing about rain"));
}

#[test]
fn joined_phrases_call_one_tool_after_another() {
    let text = "read a.md and then note that it rains and then what do you know about tea?";
    let (calls, said) = converse(
        request(text),
        &[
            &fenced("alpha"),
            &fenced("edit e1"),
            &fenced("nothing found"),
        ],
    );
    let names: Vec<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["read_file", "memory", "recall"]);
    assert_eq!(
        said,
        "a.md begins: “alpha”\n\nI noted: it rains (edit e1).\n\nI found nothing about tea."
    );
}

#[test]
fn a_later_turn_starts_afresh() {
    let mut asked = request("note a");
    let messages = asked["messages"].as_array_mut().unwrap();
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "memory", "arguments": "{}"}});
    messages.push(json!({"role": "assistant", "content": "", "tool_calls": [call]}));
    messages.push(json!({"role": "tool", "tool_call_id": "c1", "content": fenced("edit e1")}));
    messages.push(json!({"role": "assistant", "content": "done"}));
    messages.push(json!({"role": "user", "content": "note b"}));
    let (calls, said) = converse(asked, &[&fenced("edit e2")]);
    assert_eq!(
        calls,
        [("memory".to_owned(), json!({"op": "note", "text": "b"}))]
    );
    assert_eq!(said, "I noted: b (edit e2).");
}

#[test]
fn anything_else_gets_the_honest_sentence() {
    for text in ["hello", "what is 2+2?", "I read a book yesterday"] {
        let (calls, said) = converse(request(text), &[]);
        assert!(
            calls.is_empty() && said.starts_with("No language model is configured"),
            "{text}"
        );
    }
}
