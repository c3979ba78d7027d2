//! `run/loop-broker/tools.sock`: brokerd serves, loopd connects. `CallTool` is answered with any number of
//! `Progress` and `Approval`, then one `Result`; the result's label is durable at brokerd before it leaves.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{declare_link, turns::Answer};
use crate::{Audience, CallId, Cause, Label, Refused, SessionId, Speaker};

declare_link!(
    /// The link itself.
    Tools, "tools", Request, Reply
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    ListTools {},
    CallTool {
        session: SessionId,
        turn: u64,
        call: CallId,
        tool: String,
        arguments: Value,
        /// loopd's own label of the session now; brokerd joins it in first.
        label: Label,
        audience: Audience,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaker: Option<Speaker>,
        /// Hosts the owner wrote in this session.
        owner_hosts: Vec<String>,
    },
    /// From another connection: ends a running call.
    CancelCall {
        session: SessionId,
        call: CallId,
    },
    /// From another connection: the owner's answer to an `Approval`.
    ApproveCall {
        session: SessionId,
        call: CallId,
        answer: Answer,
    },
    /// Raises a session's label for something that did not come through a tool.
    Raise {
        session: SessionId,
        label: Label,
        cause: Cause,
    },
    /// What raised a session's label or would have, had nothing else before it.
    SessionCauses {
        session: SessionId,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// The tools in a fixed order; the digest changes exactly when they do.
    Tools {
        tools: Vec<Tool>,
        digest: String,
    },
    Progress {
        text: String,
    },
    Approval {
        call: CallId,
        what: String,
    },
    Result {
        outcome: CallOutcome,
        /// What the model reads: neutralised, capped and fenced.
        text: String,
        /// The result's own label.
        label: Label,
        /// The session's label with it, durable at brokerd.
        session_label: Label,
        /// What came in with this call that would raise a session which has seen nothing.
        causes: Vec<Cause>,
    },
    /// `Raise`: durable. `CancelCall`, `ApproveCall`: taken.
    Done {},
    Causes {
        label: Label,
        causes: Vec<Cause>,
        /// How often something came in that there was no room for among them.
        more: u64,
    },
    Refused(Refused),
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// A JSON schema with root `object`.
    pub parameters: Value,
}

/// How a call ended. Whatever it is, `text` tells the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    Done,
    /// The arguments are not of the tool's schema: the model may correct them.
    BadArguments,
    UnknownTool,
    /// Policy or a label rule said no.
    Denied,
    Failed,
    Cancelled,
}
