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
        Change::Forgot { text, .. } if text.is_empty() => {
            format!(
                "forgot {id}; it held a secret, so its text is not kept and it cannot be undone"
            )
        }
        Change::Forgot { .. } => format!("forgot {id}, a fact about the owner"),
        Change::Restored { .. } => format!("brought back {id}, a fact about the owner"),
        Change::Carded { .. } => "replaced the owner's card".into(),
        Change::Purged { .. } => format!("purged {id}"),
        Change::Kept { .. } => format!("kept {id}"),
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
            Change::Forgot { text, .. } => format!("forgets {id}, which Honcho concluded: {text}"),
            Change::Restored { text, .. } => {
                format!(
                    "brings back {id}; what Honcho has deleted is written again as an explicit fact: {text}"
                )
            }
            Change::Carded { before, after, .. } => {
                format!(
                    "replaces the owner's card: {} → {}",
                    before.shown(),
                    after.shown()
                )
            }
            Change::Purged { .. } => format!("purges {id}"),
            Change::Kept { text, .. } => format!("keeps {id}: {text}"),
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
    EditLine {
        edit: edit.id,
        at: edit.at.clone(),
        by: match &edit.by {
            By::Owner {} => "owner".into(),
            By::Session { session, .. } => session.to_string(),
        },
        what,
        text: bxsanitize::neutralise(&changed(edit), LINE_CHARS_MAX),
        label: edit.label,
        undone_by,
    }
}

/// The texts of an edit: alone where its name says what became of it, else each with a sign.
fn changed(edit: &Edit) -> String {
    let says_it = ["add", "replace", "remove", "note", "conclude"].contains(&edit.what.as_str());
    let texts: Vec<_> = match edit.changes.as_slice() {
        [
            Change::Replaced { after: text, .. }
            | Change::Added { text, .. }
            | Change::Dropped { text, .. }
            | Change::Noted { text, .. },
        ] if says_it => vec![text.clone()],
        // The words stay the same.
        [Change::Unnoted { .. }, Change::Noted { text, .. }] if edit.what == "promote" => {
            vec![text.clone()]
        }
        changes => changes.iter().map(signed).collect(),
    };
    texts.join("; ")
}

fn signed(change: &Change) -> String {
    match change {
        Change::Added { text, .. } | Change::Noted { text, .. } | Change::Restored { text, .. } => {
            format!("+ {text}")
        }
        Change::Dropped { text, .. }
        | Change::Unnoted { text, .. }
        | Change::Forgot { text, .. } => format!("- {text}"),
        Change::Replaced { before, after, .. } => format!("- {before}; + {after}"),
        Change::Carded { before, after, .. } => {
            format!("- {}; + {}", before.shown(), after.shown())
        }
        Change::Moved { text, .. } => format!("to the notes: {text}"),
        Change::MovedBack { text, .. } => format!("back from the notes: {text}"),
        Change::Purged { session } => session.to_string(),
        Change::Kept { entry, .. } => format!("keeps {entry}"),
    }
}

#[cfg(test)]
mod tests {
    use bxwire::Label;

    use super::*;

    fn line(what: &str, undoes: Option<EditId>, changes: &[Change]) -> String {
        let edit = Edit {
            id: EditId(7),
            at: "2026-01-31T10:00:00.000Z".into(),
            by: By::Owner {},
            what: what.into(),
            changes: changes.to_vec(),
            undoes,
            label: Label::PRIVATE,
            kept_local: None,
            files: Vec::new(),
        };
        edit_line(&edit, None).text
    }

    #[test]
    fn a_line_of_the_log_tells_what_came_from_what_went() {
        let about = About::User;
        let (entry, text) = ("u1".to_owned(), "rows".to_owned());
        let added = Change::Added { about, entry, text };
        let replaced = Change::Replaced {
            about,
            entry: "u2".into(),
            before: "has a red bike".into(),
            after: "has a blue bike".into(),
        };
        let changes = [added.reversed(), replaced.clone()];
        let accepted = "- rows; - has a red bike; + has a blue bike";
        assert_eq!(line("accept", None, &changes), accepted);
        assert_eq!(line("accept", None, &[added.reversed()]), "- rows");
        assert_eq!(line("undo", Some(EditId(1)), &[added.reversed()]), "- rows");
        // What the name says already is not said again.
        assert_eq!(line("add", None, &[added]), "rows");
        assert_eq!(line("replace", None, &[replaced]), "has a blue bike");
        let (note, text) = ("n1".to_owned(), "the oboe".to_owned());
        let noted = Change::Noted { note, text };
        let promoted = [noted.reversed(), noted];
        assert_eq!(line("promote", None, &promoted), "the oboe");
    }
}
