//! Does `cached_tokens` tell a stable prompt from a shuffled one?

use model_local::{Behaviour, Reply, Server};
use serde_json::{Value, json};

use crate::client::{chat, parse, read_all, request, send};

struct Counts {
    prompt: u64,
    completion: u64,
    cached: u64,
}

fn counts(reply: &Value) -> Counts {
    let number = |path: &str| reply["usage"].pointer(path).unwrap().as_u64().unwrap();
    let counts = Counts {
        prompt: number("/prompt_tokens"),
        completion: number("/completion_tokens"),
        cached: number("/prompt_tokens_details/cached_tokens"),
    };
    assert_eq!(number("/total_tokens"), counts.prompt + counts.completion);
    assert_eq!(reply["timings"]["cache_n"], counts.cached);
    counts
}

fn long() -> Value {
    let mut asked = request("read notes.md");
    let system = json!({"role": "system", "content": "You are a careful assistant. ".repeat(20)});
    asked["messages"].as_array_mut().unwrap().insert(0, system);
    asked
}

#[test]
fn appended_turns_keep_all_but_one_token() {
    let server = Server::start(Behaviour::Rules);
    let mut asked = long();
    let first = chat(server.address(), &asked).json();
    let first_counts = counts(&first);
    assert_eq!(first_counts.cached, 0);
    let message = first["choices"][0]["message"].clone();
    let id = message["tool_calls"][0]["id"].clone();
    let messages = asked["messages"].as_array_mut().unwrap();
    messages.push(message);
    messages.push(json!({"role": "tool", "tool_call_id": id, "content": "alpha beta"}));
    let second = chat(server.address(), &asked).json();
    let second_counts = counts(&second);
    assert_eq!(
        second_counts.cached,
        first_counts.prompt + first_counts.completion - 1
    );
    let messages = asked["messages"].as_array_mut().unwrap();
    messages.push(second["choices"][0]["message"].clone());
    messages.push(json!({"role": "user", "content": "hello"}));
    let third = counts(&chat(server.address(), &asked).json());
    assert_eq!(
        third.cached,
        second_counts.prompt + second_counts.completion - 1
    );
    let again = counts(&chat(server.address(), &asked).json());
    assert_eq!(again.cached, again.prompt - 1, "the same request again");
}

#[test]
fn an_early_change_loses_what_follows() {
    let server = Server::start(Behaviour::Rules);
    let asked = long();
    let first = counts(&chat(server.address(), &asked).json());
    let mut clock = asked.clone();
    clock["messages"][0]["content"] = "Now 12:01. ".to_owned().into();
    let with_clock = counts(&chat(server.address(), &clock).json());
    assert!(
        with_clock.cached < first.prompt / 2,
        "{} of {}",
        with_clock.cached,
        first.prompt
    );
    let mut shuffled = asked.clone();
    shuffled["tools"].as_array_mut().unwrap().reverse();
    assert!(counts(&chat(server.address(), &shuffled).json()).cached < 20);
    let back = counts(&chat(server.address(), &asked).json());
    assert_eq!(
        back.cached,
        back.prompt - 1,
        "earlier prompts are kept beside newer ones"
    );
}

#[test]
fn the_order_of_a_tools_members_counts() {
    let server = Server::start(Behaviour::Rules);
    let post = |tool: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],"tools":[{tool}]}}"#);
        let answer = read_all(send(
            server.address(),
            "POST",
            "/v1/chat/completions",
            "",
            body.as_bytes(),
        ));
        counts(&parse(&answer).json())
    };
    let one = r#"{"type":"function","function":{"name":"a","description":"b"}}"#;
    let other = r#"{"type":"function","function":{"description":"b","name":"a"}}"#;
    let first = post(one);
    let shuffled = post(other);
    assert_eq!(first.prompt, shuffled.prompt);
    assert!(
        shuffled.cached < first.prompt - 10,
        "{} of {}",
        shuffled.cached,
        first.prompt
    );
    assert_eq!(post(one).cached, first.prompt - 1);
}

#[test]
fn scripted_replies_are_counted_too() {
    let script = vec![
        Reply::stream(vec![b"data: x\n\n".to_vec()]),
        Reply::text("hi"),
    ];
    let server = Server::start(Behaviour::Script(script));
    chat(server.address(), &long());
    let second = counts(&chat(server.address(), &long()).json());
    assert_eq!(second.cached, second.prompt - 1);
    assert_eq!(second.completion, 2, "a word and the closing token");
}
