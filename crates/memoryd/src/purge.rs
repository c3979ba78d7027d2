//! Taking a session's texts out of memory at the owner's word: the edit that does it, and the journal without the
//! texts. Called by the store and the service. Values only.

use std::collections::{BTreeMap, BTreeSet};

use bxwire::{EditId, SessionId, links::memory_tools::About};

use crate::{
    denied::Denied,
    edit::{By, Change, Edit},
    memory::{Memory, is_fact},
};

/// An entry, a note, a fact or [`CARD`], and a text that it had.
type Told = (String, String);

/// Stands for the owner's card: its lines are the same in whichever edit they are.
const CARD: &str = "card";

/// The edit that purges a session: its notes go; what of it is identity, or a fact about the owner, stays.
///
/// # Errors
/// [`Denied`]: there is nothing left to purge.
pub fn plan(memory: &Memory, session: &SessionId, at: &str) -> Result<Edit, Denied> {
    let told = told_in(memory.edits(), session);
    let contents = memory.contents();
    let mut changes = vec![Change::Purged {
        session: session.clone(),
    }];
    let standing = |id: &str, text: &str| told.contains_key(&(id.to_owned(), text.to_owned()));
    for note in contents.notes() {
        if note.by.session() == Some(session) && note.moved.is_none() && !is_fact(&note.id) {
            changes.push(Change::Unnoted {
                note: note.id.clone(),
                text: note.text.clone(),
            });
        }
    }
    let entries = [About::User, About::Agent]
        .into_iter()
        .flat_map(|about| contents.entries(about).iter().map(move |e| (about, e)))
        .map(|(about, entry)| (about, &entry.id, &entry.text));
    let kept = contents.notes().iter().filter_map(|note| {
        let fact = is_fact(&note.id).then_some(About::User);
        Some((note.moved.or(fact)?, &note.id, &note.text))
    });
    let notes = contents.notes().iter();
    let others = notes.map(|note| (note.moved.unwrap_or(About::User), &note.id, &note.text));
    let says = |text: &str| told.keys().any(|(_, said)| said == text);
    for (about, entry, text) in entries.chain(kept).chain(others) {
        let known = |change: &Change| matches!(change, Change::Kept { entry: of, .. } | Change::Unnoted { note: of, .. } if of == entry);
        if changes.iter().any(known) {
            continue;
        }
        // What the owner made of its words, a promoted note for example, is the owner's.
        if standing(entry, text) || (says(text) && owners(memory.edits(), entry, text)) {
            changes.push(Change::Kept {
                about,
                entry: entry.clone(),
                text: text.clone(),
            });
        }
    }
    let edit = Edit::of_owner(memory.next_id(), "purge", changes, at);
    if memory.purged(session).is_some() && gone(&told, memory.edits(), &edit).is_empty() {
        return Err(Denied::Argument(
            "there is nothing of that session left to purge",
        ));
    }
    Ok(edit)
}

/// What a planned purge does besides its changes, in lines.
#[must_use]
pub fn besides(memory: &Memory, session: &SessionId, purge: &Edit) -> Vec<String> {
    let (edits, contents) = (memory.edits(), memory.contents());
    let told = told_in(edits, session);
    let last = |of: &str| {
        let is_of = |change: &Change| change.subject() == of;
        edits.iter().rfind(|edit| edit.changes.iter().any(is_of))
    };
    let mut lines = Vec::new();
    let carded = contents.carded().and_then(|edit| memory.edit(edit));
    let card = carded.and_then(|edit| edit.changes.iter().rev().find_map(Change::card_after));
    let of_it = |line: &String| told.contains_key(&(CARD.to_owned(), line.clone()));
    if let (Some(edit), Some(card)) = (carded, card)
        && card.lines.iter().any(of_it)
    {
        let (edit, card) = (edit.id, card.shown());
        lines.push(format!(
            "keeps the owner's card, which {edit} wrote: {card}"
        ));
    }
    for (fact, known) in contents.forgotten() {
        let Some(edit) =
            last(fact).filter(|_| told.contains_key(&(fact.into(), known.text.clone())))
        else {
            continue;
        };
        lines.push(match known.back {
            true => format!(
                "keeps {fact}, which {} brought back: {}",
                edit.id, known.text
            ),
            false => format!("ends the undo of {}, which forgot {fact}", edit.id),
        });
    }
    let listed = |of: &str, said: &str| {
        let takes = |change: &Change| matches!(change, Change::Unnoted { note, text } if note == of && text == said);
        purge.changes.iter().any(takes) || contents.forgotten().any(|(fact, _)| fact == of)
    };
    let gone = gone(&told, edits, purge);
    let others = gone.keys().filter(|(of, text)| !listed(of, text));
    let texts: BTreeSet<_> = others.map(|(_, text)| text).collect();
    if !texts.is_empty() {
        lines.push(match texts.len() {
            1 => "takes 1 text that stands no longer out of the journal".to_owned(),
            count => format!("takes {count} texts that stand no longer out of the journal"),
        });
    }
    lines
}

/// The edits without the texts that purges took out; `None`: no text is left to take out. An edit keeps its number,
/// its time and its label, and the edits still follow from each other.
#[must_use]
pub fn blanked(edits: &[Edit]) -> Option<Vec<Edit>> {
    let mut all: BTreeMap<Told, EditId> = BTreeMap::new();
    for (at, purge) in edits.iter().enumerate() {
        for session in purge.changes.iter().filter_map(Change::purges) {
            let told = told_in(&edits[..at], session);
            all.extend(gone(&told, &edits[..at], purge));
        }
    }
    if all.is_empty() {
        return None;
    }
    let mut blank = edits.to_vec();
    for change in blank.iter_mut().flat_map(|edit| &mut edit.changes) {
        for (of, text) in texts_mut(change) {
            if let Some(by) = all.get(&(of, text.clone())) {
                *text = marker(*by);
            }
        }
    }
    Some(blank)
}

/// Whether a text stands for one that was taken out.
#[must_use]
pub fn is_marker(text: &str) -> bool {
    text.strip_prefix("[purged ")
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|edit| edit.parse::<EditId>().is_ok())
}

/// Whether a change is a purge, or would bring back what one took out.
#[must_use]
pub fn is_gone(change: &Change) -> bool {
    match change {
        Change::Purged { .. } | Change::Kept { .. } => true,
        Change::Carded { after, .. } => after.lines.iter().any(|line| is_marker(line)),
        Change::Restored { text, .. } => is_marker(text),
        _ => change.new_text().is_some_and(is_marker),
    }
}

/// Names the edit that had the text.
fn marker(edit: EditId) -> String {
    format!("[purged {edit}]")
}

/// Every text of a session that its edits put into memory, that is known to be from it, or that an earlier purge of it
/// kept, with the first edit that has it.
fn told_in(edits: &[Edit], session: &SessionId) -> BTreeMap<Told, EditId> {
    let mut all = BTreeMap::new();
    for edit in edits {
        let own = edit.by.session() == Some(session);
        let purges = edit
            .changes
            .iter()
            .filter_map(Change::purges)
            .any(|of| of == session);
        for change in &edit.changes {
            let told: Vec<Told> = match change {
                Change::Forgot {
                    fact, text, from, ..
                }
                | Change::Restored {
                    fact, text, from, ..
                } if own || from.as_ref() == Some(session) => vec![(fact.clone(), text.clone())],
                Change::Carded { before, after, .. } => [(before, false), (after, own)]
                    .into_iter()
                    .filter(|(card, own)| *own || card.from.as_ref() == Some(session))
                    .flat_map(|(card, _)| &card.lines)
                    .map(|line| (CARD.to_owned(), line.clone()))
                    .collect(),
                Change::Kept { entry, text, .. } if purges => vec![(entry.clone(), text.clone())],
                _ => change
                    .new_text()
                    .filter(|_| own)
                    .map(|text| (change.subject().to_owned(), text.to_owned()))
                    .into_iter()
                    .collect(),
            };
            for told in told {
                if !told.1.is_empty() && !is_marker(&told.1) {
                    all.entry(told).or_insert(edit.id);
                }
            }
        }
    }
    all
}

/// Whether it was the owner who put a text under this id.
fn owners(edits: &[Edit], id: &str, text: &str) -> bool {
    let owners = edits.iter().filter(|edit| edit.by == By::Owner {});
    let mut changes = owners.flat_map(|edit| &edit.changes);
    changes.any(|change| change.subject() == id && change.new_text() == Some(text))
}

/// What of the texts a purge takes out, also where the owner had repeated them: not what it keeps, nor the card as it is, nor a fact that was brought back.
fn gone(told: &BTreeMap<Told, EditId>, before: &[Edit], purge: &Edit) -> BTreeMap<Told, EditId> {
    let mut kept: BTreeSet<Told> = BTreeSet::new();
    for change in &purge.changes {
        if let Change::Kept { entry, text, .. } = change {
            kept.insert((entry.clone(), text.clone()));
        }
    }
    // The last change of a fact, or of the card, is how it is now.
    let mut seen = BTreeSet::<&str>::new();
    let changes = before
        .iter()
        .rev()
        .flat_map(|edit| edit.changes.iter().rev());
    for change in changes {
        match change {
            Change::Restored { fact, text, .. } if seen.insert(fact) => {
                kept.insert((fact.clone(), text.clone()));
            }
            Change::Forgot { fact, .. } => drop(seen.insert(fact)),
            Change::Carded { after, .. } if seen.insert(CARD) => {
                kept.extend(
                    after
                        .lines
                        .iter()
                        .map(|line| (CARD.to_owned(), line.clone())),
                );
            }
            _ => {}
        }
    }
    let mut gone = told.clone();
    let said: BTreeMap<&str, EditId> = told
        .iter()
        .map(|((_, text), edit)| (text.as_str(), *edit))
        .collect();
    for edit in before.iter().filter(|edit| edit.by == By::Owner {}) {
        for change in &edit.changes {
            if let Some((text, by)) = change
                .new_text()
                .and_then(|text| Some((text, said.get(text)?)))
            {
                gone.insert((change.subject().to_owned(), text.to_owned()), *by);
            }
        }
    }
    gone.retain(|told, _| !kept.contains(told));
    gone
}

/// Every text of a change, with what it is of.
fn texts_mut(change: &mut Change) -> Vec<(String, &mut String)> {
    let of = change.subject().to_owned();
    match change {
        Change::Added { text, .. }
        | Change::Dropped { text, .. }
        | Change::Moved { text, .. }
        | Change::MovedBack { text, .. }
        | Change::Noted { text, .. }
        | Change::Unnoted { text, .. }
        | Change::Forgot { text, .. }
        | Change::Restored { text, .. }
        | Change::Kept { text, .. } => vec![(of, text)],
        Change::Replaced { before, after, .. } => vec![(of.clone(), before), (of, after)],
        Change::Carded { before, after, .. } => {
            let lines = before.lines.iter_mut().chain(&mut after.lines);
            lines.map(|line| (CARD.to_owned(), line)).collect()
        }
        Change::Purged { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
