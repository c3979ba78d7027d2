//! What is asked of Honcho and what it answers, as values. `outbox` makes requests, `honcho` carries them
//! out, the simulation answers them.

use bxcore::clock::Millis;
use bxwire::ItemId;

use super::{config::Role, naming::HonchoSession};

/// One message of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Which item it belongs to, and its place in it.
    pub item: ItemId,
    pub part: usize,
    /// As Honcho is told of the item, for the metadata.
    pub name: String,
    pub peer: String,
    pub content: String,
    /// When it was said: RFC 3339.
    pub created_at: String,
    /// The session and turn it comes from, for the metadata.
    pub origin: Option<(bxwire::SessionId, u64)>,
    /// The note that this message takes back.
    pub retracts: Option<Retracts>,
}

/// A note that is taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retracts {
    /// As its message has it.
    pub name: String,
    /// The owner made it their own: it left the fleet, and nobody says that it is wrong.
    pub moved: bool,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A read that creates nothing: the first call after a failure.
    Probe {
        role: Role,
    },
    /// Get or create; the answer tells the configuration.
    Workspace {
        role: Role,
    },
    /// Turns off what a fleet workspace must not do.
    Repair {
        role: Role,
    },
    Peer {
        role: Role,
        peer: String,
        observed: bool,
    },
    Session {
        role: Role,
        session: HonchoSession,
    },
    AddMessages {
        role: Role,
        session: String,
        messages: Vec<Message>,
    },
    FindMessages {
        role: Role,
        session: String,
        names: Vec<String>,
    },
    Conclude {
        role: Role,
        session: String,
        peer: String,
        content: String,
    },
    FindConclusions {
        role: Role,
        session: String,
        peer: String,
        content: String,
    },
    Unconclude {
        role: Role,
        id: String,
    },
    /// Replaces a peer's card about itself.
    SetCard {
        role: Role,
        peer: String,
        lines: Vec<String>,
    },
    /// With its messages, and the conclusions that carry its name.
    DeleteSession {
        role: Role,
        session: String,
    },
    /// What Honcho has still to do.
    Queue {
        role: Role,
    },
    /// Which of these conclusions are there.
    Standing {
        role: Role,
        ids: Vec<String>,
    },
    /// The newest conclusions of a peer about itself, none older than that.
    NewConclusions {
        role: Role,
        peer: String,
        since: Millis,
    },
}

impl Request {
    #[must_use]
    pub fn role(&self) -> Role {
        match self {
            Self::Probe { role }
            | Self::Workspace { role }
            | Self::Repair { role }
            | Self::Peer { role, .. }
            | Self::Session { role, .. }
            | Self::AddMessages { role, .. }
            | Self::FindMessages { role, .. }
            | Self::Conclude { role, .. }
            | Self::FindConclusions { role, .. }
            | Self::Unconclude { role, .. }
            | Self::SetCard { role, .. }
            | Self::DeleteSession { role, .. }
            | Self::Queue { role }
            | Self::Standing { role, .. }
            | Self::NewConclusions { role, .. } => *role,
        }
    }
}

/// A usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// Whether the workspace derives nothing: reasoning, summary and dream are all off.
    Workspace {
        all_off: bool,
    },
    /// Ids in the order sent.
    Created(Vec<String>),
    /// What was found by each name: part and id.
    Messages(Vec<(String, usize, String)>),
    /// Ids of the conclusions that were asked for, newest first.
    Conclusions(Vec<String>),
    Queue(Queue),
}

/// What Honcho says of its own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Pieces of work waiting or in progress.
    pub pending: u64,
    /// `false`: it says that it derives nothing.
    pub derives: bool,
}

/// No usable answer. A kind and a status, never a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It cannot have arrived.
    NotReached {
        kind: &'static str,
    },
    /// It may have arrived and been carried out.
    Unknown {
        kind: &'static str,
        status: Option<u16>,
    },
    /// Busy: try later, as long after as it says, if it does.
    Later {
        status: u16,
        after_s: Option<u64>,
    },
    /// Will be refused again.
    Refused {
        kind: &'static str,
        status: Option<u16>,
    },
    KeyRefused {
        status: u16,
    },
    /// Something it names is not there (404), or is in another state than we thought (409, or a success without what
    /// it should have made).
    Gone {
        status: u16,
    },
}

impl Failure {
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotReached { kind } | Self::Unknown { kind, .. } | Self::Refused { kind, .. } => {
                kind
            }
            Self::Later { .. } => "busy",
            Self::KeyRefused { .. } => "key refused",
            Self::Gone { .. } => "not there",
        }
    }

    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::NotReached { .. } => None,
            Self::Unknown { status, .. } | Self::Refused { status, .. } => *status,
            Self::Later { status, .. } | Self::KeyRefused { status } | Self::Gone { status } => {
                Some(*status)
            }
        }
    }
}
