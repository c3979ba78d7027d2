//! Samples of a session log's records.

use bxwire::{
    Audience, Label, Origin,
    log::{Body, Call, Outcome, Record, Usage},
};
use serde_json::json;

use super::{
    Samples,
    links::{AT, ada, call, session},
};

/// Adds each sample as a record; a variant that has none does not compile.
macro_rules! records {
    ($into:expr, { $($variant:ident => [$($sample:expr),+ $(,)?],)+ }) => {{
        let _every = |body: &Body| match body {
            $(Body::$variant { .. } => (),)+
        };
        $($(
            let body = $sample;
            assert!(matches!(body, Body::$variant { .. }), "{body:?}");
            $into.add("log", "", Record { seq: 1, at: AT.into(), body });
        )+)+
    }};
}

fn end(outcome: Outcome) -> Body {
    Body::TurnEnd {
        turn: 1,
        outcome,
        usage: None,
        reason: None,
        runbook: None,
    }
}

pub fn add(into: &mut Samples) {
    records!(into, {
        Session => [Body::Session {
            session: session(),
            source: "chat".into(),
            audience: Audience::Owner {},
        }],
        Epoch => [Body::Epoch {
            n: 1,
            system: "You are an agent.".into(),
            tools: json!([]),
            why: "the first turn".into(),
        }],
        User => [
            Body::User {
                turn: 1,
                key: "chat-1".into(),
                text: "hello".into(),
                speaker: Some(ada()),
                origin: Origin::Interactive,
                label: Label::PRIVATE,
                source: Some("home:garden".into()),
            },
            Body::User {
                turn: 1,
                key: "chat-1".into(),
                text: "hello".into(),
                speaker: None,
                origin: Origin::Scheduled,
                label: Label::UNLABELLED,
                source: None,
            },
        ],
        Context => [Body::Context { turn: 1, text: "it rains".into(), label: Label::PRIVATE }],
        Assistant => [
            Body::Assistant {
                turn: 1,
                text: String::new(),
                reasoning: Some("a file, then".into()),
                calls: vec![Call {
                    id: call(),
                    tool: "read_file".into(),
                    arguments: "{\"path\":".into(),
                }],
            },
            Body::Assistant { turn: 1, text: "Hello.".into(), reasoning: None, calls: Vec::new() },
        ],
        ToolResult => [
            Body::ToolResult {
                turn: 1,
                call: call(),
                tool: "read_file".into(),
                text: "Dear reader".into(),
                label: Some(Label::UNLABELLED),
                from_broker: true,
            },
            Body::ToolResult {
                turn: 1,
                call: call(),
                tool: "read_file".into(),
                text: "the tools are away".into(),
                label: None,
                from_broker: false,
            },
        ],
        Summary => [Body::Summary { covers: 9, text: "they spoke".into(), label: Label::PRIVATE }],
        TurnEnd => [
            Body::TurnEnd {
                turn: 1,
                outcome: Outcome::Failed,
                usage: Some(Usage { prompt_tokens: 100, completion_tokens: 7, cached_tokens: 90 }),
                reason: Some("the model server does not answer".into()),
                runbook: Some("model-unreachable".into()),
            },
            end(Outcome::Replied),
            end(Outcome::Cancelled),
            end(Outcome::Interrupted),
        ],
        Purged => [Body::Purged {}],
    });
}
