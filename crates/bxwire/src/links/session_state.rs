//! `run/memory-broker/state.sock`: brokerd serves, memoryd connects. Asking changes nothing.

use serde::{Deserialize, Serialize};

use super::declare_link;
use crate::{Class, Refused, SessionId};

declare_link!(
    /// The link itself.
    State, "session-state", Request, Reply
);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    SessionState { session: SessionId },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    SessionState(SessionState),
    Refused(Refused),
}

/// brokerd's word on a session. Not seen: private and clean, and worth only what the log makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionState {
    pub class: Class,
    pub untrusted: bool,
    pub seen: bool,
}
