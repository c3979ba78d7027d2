//! `run/loop-memory/memory.sock`: memoryd serves, loopd connects.

use serde::{Deserialize, Serialize};

use super::declare_link;
use crate::{Audience, Label, Refused, SessionId, Speaker};

declare_link!(
    /// The link itself.
    Memory, "memory", Request, Reply
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What the system text says of agent and owner, as far as the audience may see it.
    Identity { audience: Audience },
    /// What may be said before a turn, from the agent's own trusted memory.
    Context(Before),
    /// The session's turns up to this one have ended and are in its log.
    SessionUpdated { session: SessionId, turn: u64 },
    /// An owner's command from chat that is about memory.
    OwnerCommand {
        session: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaker: Option<Speaker>,
        name: String,
        arguments: Vec<String>,
    },
}

/// A turn that is about to begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    pub session: SessionId,
    /// The words it begins with.
    pub text: String,
    /// loopd's label of the session, these words among it.
    pub label: Label,
    pub audience: Audience,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<Speaker>,
    /// The client or channel it comes through.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    Identity {
        text: String,
        label: Label,
        /// Equal digests: equal text.
        digest: String,
        /// Counts the owner's own changes: a new number starts an epoch in every session.
        owner_changes: u64,
    },
    /// `text` is empty when there is nothing to say.
    Context {
        text: String,
        label: Label,
    },
    /// Lines for the user, for example that turns have waited for over an hour.
    Updated {
        notices: Vec<String>,
    },
    Answer {
        text: String,
    },
    Refused(Refused),
}
