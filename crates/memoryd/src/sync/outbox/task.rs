//! What the outbox asks of who runs it, and what that one tells it.

use super::*;

/// One thing to do in the world.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// Append these lines, in one write and one sync.
    Append(Vec<Line>),
    AskBroker(SessionId),
    /// Fetch the texts of these steps, ready to send.
    Load(Vec<StepRef>),
    Call(Box<Request>),
    /// Nothing to do before this time, or before something happens.
    Wait(Option<Millis>),
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Appended,
    /// Nothing was appended; the disk may be full.
    AppendFailed,
    Broker(Option<SessionState>),
    Loaded(Vec<Result<Load, LoadError>>),
    Called(Result<Answer, Failure>),
}

/// A step's texts.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    Messages(Vec<Message>),
    Conclusion(String),
    Card(Vec<String>),
    /// Nothing to fetch.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadError {
    /// Log or journal no longer hold it.
    Missing,
    /// A secret rule matches it now.
    Secret,
    /// The owner had it removed.
    Purged,
    /// The file cannot be read at the moment.
    Unreadable,
}

/// Where the owner's card is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastCard {
    /// This edit's is the last to be sent, and was not yet.
    Open(ItemId),
    /// At Honcho; whose words the last one is that was sent there.
    Sent(Option<SessionId>),
}

/// An edit is not decided yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecided;

/// A turn that ended, as far as deciding needs to know.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnBrief {
    pub session: SessionId,
    pub turn: u64,
    /// Without brokerd's and the owner's word.
    pub facts: TurnFacts,
    pub peer: Option<String>,
    pub speaker: Option<Speaker>,
}

/// What the log should say. Never a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    OutageBegan {
        role: Role,
        reason: &'static str,
        status: Option<u16>,
    },
    OutageEnded {
        role: Role,
        since: Millis,
    },
    KeyRefused {
        role: Role,
    },
    Misconfigured {
        role: Role,
    },
    Failed {
        step: StepRef,
        kind: String,
        status: Option<u16>,
    },
    InDoubt {
        steps: usize,
        role: Role,
    },
    BrokerAway,
    BrokerBack,
    AppendsFail,
    AppendsWork,
    /// Nothing failed, and yet something is wrong.
    Unhealthy(Warning),
    Healthy(Warning),
}
