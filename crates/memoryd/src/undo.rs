//! Taking an edit back, and the owner's `forget`. Called by the service for the owner only. Values only.

use std::collections::BTreeSet;

use bxwire::{EditId, Label, links::memory_tools::About};

use crate::{
    denied::Denied,
    edit::{Card, Change, Edit},
    memory::{Contents, Memory, Misfit},
    plan::Rules,
    purge,
    screen::clean,
};

/// The edit that takes `target` back. Undoing an undo is a redo; a redone edit can be undone again. Of a card the
/// caller says with [`on_card`] what is there by then.
///
/// # Errors
/// [`Denied`]: unknown, undone already, or changed since.
pub fn undo(memory: &Memory, target: EditId, rules: &Rules, at: &str) -> Result<Edit, Denied> {
    let undone = memory.edit(target).ok_or(Denied::UnknownEdit(target))?;
    if let Some(by) = memory.undone_by(target) {
        return Err(Denied::AlreadyUndone { edit: target, by });
    }
    let not_kept =
        |change: &Change| matches!(change, Change::Forgot { text, .. } if text.is_empty());
    if undone.changes.iter().any(not_kept) {
        return Err(Denied::NotKept(target));
    }
    let mut changes: Vec<_> = undone.changes.iter().rev().map(Change::reversed).collect();
    // What was purged stays away; the rest is taken back without it.
    let away = |change: &&Change| change.puts_back() && purge::is_gone(change);
    let away = changes.iter().filter(away).map(Change::subject);
    let away: BTreeSet<_> = away.map(str::to_owned).collect();
    let stays = |change: &Change| !away.contains(change.subject());
    if changes.iter().any(stays) {
        changes.retain(stays);
    }
    let edit = Edit {
        undoes: Some(target),
        // A redo of an untrusted or secret note brings back that note, so nothing is lowered here.
        label: undone.label.join(Label::PRIVATE),
        kept_local: undone.kept_local,
        ..Edit::of_owner(memory.next_id(), "undo", changes, at)
    };
    if edit.changes.iter().any(purge::is_gone) {
        return Err(Denied::Purged(target));
    }
    let contents = memory.contents();
    let cards = edit.changes.iter().filter_map(Change::card_before);
    cards
        .map(|before| contents.left_card(before))
        .chain([memory.preview(&edit).map(drop)])
        .collect::<Result<(), _>>()
        .map_err(|misfit| changed(target, misfit))?;
    rules.allow(memory, &edit)?;
    Ok(edit)
}

/// Whether an undo replaces the card that Honcho holds. One that was kept here changes nothing there.
#[must_use]
pub fn replaces_card(undo: &Edit) -> bool {
    undo.kept_local.is_none() && undo.changes.iter().any(|it| it.card_before().is_some())
}

/// The undo with the card that it replaces, so that its own undo puts that one back.
#[must_use]
pub fn on_card(mut undo: Edit, held: &Card) -> Edit {
    for change in &mut undo.changes {
        if let Change::Carded { before, .. } = change {
            before.clone_from(held);
        }
    }
    undo
}

fn changed(edit: EditId, misfit: Misfit) -> Denied {
    let shown = |text: Option<String>| text.unwrap_or_else(|| "not in memory".into());
    Denied::ChangedSince {
        edit,
        subject: misfit.subject,
        then: shown(misfit.wanted),
        now: shown(misfit.found),
    }
}

/// The edit that removes the one entry or note which `words` names by id or is part of.
///
/// # Errors
/// [`Denied`]: none or several fit.
pub fn forget(memory: &Memory, words: &str, at: &str) -> Result<Edit, Denied> {
    let contents = memory.contents();
    let words = clean(words);
    if words.is_empty() {
        return Err(Denied::Argument(
            "say what to forget: an id, or words of it",
        ));
    }
    let all = everything(contents);
    let by_id: Vec<_> = all.iter().filter(|(id, _)| *id == words).collect();
    let part = words.to_lowercase();
    let found: Vec<_> = if by_id.is_empty() {
        let fits = |(_, text): &&(&str, &str)| text.to_lowercase().contains(&part);
        all.iter().filter(fits).collect()
    } else {
        by_id
    };
    let ids = |items: &[&(&str, &str)]| items.iter().map(|(id, _)| (*id).to_owned()).collect();
    let changes = match found.as_slice() {
        [(id, _)] => removal(contents, id),
        [] => return Err(Denied::NoMatch(ids(&all.iter().collect::<Vec<_>>()))),
        many => return Err(Denied::Ambiguous(ids(many))),
    };
    Ok(Edit::of_owner(memory.next_id(), "remove", changes, at))
}

fn everything(contents: &Contents) -> Vec<(&str, &str)> {
    let entries = [About::User, About::Agent]
        .into_iter()
        .flat_map(|about| contents.entries(about))
        .map(|entry| (entry.id.as_str(), entry.text.as_str()));
    let notes = contents
        .notes()
        .iter()
        .map(|note| (note.id.as_str(), note.text.as_str()));
    entries.chain(notes).collect()
}

/// What removes an entry or note, wherever it is now.
#[must_use]
pub fn removal(contents: &Contents, id: &str) -> Vec<Change> {
    for about in [About::User, About::Agent] {
        if let Some(found) = contents.entry(about, id) {
            let (entry, text) = (found.id.clone(), found.text.clone());
            return vec![Change::Dropped { about, entry, text }];
        }
    }
    let Some(note) = contents.note(id) else {
        return Vec::new();
    };
    let (id, text) = (note.id.clone(), note.text.clone());
    match note.moved {
        None => vec![Change::Unnoted { note: id, text }],
        // By way of identity, so that the undo puts it back among the notes.
        Some(about) => vec![
            Change::MovedBack {
                about,
                entry: id.clone(),
                text: text.clone(),
            },
            Change::Dropped {
                about,
                entry: id,
                text,
            },
        ],
    }
}

#[cfg(test)]
mod tests;
