//! What an edit is called in answers and lists. Called by the service and `control`. Values only.

use bxwire::{
    EditId,
    links::{control::EditLine, memory_tools::About},
};

use crate::{
    edit::{By, Change, Edit, KeptLocal},
    memory::is_fact,
    store::Written,
};

/// Longest text of an edit in a list, in characters.
const LINE_CHARS_MAX: usize = 200;

/// What the model is told of an edit; it has the text itself.
#[must_use]
pub fn done(written: &Written) -> String {
    let edit = &written.edit;
    let mut parts: Vec<_> = edit.changes.iter().map(happened).collect();
    match edit.kept_local {
        None => {}
        Some(KeptLocal::Flagged) => {
            parts.push(
                "it reads like instructions or hides text, so it stays on this machine".into(),
            );
        }
        Some(KeptLocal::MaybeSecret) => {
            parts.push("it may hold a secret, so it stays on this machine".into());
        }
    }
    if edit.label.is_untrusted() {
        parts.push("it is marked untrusted, as this session is".into());
    }
    if !written.behind.is_empty() {
        parts.push("its file cannot be written now and is written later; nothing is lost".into());
    }
    format!("Done ({}): {}.", edit.id, parts.join("; "))
}

fn happened(change: &Change) -> String {
    let id = change.subject();
    let of = |about: &About| match about {
        About::User => "of the owner",
        About::Agent => "of yourself",
    };
    match change {
        Change::Added { about, .. } => format!("added {id} to what you know {}", of(about)),
        Change::Replaced { about, .. } => format!("replaced {id} in what you know {}", of(about)),
        Change::Dropped { about, .. } => format!("removed {id} from what you know {}", of(about)),
        Change::Moved { .. } => format!("moved {id} to the notes"),
        Change::MovedBack { .. } => format!("moved {id} back from the notes"),
        Change::Noted { .. } if is_fact(id) => format!("kept as {id}, a fact about the owner"),
        Change::Noted { .. } => format!("noted as {id}"),
        Change::Unnoted { .. } => format!("took back the note {id}"),
    }
}

/// The changes, a line each with its text, for the owner.
#[must_use]
pub fn lines(edit: &Edit) -> Vec<String> {
    let line = |change: &Change| {
        let id = change.subject();
        match change {
            Change::Added { text, .. } => format!("adds {id}: {text}"),
            Change::Replaced { before, after, .. } => format!("changes {id}: {before} → {after}"),
            Change::Dropped { text, .. } => format!("removes {id}: {text}"),
            Change::Moved { text, .. } => format!("moves {id} to the notes: {text}"),
            Change::MovedBack { text, .. } => format!("moves {id} back from the notes: {text}"),
            Change::Noted { text, .. } => format!("notes {id}: {text}"),
            Change::Unnoted { text, .. } => format!("takes back the note {id}: {text}"),
        }
    };
    edit.changes.iter().map(line).collect()
}

/// An edit in `bxctl memory log`.
#[must_use]
pub fn edit_line(edit: &Edit, undone_by: Option<EditId>) -> EditLine {
    let about = |about: &About| match about {
        About::User => "user",
        About::Agent => "agent",
    };
    let what = match (edit.undoes, edit.changes.as_slice()) {
        (Some(undoes), _) => format!("undo {undoes}"),
        (
            None,
            [
                Change::Added { about: a, .. }
                | Change::Replaced { about: a, .. }
                | Change::Dropped { about: a, .. },
            ],
        ) => format!("{} {}", edit.what, about(a)),
        _ => edit.what.clone(),
    };
    let texts: Vec<_> = edit
        .changes
        .iter()
        .map(|change| match change {
            Change::Replaced { after, .. } => after.as_str(),
            Change::Added { text, .. }
            | Change::Dropped { text, .. }
            | Change::Moved { text, .. }
            | Change::MovedBack { text, .. }
            | Change::Noted { text, .. }
            | Change::Unnoted { text, .. } => text.as_str(),
        })
        .collect();
    EditLine {
        edit: edit.id,
        at: edit.at.clone(),
        by: match &edit.by {
            By::Owner {} => "owner".into(),
            By::Session { session, .. } => session.to_string(),
        },
        what,
        text: bxsanitize::neutralise(&texts.join("; "), LINE_CHARS_MAX),
        label: edit.label,
        undone_by,
    }
}
