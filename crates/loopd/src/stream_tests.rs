//! The assembler over every recorded and constructed sample, whole and byte by byte.

use super::*;
use crate::sse::Sse;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn body(bytes: &[u8]) -> &[u8] {
    let at = bytes.windows(2).position(|pair| pair == b"\n\n");
    at.map_or(bytes, |at| &bytes[at + 2..])
}

fn read(body: &[u8], piece: usize) -> Result<Assembled, StreamError> {
    let (mut sse, mut reply, mut failed) = (Sse::default(), Assembler::default(), None);
    for bytes in body.chunks(piece) {
        sse.push(bytes, |data| {
            if let Err(error) = reply.event(data) {
                failed.get_or_insert(error);
            }
        })
        .unwrap();
    }
    sse.end(|data| {
        if let Err(error) = reply.event(data) {
            failed.get_or_insert(error);
        }
    });
    match failed {
        Some(error) => Err(error),
        None => reply.finished(),
    }
}

fn streamed(name: &str) -> Result<Assembled, StreamError> {
    let bytes = fixture(name);
    let body = if name.ends_with(".sse") {
        &bytes
    } else {
        body(&bytes)
    };
    let whole = read(body, body.len().max(1));
    assert_eq!(read(body, 1), whole, "{name} byte by byte");
    whole
}

fn objected(name: &str) -> Assembled {
    let bytes = fixture(name);
    let body = if name.ends_with(".json") {
        &bytes
    } else {
        body(&bytes)
    };
    let mut reply = Assembler::default();
    reply.whole(body).unwrap();
    reply.finished().unwrap()
}

fn names() -> Vec<String> {
    let mut names = Vec::new();
    for folder in ["", "constructed/"] {
        let path = format!("{}/fixtures/{folder}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(path).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            names.push(format!("{folder}{name}"));
        }
    }
    names
}

#[test]
fn every_recorded_stream_is_a_reply_or_a_known_failure() {
    let mut count = 0;
    for name in names() {
        let is_stream = name.starts_with("stream-") || name.ends_with(".sse");
        if !is_stream || name.ends_with("raw-wire.http") {
            continue;
        }
        count += 1;
        let failure = match name.as_str() {
            "stream-error-event.response.http"
            | "constructed/openrouter-comment-then-error.sse"
            | "constructed/openrouter-error-empty-choices.sse" => Some("server"),
            "constructed/ollama-v1-stream-dies.sse" => Some("broken"),
            _ => None,
        };
        let got = match streamed(&name) {
            Ok(_) => None,
            Err(StreamError::Server(_)) => Some("server"),
            Err(StreamError::Broken) => Some("broken"),
            Err(other) => panic!("{name}: {other}"),
        };
        assert_eq!(got, failure, "{name}");
    }
    assert!(count >= 15, "{count}");
}

#[test]
fn every_recorded_object_is_a_reply() {
    for name in names() {
        let is_object =
            name.starts_with("chat-") || name.starts_with("loop-") || name.starts_with("cache-");
        if is_object && name.ends_with(".http") {
            objected(&name);
        }
    }
}

#[test]
fn a_call_comes_together_from_fragments() {
    let reply = streamed("stream-tool-call.response.http").unwrap();
    assert_eq!(reply.finish, Finish::ToolCalls);
    assert_eq!(reply.calls.len(), 1);
    assert_eq!(reply.calls[0].tool, "read_file");
    assert_eq!(reply.calls[0].arguments, r#"{"path": "notes.md"}"#);
}

#[test]
fn two_calls_stay_two_however_they_are_told_apart() {
    for name in [
        "stream-parallel-calls.response.http",
        "constructed/ollama-v1-two-calls-index-0.sse",
    ] {
        let reply = streamed(name).unwrap();
        assert_eq!(reply.calls.len(), 2, "{name}");
        for call in &reply.calls {
            assert!(
                serde_json::from_str::<Value>(&call.arguments).is_ok(),
                "{name}"
            );
        }
    }
    assert_eq!(objected("constructed/same-id-twice.json").calls.len(), 2);
}

#[test]
fn fragments_without_index_or_id_are_one_call() {
    let reply = streamed("constructed/deltas-without-index-or-id.sse").unwrap();
    assert_eq!(reply.calls.len(), 1);
    assert_eq!(reply.calls[0].arguments, r#"{"path":"a.txt"}"#);
}

#[test]
fn a_fresh_id_on_every_fragment_opens_nothing() {
    let mut reply = Assembler::default();
    let first = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}"#;
    let more = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"arguments":"}"}}]},"finish_reason":"stop"}]}"#;
    reply.event(first).unwrap();
    reply.event(more).unwrap();
    let calls = reply.finished().unwrap().calls;
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].arguments, "{}");
}

#[test]
fn arguments_may_be_an_object_or_missing() {
    let reply = objected("constructed/arguments-as-object.json");
    assert_eq!(reply.calls[0].arguments, r#"{"path":"a.txt"}"#);
    let mut reply = Assembler::default();
    reply
        .event(r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":null}}]},"finish_reason":"stop"}]}"#)
        .unwrap();
    assert_eq!(reply.finished().unwrap().calls[0].arguments, "{}");
}

#[test]
fn thinking_is_kept_apart() {
    let reply = streamed("stream-reasoning-then-content.response.http").unwrap();
    assert!(!reply.reasoning.is_empty() && !reply.text.is_empty());
    let reply = streamed("stream-reasoning-only.response.http").unwrap();
    assert!(!reply.reasoning.is_empty() && reply.text.is_empty());
}

#[test]
fn tokens_are_counted_when_told() {
    let usage = streamed("stream-text-usage.response.http")
        .unwrap()
        .usage
        .unwrap();
    assert!(usage.prompt_tokens > 0 && usage.completion_tokens > 0);
    assert_eq!(streamed("stream-text.response.http").unwrap().usage, None);
}

#[test]
fn a_cut_stream_is_broken_at_every_event() {
    let bytes = fixture("stream-parallel-calls.response.http");
    let text = String::from_utf8(body(&bytes).to_vec()).unwrap();
    let events: Vec<&str> = text.split_inclusive("\n\n").collect();
    let finish = events
        .iter()
        .position(|event| event.contains("\"finish_reason\":\""))
        .unwrap();
    for count in 0..events.len() {
        let got = read(events[..count].concat().as_bytes(), 4096);
        assert_eq!(got.is_ok(), count > finish, "{count} events");
    }
}

#[test]
fn a_reply_without_end_is_given_up() {
    let mut reply = Assembler::default();
    let event = format!(
        r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#,
        "x".repeat(100_000)
    );
    reply.event(&event).unwrap();
    assert_eq!(reply.event(&event), Err(StreamError::TooLong));
}

#[test]
fn what_follows_done_is_ignored() {
    let mut reply = Assembler::default();
    reply
        .event(r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#)
        .unwrap();
    reply.event("[DONE]").unwrap();
    reply.event("{nonsense").unwrap();
    assert_eq!(reply.finished().unwrap().text, "a");
}
