//! The rules of the `memory` tool: which edit a call becomes, or why none. Called by the service with what
//! brokerd says of the caller. Values only; changes nothing.

use bxsanitize::Refuser;
use bxwire::{
    Class, EditId, Speaker,
    links::memory_tools::{About, Caller, Fate, FateKind, MemoryOp},
};

use crate::{
    denied::Denied,
    edit::{Change, Edit, KeptLocal},
    memory::{Contents, Entry, FACT_LETTER, Memory, is_fact, letter, new_id},
    screen::{Screened, clean, screen},
};

/// Longest name of a speaker in a note, in characters.
const SPEAKER_CHARS_MAX: usize = 80;

/// What the owner configured about writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    pub owner_speakers: Vec<Speaker>,
    pub identity_chars_max: usize,
    pub note_chars_max: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            owner_speakers: vec![Speaker {
                realm: "local".into(),
                name: "owner".into(),
            }],
            identity_chars_max: 4_000,
            note_chars_max: 8_000,
        }
    }
}

impl Rules {
    /// Whether a turn is known to be the owner's.
    #[must_use]
    pub fn is_owner(&self, speaker: Option<&Speaker>) -> bool {
        speaker.is_some_and(|speaker| self.owner_speakers.contains(speaker))
    }

    fn identity_fits(&self, before: &Contents, after: &Contents) -> Result<(), Denied> {
        let chars = after.identity_chars();
        if chars > self.identity_chars_max && chars > before.identity_chars() {
            return Err(Denied::IdentityFull {
                chars,
                max: self.identity_chars_max,
            });
        }
        Ok(())
    }

    fn note_fits(&self, text: &str) -> Result<(), Denied> {
        let chars = text.chars().count();
        if chars > self.note_chars_max {
            return Err(Denied::NoteTooLong {
                chars,
                max: self.note_chars_max,
            });
        }
        Ok(())
    }

    /// Whether what an edit leaves is within the bounds.
    ///
    /// # Errors
    /// [`Denied::IdentityFull`], [`Denied::NoteTooLong`], and [`Denied::Nothing`] where the changes do not fit.
    pub fn allow(&self, memory: &Memory, edit: &Edit) -> Result<(), Denied> {
        let after = memory.preview(edit).map_err(|_| Denied::Nothing)?;
        for change in &edit.changes {
            if let Change::Noted { text, .. } = change {
                self.note_fits(text)?;
            }
        }
        self.identity_fits(memory.contents(), &after)
    }
}

/// The edit that a call of the tool becomes; its `files` are filled in by the store.
///
/// # Errors
/// [`Denied`]: memory stays as it is.
pub fn plan(
    memory: &Memory,
    op: &MemoryOp,
    caller: &Caller,
    rules: &Rules,
    refuser: &Refuser,
    at: &str,
) -> Result<Edit, Denied> {
    let id = memory.next_id();
    let contents = memory.contents();
    if !matches!(op, MemoryOp::Note { .. }) {
        if caller.label.class == Class::Secret {
            return Err(Denied::IdentitySecret);
        }
        if caller.label.is_untrusted() {
            return Err(Denied::IdentityUntrusted);
        }
    }
    let owner = rules.is_owner(caller.speaker.as_ref());
    let (what, changes, kept_local) = match op {
        MemoryOp::Note { text } | MemoryOp::Add { text, .. } | MemoryOp::Replace { text, .. }
            if !owner =>
        {
            let mut screened = screen(text, refuser)?;
            screened.text = format!("{} said: {}", named(caller.speaker.as_ref()), screened.text);
            note(id, &screened)
        }
        MemoryOp::Note { text } => note(id, &screen(text, refuser)?),
        MemoryOp::Remove { .. } | MemoryOp::Consolidate { .. } if !owner => {
            return Err(Denied::NotOwner);
        }
        MemoryOp::Add { about, text } => {
            let screened = screen(text, refuser)?;
            let kept_local = screened.kept_local();
            let same = |entry: &&Entry| entry.text == screened.text;
            if let Some(entry) = contents.entries(*about).iter().find(same) {
                return Err(Denied::Already(entry.id.clone()));
            }
            let change = Change::Added {
                about: *about,
                entry: new_id(letter(*about), id, 1),
                text: screened.text,
            };
            ("add", vec![change], kept_local)
        }
        MemoryOp::Replace {
            about,
            id: target,
            matching,
            text,
        } => {
            let screened = screen(text, refuser)?;
            let kept_local = screened.kept_local();
            let entry = pick(contents, *about, target.as_deref(), matching.as_deref())?;
            if entry.text == screened.text {
                return Err(Denied::Already(entry.id.clone()));
            }
            let change = Change::Replaced {
                about: *about,
                entry: entry.id.clone(),
                before: entry.text.clone(),
                after: screened.text,
            };
            ("replace", vec![change], kept_local)
        }
        MemoryOp::Remove {
            about,
            id: target,
            matching,
        } => {
            let entry = pick(contents, *about, target.as_deref(), matching.as_deref())?;
            let change = Change::Dropped {
                about: *about,
                entry: entry.id.clone(),
                text: entry.text.clone(),
            };
            ("remove", vec![change], None)
        }
        MemoryOp::Consolidate { entries } => ("consolidate", consolidate(contents, entries)?, None),
    };
    let edit = Edit {
        kept_local,
        ..Edit::of_caller(id, caller, what, changes, at)
    };
    rules.allow(memory, &edit)?;
    Ok(edit)
}

/// Whether a call may write what is known about the owner: the owner's turn, in a clean session that is not secret.
///
/// # Errors
/// [`Denied`], saying which of these it is not.
pub fn may_write_facts(caller: &Caller, rules: &Rules) -> Result<(), Denied> {
    if caller.label.class == Class::Secret {
        return Err(Denied::FactSecret);
    }
    if caller.label.is_untrusted() {
        return Err(Denied::FactUntrusted);
    }
    if !rules.is_owner(caller.speaker.as_ref()) {
        return Err(Denied::FactNotOwner);
    }
    Ok(())
}

/// Whether a call may forget a fact about the owner or replace the card: the same, and what is refused is another
/// thing.
///
/// # Errors
/// [`Denied`], saying which of these it is not.
pub fn may_change_facts(caller: &Caller, rules: &Rules) -> Result<(), Denied> {
    may_write_facts(caller, rules).map_err(|denied| match denied {
        Denied::FactUntrusted => Denied::FactKeptUntrusted,
        Denied::FactSecret => Denied::FactKeptSecret,
        Denied::FactNotOwner => Denied::FactKeptNotOwner,
        other => other,
    })
}

/// The note about the owner that `facts conclude` becomes.
///
/// # Errors
/// [`Denied`]: memory stays as it is.
pub fn conclude(
    memory: &Memory,
    text: &str,
    caller: &Caller,
    rules: &Rules,
    refuser: &Refuser,
    at: &str,
) -> Result<Edit, Denied> {
    may_write_facts(caller, rules)?;
    let id = memory.next_id();
    let screened = screen(text, refuser)?;
    let facts = memory.contents().notes().iter();
    let mut facts = facts.filter(|note| is_fact(&note.id));
    if let Some(same) = facts.find(|note| note.text == screened.text) {
        return Err(Denied::Already(same.id.clone()));
    }
    let kept_local = screened.kept_local();
    let noted = Change::Noted {
        note: new_id(FACT_LETTER, id, 1),
        text: screened.text,
    };
    let edit = Edit {
        kept_local,
        ..Edit::of_caller(id, caller, "conclude", vec![noted], at)
    };
    rules.allow(memory, &edit)?;
    Ok(edit)
}

type Planned = (&'static str, Vec<Change>, Option<KeptLocal>);

fn note(id: EditId, screened: &Screened) -> Planned {
    let change = Change::Noted {
        note: new_id('n', id, 1),
        text: screened.text.clone(),
    };
    ("note", vec![change], screened.kept_local())
}

fn named(speaker: Option<&Speaker>) -> String {
    let name: String = speaker
        .map(|speaker| clean(&speaker.to_string()))
        .unwrap_or_default()
        .chars()
        .take(SPEAKER_CHARS_MAX)
        .collect();
    if name.is_empty() {
        "somebody unknown".into()
    } else {
        name
    }
}

/// The one entry that is meant; never a guess.
fn pick<'a>(
    contents: &'a Contents,
    about: About,
    id: Option<&str>,
    matching: Option<&str>,
) -> Result<&'a Entry, Denied> {
    let entries = contents.entries(about);
    let found: Vec<_> = match (id, matching.map(clean).filter(|part| !part.is_empty())) {
        (Some(id), _) => entries.iter().filter(|entry| entry.id == id).collect(),
        (None, Some(part)) => {
            let part = part.to_lowercase();
            let fits = |entry: &&Entry| entry.text.to_lowercase().contains(&part);
            entries.iter().filter(fits).collect()
        }
        (None, None) => return Err(Denied::NoTarget),
    };
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Denied::NoMatch(ids(entries.iter()))),
        many => Err(Denied::Ambiguous(ids(many.iter().copied()))),
    }
}

fn ids<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<String> {
    entries.map(|entry| entry.id.clone()).collect()
}

fn consolidate(contents: &Contents, fates: &[Fate]) -> Result<Vec<Change>, Denied> {
    let mut changes = Vec::new();
    let mut missing = Vec::new();
    let mut twice = Vec::new();
    for about in [About::User, About::Agent] {
        for entry in contents.entries(about) {
            let mut named = fates.iter().filter(|fate| fate.id == entry.id);
            let fate = named.next();
            if named.next().is_some() {
                twice.push(entry.id.clone());
            }
            let (entry, text) = (entry.id.clone(), entry.text.clone());
            match fate.map(|fate| fate.fate) {
                None => missing.push(entry),
                Some(FateKind::Keep) => {}
                Some(FateKind::Note) => changes.push(Change::Moved { about, entry, text }),
                Some(FateKind::Drop) => changes.push(Change::Dropped { about, entry, text }),
            }
        }
    }
    let here = |id: &str| {
        [About::User, About::Agent]
            .iter()
            .any(|about| contents.entry(*about, id).is_some())
    };
    // Only what looks like an id is repeated: the rest is the model's own text.
    let unknown: Vec<_> = fates
        .iter()
        .filter(|fate| !here(&fate.id))
        .map(|fate| match crate::items::is_id(&fate.id) {
            true => fate.id.clone(),
            false => "something that is no id".into(),
        })
        .collect();
    if !(missing.is_empty() && twice.is_empty() && unknown.is_empty()) {
        return Err(Denied::Fates {
            missing,
            twice,
            unknown,
        });
    }
    if changes.is_empty() {
        return Err(Denied::Nothing);
    }
    Ok(changes)
}

#[cfg(test)]
mod tests;
