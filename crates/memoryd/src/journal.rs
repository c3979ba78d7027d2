//! `memory/journal.jsonl`: every edit, a sealed line each. Called by the store; a line that is not what was
//! written, or does not follow from those before it, stops the daemon.

use std::path::Path;

use bxcore::{
    append::{AppendError, AppendFile, BadLine, Durable, OpenError},
    sealed,
};
use serde::{Deserialize, Serialize};

use crate::{edit::Edit, memory::Memory};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Out<'a> {
    Edit(&'a Edit),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum In {
    Edit(Box<Edit>),
}

/// The open journal.
#[derive(Debug)]
pub struct Journal {
    file: AppendFile,
}

impl Journal {
    /// Opens the journal and adds up what it holds.
    ///
    /// # Errors
    /// [`OpenError`] with file and line.
    pub fn open(path: &Path) -> Result<(Self, Memory), OpenError> {
        let mut memory = Memory::default();
        let file = AppendFile::open(path, 0o600, |_, line| {
            let edit = parse(line)?;
            if edit.id != memory.next_id() {
                return Err(BadLine::Corrupt(format!(
                    "its number does not follow: {} stands where {} should",
                    edit.id,
                    memory.next_id()
                )));
            }
            let id = edit.id;
            memory
                .apply(edit)
                .map_err(|_| BadLine::Corrupt(format!("{id} does not fit the edits before it")))
        })?;
        Ok((Self { file }, memory))
    }

    /// Puts other edits in the place of all there are, at once.
    ///
    /// # Errors
    /// [`AppendError`]; after [`AppendError::Full`] the old ones are still there.
    pub fn replace(&mut self, edits: &[Edit]) -> Result<Durable, AppendError> {
        let lines: Vec<_> = edits.iter().map(line).collect();
        self.file.replace_all(&lines)
    }

    /// Adds an edit and returns once it is on the disk.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn append(&mut self, edit: &Edit) -> Result<Durable, AppendError> {
        self.file.append(&line(edit))
    }
}

/// An edit's line.
#[must_use]
pub fn line(edit: &Edit) -> String {
    // An edit is plain data with string keys: serialising it cannot fail.
    let object = serde_json::to_string(&Out::Edit(edit)).unwrap_or_default();
    sealed::seal(&object)
}

/// Reads a line.
///
/// # Errors
/// [`BadLine::Corrupt`]: it is not what was written. [`BadLine::Newer`]: it is, by a program that knows more.
pub fn parse(line: &str) -> Result<Edit, BadLine> {
    sealed::check(line).map_err(|broken| BadLine::Corrupt(broken.to_string()))?;
    match serde_json::from_str(line) {
        Ok(In::Edit(edit)) => Ok(*edit),
        Err(_) => Err(BadLine::Newer),
    }
}

#[cfg(test)]
mod tests {
    use bxwire::{EditId, Label};

    use super::*;
    use crate::edit::{By, Change};

    fn edit(n: u64) -> Edit {
        Edit {
            id: EditId(n),
            at: "2026-01-31T10:00:00.000Z".into(),
            by: By::Owner {},
            what: "note".into(),
            changes: vec![Change::Noted {
                note: format!("n{n}"),
                text: "two \"quoted\" words".into(),
            }],
            undoes: None,
            label: Label::UNLABELLED,
            kept_local: None,
            files: Vec::new(),
        }
    }

    fn open(lines: &[String]) -> Result<Memory, OpenError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        std::fs::write(&path, lines.concat()).unwrap();
        Journal::open(&path).map(|(_, memory)| memory)
    }

    fn whole(edit: &Edit) -> String {
        line(edit) + "\n"
    }

    #[test]
    fn what_was_appended_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let (mut journal, memory) = Journal::open(&path).unwrap();
        assert_eq!(memory, Memory::default());
        journal.append(&edit(1)).unwrap();
        journal.append(&edit(2)).unwrap();
        drop(journal);
        let (_, memory) = Journal::open(&path).unwrap();
        assert_eq!(memory.edits(), [edit(1), edit(2)]);
    }

    #[test]
    fn a_line_from_before_calls_were_kept_still_reads() {
        let old = sealed::seal(
            r#"{"type":"edit","id":"e1","at":"2026-01-31T10:00:00.000Z","by":{"by":"session","session":"20260131-abcdefghijkl","turn":2},"what":"note","changes":[{"change":"noted","note":"n1","text":"tea"}],"label":{"class":"private","untrusted":false},"files":[]}"#,
        );
        let edit = parse(&old).unwrap();
        assert!(
            matches!(
                &edit.by,
                By::Session {
                    turn: 2,
                    call: None,
                    ..
                }
            ),
            "{edit:?}"
        );
        assert_eq!(line(&edit), old);
    }

    #[test]
    fn each_bad_line_has_its_error_and_its_number() {
        let flipped = whole(&edit(2)).replace("words", "world");
        let newer = sealed::seal(r#"{"type":"chapter","id":"e2"}"#) + "\n";
        let unsealed = "{\"type\":\"edit\"}\n".to_owned();
        for (bad, is_newer) in [(flipped, false), (newer, true), (unsealed, false)] {
            match open(&[whole(&edit(1)), bad, whole(&edit(3))]) {
                Err(OpenError::Newer { line: 2, .. }) if is_newer => {}
                Err(OpenError::Corrupt { line: 2, .. }) if !is_newer => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_gap_and_an_edit_that_does_not_fit_are_corrupt() {
        assert!(matches!(
            open(&[whole(&edit(1)), whole(&edit(3))]),
            Err(OpenError::Corrupt { line: 2, .. })
        ));
        let again = Edit {
            changes: edit(1).changes,
            ..edit(2)
        };
        assert!(matches!(
            open(&[whole(&edit(1)), whole(&again)]),
            Err(OpenError::Corrupt { line: 2, .. })
        ));
    }

    #[test]
    fn a_torn_last_line_is_cut_off() {
        let torn = line(&edit(2));
        let memory = open(&[whole(&edit(1)), torn[..torn.len() / 2].into()]).unwrap();
        assert_eq!(memory.edits().len(), 1);
    }
}
