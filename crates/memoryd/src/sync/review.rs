//! What the ledger says was held back, for `bxctl memory review`. Called by `worker`. Values only; never a text.

use bxwire::{ItemId, links::control::HeldBack};

use super::{
    config::Role,
    decide::SkipReason,
    ledger::{Entry, Ledger, Step, StepState},
};

/// Most items of one answer, the newest.
pub const ITEMS_MAX: usize = 500;

/// The newest items that were held back, newest first, and how many more there are.
#[must_use]
pub fn review(ledger: &Ledger) -> (Vec<HeldBack>, u64) {
    let mut held: Vec<_> = ledger
        .entries()
        .filter_map(|entry| {
            Some(HeldBack {
                what: entry.decided.item.to_string(),
                at: Some(entry.decided.at.to_string()),
                cause: cause(entry)?,
                note: None,
                text: None,
            })
        })
        .collect();
    held.reverse();
    let more = held.len().saturating_sub(ITEMS_MAX) as u64;
    held.truncate(ITEMS_MAX);
    (held, more)
}

/// What happened last counts: a refusal before the decision.
fn cause(entry: &Entry) -> Option<String> {
    let state = entry.states.iter().find_map(|state| match state {
        StepState::Failed { kind, status } => Some(match status {
            Some(status) => format!("Honcho refused it: {kind} (HTTP {status})"),
            None => format!("it failed: {kind}"),
        }),
        StepState::Withdrawn => Some("withdrawn: the session became secret first".into()),
        _ => None,
    });
    let untrusted = |step: &Step| {
        matches!(
            step,
            Step::Messages {
                role: Role::Untrusted,
                ..
            }
        )
    };
    let steps = &entry.decided.steps;
    state
        .or_else(|| skipped(&entry.decided.item, entry.decided.skip?))
        .or_else(|| {
            let cause = "its session had read text from outside: it is in the untrusted workspace";
            steps.iter().any(untrusted).then(|| cause.into())
        })
}

/// Of an edit, memory itself knows what it looks like and which label it has.
fn skipped(item: &ItemId, reason: SkipReason) -> Option<String> {
    let shown = match reason {
        SkipReason::Excluded | SkipReason::SecretText => true,
        SkipReason::Flagged | SkipReason::MaybeSecret | SkipReason::SecretClass => {
            matches!(item, ItemId::Turn { .. })
        }
        SkipReason::TooLong | SkipReason::NoSpeaker => true,
        SkipReason::NotReplied
        | SkipReason::NotInteractive
        | SkipReason::Empty
        | SkipReason::BeforeOpening
        | SkipReason::NothingToSend
        | SkipReason::Owner
        | SkipReason::Purged => false,
    };
    shown.then(|| reason.words().into())
}
