//! `run/ctl/<daemon>.sock`: each daemon serves, bxctl connects. Every daemon answers `Status`; memoryd also
//! the owner's commands about memory.

use serde::{Deserialize, Serialize};

use super::{
    declare_link,
    memory_tools::{AskMemory, Recall},
};
use crate::{EditId, ItemId, Label, Refused, SessionId};

declare_link!(
    /// The link itself.
    Control, "control", Request, Reply
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Status {},
    MemoryShow {},
    /// The newest edits, newest first.
    MemoryLog {
        limit: u32,
    },
    /// `confirm` false: says what it would do and changes nothing.
    MemoryUndo {
        edit: EditId,
        confirm: bool,
    },
    /// Removes what a session left in memory and in Honcho; loopd has emptied its log before.
    MemoryPurge {
        session: SessionId,
        confirm: bool,
    },
    /// What was held back, and why.
    MemoryReview {},
    /// Makes a note the owner's own: named by its id, or by the edit that wrote it.
    MemoryPromote {
        note: String,
        confirm: bool,
    },
    /// Takes over what was changed in the Markdown files by hand, as the owner's edits.
    MemoryAccept {
        confirm: bool,
    },
    MemoryRecall {
        arguments: Recall,
    },
    /// Answered like a recall.
    MemoryAsk {
        arguments: AskMemory,
    },
    MemorySync {
        action: SyncAction,
    },
    MemoryWhy {
        item: ItemId,
    },
    /// What became of what Honcho has under this id, which a hit shows: `fleet:ID`, or the id alone. Also an
    /// entry's or a note's id.
    MemoryWhyFound {
        id: String,
    },
    /// The owner's word on turns that brokerd cannot vouch for.
    SessionDecide {
        session: SessionId,
        decision: OwnerDecision,
    },
}

/// What `bxctl memory sync` asks for besides showing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum SyncAction {
    Show {},
    /// Ends every wait.
    Now {},
    /// Tries a failed item, or one in doubt, again.
    Retry {
        item: ItemId,
    },
    RetryAll {},
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerDecision {
    Untrusted,
    Skip,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    Status(Status),
    Memory(MemoryFiles),
    Edits {
        edits: Vec<EditLine>,
    },
    /// What an undo or accept does or did, a line each.
    Change {
        done: bool,
        lines: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edit: Option<EditId>,
    },
    Recalled {
        text: String,
        label: Label,
    },
    /// Newest first; `more`: how many there was no room for.
    Review {
        held: Vec<HeldBack>,
        more: u64,
    },
    Sync(Sync),
    Why(Why),
    /// `MemoryWhyFound`: Honcho has it, and nothing here sent it.
    Derived(Derived),
    Done {},
    Refused(Refused),
}

/// A daemon's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    pub daemon: String,
    pub build: String,
    pub pid: u32,
    /// When it became ready: RFC 3339.
    pub since: String,
    /// What a person should know, worst first.
    pub notices: Vec<Notice>,
    /// Name and value, in the order to show them.
    pub facts: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notice {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbook: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryFiles {
    pub user: Vec<Entry>,
    pub agent: Vec<Entry>,
    /// Newest last.
    pub notes: Vec<Note>,
    /// Files changed by hand and not yet accepted.
    pub held: Vec<String>,
    /// Characters of identity used, and at most.
    pub identity_chars: u64,
    pub identity_chars_max: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub id: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    pub edit: EditId,
    pub at: String,
    pub text: String,
    pub label: Label,
    pub flagged: bool,
}

/// Something that was held back: a note, a turn, or a file that was changed by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldBack {
    /// An edit, a turn, or the name of a file.
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// In fixed words.
    pub cause: String,
    /// The note that `promote` would take, and its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A line of `bxctl memory log`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditLine {
    pub edit: EditId,
    pub at: String,
    /// A session id, or `owner`.
    pub by: String,
    /// For example `add user`, `note`, `undo e3`.
    pub what: String,
    pub text: String,
    pub label: Label,
    /// The edit that undid it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<EditId>,
}

/// What `bxctl memory sync` shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sync {
    /// Whether `[honcho]` is configured at all.
    pub configured: bool,
    pub workspaces: Vec<WorkspaceSync>,
    /// Turns that cannot be decided yet, and why.
    pub undecided: Vec<ItemNote>,
    pub failed: Vec<ItemNote>,
    pub in_doubt: Vec<ItemNote>,
    /// Decided to go nowhere, by reason.
    pub skipped: Vec<(String, u64)>,
    /// `None`: nothing was looked at yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

/// What Honcho makes of what it was sent, as far as memoryd has looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// When Honcho was last asked about its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<String>,
    /// Pieces of work that it had not done then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<u64>,
    /// `false`: it says itself that it derives nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derives: Option<bool>,
    /// What is wrong although nothing failed.
    pub warnings: Vec<Notice>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSync {
    /// `trusted`, `untrusted` or `fleet`.
    pub role: String,
    /// Honcho's name for it.
    pub name: String,
    pub decided: u64,
    pub waiting: u64,
    pub sent: u64,
    pub failed: u64,
    pub in_doubt: u64,
    pub withdrawn: u64,
    pub cancelled: u64,
    /// Seconds since the oldest waiting item was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_waiting_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
}

/// Why nothing is sent to a workspace now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// In fixed words, for example `connection refused`.
    pub reason: String,
    pub since: String,
    pub tries: u64,
    /// When it is tried again; `None`: only when the owner acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    pub runbook: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemNote {
    pub item: ItemId,
    /// In fixed words.
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    pub runbook: String,
}

/// How an item was decided and where it is now; never its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Why {
    pub item: ItemId,
    /// Name and value, in the order to show them.
    pub facts: Vec<(String, String)>,
    pub steps: Vec<WhyStep>,
}

/// What Honcho holds of its own making; never its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// As it was asked for.
    pub id: String,
    /// Name and value, in the order to show them.
    pub facts: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhyStep {
    /// For example `conclusion about owner`, `2 messages`, `delete the conclusion of e1`.
    pub what: String,
    /// `waiting`, `sending`, `in doubt`, `sent`, `failed`, `withdrawn`, `cancelled`.
    pub state: String,
    /// Honcho's workspace, session and ids.
    pub place: String,
    pub ids: Vec<String>,
}
