//! Turns a journalled edit into steps at Honcho. Pure: the ledger says what Honcho holds, the edit what
//! changed; called by `outbox` when an edit is decided.

use std::collections::BTreeSet;

use bxwire::{EditId, ItemId, SessionId, Speaker, links::memory_tools::About};

use super::{
    config::{HonchoConfig, Role},
    decide::{self, Decision, EditFacts, SkipReason},
    ledger::{Decided, Ledger, Line, Place, Step, StepRef, StepState},
    naming::{self, HonchoSession},
};
use crate::{
    edit::{By, Change, Edit},
    memory::is_fact,
};
use bxcore::clock::Millis;

/// What the shell knows of an edit besides the edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditBrief {
    /// A secret rule matches one of its texts.
    pub secret_text: bool,
    /// It was made in a turn of an excluded source.
    pub excluded: bool,
    /// Of an undo: which edit first wrote the words that a change, by its place, brings back.
    pub authors: Vec<(usize, EditId)>,
}

/// The lines that decide an edit: what it cancels of others, then the decision.
#[must_use]
pub fn decide_edit(
    config: &HonchoConfig,
    ledger: &Ledger,
    edit: &Edit,
    brief: &EditBrief,
    now: Millis,
) -> Vec<Line> {
    let speaker = match &edit.by {
        By::Session { speaker, .. } => speaker.clone(),
        By::Owner {} => None,
    };
    let excluded = brief.excluded
        || speaker
            .as_ref()
            .is_some_and(|speaker| config.exclude_speakers.contains(speaker));
    let decision = decide::decide_edit(&EditFacts {
        label: edit.label,
        kept_local: edit.kept_local,
        excluded,
        before_opening: Millis::parse(&edit.at) < ledger.opened(),
        secret_text: brief.secret_text,
    });
    let mut mirror = Mirror {
        config,
        ledger,
        brief,
        redo: edit.undoes.is_some(),
        own: edit.by.session(),
        from: edit.by.session().cloned(),
        decision,
        deleted: BTreeSet::new(),
        cancels: Vec::new(),
        steps: Vec::new(),
    };
    for (index, change) in edit.changes.iter().enumerate() {
        mirror.change(index, change);
    }
    let Mirror {
        cancels,
        steps,
        from,
        ..
    } = mirror;
    let skip = match decision {
        Decision::Skip(reason) if steps.is_empty() => Some(reason),
        _ if steps.is_empty() => Some(SkipReason::NothingToSend),
        _ => None,
    };
    let session = place_of(
        config,
        ledger,
        edit,
        &steps,
        from.as_ref(),
        speaker.as_ref(),
    );
    let decided = Decided {
        at: now,
        item: ItemId::Edit(edit.id),
        skip,
        from,
        session,
        steps,
        log: edit.label,
        broker: None,
        speaker,
        made: Some(edit.at.clone()),
    };
    let mut lines: Vec<_> = cancels
        .into_iter()
        .map(|step| Line::Cancelled { at: now, step })
        .collect();
    lines.push(Line::Decided(decided));
    lines
}

/// The Honcho session of what the edit writes anew; none when it writes nothing.
fn place_of(
    config: &HonchoConfig,
    ledger: &Ledger,
    edit: &Edit,
    steps: &[Step],
    from: Option<&SessionId>,
    speaker: Option<&Speaker>,
) -> Option<HonchoSession> {
    let writes = |wanted: fn(&Step) -> bool| steps.iter().any(wanted);
    if writes(|step| matches!(step, Step::Note { .. })) {
        // What the owner brings back lies with the session it is of, and goes with it.
        return Some(naming::fleet_session(config, edit.by.session().or(from)));
    }
    // One place for all: the last card that was set is the one that stays.
    if writes(|step| matches!(step, Step::Card { .. } | Step::Forget { .. })) {
        return Some(naming::owner_session(config));
    }
    if !writes(|step| matches!(step, Step::Conclude { .. })) {
        return None;
    }
    let Some(session) = edit.by.session() else {
        return Some(naming::owner_session(config));
    };
    let peer = speaker.and_then(|speaker| naming::peer(config, speaker));
    Some(naming::follow(
        ledger.session(session),
        session,
        peer.as_deref(),
    ))
}

struct Mirror<'a> {
    config: &'a HonchoConfig,
    ledger: &'a Ledger,
    brief: &'a EditBrief,
    /// The edit undoes another: what it writes anew goes where it was, never anywhere cleaner.
    redo: bool,
    /// The session it was made in.
    own: Option<&'a SessionId>,
    /// The session it was made in, or whose words it brings back: brokerd is asked about that one before a send.
    from: Option<SessionId>,
    decision: Decision,
    /// What the edit deletes as a whole.
    deleted: BTreeSet<Place>,
    cancels: Vec<StepRef>,
    steps: Vec<Step>,
}

impl Mirror<'_> {
    fn change(&mut self, index: usize, change: &Change) {
        match change {
            Change::Added { about, entry, .. } => self.write(entry, index, Some(*about)),
            Change::Replaced { about, entry, .. } => {
                self.take_back(entry);
                self.write(entry, index, Some(*about));
            }
            Change::Dropped { entry, .. } => self.take_back(entry),
            // Memory still holds it, so Honcho does.
            Change::Moved { .. } | Change::MovedBack { .. } => {}
            Change::Noted { note, .. } => {
                let about = is_fact(note).then_some(About::User);
                self.write(note, index, about);
            }
            Change::Unnoted { note, .. } => self.take_back(note),
            Change::Forgot { fact, id, .. } => self.forget(fact, id),
            Change::Restored { fact, from, .. } => self.restore(fact, index, from.as_ref()),
            Change::Carded { card, after, .. } => self.card(card, index, after.from.as_ref()),
            Change::Purged { session } => self.purge(session),
            Change::Kept { about, entry, .. } => self.keep(entry, index, *about),
        }
    }

    /// Deletes what an undo wrote again of a fact of Honcho's own, else the fact.
    fn forget(&mut self, slot: &str, id: &str) {
        match self.ledger.slot(slot) {
            Some(_) => self.take_back(slot),
            // Of an excluded source Honcho is told nothing, also not by way of undo and redo.
            None if self.decision == Decision::Skip(SkipReason::Excluded) => {}
            None if self.redo && self.ledger.maker(slot).is_none() => {}
            None => self.steps.push(Step::Forget {
                slot: slot.into(),
                id: id.into(),
            }),
        }
    }

    /// Writes a fact of Honcho's own again, unless Honcho still has it.
    fn restore(&mut self, slot: &str, change: usize, from: Option<&SessionId>) {
        let Some(last) = self.ledger.maker(slot).cloned() else {
            return;
        };
        let deletes = matches!(self.ledger.step(&last), Some(Step::Forget { .. }));
        match self.ledger.state(&last) {
            // A retry of one that failed would delete what was brought back.
            Some(StepState::Waiting | StepState::Failed { .. }) if deletes => {
                self.cancels.push(last);
            }
            // By a first try at deciding this very edit, whose line a crash took.
            Some(StepState::Cancelled) if deletes => {}
            Some(StepState::Withdrawn) | None => {}
            Some(_) if matches!(self.decision, Decision::Trusted(_)) => {
                // They are that session's words, not the one's it was forgotten in.
                self.from = from.cloned();
                self.steps.push(Step::Conclude {
                    peer: self.config.owner.clone(),
                    slot: slot.into(),
                    change,
                    from: from.filter(|from| Some(*from) != self.own).cloned(),
                });
            }
            Some(_) => {}
        }
    }

    /// Replaces the card. `from`: whose words its lines are.
    fn card(&mut self, slot: &str, change: usize, from: Option<&SessionId>) {
        if self.redo {
            let last = self.ledger.maker(slot).cloned();
            let was = last.as_ref().and_then(|last| {
                let entry = self.ledger.entry(&last.item)?;
                Some((self.ledger.state(last)?, entry.decided.from.as_ref()))
            });
            match was {
                // What was never to go, or was withdrawn, does not go by way of undo and redo.
                None => return,
                Some((StepState::Withdrawn, then)) if then == from => return,
                Some((StepState::Waiting, _)) => return self.cancels.extend(last),
                Some(_) => {}
            }
        }
        if matches!(self.decision, Decision::Trusted(_)) {
            self.from = from.cloned();
            self.steps.push(Step::Card {
                slot: slot.into(),
                change,
            });
        }
    }

    /// Deletes every place of a session. What waits to go there, or failed to, is cancelled.
    fn purge(&mut self, session: &SessionId) {
        for place in self.ledger.places(session) {
            let waiting = |step: &StepRef| self.ledger.state(step) == Some(&StepState::Waiting);
            let open = self.ledger.open_at(place).map(|(_, step)| step);
            self.cancels.extend(open.filter(waiting));
            let there = |step: &&StepRef| self.ledger.place(step).as_ref() == Some(place);
            self.cancels
                .extend(self.ledger.failed().filter(there).cloned());
            self.steps.push(Step::DeleteSession {
                role: place.role,
                session: place.session.clone(),
            });
            self.deleted.insert(place.clone());
        }
    }

    /// Whether what Honcho holds of an entry or note goes with a place that is deleted.
    fn goes(&self, slot: &str) -> bool {
        let holder = self.ledger.slot(slot);
        let place = holder.and_then(|holder| self.ledger.place(holder));
        place.is_some_and(|place| self.deleted.contains(&place))
    }

    /// What goes with its session is written again as the owner's, unless Honcho was not to hold it.
    fn keep(&mut self, slot: &str, change: usize, about: About) {
        let Some(of) = self.ledger.slot(slot).filter(|_| self.goes(slot)).cloned() else {
            return;
        };
        match self.ledger.state(&of) {
            Some(StepState::Withdrawn) | None => {}
            // Cancelled: by a first try at deciding this very edit, whose line a crash took.
            Some(
                StepState::Waiting
                | StepState::Trying(_)
                | StepState::Sent { .. }
                | StepState::Failed { .. }
                | StepState::Cancelled,
            ) => {
                self.from = self.ledger.whose(&of).cloned();
                self.write(slot, change, Some(about));
            }
        }
    }

    fn write(&mut self, slot: &str, change: usize, about: Option<About>) {
        let decided = match self.decision {
            Decision::Trusted(_) => Some(Role::Trusted),
            Decision::Untrusted => Some(Role::Fleet),
            Decision::Skip(_) | Decision::Wait(_) => None,
        };
        let (decided, from) = match decided {
            Some(role) if self.redo => match self.as_before(slot, change, role) {
                Some((role, from)) => (Some(role), from),
                None => (None, None),
            },
            other => (other, None),
        };
        let role = match (decided, about) {
            // Identity and facts come from clean sessions alone; a label that says otherwise keeps it here.
            (Some(Role::Trusted), Some(_)) => Some(Role::Trusted),
            (_, Some(_)) => None,
            (role, None) => role,
        };
        let from = from.filter(|from| Some(from) != self.own);
        match role {
            Some(Role::Trusted) => self.steps.push(Step::Conclude {
                peer: match about {
                    Some(About::User) => self.config.owner.clone(),
                    Some(About::Agent) | None => self.config.agent.clone(),
                },
                slot: slot.into(),
                change,
                from,
            }),
            Some(Role::Fleet | Role::Untrusted) => self.steps.push(Step::Note {
                slot: slot.into(),
                change,
                from,
            }),
            None => {}
        }
    }

    /// Where something is written again, and whose words it is: nowhere cleaner than those very words were to go, and
    /// not at all when they were never to go anywhere, or were withdrawn.
    fn as_before(
        &mut self,
        slot: &str,
        change: usize,
        role: Role,
    ) -> Option<(Role, Option<SessionId>)> {
        let last = self.ledger.maker(slot)?.clone();
        let of_change = |(at, _): &&(usize, EditId)| *at == change;
        let maker = match self.brief.authors.iter().find(of_change) {
            Some((_, author)) => self.maker_in(*author, slot)?,
            None => last.clone(),
        };
        let from = self.ledger.whose(&maker).cloned();
        let withdrawn =
            |step: &StepRef| matches!(self.ledger.state(step), Some(StepState::Withdrawn));
        if withdrawn(&maker) || (withdrawn(&last) && self.ledger.whose(&last) == from.as_ref()) {
            return None;
        }
        let was = self.ledger.place(&maker)?.role;
        self.from = self.from.take().or_else(|| from.clone());
        Some((was.max(role), from))
    }

    /// The step of an edit that wrote an entry or note.
    fn maker_in(&self, edit: EditId, slot: &str) -> Option<StepRef> {
        let item = ItemId::Edit(edit);
        let steps = &self.ledger.entry(&item)?.decided.steps;
        let step = steps.iter().position(|step| {
            matches!(step, Step::Conclude { slot: of, .. } | Step::Note { slot: of, .. } if of == slot)
        })?;
        Some(StepRef { item, step })
    }

    /// Takes back what Honcho holds of an entry or note, or will hold.
    fn take_back(&mut self, slot: &str) {
        let Some(of) = self.ledger.slot(slot).filter(|_| !self.goes(slot)).cloned() else {
            return;
        };
        let step = match self.ledger.step(&of) {
            Some(Step::Conclude { .. }) => Step::Unconclude { of: of.clone() },
            Some(Step::Note { .. }) => Step::Retract { of: of.clone() },
            _ => return,
        };
        match self.ledger.state(&of) {
            // Nor is one that failed to be tried again.
            Some(StepState::Waiting | StepState::Failed { .. }) => self.cancels.push(of),
            Some(StepState::Trying(_) | StepState::Sent { .. }) => self.steps.push(step),
            // Honcho never held it.
            Some(StepState::Withdrawn | StepState::Cancelled) | None => {}
        }
    }
}
#[cfg(test)]
mod tests;
