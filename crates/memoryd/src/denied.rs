//! The rules' ways of saying no, in the words that the model or the owner reads. Called by the planners; a
//! text that was refused is never in them.

use bxcore::runbook::{self, Runbook};
use bxwire::EditId;

/// Why memory stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error(
        "not done: this session has read text from outside, and nothing from such a session becomes identity; \
         `note` keeps it, marked untrusted"
    )]
    IdentityUntrusted,
    #[error(
        "not done: this session is secret, and identity is part of every session; `note` keeps it here, as \
         secret, and it is sent nowhere"
    )]
    IdentitySecret,
    #[error(
        "not done: only the owner changes identity, and this turn is not known to be the owner's"
    )]
    NotOwner,
    #[error(
        "not done: this session has read text from outside, and nothing from such a session is concluded about \
         the owner; `memory` with `note` keeps it, marked untrusted"
    )]
    FactUntrusted,
    #[error(
        "not done: this session is secret, and what is concluded about the owner is sent to Honcho; `memory` with \
         `note` keeps it here"
    )]
    FactSecret,
    #[error(
        "not done: only the owner's own turns conclude about the owner, and this one is not known to be the owner's"
    )]
    FactNotOwner,
    #[error(
        "not done: this session has read text from outside, and nothing in an untrusted session forgets a fact about \
         the owner or replaces the card; the owner can ask for it in a new session"
    )]
    FactKeptUntrusted,
    #[error(
        "not done: this session is secret, and to forget a fact about the owner or to replace the card is asked of \
         Honcho; the owner can ask for it in a session that is not secret"
    )]
    FactKeptSecret,
    #[error(
        "not done: only the owner's own turns forget a fact about the owner or replace the card, and this one is not \
         known to be the owner's"
    )]
    FactKeptNotOwner,
    #[error(
        "not done: the owner excluded this turn's speaker or channel, and nothing of it reaches Honcho"
    )]
    FactExcluded,
    #[error("not done: no fact about the owner has that id; `search` shows ids")]
    FactUnknown,
    #[error("not done: that is not a fact about the owner")]
    FactOfAnother,
    #[error("not done: {0} is forgotten already")]
    FactForgotten(String),
    #[error(
        "not done: Honcho does not answer now, and what it holds is read first; try again later"
    )]
    HonchoAway,
    #[error("not done: another change of the card is on its way; try again in a moment")]
    CardBusy,
    #[error(
        "not done: the card has at most {lines} lines and {chars} characters; keep what matters most"
    )]
    CardTooLong { lines: usize, chars: usize },
    #[error("{0} cannot be undone: the fact held a secret, so its text was not kept")]
    NotKept(EditId),
    #[error("not done: rule `{0}` sees a secret in the text; memory keeps no keys or passwords")]
    Secret(&'static str),
    #[error("not done: there is no text")]
    Empty,
    #[error(
        "not done: a note has at most {max} characters and this has {chars}; shorten it or make several"
    )]
    NoteTooLong { chars: usize, max: usize },
    #[error(
        "not done: identity would have {chars} characters and may have {max}; use `consolidate` to move entries \
         to the notes or drop them, then try again"
    )]
    IdentityFull { chars: usize, max: usize },
    #[error("not done: give `id`, or a `match` that only one entry contains")]
    NoTarget,
    #[error("not done: no entry fits; there are: {}", listed(.0))]
    NoMatch(Vec<String>),
    #[error("not done: more than one entry fits: {}; give the `id` of one", listed(.0))]
    Ambiguous(Vec<String>),
    #[error("not done: {0} says that already")]
    Already(String),
    #[error(
        "not done: `consolidate` names every entry once; not named: {}; named twice: {}; not there: {}",
        listed(missing),
        listed(twice),
        listed(unknown)
    )]
    Fates {
        missing: Vec<String>,
        twice: Vec<String>,
        unknown: Vec<String>,
    },
    #[error("not done: {note} is promoted already, by {by}; undo {by} to have it as it was")]
    Promoted { note: String, by: EditId },
    #[error("not done: nothing would change")]
    Nothing,
    #[error(
        "not done: {0} was changed by hand; the owner looks at it and runs `bxctl memory accept` first"
    )]
    Held(String),
    #[error("there is no edit {0}")]
    UnknownEdit(EditId),
    #[error("{edit} is already undone, by {by}; undo {by} to have it again")]
    AlreadyUndone { edit: EditId, by: EditId },
    #[error("{edit} cannot be undone: {subject} has changed since. Then: {then}. Now: {now}")]
    ChangedSince {
        edit: EditId,
        subject: String,
        then: String,
        now: String,
    },
    #[error(
        "{0} cannot be undone: what it would bring back was purged; an entry that should go too is taken out of its \
         file by hand, and then `bxctl memory accept`"
    )]
    Purged(EditId),
    #[error("{0} cannot be taken over: it is not a plain text file of at most {1} bytes")]
    Unreadable(String, u64),
    #[error("{0}")]
    Argument(&'static str),
}

/// Most ids that an answer lists.
const LISTED_IDS_MAX: usize = 40;

fn listed(ids: &[String]) -> String {
    match ids.len() {
        0 => "none".into(),
        count if count > LISTED_IDS_MAX => {
            let more = count - LISTED_IDS_MAX;
            format!("{} and {more} more", ids[..LISTED_IDS_MAX].join(", "))
        }
        _ => ids.join(", "),
    }
}

impl Denied {
    /// The runbook's entry for the owner.
    #[must_use]
    pub fn entry(&self) -> Runbook {
        match self {
            Self::Held(_) | Self::Unreadable(..) => runbook::HAND_EDIT_HELD,
            Self::UnknownEdit(_)
            | Self::AlreadyUndone { .. }
            | Self::ChangedSince { .. }
            | Self::NotKept(_)
            | Self::Purged(_) => runbook::UNDO_REFUSED,
            Self::HonchoAway => runbook::HONCHO_UNREACHABLE,
            _ => runbook::MEMORY_WRITE_REFUSED,
        }
    }

    /// The fixed word for programs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.entry().anchor()
    }
}
