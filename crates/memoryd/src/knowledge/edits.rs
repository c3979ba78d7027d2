//! The edits that `facts forget` and `facts profile` become. Called by `write` with what Honcho and the ledger say.
//! Values only; changes nothing.

use bxsanitize::{Outcome, Refuser};
use bxwire::{
    EditId, SessionId,
    links::memory_tools::{About, Caller},
};

use crate::{
    denied::Denied,
    edit::{Card, Change, Edit, KeptLocal},
    memory::{CARD_LETTER, Contents, FORGOTTEN_LETTER, Forgotten, Memory, is_fact, new_id},
    plan::{Rules, may_change_facts},
    screen::{clean, screen},
    undo::removal,
};

/// Most lines of a card, and characters of all of them. Honcho has no limits of its own; a card is in every prompt
/// that Honcho makes of the owner.
/// Source: recorded by hand, `PUT .../peers/{peer}/card` takes any list of strings.
pub const CARD_LINES_MAX: usize = 40;
pub const CARD_CHARS_MAX: usize = 4_000;

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// What memory holds, or has forgotten before, under an id of its own.
    Own(String),
    /// What Honcho concluded itself.
    Honchos(Held),
    /// What Honcho holds although memory has forgotten it.
    Again(Held),
}

/// A fact that Honcho holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub id: String,
    pub text: String,
    /// The session it was concluded from.
    pub from: Option<SessionId>,
}

/// Memory's own id for an id that it knows: its own, or Honcho's of what was forgotten before; then with Honcho's, while
/// it is forgotten.
#[must_use]
pub fn known(contents: &Contents, id: &str) -> Option<(String, Option<String>)> {
    if contents.text_of(id).is_some() {
        return Some((id.into(), None));
    }
    let fits = |own: &str, known: &Forgotten| own == id || known.id == id;
    let forgotten = contents.forgotten();
    // One id of Honcho's may have been forgotten more than once.
    let found = forgotten
        .filter(|(own, known)| fits(own, known))
        .max_by_key(|(_, known)| known.back)?;
    let (own, known) = found;
    Some((own.into(), (!known.back).then(|| known.id.clone())))
}

/// Whether memory holds it, or has brought it back.
#[must_use]
pub fn is_there(contents: &Contents, own: &str) -> bool {
    let back = |(fact, known): (&str, &Forgotten)| fact == own && known.back;
    contents.text_of(own).is_some() || contents.forgotten().any(back)
}

/// The edit that `facts forget` becomes.
///
/// # Errors
/// [`Denied`]: memory stays as it is.
pub fn forget(
    memory: &Memory,
    target: &Target,
    caller: &Caller,
    rules: &Rules,
    refuser: &Refuser,
    at: &str,
) -> Result<Edit, Denied> {
    may_change_facts(caller, rules)?;
    let contents = memory.contents();
    let changes = match target {
        Target::Own(id) => own(contents, id)?,
        // Another call may have forgotten it while Honcho was asked.
        Target::Honchos(held) => match known(contents, &held.id) {
            Some((id, _)) => own(contents, &id)?,
            None => honchos(contents, held, memory.next_id(), refuser)?,
        },
        Target::Again(held) => honchos(contents, held, memory.next_id(), refuser)?,
    };
    let edit = Edit::of_caller(memory.next_id(), caller, "forget", changes, at);
    rules.allow(memory, &edit)?;
    Ok(edit)
}

fn own(contents: &Contents, id: &str) -> Result<Vec<Change>, Denied> {
    if let Some((fact, known)) = contents.forgotten().find(|(fact, _)| *fact == id) {
        if !known.back {
            return Err(Denied::FactForgotten(fact.into()));
        }
        return Ok(vec![Change::Forgot {
            fact: fact.into(),
            id: known.id.clone(),
            text: known.text.clone(),
            from: known.from.clone(),
        }]);
    }
    let changes = removal(contents, id);
    match changes.is_empty() {
        true => Err(Denied::FactForgotten(id.into())),
        false => Ok(changes),
    }
}

fn honchos(
    contents: &Contents,
    held: &Held,
    edit: EditId,
    refuser: &Refuser,
) -> Result<Vec<Change>, Denied> {
    let text = clean(&held.text);
    // What was sent and has no answer yet is there without an id that anybody here knows.
    let entries = contents.entries(About::User).iter();
    let mut same = entries.map(|entry| (&entry.id, &entry.text)).chain(
        contents
            .notes()
            .iter()
            .filter(|note| is_fact(&note.id))
            .map(|note| (&note.id, &note.text)),
    );
    if let Some((id, _)) = same.find(|(_, known)| **known == text) {
        return own(contents, id);
    }
    let outcome = refuser.check(&held.text).max(refuser.check(&text));
    let text = match outcome {
        // Deleted, but not kept.
        Outcome::Secret(_) => String::new(),
        _ if text.is_empty() => "(nothing that can be read)".into(),
        _ => text,
    };
    Ok(vec![Change::Forgot {
        fact: new_id(FORGOTTEN_LETTER, edit, 1),
        id: held.id.clone(),
        text,
        from: held.from.clone(),
    }])
}

/// The card as Honcho holds it, as far as it may be kept: inert lines, and none in which a key is recognised. `last`: the
/// session whose card was sent last.
#[must_use]
pub fn held_card(
    lines: &[String],
    last: Option<SessionId>,
    memory: &Memory,
    refuser: &Refuser,
) -> Card {
    let keeps = |raw: &&String, line: &str| {
        let secret = |text: &str| matches!(refuser.check(text), Outcome::Secret(_));
        !line.is_empty() && !secret(raw) && !secret(line)
    };
    let kept = lines.iter().map(|raw| (raw, clean(raw)));
    let kept = kept.filter(|(raw, line)| keeps(raw, line));
    let kept = kept.map(|(_, line)| line).collect();
    Card::held(kept, memory.edits(), last)
}

/// The edit that `facts profile` becomes when it replaces the card. `before`: as Honcho holds it, or will.
///
/// # Errors
/// [`Denied`]: memory stays as it is.
pub fn replace_card(
    memory: &Memory,
    lines: &[String],
    before: Card,
    caller: &Caller,
    rules: &Rules,
    refuser: &Refuser,
    at: &str,
) -> Result<Edit, Denied> {
    may_change_facts(caller, rules)?;
    let mut after = Vec::new();
    let mut kept_local = None;
    for line in lines.iter().take(CARD_LINES_MAX + 1) {
        let screened = screen(line, refuser)?;
        kept_local = match (kept_local, screened.kept_local()) {
            (Some(KeptLocal::Flagged), _) | (_, Some(KeptLocal::Flagged)) => {
                Some(KeptLocal::Flagged)
            }
            (before, now) => before.or(now),
        };
        after.push(screened.text);
    }
    let chars: usize = after.iter().map(|line| line.chars().count()).sum();
    if after.len() > CARD_LINES_MAX || chars > CARD_CHARS_MAX {
        return Err(Denied::CardTooLong {
            lines: CARD_LINES_MAX,
            chars: CARD_CHARS_MAX,
        });
    }
    let together: Vec<_> = after.iter().map(String::as_str).collect();
    match refuser.check_joined(&together) {
        Outcome::Secret(rule) => return Err(Denied::Secret(rule)),
        Outcome::MaybeSecret => kept_local = kept_local.or(Some(KeptLocal::MaybeSecret)),
        Outcome::Clear => {}
    }
    if after == before.lines {
        return Err(Denied::Already("the card".into()));
    }
    let change = Change::Carded {
        card: new_id(CARD_LETTER, memory.next_id(), 1),
        before,
        after: Card {
            lines: after,
            from: Some(caller.session.clone()),
        },
    };
    let edit = Edit {
        kept_local,
        ..Edit::of_caller(memory.next_id(), caller, "profile", vec![change], at)
    };
    rules.allow(memory, &edit)?;
    Ok(edit)
}
