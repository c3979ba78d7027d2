//! The records of a session log, written by loopd alone and read by memoryd. A log is the truth about
//! turns; `session_label` is loopd's word on a session's label.

use serde::{Deserialize, Serialize};

use crate::{Audience, CallId, Label, Origin, SessionId, Speaker};

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// From 1, without gaps.
    pub seq: u64,
    /// When it was written: UTC, RFC 3339, milliseconds.
    pub at: String,
    #[serde(flatten)]
    pub body: Body,
}

/// What a line says. Disk is read patiently: a member that came later is an `Option` or has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Body {
    Session {
        session: SessionId,
        source: String,
        audience: Audience,
    },
    Epoch {
        n: u64,
        system: String,
        /// The tools array as sent to the model.
        tools: serde_json::Value,
        why: String,
    },
    User {
        turn: u64,
        key: String,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaker: Option<Speaker>,
        origin: Origin,
        label: Label,
        /// The client this turn came through, when it differs from the session's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    Context {
        turn: u64,
        text: String,
        label: Label,
    },
    Assistant {
        turn: u64,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        #[serde(default)]
        calls: Vec<Call>,
    },
    ToolResult {
        turn: u64,
        call: CallId,
        tool: String,
        text: String,
        /// Missing in a record means: nobody vouches for it ([`Label::UNLABELLED`]).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<Label>,
        /// Whether brokerd gave this result. A result loopd made itself (unknown tool, brokerd away)
        /// says `false`; a record without the member counts as brokerd's.
        #[serde(default = "yes")]
        from_broker: bool,
    },
    Summary {
        /// The last record this stands for.
        covers: u64,
        text: String,
        label: Label,
    },
    TurnEnd {
        turn: u64,
        outcome: Outcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Why it failed, in fixed words; and the runbook entry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runbook: Option<String>,
    },
    /// The owner had the session's texts removed; the records before it stay as [`Body::blank`] leaves them, and
    /// none follows.
    Purged {},
}

/// Every `type` a record may have; any other is a newer program's.
pub const TYPES: [&str; 9] = [
    "session",
    "epoch",
    "user",
    "context",
    "assistant",
    "tool_result",
    "summary",
    "turn_end",
    "purged",
];

fn yes() -> bool {
    true
}

/// A tool call as the model made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub id: CallId,
    pub tool: String,
    /// The model's own text of the arguments, JSON or not.
    pub arguments: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Replied,
    Failed,
    Cancelled,
    Interrupted,
}

impl Outcome {
    pub const ALL: [Self; 4] = [
        Self::Replied,
        Self::Failed,
        Self::Cancelled,
        Self::Interrupted,
    ];
}

/// Tokens of a turn, as the server counted them over all its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    #[serde(default)]
    pub cached_tokens: u64,
}

impl Body {
    /// The label this record adds to its session: `None` for records that bring nothing in.
    #[must_use]
    pub fn label(&self) -> Option<Label> {
        match self {
            Self::User { label, .. }
            | Self::Context { label, .. }
            | Self::Summary { label, .. } => Some(*label),
            Self::ToolResult { label, .. } => Some(label.unwrap_or(Label::UNLABELLED)),
            Self::Session { .. }
            | Self::Epoch { .. }
            | Self::Assistant { .. }
            | Self::TurnEnd { .. }
            | Self::Purged {} => None,
        }
    }

    /// The turn a record belongs to.
    #[must_use]
    pub fn turn(&self) -> Option<u64> {
        match self {
            Self::User { turn, .. }
            | Self::Context { turn, .. }
            | Self::Assistant { turn, .. }
            | Self::ToolResult { turn, .. }
            | Self::TurnEnd { turn, .. } => Some(*turn),
            Self::Session { .. } | Self::Epoch { .. } | Self::Summary { .. } | Self::Purged {} => {
                None
            }
        }
    }

    /// Takes every text out; who, when, how it ended and the labels stay.
    pub fn blank(&mut self) {
        match self {
            Self::User { text, .. }
            | Self::Context { text, .. }
            | Self::ToolResult { text, .. }
            | Self::Summary { text, .. } => text.clear(),
            Self::Assistant {
                text,
                reasoning,
                calls,
                ..
            } => {
                text.clear();
                *reasoning = None;
                for call in calls {
                    call.arguments.clear();
                }
            }
            // Identity, as it was then.
            Self::Epoch { system, .. } => system.clear(),
            Self::Session { .. } | Self::TurnEnd { .. } | Self::Purged {} => {}
        }
    }
}

/// loopd's label of a session: the join over its records so far.
pub fn session_label<'a>(records: impl IntoIterator<Item = &'a Record>) -> Label {
    records
        .into_iter()
        .filter_map(|record| record.body.label())
        .fold(Label::default(), Label::join)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_without_a_label_is_untrusted() {
        let line = r#"{"seq":4,"at":"2026-01-31T10:00:00.000Z","type":"tool_result","turn":1,
            "call":"abc","tool":"read_file","text":"x"}"#;
        let record: Record = serde_json::from_str(line).unwrap();
        assert_eq!(session_label([&record]), Label::UNLABELLED);
    }

    #[test]
    fn what_is_blank_has_no_text_and_the_label_it_had() {
        let texts = [
            r#""type":"epoch","n":1,"system":"canary","tools":[],"why":"new""#,
            r#""type":"user","turn":1,"key":"k","text":"canary","origin":"interactive","label":{"class":"secret","untrusted":true}"#,
            r#""type":"context","turn":1,"text":"canary","label":{"class":"private","untrusted":false}"#,
            r#""type":"assistant","turn":1,"text":"canary","reasoning":"canary","calls":[{"id":"c","tool":"t","arguments":"canary"}]"#,
            r#""type":"tool_result","turn":1,"call":"c","tool":"t","text":"canary""#,
            r#""type":"summary","covers":1,"text":"canary","label":{"class":"private","untrusted":true}"#,
        ];
        for text in texts {
            let line = format!(r#"{{"seq":1,"at":"2026-01-31T10:00:00.000Z",{text}}}"#);
            let mut record: Record = serde_json::from_str(&line).unwrap();
            let label = record.body.label();
            record.body.blank();
            assert_eq!(record.body.label(), label, "{text}");
            let blank = serde_json::to_string(&record).unwrap();
            assert!(!blank.contains("canary"), "{blank}");
            assert_eq!(serde_json::from_str::<Record>(&blank).unwrap(), record);
        }
    }

    #[test]
    fn a_later_member_and_a_missing_optional_one_still_read() {
        let line = r#"{"seq":2,"at":"2026-01-31T10:00:00.000Z","type":"user","turn":1,"key":"k",
            "text":"hi","origin":"interactive","label":{"class":"private","untrusted":false},"later":7}"#;
        let record: Record = serde_json::from_str(line).unwrap();
        assert!(matches!(record.body, Body::User { speaker: None, .. }));
    }
}
