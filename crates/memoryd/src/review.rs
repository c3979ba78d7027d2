//! What of memory was held back, and the owner's word that makes a note their own. Called by `control`. Values only.

use bxsanitize::{Refuser, neutralise};
use bxwire::{Class, EditId, Label, Trust, links::control::HeldBack};

use crate::{
    denied::Denied,
    edit::{Change, Edit, KeptLocal},
    memory::{FACT_LETTER, Memory, Note, is_fact, new_id},
    plan::Rules,
    screen::screen,
};

/// Longest text in a line of the review, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// What memory holds and does not pass on as the owner's own.
#[must_use]
pub fn of_memory(memory: &Memory) -> Vec<HeldBack> {
    let contents = memory.contents();
    let notes = contents.notes().iter().filter_map(|note| {
        let cause = cause(note.label, note.kept_local)?;
        Some(HeldBack {
            what: note.edit.to_string(),
            at: Some(note.at.clone()),
            cause: cause.into(),
            note: Some(note.id.clone()),
            text: Some(neutralise(&note.text, TEXT_CHARS_MAX)),
        })
    });
    // Identity is always clean, so all that holds an entry back is what it looks like.
    let entries = memory.edits().iter().filter_map(|edit| {
        let cause = cause(Label::PRIVATE, edit.kept_local)?;
        let standing = edit.changes.iter().find_map(|change| match change {
            Change::Added { entry, text, .. }
            | Change::Replaced {
                entry, after: text, ..
            } => (contents.text_of(entry) == Some(text)).then(|| text.clone()),
            Change::Carded { after, .. } => {
                (contents.carded() == Some(edit.id)).then(|| after.shown())
            }
            _ => None,
        })?;
        Some(HeldBack {
            what: edit.id.to_string(),
            at: Some(edit.at.clone()),
            cause: cause.into(),
            note: None,
            text: Some(neutralise(&standing, TEXT_CHARS_MAX)),
        })
    });
    notes.chain(entries).collect()
}

/// What a promotion makes of the note's label, in lines; `edit` is not made yet.
#[must_use]
pub fn becomes(memory: &Memory, edit: &Edit) -> Vec<String> {
    let subjects = edit.changes.iter().map(Change::subject);
    let notes = subjects.filter_map(|id| memory.contents().note(id));
    let now = notes.filter_map(|note| {
        let cause = cause(note.label, note.kept_local)?;
        Some(format!("its label is {}: {cause}", note.label))
    });
    let goes = match edit.label.class {
        Class::Secret => "it still stays on this machine",
        Class::Public | Class::Private => "it goes to the trusted workspace as your word",
    };
    let then = format!("its label becomes {}: {goes}", edit.label);
    now.chain([then]).collect()
}

/// Why it is not passed on; the reason that keeps most comes first.
fn cause(label: Label, kept_local: Option<KeptLocal>) -> Option<&'static str> {
    match (label.class, kept_local) {
        (Class::Secret, _) => Some("its session was secret: it stays on this machine"),
        (_, Some(KeptLocal::Flagged)) => {
            Some("it reads like instructions, or hides text: it stays on this machine")
        }
        (_, Some(KeptLocal::MaybeSecret)) => Some("it may hold a key: it stays on this machine"),
        (_, None) if label.is_untrusted() => {
            Some("its session had read text from outside: it is marked untrusted everywhere")
        }
        (_, None) => None,
    }
}

/// The edit that made a note the owner's own.
fn promoted(memory: &Memory, note: &str) -> Option<EditId> {
    let of_it =
        |change: &Change| matches!(change, Change::Unnoted { note: from, .. } if from == note);
    let mut edits = memory.edits().iter().rev();
    let made = edits.find(|edit| edit.what == "promote" && edit.changes.iter().any(of_it));
    made.map(|edit| edit.id)
        .filter(|edit| memory.undone_by(*edit).is_none())
}

/// The edit that makes a held note the owner's own. `named`: its id, or the edit that wrote it.
///
/// # Errors
/// [`Denied`]: none or several fit, it is not held back, or its text holds a key.
pub fn promote(
    memory: &Memory,
    named: &str,
    rules: &Rules,
    refuser: &Refuser,
    at: &str,
) -> Result<Edit, Denied> {
    if named.contains('/') {
        return Err(Denied::Argument(
            "turns are not promoted; note what you want kept of one",
        ));
    }
    let edit: Option<EditId> = named.parse().ok();
    let held = |note: &&Note| cause(note.label, note.kept_local).is_some();
    let named_so = |note: &&Note| note.id == named || Some(note.edit) == edit;
    let notes = memory.contents().notes();
    let ids = |notes: &[&Note]| notes.iter().map(|note| note.id.clone()).collect();
    let found: Vec<_> = notes.iter().filter(named_so).collect();
    let note = match found.as_slice() {
        [one] if held(one) => *one,
        [_] => return Err(Denied::Argument("that note is not held back")),
        [] => {
            let edit = edit.and_then(|edit| memory.edit(edit));
            let wrote = edit.iter().flat_map(|edit| &edit.changes);
            let wrote = wrote
                .filter(|change| change.puts_back())
                .map(Change::subject);
            for note in std::iter::once(named).chain(wrote) {
                if let Some(by) = promoted(memory, note) {
                    let note = note.into();
                    return Err(Denied::Promoted { note, by });
                }
            }
            if memory.contents().text_of(named).is_some() {
                return Err(Denied::Argument("that is an entry of identity, not a note"));
            }
            let all: Vec<String> = ids(&notes.iter().filter(held).collect::<Vec<_>>());
            return Err(match all.is_empty() {
                true => Denied::Argument("not done: no note is held back"),
                false => Denied::NoMatch(all),
            });
        }
        many => return Err(Denied::Ambiguous(ids(many))),
    };
    let text = screen(&note.text, refuser)?.text;
    let id = memory.next_id();
    let letter = if is_fact(&note.id) { FACT_LETTER } else { 'n' };
    let changes = vec![
        Change::Unnoted {
            note: note.id.clone(),
            text: note.text.clone(),
        },
        Change::Noted {
            note: new_id(letter, id, 1),
            text,
        },
    ];
    let edit = Edit {
        // Trust is the owner's to give; what is secret stays so, and here.
        label: Label::new(note.label.class.max(Label::PRIVATE.class), Trust::Trusted),
        // The owner has read it, and it is the owner who says so: nothing else keeps it here.
        ..Edit::of_owner(id, "promote", changes, at)
    };
    rules.allow(memory, &edit)?;
    Ok(edit)
}
