//! The tool `facts`, as far as it deletes a fact and replaces the card: asks ledger and Honcho for what is there
//! before, and has the edit made; so of an undo. Called by the service on a connection's thread.

use bxsanitize::Refuser;
use bxwire::{
    EditId, ItemId, SessionId,
    links::memory_tools::{Caller, Reply},
};

use super::edits::{self, Held, Target};
use crate::{
    denied::Denied,
    edit::{Card, Change, Edit},
    memory::Memory,
    plan::{Rules, may_change_facts},
    recall::{Queries, Reader},
    service::{Service, denied_reply},
    sync::{naming, outbox::LastCard},
    undo::{on_card, replaces_card, undo},
};

/// Longest id that Honcho is asked for, in characters; its own are far shorter.
const ID_CHARS_MAX: usize = 64;

impl Service {
    pub(crate) fn forget_fact(&self, caller: &Caller, reader: Reader, id: &str) -> Reply {
        match self.target(caller, reader, id.trim()) {
            Ok(target) => self.written(|memory, rules, refuser, at| {
                edits::forget(memory, &target, caller, rules, refuser, at)
            }),
            Err(denied) => denied_reply(&denied),
        }
    }

    /// Who may not write learns nothing, and has nothing asked.
    fn target(&self, caller: &Caller, reader: Reader, id: &str) -> Result<Target, Denied> {
        may_change_facts(caller, &self.store.rules())?;
        let id = id.strip_prefix("own:").unwrap_or(id);
        let own = |memory: &Memory| edits::known(memory.contents(), id);
        if let Some((own, honchos)) = self.store.with(own) {
            // A Honcho that was brought back to an earlier day holds again what was deleted.
            return match honchos {
                Some(id) if may_ask(reader).is_ok() => self.again(own, &id),
                _ => Ok(Target::Own(own)),
            };
        }
        may_ask(reader)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !(1..=ID_CHARS_MAX).contains(&id.len()) || !id.chars().all(plain) {
            return Err(Denied::FactUnknown);
        }
        if let Some(slot) = self.hooks.slot(id)? {
            let there = |memory: &Memory| edits::is_there(memory.contents(), &slot);
            return match self.store.with(there) {
                true => Ok(Target::Own(slot)),
                false => self.again(slot, id),
            };
        }
        let held = self.held(id)?.ok_or(Denied::FactUnknown)?;
        Ok(Target::Honchos(held))
    }

    /// What was forgotten under an id of memory's own, if Honcho holds it all the same.
    fn again(&self, own: String, id: &str) -> Result<Target, Denied> {
        if self.hooks.deletes(id)? {
            return Ok(Target::Own(own));
        }
        let held = self.held(id)?;
        Ok(held.map_or(Target::Own(own), Target::Again))
    }

    fn held(&self, id: &str) -> Result<Option<Held>, Denied> {
        let Some(found) = self.knowledge.facts.conclusion(id)? else {
            return Ok(None);
        };
        if !found.about_owner {
            return Err(Denied::FactOfAnother);
        }
        Ok(Some(Held {
            id: id.into(),
            text: found.text,
            from: found.session.as_deref().and_then(naming::of_session),
        }))
    }

    pub(crate) fn replace_card(&self, caller: &Caller, reader: Reader, lines: &[String]) -> Reply {
        let known = self.store.with(|memory| memory.contents().carded());
        let before = match self.card_before(caller, reader) {
            Ok(before) => before,
            Err(denied) => return denied_reply(&denied),
        };
        self.written(|memory, rules, refuser, at| {
            if memory.contents().carded() != known {
                return Err(Denied::CardBusy);
            }
            let before = before.card(memory, refuser);
            edits::replace_card(memory, lines, before, caller, rules, refuser, at)
        })
    }

    fn card_before(&self, caller: &Caller, reader: Reader) -> Result<Before, Denied> {
        may_change_facts(caller, &self.store.rules())?;
        may_ask(reader)?;
        self.card_now()
    }

    /// How the owner's undo of an edit is planned. A card that it replaces is asked for first, since Honcho changes it
    /// too.
    ///
    /// # Errors
    /// [`Denied`].
    pub(crate) fn undoing(&self, target: EditId) -> Result<Undoing, Denied> {
        let known = self.store.with(|memory| memory.contents().carded());
        let would = |memory: &Memory, rules: &Rules, _: &Refuser| undo(memory, target, rules, "");
        let would = self.store.would(would)?;
        let before = match replaces_card(&would) {
            true => Some(self.card_now()?),
            false => None,
        };
        Ok(Undoing {
            target,
            known,
            before,
        })
    }

    fn card_now(&self) -> Result<Before, Denied> {
        // Asked first: what is sent meanwhile is what Honcho holds then.
        let id = match self.hooks.last_card()? {
            LastCard::Open(ItemId::Edit(id)) => id,
            LastCard::Open(ItemId::Turn { .. }) => return Err(Denied::CardBusy),
            LastCard::Sent(whose) => {
                let lines = self.knowledge.facts.card()?;
                return Ok(Before::Honcho(lines, whose));
            }
        };
        let edit = self.store.edit(id).ok_or(Denied::CardBusy)?;
        let card = edit.changes.into_iter().find_map(|change| match change {
            Change::Carded { after, .. } => Some(after),
            _ => None,
        });
        card.map(Before::Edit).ok_or(Denied::CardBusy)
    }
}

/// A secret session has been told so by then.
fn may_ask(reader: Reader) -> Result<(), Denied> {
    match reader.queries {
        Queries::MayLeave => Ok(()),
        Queries::StayHere(_) => Err(Denied::FactExcluded),
    }
}

/// An undo that is to be planned.
pub(crate) struct Undoing {
    target: EditId,
    /// The last edit of the card when it was asked for.
    known: Option<EditId>,
    before: Option<Before>,
}

impl Undoing {
    pub(crate) fn plan(
        self,
        memory: &Memory,
        rules: &Rules,
        refuser: &Refuser,
        at: &str,
    ) -> Result<Edit, Denied> {
        let undo = undo(memory, self.target, rules, at)?;
        match self.before {
            None => Ok(undo),
            Some(_) if memory.contents().carded() != self.known => Err(Denied::CardBusy),
            Some(before) => Ok(on_card(undo, &before.card(memory, refuser))),
        }
    }
}

/// The card that is replaced.
enum Before {
    /// As Honcho holds it, and whose card was sent last.
    Honcho(Vec<String>, Option<SessionId>),
    /// As it will be there once everything is sent.
    Edit(Card),
}

impl Before {
    fn card(self, memory: &Memory, refuser: &Refuser) -> Card {
        match self {
            Self::Edit(card) => card,
            Self::Honcho(lines, last) => edits::held_card(&lines, last, memory, refuser),
        }
    }
}
