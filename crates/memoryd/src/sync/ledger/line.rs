//! A line of the ledger, as it stands in the file. Holds references and ids, never memory text.

use bxcore::clock::Millis;
use bxwire::{ItemId, Label, SessionId, Speaker, links::session_state::SessionState};
use serde::{Deserialize, Serialize};

use crate::sync::{config::Role, decide::SkipReason, naming::HonchoSession};

/// One line. What is newer than this program has another `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// The first line. What ended before it is never sent.
    Opened {
        at: Millis,
        installation: String,
        /// What fleet messages are named with; it never leaves this machine. A ledger of an older program has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// With a step that older programs do not know it is written as `decided2`: to them it is newer, not broken.
    #[serde(alias = "decided2")]
    Decided(Decided),
    /// Durable before the request leaves.
    Sending { at: Millis, steps: Vec<StepRef> },
    /// The end of a try that reached Honcho, or was found there.
    Sent { at: Millis, steps: Vec<SentStep> },
    /// The end of a try that cannot have arrived.
    NotSent { at: Millis, steps: Vec<StepRef> },
    /// Not to be tried again unless the owner says so.
    Failed {
        at: Millis,
        step: StepRef,
        kind: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
    /// The session became secret first.
    Withdrawn { at: Millis, step: StepRef },
    /// Undone before it was sent.
    Cancelled { at: Millis, step: StepRef },
    /// The owner asked for another try.
    Requeued { at: Millis, step: StepRef },
    /// Turns that wait for the owner: brokerd had forgotten their session, and has no second word on them.
    Held {
        at: Millis,
        session: SessionId,
        turns: Vec<u64>,
    },
}

/// Every `type` a line may have.
pub const TYPES: [&str; 11] = [
    "opened",
    "decided",
    "decided2",
    "sending",
    "sent",
    "not_sent",
    "failed",
    "withdrawn",
    "cancelled",
    "requeued",
    "held",
];

/// What became of an item, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    pub at: Millis,
    pub item: ItemId,
    /// Why it goes nowhere; then there are no steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<SkipReason>,
    /// The Boxmaker session it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SessionId>,
    /// The Honcho session its new texts go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<HonchoSession>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// loopd's label, or the journal's for an edit.
    pub log: Label,
    /// brokerd's word when a turn was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<SessionState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<Speaker>,
    /// When the edit was made, as the journal says: its number alone could come to mean another edit, if the
    /// journal were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
}

/// One thing to do at Honcho. `slot` is the entry or note it is about; `change` is its place in the edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Step {
    /// A turn's messages.
    Messages { role: Role, peer: String },
    /// A conclusion of a peer about itself, in the trusted workspace.
    Conclude {
        peer: String,
        slot: String,
        change: usize,
        /// Whose words an undo brings back, when they are not of the item's own session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<SessionId>,
    },
    /// Deletes what a step concluded.
    Unconclude { of: StepRef },
    /// A message in the fleet, from the agent.
    Note {
        slot: String,
        change: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<SessionId>,
    },
    /// A message beside that one, taking it back.
    Retract { of: StepRef },
    /// Deletes a conclusion of Honcho's own about the owner.
    Forget { slot: String, id: String },
    /// Replaces the owner's peer card.
    Card { slot: String, change: usize },
    /// Deletes a Honcho session with all that is in it: the owner purged the session it is of.
    DeleteSession { role: Role, session: String },
}

impl Step {
    /// Whether doing it twice is as good as once: it is tried again, and never looked up.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        self.deletes() || matches!(self, Self::Card { .. })
    }

    /// Whether it makes something go that Honcho has.
    #[must_use]
    pub fn deletes(&self) -> bool {
        matches!(
            self,
            Self::Unconclude { .. } | Self::Forget { .. } | Self::DeleteSession { .. }
        )
    }

    /// Whether it makes a whole Honcho session go.
    #[must_use]
    pub fn deletes_place(&self) -> bool {
        matches!(self, Self::DeleteSession { .. })
    }

    /// Whether programs that write no `decided2` do not know it.
    fn is_newer(&self) -> bool {
        matches!(
            self,
            Self::Forget { .. } | Self::Card { .. } | Self::DeleteSession { .. }
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepRef {
    pub item: ItemId,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(step: &usize) -> bool {
    *step == 0
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentStep {
    #[serde(flatten)]
    pub step: StepRef,
    /// Honcho's ids of what was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// It was found there after a try without an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub found: bool,
}

/// A line's text, without its seal.
#[must_use]
pub fn written(line: &Line) -> String {
    #[derive(Serialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Newer<'a> {
        Decided2(&'a Decided),
    }
    let text = match line {
        Line::Decided(decided) if decided.steps.iter().any(Step::is_newer) => {
            serde_json::to_string(&Newer::Decided2(decided))
        }
        line => serde_json::to_string(line),
    };
    // A line holds strings and numbers alone, so this cannot fail.
    text.unwrap_or_default()
}

/// Reads one line of the file (its seal is checked already).
///
/// # Errors
/// What `bxcore::append` needs to know: a newer kind, or no line of a ledger.
pub fn parse(text: &str) -> Result<Line, bxcore::append::BadLine> {
    bxcore::append::typed(text, &TYPES)
}
