//! The notes' files, one a month: each note with its time, session, speaker and label. Called by the store and
//! `accept`. Values only.

use std::fmt::Write as _;

use crate::{
    edit::{By, KeptLocal},
    items::{self, Item},
    memory::{Contents, Note},
    screen::clean,
};

/// Longest speaker that a note's line shows, in characters.
const SPEAKER_CHARS_MAX: usize = 80;

/// The file of one month, whole; `file` as in `notes/2026-01.md`.
#[must_use]
pub fn render(contents: &Contents, file: &str) -> String {
    let month = file.trim_start_matches("notes/").trim_end_matches(".md");
    let notes = contents.notes().iter().filter(|note| note.file() == file);
    items::render(
        &format!("Notes of {month}"),
        notes.map(|note| (note.id.as_str(), format!("{}: {}", head(note), note.text))),
    )
}

/// What stands before a note's text.
#[must_use]
pub fn head(note: &Note) -> String {
    let mut head = note.at.clone();
    match &note.by {
        By::Owner {} => head.push_str(", owner"),
        By::Session {
            session, speaker, ..
        } => {
            let _ = write!(head, ", session {session}"); // Writing to a String cannot fail.
            if let Some(speaker) = speaker {
                let name = clean(&speaker.to_string());
                head.push_str(", ");
                head.extend(name.chars().take(SPEAKER_CHARS_MAX));
            }
        }
    }
    let _ = write!(head, ", {}", note.label);
    head.push_str(match note.kept_local {
        None => "",
        Some(KeptLocal::Flagged) => ", flagged",
        Some(KeptLocal::MaybeSecret) => ", may hold a secret",
    });
    head
}

/// The items of a file without the heads of the notes that are known.
#[must_use]
pub fn parse(file: &str, contents: &Contents) -> Vec<Item> {
    let mut items = items::parse(file);
    for item in &mut items {
        let known = item.id.as_deref().and_then(|id| contents.note(id));
        let text = known.and_then(|note| {
            item.text
                .strip_prefix(&head(note))
                .and_then(|rest| rest.strip_prefix(':'))
                .map(|rest| rest.trim().to_owned())
        });
        if let Some(text) = text {
            item.text = text;
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use bxwire::{EditId, Label, Speaker};

    use super::*;
    use crate::{
        edit::{Change, Edit},
        memory::Memory,
    };

    #[test]
    fn a_month_reads_back_and_holds_no_other_month() {
        let mut memory = Memory::default();
        for (n, month) in [(1, "01"), (2, "01"), (3, "02")] {
            let edit = Edit {
                id: EditId(n),
                at: format!("2026-{month}-05T10:00:00.000Z"),
                by: By::Session {
                    session: "20260131-abcdefghijkl".parse().unwrap(),
                    turn: 1,
                    speaker: Some(Speaker {
                        realm: "mm".into(),
                        name: "a: b\n- x ^n9".into(),
                    }),
                    call: None,
                },
                what: "note".into(),
                changes: vec![Change::Noted {
                    note: format!("n{n}"),
                    text: format!("text {n}: with ^n7"),
                }],
                undoes: None,
                label: Label::UNLABELLED,
                kept_local: Some(KeptLocal::Flagged),
                files: Vec::new(),
            };
            memory.apply(edit).unwrap();
        }
        let contents = memory.contents();
        let file = render(contents, "notes/2026-01.md");
        assert!(
            file.contains("private, untrusted, flagged: text 1"),
            "{file}"
        );
        let read = parse(&file, contents);
        let texts: Vec<_> = read
            .iter()
            .map(|item| (item.id.as_deref(), item.text.as_str()))
            .collect();
        assert_eq!(
            texts,
            [
                (Some("n1"), "text 1: with ^n7"),
                (Some("n2"), "text 2: with ^n7")
            ]
        );
    }
}
