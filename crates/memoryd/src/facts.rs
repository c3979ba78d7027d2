//! What is known here about a turn or an edit, for `bxctl memory why`. Called by [`crate::hooks`] and the sync
//! half; never shows a text.

use bxcore::{
    report::{self, Actionable as _},
    runbook,
};
use bxwire::{EditId, ItemId, Refused, links::memory_tools::About, log::Outcome};

use crate::{
    edit::{By, Edit, KeptLocal},
    logs::{Logs, Turn},
    memory::Memory,
    store::Store,
};

/// Name and value, in the order to show them.
pub type Facts = Vec<(String, String)>;

/// The facts of an item.
///
/// # Errors
/// A refusal: there is no such item, or its log cannot be read.
pub fn of(item: &ItemId, store: &Store, logs: &Logs) -> Result<Facts, Refused> {
    match item {
        ItemId::Edit(id) => store
            .with(|memory| Some(of_edit(memory.edit(*id)?, memory.undone_by(*id))))
            .ok_or_else(|| unknown(format!("there is no edit {id}"))),
        ItemId::Turn { session, turn } => match logs.turn(session, *turn) {
            Ok(Some(turn)) => {
                let mut facts = of_turn(&turn);
                let purge = store.with(|memory| memory.purged(session));
                facts.extend(purge.map(|edit| fact("purged by", &edit.to_string())));
                Ok(facts)
            }
            Ok(None) => Err(unknown(format!("no turn {item} has ended"))),
            Err(error) => {
                let refused = Refused::new("unreadable", report::line(&error, None));
                Err(match error.runbook() {
                    Some(entry) => refused.with_runbook(entry.anchor()),
                    None => refused,
                })
            }
        },
    }
}

/// The edit that wrote what an id of memory's own stands for, or stood for; of a fact of Honcho's own the last one about
/// it.
#[must_use]
pub fn edit_of(memory: &Memory, id: &str) -> Option<EditId> {
    let contents = memory.contents();
    let entries = [About::User, About::Agent]
        .into_iter()
        .filter_map(|about| contents.entry(about, id));
    let standing = entries
        .map(|entry| entry.edit)
        .chain(contents.note(id).map(|note| note.edit));
    let edits = || memory.edits().iter();
    let of_it = |edit: &&Edit| edit.changes.iter().any(|change| change.subject() == id);
    let wrote = |edit: &&Edit| {
        let mut changes = edit.changes.iter();
        changes.any(|change| change.subject() == id && change.new_text().is_some())
    };
    let card = |edit: &&Edit| {
        let mut changes = edit.changes.iter();
        changes.any(|change| change.subject() == id && change.card_before().is_some())
    };
    let gone = edits()
        .find(card)
        .or_else(|| edits().rev().find(wrote))
        .or_else(|| edits().rev().find(of_it));
    standing.last().or(gone.map(|edit| edit.id))
}

fn unknown(message: String) -> Refused {
    Refused::new("unknown-item", message).with_runbook(runbook::UNDO_REFUSED.anchor())
}

/// The facts of an edit.
#[must_use]
pub fn of_edit(edit: &Edit, undone_by: Option<EditId>) -> Facts {
    let mut facts = vec![fact("kind", "edit"), fact("at", &edit.at)];
    match &edit.by {
        By::Owner {} => facts.push(fact("by", "owner")),
        By::Session {
            session,
            turn,
            speaker,
            call,
        } => {
            facts.push(fact("turn", &format!("{session}/{turn}")));
            if let Some(call) = call {
                facts.push(fact("tool call", call.as_str()));
                // Neither file is ours: the audit has the labels before and after, the log the arguments.
                facts.push(fact(
                    "to see the call",
                    &format!(
                        "`bxctl session show {session} --json` has it and its result; the line of broker/audit.jsonl with this \
                         call has the labels before and after"
                    ),
                ));
            }
            let speaker = speaker.as_ref().map(ToString::to_string);
            facts.push(fact("speaker", speaker.as_deref().unwrap_or("unknown")));
        }
    }
    let subjects: Vec<_> = edit.changes.iter().map(|change| change.subject()).collect();
    facts.push(fact("what", &edit.what));
    facts.push(fact("changes", &subjects.join(", ")));
    facts.push(fact("label", &edit.label.to_string()));
    match edit.kept_local {
        None => {}
        Some(KeptLocal::Flagged) => {
            facts.push(fact(
                "kept local",
                "it reads like instructions, or hides text",
            ));
        }
        Some(KeptLocal::MaybeSecret) => facts.push(fact("kept local", "it may hold a secret")),
    }
    if let Some(undoes) = edit.undoes {
        facts.push(fact("undoes", &undoes.to_string()));
    }
    if let Some(by) = undone_by {
        facts.push(fact("undone by", &by.to_string()));
    }
    facts
}

/// The facts of a turn.
#[must_use]
pub fn of_turn(turn: &Turn) -> Facts {
    let outcome = match turn.outcome {
        Outcome::Replied => "replied",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Interrupted => "interrupted",
    };
    let origin = match turn.origin {
        bxwire::Origin::Interactive => "interactive",
        bxwire::Origin::Scheduled => "scheduled",
        bxwire::Origin::Synthetic => "synthetic",
    };
    let speaker = turn.speaker.as_ref().map(ToString::to_string);
    vec![
        fact("kind", "turn"),
        fact("said at", &turn.said_at),
        fact("ended at", &turn.ended_at),
        fact("source", &turn.source),
        fact("speaker", speaker.as_deref().unwrap_or("unknown")),
        fact("origin", origin),
        fact("outcome", outcome),
        fact("label in the log", &turn.label.to_string()),
    ]
}

fn fact(name: &str, value: &str) -> (String, String) {
    (name.into(), value.into())
}
