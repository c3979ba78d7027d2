//! `run/loop/turns.sock`: loopd serves, gatewayd and bxctl connect. A `Turn` is answered with a stream of
//! events that ends with `Reply` or `Failed`; every other request with one event, `ShowSession` with
//! `Record`s and an `End`.

use serde::{Deserialize, Serialize};

use super::declare_link;
use crate::{
    Audience, CallId, Cause, Label, Origin, Refused, SessionId, Speaker,
    log::{Outcome, Record},
};

declare_link!(
    /// The link itself.
    Turns, "turns", Request, TurnEvent
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Runs a turn, or repeats the recorded outcome of the same key.
    Turn {
        /// The client's own; the same key never runs twice in its session. 1 to 200 bytes.
        key: String,
        /// `None` starts a session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaker: Option<Speaker>,
        origin: Origin,
        /// The words come from someone the configuration does not trust, or the owner marked them so.
        untrusted: bool,
        audience: Audience,
        /// The client or channel the turn came through, for example `chat` or `home:garden`.
        source: String,
    },
    /// Stops the turn that runs in a session.
    Cancel {
        session: SessionId,
    },
    /// The owner's answer to an `Approval`.
    Approve {
        session: SessionId,
        call: CallId,
        answer: Answer,
    },
    /// What a chat's owner may do without bxctl: `new`, `stop`, `status`, `why`, `undo`, `forget`, `approve`.
    Command {
        session: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaker: Option<Speaker>,
        name: String,
        arguments: Vec<String>,
    },
    ListSessions {},
    ShowSession {
        session: SessionId,
    },
    SessionLabel {
        session: SessionId,
    },
    /// Takes every text out of a session's log and ends the session; refused while a turn runs in it. Again: the
    /// same.
    PurgeSession {
        session: SessionId,
    },
}

/// The owner's answer to an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Once,
    Session,
    Deny,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum TurnEvent {
    Accepted {
        session: SessionId,
        turn: u64,
    },
    Delta {
        text: String,
    },
    ToolStarted {
        call: CallId,
        tool: String,
    },
    ToolFinished {
        call: CallId,
        tool: String,
        label: Label,
    },
    Approval {
        call: CallId,
        what: String,
    },
    Notice {
        text: String,
    },
    /// The end of a turn that was replied to; durable before it is sent.
    Reply {
        text: String,
        label: Label,
    },
    /// The end of a turn that was not.
    Failed {
        reason: String,
        runbook: String,
    },
    /// `Cancel`, `Approve`: taken; `PurgeSession`: it is done, durably.
    Done {},
    /// `Command`'s answer.
    Answer {
        text: String,
    },
    Sessions {
        sessions: Vec<SessionSummary>,
        /// How many older ones there was no room for; `None`: there are no others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        more: Option<u64>,
    },
    Record {
        record: Record,
    },
    /// The end of `ShowSession`'s records.
    End {},
    /// loopd's and brokerd's word on a session.
    SessionLabel {
        session: SessionId,
        label: Label,
        /// What raised its label or would have, had nothing else before it.
        causes: Vec<Cause>,
        /// How often something came in that there was no room for among them.
        more: u64,
    },
    Refused(Refused),
}

/// A line of `bxctl session list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSummary {
    pub session: SessionId,
    pub started: String,
    pub source: String,
    pub turns: u64,
    /// How the last turn ended; `None`: it runs, or there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Outcome>,
    pub label: Label,
    /// Its texts were removed; it takes no more turns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub purged: bool,
}
