//! `run/broker-memory/tools.sock`: memoryd serves, brokerd connects. The arguments of the memory tools are
//! these types, so that schema, check and use cannot differ.

use serde::{Deserialize, Serialize};

use super::declare_link;
use crate::{Audience, CallId, Cause, EditId, Label, Refused, SessionId, Speaker};

declare_link!(
    /// The link itself.
    MemoryTools, "memory-tools", Request, Reply
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Memory {
        caller: Caller,
        arguments: MemoryOp,
    },
    Recall {
        caller: Caller,
        arguments: Recall,
    },
    AskMemory {
        caller: Caller,
        arguments: AskMemory,
    },
    Facts {
        caller: Caller,
        arguments: FactsOp,
    },
    /// Which of the tools that memoryd serves the model gets.
    Tools {},
}

/// Who calls, in which session, and what brokerd and loopd together say of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    pub session: SessionId,
    pub turn: u64,
    pub call: CallId,
    /// The session's label at brokerd, loopd's joined in.
    pub label: Label,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<Speaker>,
    pub audience: Audience,
}

/// Whom an identity entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    User,
    Agent,
}

/// The `memory` tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum MemoryOp {
    /// Adds an identity entry.
    Add { about: About, text: String },
    /// Replaces the one entry with this id, or the one whose text contains `match`.
    Replace {
        about: About,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
        matching: Option<String>,
        text: String,
    },
    /// Removes the one entry with this id, or the one whose text contains `match`.
    Remove {
        about: About,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
        matching: Option<String>,
    },
    /// Writes a dated note.
    Note { text: String },
    /// Says of every identity entry what becomes of it; one edit, all or nothing.
    Consolidate { entries: Vec<Fate> },
}

/// What `consolidate` does with one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fate {
    pub id: String,
    pub fate: FateKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FateKind {
    Keep,
    Note,
    Drop,
}

/// The `recall` tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recall {
    pub query: String,
    /// Hits wanted: 8 when missing, at most 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<u32>,
    /// RFC 3339, or a date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether untrusted sources are searched where the owner set `recall_untrusted = "ask"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untrusted: Option<bool>,
    /// The highest class searched: the session's own when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<crate::Class>,
}

impl Recall {
    /// The query alone, and whatever is usual for the rest.
    #[must_use]
    pub fn of(query: impl Into<String>) -> Self {
        Self {
            query: query.into(),
            k: None,
            since: None,
            until: None,
            untrusted: None,
            class: None,
        }
    }
}

/// The `ask_memory` tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskMemory {
    pub question: String,
    /// `own`, `untrusted`, `fleet`, or an agent that is read; the agent's own when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<String>,
    /// `minimal` when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
}

/// The `facts` tool: what Honcho itself made of the agent's own trusted workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum FactsOp {
    /// Facts about the owner near the query, nearest first.
    Search {
        query: String,
        /// Facts wanted: 8 when missing, at most 20.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        k: Option<u32>,
    },
    /// What is known of the owner, as it was concluded; near the query first, where there is one.
    Snapshot {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        query: Option<String>,
    },
    /// Reads the owner's peer card; with `card`, replaces it by these lines.
    Profile {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        card: Option<Vec<String>>,
    },
    /// Writes a fact about the owner.
    Conclude { text: String },
    /// Deletes a fact about the owner: an id that `search` shows, or one of memory's own.
    Forget { id: String },
}

/// How much Honcho thinks about an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    Minimal,
    Low,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    Progress {
        text: String,
    },
    /// Names of tools.
    Tools {
        names: Vec<String>,
    },
    /// The call was carried out.
    Done {
        text: String,
        label: Label,
        causes: Vec<Cause>,
        /// The edit it made, if it made one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edit: Option<EditId>,
    },
    /// A rule of memory said no; `text` tells the model which, never quoting what was refused.
    Denied {
        text: String,
    },
    Refused(Refused),
}
