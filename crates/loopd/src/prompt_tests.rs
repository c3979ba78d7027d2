//! The laws of a prompt over many logs, and its exact bytes for one.

use bxwire::{Audience, Label, Origin, SessionId, log::Usage};
use serde_json::json;

use super::*;

fn record(seq: u64, body: Body) -> Record {
    Record {
        seq,
        at: "2026-01-31T10:00:00.000Z".into(),
        body,
    }
}

fn user(turn: u64, text: &str) -> Body {
    Body::User {
        turn,
        key: format!("k{turn}"),
        text: text.into(),
        speaker: None,
        origin: Origin::Interactive,
        label: Label::PRIVATE,
        source: None,
    }
}

fn assistant(turn: u64, text: &str, calls: Vec<Call>) -> Body {
    Body::Assistant {
        turn,
        text: text.into(),
        reasoning: Some("hm".into()),
        calls,
    }
}

fn result(turn: u64, call: &Call, text: &str) -> Body {
    Body::ToolResult {
        turn,
        call: call.id.clone(),
        tool: call.tool.clone(),
        text: text.into(),
        label: Some(Label::PRIVATE),
        from_broker: true,
    }
}

fn end(turn: u64, outcome: Outcome) -> Body {
    Body::TurnEnd {
        turn,
        outcome,
        usage: Some(Usage::default()),
        reason: None,
        runbook: None,
    }
}

fn call(number: u64, arguments: &str) -> Call {
    Call {
        id: format!("call{number:05}").parse().unwrap(),
        tool: "f".into(),
        arguments: arguments.into(),
    }
}

fn epoch() -> Body {
    Body::Epoch {
        n: 1,
        system: "Be good.".into(),
        tools: json!([{"type": "function"}]),
        why: "test".into(),
    }
}

/// Small numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

/// A log, and the numbers of records after which the model was asked.
fn log(seed: u64) -> (Vec<Record>, Vec<usize>) {
    let mut dice = Dice(seed);
    let (mut bodies, mut asked, mut calls) = (Vec::new(), Vec::new(), 0);
    bodies.push(Body::Session {
        session: SessionId::new("20260131", [1; 12]).unwrap(),
        source: "test".into(),
        audience: Audience::Owner {},
    });
    for turn in 1..=4 {
        bodies.push(user(turn, "do <|im_end|> it"));
        if turn == 1 {
            bodies.push(epoch());
        }
        if dice.roll(3) == 0 {
            bodies.push(Body::Context {
                turn,
                text: "context".into(),
                label: Label::PRIVATE,
            });
        }
        for _ in 0..dice.roll(4) {
            asked.push(bodies.len());
            match dice.roll(4) {
                0 => bodies.push(assistant(turn, "", Vec::new())),
                1 => bodies.push(assistant(turn, "so <tool_call>{}", Vec::new())),
                _ => {
                    let made: Vec<Call> = (0..=dice.roll(2))
                        .map(|_| {
                            calls += 1;
                            call(
                                calls,
                                ["{\"a\": 1}", "{\"a\": ", "[1]"]
                                    [usize::try_from(dice.roll(3)).unwrap()],
                            )
                        })
                        .collect();
                    bodies.push(assistant(turn, "well", made.clone()));
                    let answered = if dice.roll(5) == 0 {
                        made.len() - 1
                    } else {
                        made.len()
                    };
                    for call in &made[..answered] {
                        bodies.push(result(
                            turn,
                            call,
                            ["", "r"][usize::try_from(dice.roll(2)).unwrap()],
                        ));
                    }
                    if answered < made.len() {
                        break; // Ended in the middle of its calls.
                    }
                }
            }
        }
        let open_calls =
            matches!(bodies.last(), Some(Body::Assistant { calls, .. }) if !calls.is_empty());
        match dice.roll(4) {
            0 => bodies.push(end(turn, Outcome::Failed)),
            1 => bodies.push(end(turn, Outcome::Interrupted)),
            2 if !open_calls => {
                asked.push(bodies.len());
                bodies.push(assistant(turn, "done", Vec::new()));
                bodies.push(end(turn, Outcome::Replied));
            }
            _ => bodies.push(end(turn, Outcome::Cancelled)),
        }
    }
    bodies.push(user(5, "last"));
    asked.push(bodies.len());
    let records = (1..)
        .zip(bodies)
        .map(|(seq, body)| record(seq, body))
        .collect();
    (records, asked)
}

fn options() -> Options {
    Options {
        model: "m".into(),
        max_tokens: 9,
        // Thinking goes only with its own turn, and is no part of the law of growth.
        reasoning: Reasoning::Never,
        ..Options::default()
    }
}

fn messages(records: &[Record]) -> Vec<Value> {
    let request = request(records, &options()).unwrap();
    let value: Value = serde_json::from_slice(&request).unwrap();
    value["messages"].as_array().unwrap().clone()
}

#[test]
fn every_log_makes_an_order_that_every_template_takes() {
    for seed in 0..150 {
        let (records, asked) = log(seed);
        for count in asked {
            let messages = messages(&records[..count]);
            let roles: Vec<&str> = messages
                .iter()
                .map(|m| m["role"].as_str().unwrap())
                .collect();
            assert_eq!(roles[0], "system");
            assert_eq!(roles[1], "user", "seed {seed}");
            assert!(
                ["user", "tool"].contains(roles.last().unwrap()),
                "seed {seed}: {roles:?}"
            );
            for (at, pair) in roles.windows(2).enumerate() {
                let fine = match pair {
                    ["system" | "assistant", "user"] => messages[at]["tool_calls"].is_null(),
                    ["user", "assistant"] | ["tool", "tool" | "assistant"] => true,
                    ["assistant", "tool"] => messages[at]["tool_calls"].is_array(),
                    _ => false,
                };
                assert!(fine, "seed {seed}: {roles:?}");
            }
            let calls = messages
                .iter()
                .flat_map(|m| m["tool_calls"].as_array().into_iter().flatten());
            let ids: Vec<&Value> = calls.clone().map(|call| &call["id"]).collect();
            let answers: Vec<&Value> = messages
                .iter()
                .filter(|m| m["role"] == "tool")
                .map(|m| &m["tool_call_id"])
                .collect();
            assert_eq!(ids, answers, "seed {seed}");
            for call in calls {
                let arguments = call["function"]["arguments"].as_str().unwrap();
                assert!(
                    serde_json::from_str::<Value>(arguments)
                        .unwrap()
                        .is_object()
                );
            }
            for message in &messages {
                let content = message["content"].as_str().unwrap();
                assert!(!content.contains("<|"), "seed {seed}");
                assert!(
                    message["role"] != "tool" || !content.is_empty(),
                    "seed {seed}"
                );
            }
        }
    }
}

#[test]
fn a_longer_log_adds_bytes_at_the_end_only() {
    for seed in 0..150 {
        let (records, asked) = log(seed);
        let bytes = |count: &usize| request(&records[..*count], &options()).unwrap();
        for pair in asked.windows(2) {
            let (before, after) = (bytes(&pair[0]), bytes(&pair[1]));
            let before = before.strip_suffix(b"]}").unwrap();
            assert!(
                after.starts_with(before),
                "seed {seed}\n{}\n{}",
                String::from_utf8_lossy(before),
                String::from_utf8_lossy(&after)
            );
        }
    }
}

#[test]
fn the_bytes_are_these() {
    let made = call(1, "{\"path\": \"a\"}");
    let bodies = vec![
        user(1, "Hi"),
        epoch(),
        assistant(1, "Reading. ", vec![made.clone()]),
        result(1, &made, "text"),
    ];
    let records: Vec<Record> = (1..)
        .zip(bodies)
        .map(|(seq, body)| record(seq, body))
        .collect();
    let options = Options {
        temperature: Some(0.5),
        reasoning: Reasoning::ThisTurn,
        ..options()
    };
    let want = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":9,"temperature":0.5,"tools":[{"type":"function"}],"messages":[{"role":"system","content":"Be good."},{"role":"user","content":"Hi\n\n[Sent 2026-01-31 10:00 UTC]"},{"role":"assistant","content":"Reading. ","reasoning_content":"hm","tool_calls":[{"id":"call00001","type":"function","function":{"name":"f","arguments":"{\"path\": \"a\"}"}}]},{"role":"tool","content":"text","tool_call_id":"call00001"}]}"#;
    assert_eq!(
        String::from_utf8(request(&records, &options).unwrap()).unwrap(),
        want
    );
}

#[test]
fn thinking_goes_back_within_its_turn() {
    let bodies = vec![
        user(1, "a"),
        assistant(1, "b", Vec::new()),
        end(1, Outcome::Replied),
        user(2, "c"),
    ];
    let records: Vec<Record> = (1..)
        .zip(bodies)
        .map(|(seq, body)| record(seq, body))
        .collect();
    let sent = |reasoning, records: &[Record]| {
        let options = Options {
            reasoning,
            ..options()
        };
        String::from_utf8(request(records, &options).unwrap())
            .unwrap()
            .contains("reasoning_content")
    };
    assert!(sent(Reasoning::ThisTurn, &records[..2]));
    assert!(!sent(Reasoning::ThisTurn, &records));
    assert!(sent(Reasoning::Always, &records));
}

#[test]
fn a_summary_stands_for_what_it_covers() {
    let bodies = vec![
        user(1, "old"),
        assistant(1, "older", Vec::new()),
        end(1, Outcome::Replied),
        Body::Summary {
            covers: 3,
            text: "they spoke".into(),
            label: Label::PRIVATE,
        },
        user(2, "new"),
    ];
    let records: Vec<Record> = (1..)
        .zip(bodies)
        .map(|(seq, body)| record(seq, body))
        .collect();
    let messages = messages(&records);
    assert_eq!(messages.len(), 2);
    let text = messages[1]["content"].as_str().unwrap();
    assert!(
        text.contains("they spoke") && text.contains("new") && !text.contains("old"),
        "{text}"
    );
}

#[test]
fn what_memory_said_stands_before_the_words_and_stays_there() {
    let context = Body::Context {
        turn: 2,
        text: "the owner's bike is blue".into(),
        label: Label::PRIVATE,
    };
    let bodies = vec![
        user(1, "first"),
        epoch(),
        assistant(1, "well", Vec::new()),
        end(1, Outcome::Replied),
        user(2, "second"),
        context,
        assistant(2, "so", Vec::new()),
        end(2, Outcome::Replied),
        user(3, "third"),
    ];
    let records: Vec<Record> = (1..)
        .zip(bodies)
        .map(|(seq, body)| record(seq, body))
        .collect();
    let asked = messages(&records[..6]);
    let words = asked.last().unwrap()["content"].as_str().unwrap();
    let memory = "[From your own memory, not from the user]\nthe owner's bike is blue\n\nsecond";
    assert!(words.starts_with(memory), "{words}");
    // All that the server has cached by then is as it was.
    assert_eq!(asked[..3], messages(&records[..4])[..3]);
    assert_eq!(asked[..], messages(&records)[..4]);
}

/// A first turn that reads two long texts, how it ends, and a second turn.
fn two_long_results(ended: Body) -> Vec<Record> {
    let (one, two) = (call(1, "{}"), call(2, "{}"));
    let think = |call: &Call| Body::Assistant {
        turn: 1,
        text: String::new(),
        reasoning: Some("let me think ".repeat(40)),
        calls: vec![call.clone()],
    };
    let bodies = vec![
        user(1, "read"),
        epoch(),
        think(&one),
        result(1, &one, &"<".repeat(64_000)),
        think(&two),
        result(1, &two, &"ab ".repeat(20_000)),
        ended,
        user(2, "hi"),
    ];
    (1..)
        .zip(bodies)
        .map(|(seq, body)| record(seq, body))
        .collect()
}

#[test]
fn a_long_result_is_cut_to_its_room_and_stays_so() {
    let records = two_long_results(end(1, Outcome::Replied));
    for reasoning in [Reasoning::ThisTurn, Reasoning::Always] {
        let options = Options {
            max_tokens: 2_000,
            context_tokens: Some(10_000),
            reasoning,
            ..options()
        };
        let tools = |count: usize| -> Vec<String> {
            let bytes = request(&records[..count], &options).unwrap();
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            let messages = value["messages"].as_array().unwrap().iter();
            let tools = messages.filter(|message| message["role"] == "tool");
            tools
                .map(|tool| tool["content"].as_str().unwrap().to_owned())
                .collect()
        };
        let sent = tools(6);
        assert!(sent[0].ends_with(" of 64000 characters)"), "{}", sent[0]);
        assert!(sent[1].ends_with(" of 60000 characters)"), "{}", sent[1]);
        assert!(sent[0].len() > 3_500 && sent[0].len() < 4_100);
        assert!(sent[1].len() > 5_000 && sent[1].len() < 6_100);
        assert_eq!(tools(4), sent[..1]);
        assert_eq!(tools(8), sent);
    }
}

#[test]
fn a_turn_that_filled_the_context_does_not_fill_it_again() {
    let full = Body::TurnEnd {
        turn: 1,
        outcome: Outcome::Failed,
        usage: None,
        reason: None,
        runbook: Some("context-full".into()),
    };
    let mut records = two_long_results(full);
    records[0].body = user(1, &"long words ".repeat(10_000));
    let messages = messages(&records);
    let content = |at: usize| messages[at]["content"].as_str().unwrap();
    assert!(content(1).contains("(cut: 500 of 110000 characters)"));
    assert_eq!(
        content(3),
        "(left out: 64000 characters; the context was full)"
    );
    assert!(content(5).starts_with("(left out: 60000 "));
    assert!(content(7).starts_with("hi"));
}
