//! Entries and notes, and how an edit changes them.

use super::*;

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
