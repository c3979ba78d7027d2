//! What memory holds, as the journal's edits add up to it. Called by the store, the planners and the
//! renderers. Values only: no file, clock or socket.

use std::collections::{BTreeMap, BTreeSet};

use bxwire::{EditId, Label, SessionId, links::memory_tools::About};

use crate::edit::{By, Card, Change, Edit, FileChange, KeptLocal};

/// The file about the owner, under `memory/`.
pub const USER_FILE: &str = "user.md";
/// The file about the agent and its work.
pub const AGENT_FILE: &str = "memory.md";

/// One line of identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: String,
    pub text: String,
    /// The edit that last changed it, and when.
    pub edit: EditId,
    pub at: String,
}

/// One note, or an entry that was moved to the notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub id: String,
    pub text: String,
    /// The edit that wrote it, and when: its month names its file.
    pub edit: EditId,
    pub at: String,
    pub by: By,
    pub label: Label,
    pub kept_local: Option<KeptLocal>,
    /// Whom it was about while it was an entry of identity.
    pub moved: Option<About>,
}

impl Note {
    /// Its file under `memory/`.
    #[must_use]
    pub fn file(&self) -> String {
        format!("notes/{}.md", self.at.get(..7).unwrap_or("undated"))
    }
}

/// A change that does not fit what memory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    pub subject: String,
    /// What the change takes to be there.
    pub wanted: Option<String>,
    pub found: Option<String>,
}

/// Entries and notes, without the history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    user: Vec<Entry>,
    agent: Vec<Entry>,
    notes: Vec<Note>,
    /// Notes taken back, so that a redo gives them their own session, time and label again.
    gone: BTreeMap<String, Note>,
    /// Facts of Honcho's own that were ever forgotten.
    forgotten: BTreeMap<String, Forgotten>,
    /// The owner's card, as the last edit of it left it.
    card: Option<(EditId, Card)>,
}

/// A fact of Honcho's own that was forgotten, and perhaps brought back since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// Honcho's id of what it had concluded.
    pub id: String,
    pub text: String,
    pub from: Option<SessionId>,
    /// It was brought back.
    pub back: bool,
}

impl Contents {
    #[must_use]
    pub fn entries(&self, about: About) -> &[Entry] {
        match about {
            About::User => &self.user,
            About::Agent => &self.agent,
        }
    }

    /// Every note, oldest edit first.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    #[must_use]
    pub fn entry(&self, about: About, id: &str) -> Option<&Entry> {
        self.entries(about).iter().find(|entry| entry.id == id)
    }

    #[must_use]
    pub fn note(&self, id: &str) -> Option<&Note> {
        self.notes.iter().find(|note| note.id == id)
    }

    /// Facts of Honcho's own that were ever forgotten, by their ids here.
    pub fn forgotten(&self) -> impl Iterator<Item = (&str, &Forgotten)> {
        self.forgotten.iter().map(|(id, fact)| (id.as_str(), fact))
    }

    /// The last edit of the owner's card.
    #[must_use]
    pub fn carded(&self) -> Option<EditId> {
        self.card.as_ref().map(|(edit, _)| *edit)
    }

    /// Whether memory left this card, and no other since; what Honcho made of it does not count.
    ///
    /// # Errors
    /// [`Misfit`].
    pub fn left_card(&self, card: &Card) -> Result<(), Misfit> {
        match self.card.as_ref().map(|(_, now)| now) {
            Some(now) if now.lines != card.lines => Err(Misfit {
                subject: "the owner's card".into(),
                wanted: Some(card.shown()),
                found: Some(now.shown()),
            }),
            _ => Ok(()),
        }
    }

    /// Characters of identity, ids not counted.
    #[must_use]
    pub fn identity_chars(&self) -> usize {
        self.user
            .iter()
            .chain(&self.agent)
            .map(|entry| entry.text.chars().count())
            .sum()
    }

    /// Makes the edit's changes, in order.
    ///
    /// # Errors
    /// [`Misfit`]: some of the changes may be made by then, so the caller throws `self` away.
    pub fn make(&mut self, edit: &Edit) -> Result<(), Misfit> {
        edit.changes
            .iter()
            .try_for_each(|change| self.change(change, edit))
    }

    fn change(&mut self, change: &Change, edit: &Edit) -> Result<(), Misfit> {
        match change {
            Change::Added { about, entry, text } => {
                self.absent(entry)?;
                self.put_entry(*about, entry, text, edit);
            }
            Change::Replaced {
                about,
                entry,
                before,
                after,
            } => {
                self.take_entry(*about, entry, before)?;
                self.put_entry(*about, entry, after, edit);
            }
            Change::Dropped { about, entry, text } => {
                self.take_entry(*about, entry, text)?;
            }
            Change::Moved { about, entry, text } => {
                self.take_entry(*about, entry, text)?;
                self.put_note(entry, text, edit, Some(*about));
            }
            Change::MovedBack { about, entry, text } => {
                self.take_note(entry, text)?;
                self.put_entry(*about, entry, text, edit);
            }
            Change::Noted { note, text } => {
                self.absent(note)?;
                self.put_note(note, text, edit, None);
            }
            Change::Unnoted { note, text } => {
                let taken = self.take_note(note, text)?;
                self.gone.insert(note.clone(), taken);
            }
            Change::Forgot {
                fact,
                id,
                text,
                from,
            } => {
                self.fact_is(fact, text, true)?;
                let forgotten = Forgotten {
                    id: id.clone(),
                    text: text.clone(),
                    from: from.clone(),
                    back: false,
                };
                self.forgotten.insert(fact.clone(), forgotten);
            }
            Change::Restored { fact, text, .. } => {
                self.fact_is(fact, text, false)?;
                if let Some(known) = self.forgotten.get_mut(fact) {
                    known.back = true;
                }
            }
            // Honcho changes the card too, so what was there before need not be what memory left there.
            Change::Carded { after, .. } => self.card = Some((edit.id, after.clone())),
            Change::Purged { .. } | Change::Kept { .. } => {}
        }
        Ok(())
    }

    /// Whether a fact of Honcho's own is there, as far as memory knows: one never heard of is.
    fn fact_is(&self, fact: &str, text: &str, there: bool) -> Result<(), Misfit> {
        let known = self.forgotten.get(fact);
        let fits = match known {
            None => there,
            Some(known) => known.back == there && known.text == text,
        };
        match fits {
            true => Ok(()),
            false => Err(Misfit {
                subject: fact.into(),
                wanted: there.then(|| text.into()),
                found: known
                    .filter(|known| known.back)
                    .map(|known| known.text.clone()),
            }),
        }
    }

    fn absent(&self, id: &str) -> Result<(), Misfit> {
        match self.text_of(id) {
            None => Ok(()),
            Some(found) => Err(Misfit {
                subject: id.into(),
                wanted: None,
                found: Some(found.into()),
            }),
        }
    }

    /// The text that an id stands for now, in identity or in the notes.
    #[must_use]
    pub fn text_of(&self, id: &str) -> Option<&str> {
        let entries = self.user.iter().chain(&self.agent);
        entries
            .map(|entry| (&entry.id, &entry.text))
            .chain(self.notes.iter().map(|note| (&note.id, &note.text)))
            .find(|(found, _)| *found == id)
            .map(|(_, text)| text.as_str())
    }

    fn misfit(&self, id: &str, wanted: &str) -> Misfit {
        Misfit {
            subject: id.into(),
            wanted: Some(wanted.into()),
            found: self.text_of(id).map(str::to_owned),
        }
    }

    fn list(&mut self, about: About) -> &mut Vec<Entry> {
        match about {
            About::User => &mut self.user,
            About::Agent => &mut self.agent,
        }
    }

    fn put_entry(&mut self, about: About, id: &str, text: &str, edit: &Edit) {
        let list = self.list(about);
        let at = list.partition_point(|entry| order(&entry.id) < order(id));
        list.insert(
            at,
            Entry {
                id: id.into(),
                text: text.into(),
                edit: edit.id,
                at: edit.at.clone(),
            },
        );
    }

    fn take_entry(&mut self, about: About, id: &str, text: &str) -> Result<(), Misfit> {
        let misfit = self.misfit(id, text);
        let list = self.list(about);
        let at = list
            .iter()
            .position(|entry| entry.id == id && entry.text == text)
            .ok_or(misfit)?;
        list.remove(at);
        Ok(())
    }

    fn put_note(&mut self, id: &str, text: &str, edit: &Edit, moved: Option<About>) {
        let new = Note {
            id: id.into(),
            text: text.into(),
            edit: edit.id,
            at: edit.at.clone(),
            by: edit.by.clone(),
            label: edit.label,
            kept_local: edit.kept_local,
            moved,
        };
        let note = match self.gone.remove(id) {
            Some(old) => Note {
                text: new.text,
                label: old.label.join(new.label),
                kept_local: old.kept_local.or(new.kept_local),
                ..old
            },
            None => new,
        };
        let key = |note: &Note| (note.edit, order(&note.id));
        let at = self.notes.partition_point(|other| key(other) < key(&note));
        self.notes.insert(at, note);
    }

    fn take_note(&mut self, id: &str, text: &str) -> Result<Note, Misfit> {
        let at = self
            .notes
            .iter()
            .position(|note| note.id == id && note.text == text)
            .ok_or_else(|| self.misfit(id, text))?;
        Ok(self.notes.remove(at))
    }

    /// The files that show what the changes are about.
    #[must_use]
    pub fn files_of(&self, changes: &[Change]) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        for change in changes {
            let about = match change {
                Change::Added { about, .. }
                | Change::Replaced { about, .. }
                | Change::Dropped { about, .. }
                | Change::Moved { about, .. }
                | Change::MovedBack { about, .. } => Some(*about),
                // The purge and what it keeps leave every file as it is.
                Change::Purged { .. } | Change::Kept { .. } => continue,
                Change::Noted { .. }
                | Change::Unnoted { .. }
                | Change::Forgot { .. }
                | Change::Restored { .. }
                | Change::Carded { .. } => None,
            };
            files.extend(about.map(|about| identity_file(about).to_owned()));
            let note = self.note(change.subject());
            files.extend(
                note.or_else(|| self.gone.get(change.subject()))
                    .map(Note::file),
            );
        }
        files
    }
}

/// An id's place among others: `u7` before `u7-2` before `u8`.
fn order(id: &str) -> (u64, u64) {
    let digits = id.trim_start_matches(|c: char| !c.is_ascii_digit());
    let (number, part) = digits.split_once('-').unwrap_or((digits, "1"));
    (number.parse().unwrap_or(0), part.parse().unwrap_or(0))
}

/// The file of one half of identity.
#[must_use]
pub fn identity_file(about: About) -> &'static str {
    match about {
        About::User => USER_FILE,
        About::Agent => AGENT_FILE,
    }
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
mod tests {
    use super::*;

    fn edit(n: u64, changes: Vec<Change>) -> Edit {
        Edit {
            id: EditId(n),
            at: format!("2026-01-{n:02}T10:00:00.000Z"),
            by: By::Owner {},
            what: "add".into(),
            changes,
            undoes: None,
            label: Label::PRIVATE,
            kept_local: None,
            files: Vec::new(),
        }
    }

    fn noted(n: u64) -> Change {
        Change::Noted {
            note: format!("n{n}"),
            text: "x".into(),
        }
    }

    #[test]
    fn a_note_taken_back_and_put_again_keeps_its_time_and_its_label() {
        let mut memory = Memory::default();
        let first = Edit {
            label: Label::UNLABELLED,
            kept_local: Some(KeptLocal::Flagged),
            ..edit(1, vec![noted(1)])
        };
        memory.apply(first).unwrap();
        let before = memory.contents().note("n1").unwrap().clone();
        memory.apply(edit(2, vec![noted(1).reversed()])).unwrap();
        assert_eq!(memory.contents().note("n1"), None);
        memory.apply(edit(3, vec![noted(1)])).unwrap();
        assert_eq!(memory.contents().note("n1"), Some(&before));
    }

    #[test]
    fn what_is_put_back_stands_where_it_stood() {
        let added = |n: u64| Change::Added {
            about: About::User,
            entry: format!("u{n}"),
            text: format!("t{n}"),
        };
        let mut memory = Memory::default();
        for n in 1..=3 {
            memory.apply(edit(n, vec![added(n)])).unwrap();
        }
        let before: Vec<_> = ids(&memory);
        memory.apply(edit(4, vec![added(2).reversed()])).unwrap();
        memory.apply(edit(5, vec![added(2)])).unwrap();
        assert_eq!(ids(&memory), before);
    }

    fn ids(memory: &Memory) -> Vec<String> {
        let entries = memory.contents().entries(About::User);
        entries.iter().map(|entry| entry.id.clone()).collect()
    }

    #[test]
    fn a_change_that_does_not_fit_names_both_texts() {
        let mut memory = Memory::default();
        memory.apply(edit(1, vec![noted(1)])).unwrap();
        let wrong = Change::Unnoted {
            note: "n1".into(),
            text: "y".into(),
        };
        let misfit = memory.preview(&edit(2, vec![wrong])).unwrap_err();
        assert_eq!(misfit.wanted.as_deref(), Some("y"));
        assert_eq!(misfit.found.as_deref(), Some("x"));
        assert!(memory.preview(&edit(2, vec![noted(1)])).is_err());
    }

    #[test]
    fn ids_sort_by_number() {
        let mut ids = ["u10", "u7-2", "u7", "u7-10", "u2"];
        ids.sort_by_key(|id| order(id));
        assert_eq!(ids, ["u2", "u7", "u7-2", "u7-10", "u10"]);
    }
}
