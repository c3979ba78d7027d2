//! What memory holds, as the journal's edits add up to it. Called by the store, the planners and the
//! renderers. Values only: no file, clock or socket.

mod contents;

use std::collections::{BTreeMap, BTreeSet};

use bxwire::{EditId, Label, SessionId, links::memory_tools::About};

use crate::edit::{By, Card, Change, Edit, FileChange, KeptLocal};
pub use contents::{Contents, Entry, Forgotten, Misfit, Note};

/// The file about the owner, under `memory/`.
pub const USER_FILE: &str = "user.md";
/// The file about the agent and its work.
pub const AGENT_FILE: &str = "memory.md";

/// The file of one half of identity.
#[must_use]
pub fn identity_file(about: About) -> &'static str {
    match about {
        About::User => USER_FILE,
        About::Agent => AGENT_FILE,
    }
}

/// An id's place among others: `u7` before `u7-2` before `u8`.
fn order(id: &str) -> (u64, u64) {
    let digits = id.trim_start_matches(|c: char| !c.is_ascii_digit());
    let (number, part) = digits.split_once('-').unwrap_or((digits, "1"));
    (number.parse().unwrap_or(0), part.parse().unwrap_or(0))
}

/// A new id, from the edit's number, the kind's letter and the place in the edit from 1.
#[must_use]
pub fn new_id(letter: char, edit: EditId, place: usize) -> String {
    match place {
        0 | 1 => format!("{letter}{}", edit.0),
        _ => format!("{letter}{}-{place}", edit.0),
    }
}

/// The letter of a note that is a fact about the owner; any other note's is `n`.
pub const FACT_LETTER: char = 'f';

/// The letter of a fact of Honcho's own that was forgotten.
pub const FORGOTTEN_LETTER: char = 'd';

/// The letter of a replacement of the owner's card.
pub const CARD_LETTER: char = 'c';

/// Whether an id looks like one of memory's own: u7, a7, n7, f7, d7, c7, u7-2.
#[must_use]
pub fn is_own_id(id: &str) -> bool {
    let letters = ['u', 'a', 'n', FACT_LETTER, FORGOTTEN_LETTER, CARD_LETTER];
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    id.strip_prefix(letters)
        .is_some_and(|number| match number.split_once('-') {
            Some((edit, place)) => digits(edit) && digits(place),
            None => digits(number),
        })
}

/// Whether an id is that of a fact of Honcho's own.
#[must_use]
pub fn is_forgotten(id: &str) -> bool {
    id.starts_with(FORGOTTEN_LETTER)
}

/// Whether an id is that of a fact about the owner.
#[must_use]
pub fn is_fact(id: &str) -> bool {
    id.starts_with(FACT_LETTER)
}

/// The letter of an entry's id.
#[must_use]
pub fn letter(about: About) -> char {
    match about {
        About::User => 'u',
        About::Agent => 'a',
    }
}

/// Contents and history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    contents: Contents,
    edits: Vec<Edit>,
    /// The last edit of each file.
    files: BTreeMap<String, FileChange>,
    /// For each edit that was ever undone, the undos, oldest first.
    undos: BTreeMap<EditId, Vec<EditId>>,
    owner_changes: u64,
    /// The last edit that purged each session.
    purges: BTreeMap<SessionId, EditId>,
}

impl Memory {
    /// What these edits add up to.
    ///
    /// # Errors
    /// [`Misfit`]: they do not follow from each other.
    pub fn of(edits: Vec<Edit>) -> Result<Self, Misfit> {
        let mut memory = Self::default();
        edits.into_iter().try_for_each(|edit| memory.apply(edit))?;
        Ok(memory)
    }

    /// The last edit that purged a session.
    #[must_use]
    pub fn purged(&self, session: &SessionId) -> Option<EditId> {
        self.purges.get(session).copied()
    }

    /// The last edit that purged any session.
    #[must_use]
    pub fn last_purge(&self) -> Option<EditId> {
        self.purges.values().max().copied()
    }

    #[must_use]
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Every edit, oldest first; `e1` is the first.
    #[must_use]
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    #[must_use]
    pub fn edit(&self, id: EditId) -> Option<&Edit> {
        let at = usize::try_from(id.0.checked_sub(1)?).ok()?;
        self.edits.get(at)
    }

    /// The id of the next edit.
    #[must_use]
    pub fn next_id(&self) -> EditId {
        EditId(self.edits.len() as u64 + 1)
    }

    /// The edit that has taken this one back and is itself in force.
    #[must_use]
    pub fn undone_by(&self, id: EditId) -> Option<EditId> {
        let undos = self.undos.get(&id)?;
        // An undo that was itself undone is out of force.
        undos
            .iter()
            .copied()
            .find(|undo| self.undone_by(*undo).is_none())
    }

    /// How a file was last journalled.
    #[must_use]
    pub fn file(&self, file: &str) -> Option<&FileChange> {
        self.files.get(file)
    }

    /// Every file that was ever journalled.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The owner's own edits of identity so far.
    #[must_use]
    pub fn owner_changes(&self) -> u64 {
        self.owner_changes
    }

    /// What memory would hold after the edit.
    ///
    /// # Errors
    /// [`Misfit`].
    pub fn preview(&self, edit: &Edit) -> Result<Contents, Misfit> {
        let mut contents = self.contents.clone();
        contents.make(edit)?;
        Ok(contents)
    }

    /// Takes in an edit that is in the journal.
    ///
    /// # Errors
    /// [`Misfit`]: the journal does not add up; `self` is of no use then.
    pub fn apply(&mut self, edit: Edit) -> Result<(), Misfit> {
        self.contents.make(&edit)?;
        for file in &edit.files {
            self.files.insert(file.file.clone(), file.clone());
        }
        if let Some(undoes) = edit.undoes {
            self.undos.entry(undoes).or_default().push(edit.id);
        }
        for session in edit.changes.iter().filter_map(Change::purges) {
            self.purges.insert(session.clone(), edit.id);
        }
        let identity = |change: &Change| {
            !matches!(
                change,
                Change::Noted { .. }
                    | Change::Unnoted { .. }
                    | Change::Forgot { .. }
                    | Change::Restored { .. }
                    | Change::Carded { .. }
                    | Change::Purged { .. }
                    | Change::Kept { .. }
            )
        };
        if edit.by == (By::Owner {}) && edit.changes.iter().any(identity) {
            self.owner_changes += 1;
        }
        self.edits.push(edit);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
