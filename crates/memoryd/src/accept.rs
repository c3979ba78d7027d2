//! What the owner changed in the Markdown files by hand, as one edit. Called by the service for
//! `bxctl memory accept`. Values only.

use std::collections::BTreeSet;

use bxsanitize::Refuser;
use bxwire::{EditId, Label, links::memory_tools::About};

use crate::{
    denied::Denied,
    edit::{Change, Edit, KeptLocal},
    items::{self, Item},
    memory::{Contents, Memory, identity_file, letter, new_id},
    notes,
    plan::Rules,
    screen::{Screened, screen},
    undo::removal,
};

/// The edit that takes over the files as they are now, and a line for each change. No change but the layout
/// gives an edit without changes.
///
/// # Errors
/// [`Denied`]: a text is refused, or memory would be too long.
pub fn accept(
    memory: &Memory,
    held: &[(String, String)],
    rules: &Rules,
    refuser: &Refuser,
    at: &str,
) -> Result<(Edit, Vec<String>), Denied> {
    let mut taking = Taking {
        contents: memory.contents(),
        refuser,
        id: memory.next_id(),
        place: 0,
        changes: Vec::new(),
        lines: Vec::new(),
        kept_local: None,
        label: Label::PRIVATE,
    };
    for (file, text) in held {
        match [About::User, About::Agent]
            .into_iter()
            .find(|about| identity_file(*about) == file)
        {
            Some(about) => taking.identity(file, about, items::parse(text))?,
            None => taking.notes(file, notes::parse(text, memory.contents()))?,
        }
    }
    if taking.label != Label::PRIVATE {
        taking.lines.push(format!(
            "all of it is kept as {}: so was a note that it changes; `bxctl memory promote` is the way to \
             vouch for one",
            taking.label
        ));
    }
    let edit = Edit {
        label: taking.label,
        kept_local: taking.kept_local,
        ..Edit::of_owner(taking.id, "accept", taking.changes, at)
    };
    rules.allow(memory, &edit)?;
    Ok((edit, taking.lines))
}

struct Taking<'a> {
    contents: &'a Contents,
    refuser: &'a Refuser,
    id: EditId,
    place: usize,
    changes: Vec<Change>,
    lines: Vec<String>,
    kept_local: Option<KeptLocal>,
    /// The owner's words are private and clean; words that come from a held note stay what they were.
    label: Label,
}

impl Taking<'_> {
    fn identity(&mut self, file: &str, about: About, items: Vec<Item>) -> Result<(), Denied> {
        let mut seen = BTreeSet::new();
        let mut added = Vec::new();
        for item in items {
            let id = item.id.as_deref().unwrap_or_default();
            let known = self.contents.entry(about, id);
            match known.filter(|entry| seen.insert(entry.id.clone())) {
                Some(entry) if entry.text == item.text => {}
                Some(entry) => {
                    let after = self.screened(&item.text)?;
                    if after.text == entry.text {
                        continue;
                    }
                    self.lines.push(format!(
                        "{file}: changes {}: {} → {}",
                        entry.id, entry.text, after.text
                    ));
                    self.changes.push(Change::Replaced {
                        about,
                        entry: entry.id.clone(),
                        before: entry.text.clone(),
                        after: after.text,
                    });
                }
                None => added.push(item),
            }
        }
        for entry in self.contents.entries(about) {
            if !seen.contains(&entry.id) {
                self.remove(file, &entry.id, &entry.text);
            }
        }
        for item in added {
            let text = self.screened(&item.text)?.text;
            self.place += 1;
            self.lines.push(format!("{file}: adds: {text}"));
            self.changes.push(Change::Added {
                about,
                entry: new_id(letter(about), self.id, self.place),
                text,
            });
        }
        Ok(())
    }

    fn notes(&mut self, file: &str, items: Vec<Item>) -> Result<(), Denied> {
        let mut seen = BTreeSet::new();
        let mut added = Vec::new();
        for item in items {
            let id = item.id.as_deref().unwrap_or_default();
            let known = self.contents.note(id).filter(|note| note.file() == file);
            match known.filter(|note| seen.insert(note.id.clone())) {
                Some(note) if note.text == item.text => {}
                Some(note) => {
                    let after = self.screened(&item.text)?;
                    if after.text == note.text {
                        continue;
                    }
                    self.stays(note.label, note.kept_local);
                    self.remove(file, &note.id, &note.text);
                    added.push(after);
                }
                None => {
                    let new = self.screened(&item.text)?;
                    // The same words under no id, or another's, are still that note's.
                    for note in self.contents.notes() {
                        if new.text.contains(&note.text) {
                            self.stays(note.label, note.kept_local);
                        }
                    }
                    added.push(new);
                }
            }
        }
        for note in self.contents.notes() {
            if note.file() == file && !seen.contains(&note.id) {
                self.remove(file, &note.id, &note.text);
            }
        }
        for new in added {
            self.place += 1;
            self.lines.push(format!("{file}: adds: {}", new.text));
            self.changes.push(Change::Noted {
                note: new_id('n', self.id, self.place),
                text: new.text,
            });
        }
        Ok(())
    }

    fn remove(&mut self, file: &str, id: &str, text: &str) {
        self.lines.push(format!("{file}: removes {id}: {text}"));
        self.changes.extend(removal(self.contents, id));
    }

    /// Takes over what held a note back: changing its words does not vouch for them.
    fn stays(&mut self, label: Label, kept_local: Option<KeptLocal>) {
        self.label = self.label.join(label);
        self.kept_local = self.kept_local.or(kept_local);
    }

    fn screened(&mut self, text: &str) -> Result<Screened, Denied> {
        let screened = screen(text, self.refuser)?;
        self.kept_local = self.kept_local.or(screened.kept_local());
        Ok(screened)
    }
}

#[cfg(test)]
mod tests;
