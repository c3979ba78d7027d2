//! What the ledger's lines add up to: what was decided, what is waiting, what is where in Honcho. Pure; `worker`
//! keeps the file.

mod line;
mod look;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bxcore::clock::Millis;
use bxwire::{ItemId, SessionId};

use super::{
    config::Role,
    decide::SkipReason,
    naming::{self, HonchoSession},
};
pub use line::{Decided, Line, SentStep, Step, StepRef, TYPES, parse, written};

/// A Honcho session in a workspace. Order holds within one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub role: Role,
    pub session: String,
}

/// Where a step stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepState {
    Waiting,
    /// A try began at this time and has no end: in this run it is on its way or in doubt, after a restart it
    /// is in doubt.
    Trying(Millis),
    Sent {
        ids: Vec<String>,
        found: bool,
    },
    Failed {
        kind: String,
        status: Option<u16>,
    },
    Withdrawn,
    Cancelled,
}

impl StepState {
    /// Whether something is still to be done.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Waiting | Self::Trying(_))
    }
}

/// A decided item.
#[derive(Debug, Clone)]
pub struct Entry {
    pub decided: Decided,
    pub states: Vec<StepState>,
    order: u64,
}

/// A line that does not fit what came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    #[error("the first line does not open the ledger")]
    NotOpened,
    #[error("it opens the ledger a second time")]
    OpenedTwice,
    #[error("it decides an item a second time")]
    DecidedTwice,
    #[error("it is about a step that was never decided")]
    UnknownStep,
}

/// How many steps of a workspace are what. What is in doubt counts as open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub decided: u64,
    pub open: u64,
    pub sent: u64,
    pub failed: u64,
    pub withdrawn: u64,
    pub cancelled: u64,
}

impl Counts {
    fn of(&mut self, state: &StepState) -> &mut u64 {
        match state {
            StepState::Waiting | StepState::Trying(_) => &mut self.open,
            StepState::Sent { .. } => &mut self.sent,
            StepState::Failed { .. } => &mut self.failed,
            StepState::Withdrawn => &mut self.withdrawn,
            StepState::Cancelled => &mut self.cancelled,
        }
    }
}

/// What the lines add up to.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    opened: Option<(Millis, String)>,
    /// What names are made with.
    key: Option<String>,
    /// What the messages of the fleet's steps are called there.
    names: HashMap<StepRef, String>,
    /// How many notes each session of the fleet's got that were not there before.
    noted: HashMap<String, u64>,
    entries: HashMap<ItemId, Entry>,
    items: Vec<ItemId>,
    /// Open steps of each place, in the order they were decided.
    open: BTreeMap<Place, BTreeSet<(u64, usize)>>,
    /// The places that are to be deleted and were not yet.
    doomed: BTreeSet<Place>,
    /// The last Honcho session of each Boxmaker session.
    sessions: HashMap<SessionId, HonchoSession>,
    /// Every place that a Boxmaker session has in Honcho, unless it was purged since.
    places: HashMap<SessionId, BTreeSet<Place>>,
    /// The step that made what Honcho now holds, or will hold, of an entry or note.
    slots: HashMap<String, StepRef>,
    /// The last step that ever wrote an entry or note, whatever became of it since.
    makers: HashMap<String, StepRef>,
    counts: BTreeMap<Role, Counts>,
    skipped: BTreeMap<SkipReason, u64>,
    failed: BTreeSet<StepRef>,
    /// Honcho's ids of everything that was ever written.
    ids: HashSet<Box<str>>,
    /// The last step of each role that made something which was not taken back since.
    last_sent: BTreeMap<Role, StepRef>,
    /// When the first turn went to the trusted workspace.
    turns_since: Option<Millis>,
    /// The newest replacement of the owner's card that was sent.
    card_sent: Option<(u64, usize)>,
    /// Undecided turns of sessions that brokerd had forgotten.
    held: BTreeMap<SessionId, BTreeSet<u64>>,
}

impl Ledger {
    /// Takes in one line.
    ///
    /// # Errors
    /// [`Misfit`]: the file is not one this program wrote; nothing changed.
    pub fn apply(&mut self, line: &Line) -> Result<(), Misfit> {
        if self.opened.is_none() && !matches!(line, Line::Opened { .. }) {
            return Err(Misfit::NotOpened);
        }
        match line {
            Line::Opened {
                at,
                installation,
                key,
            } => {
                if self.opened.is_some() {
                    return Err(Misfit::OpenedTwice);
                }
                self.opened = Some((*at, installation.clone()));
                self.key.clone_from(key);
            }
            Line::Decided(decided) => self.decide(decided)?,
            Line::Sending { at, steps } => {
                for step in steps {
                    self.set(step, StepState::Trying(*at))?;
                }
            }
            Line::Sent { at, steps } => {
                for sent in steps {
                    let state = StepState::Sent {
                        ids: sent.ids.clone(),
                        found: sent.found,
                    };
                    self.set(&sent.step, state)?;
                    self.note_sent(sent, *at);
                }
            }
            Line::NotSent { steps, .. } => {
                for step in steps {
                    self.set(step, StepState::Waiting)?;
                }
            }
            Line::Failed {
                step, kind, status, ..
            } => {
                let state = StepState::Failed {
                    kind: kind.clone(),
                    status: *status,
                };
                self.set(step, state)?;
            }
            Line::Withdrawn { step, .. } => self.set(step, StepState::Withdrawn)?,
            Line::Cancelled { step, .. } => self.set(step, StepState::Cancelled)?,
            Line::Requeued { step, .. } => self.set(step, StepState::Waiting)?,
            Line::Held { session, turns, .. } => {
                let held = self.held.entry(session.clone()).or_default();
                held.extend(turns);
            }
        }
        Ok(())
    }

    fn decide(&mut self, decided: &Decided) -> Result<(), Misfit> {
        if self.entries.contains_key(&decided.item) {
            return Err(Misfit::DecidedTwice);
        }
        let order = self.items.len() as u64;
        self.items.push(decided.item.clone());
        if let ItemId::Turn { session, turn } = &decided.item
            && let Some(held) = self.held.get_mut(session)
        {
            held.remove(turn);
            if held.is_empty() {
                self.held.remove(session);
            }
        }
        // The agent is alone in the fleet's sessions: they say nothing of who has spoken.
        let of_fleet = |step: &Step| matches!(step, Step::Note { .. });
        if let (Some(from), Some(session)) = (&decided.from, &decided.session)
            && !decided.steps.iter().any(of_fleet)
            // What the owner brings back is asked about its own session, and lies in the owner's.
            && session.name.starts_with(from.as_str())
        {
            self.sessions.insert(from.clone(), session.clone());
        }
        for (index, step) in decided.steps.iter().enumerate() {
            let this = StepRef {
                item: decided.item.clone(),
                step: index,
            };
            if let Some(name) = self.new_name(decided, step) {
                self.names.insert(this.clone(), name);
            }
            match step {
                Step::Conclude { slot, .. } | Step::Note { slot, .. } => {
                    self.slots.insert(slot.clone(), this.clone());
                    self.makers.insert(slot.clone(), this);
                }
                Step::Unconclude { of } | Step::Retract { of } => {
                    self.slots.retain(|_, holder| holder != of);
                }
                Step::Forget { slot, .. } | Step::Card { slot, .. } => {
                    self.makers.insert(slot.clone(), this);
                }
                Step::DeleteSession { role, session } => self.delete(&Place {
                    role: *role,
                    session: session.clone(),
                }),
                Step::Messages { .. } => {}
            }
        }
        self.entries.insert(
            decided.item.clone(),
            Entry {
                states: vec![StepState::Waiting; decided.steps.len()],
                decided: decided.clone(),
                order,
            },
        );
        for step in 0..decided.steps.len() {
            let this = StepRef {
                item: decided.item.clone(),
                step,
            };
            if let Some(place) = self.place(&this) {
                if decided.steps[step].deletes_place() {
                    self.doomed.insert(place.clone());
                } else if let Some(from) = &decided.from
                    && place.session.starts_with(from.as_str())
                    && !self.places(from).any(|known| *known == place)
                {
                    let places = self.places.entry(from.clone()).or_default();
                    places.insert(place.clone());
                }
                let counts = self.counts.entry(place.role).or_default();
                counts.decided += 1;
                counts.open += 1;
                self.open.entry(place).or_default().insert((order, step));
            }
        }
        if let Some(reason) = decided.skip {
            *self.skipped.entry(reason).or_default() += 1;
        }
        Ok(())
    }

    /// What a message in the fleet is to be called. It follows from its own session and is the same whatever others did:
    /// the number of an edit counts the edits of all sessions, secret ones too.
    fn new_name(&mut self, decided: &Decided, step: &Step) -> Option<String> {
        let key = self.key.as_ref()?;
        let of = match step {
            Step::Retract { of } => format!("retracts {}", self.names.get(of)?),
            Step::Note { slot, .. } => {
                let last = self.makers.get(slot);
                if let Some(before) = last.and_then(|last| self.names.get(last)) {
                    format!("again {before}")
                } else {
                    let session = &decided.session.as_ref()?.name;
                    let nth = self.noted.entry(session.clone()).or_default();
                    *nth += 1;
                    format!("{nth} in {session}")
                }
            }
            _ => return None,
        };
        Some(naming::opaque(key, &of))
    }

    /// What is in a Honcho session that goes is nothing to look for, and nothing to take back.
    fn delete(&mut self, gone: &Place) {
        let is_there = |step: &StepRef| self.place(step).as_ref() == Some(gone);
        let slots: Vec<_> = self
            .slots
            .iter()
            .filter(|(_, holder)| is_there(holder))
            .map(|(slot, _)| slot.clone())
            .collect();
        let last = self.last_sent.get(&gone.role).is_some_and(is_there);
        for slot in slots {
            self.slots.remove(&slot);
        }
        if last {
            self.last_sent.remove(&gone.role);
        }
        for places in self.places.values_mut() {
            places.remove(gone);
        }
        self.places.retain(|_, places| !places.is_empty());
    }

    fn set(&mut self, step: &StepRef, state: StepState) -> Result<(), Misfit> {
        let place = self.place(step).ok_or(Misfit::UnknownStep)?;
        let entry = self
            .entries
            .get_mut(&step.item)
            .ok_or(Misfit::UnknownStep)?;
        let open = self.open.entry(place.clone()).or_default();
        if state.is_open() {
            open.insert((entry.order, step.step));
        } else {
            open.remove(&(entry.order, step.step));
        }
        if open.is_empty() {
            self.open.remove(&place);
        }
        let known = entry.states.get_mut(step.step).ok_or(Misfit::UnknownStep)?;
        let counts = self.counts.entry(place.role).or_default();
        *counts.of(known) -= 1;
        *counts.of(&state) += 1;
        if matches!(state, StepState::Failed { .. }) {
            self.failed.insert(step.clone());
        } else {
            self.failed.remove(step);
        }
        *known = state;
        if self.step(step).is_some_and(Step::deletes_place) {
            let goes =
                |(_, step): (u64, StepRef)| self.step(&step).is_some_and(Step::deletes_place);
            if self.open_at(&place).any(goes) {
                self.doomed.insert(place);
            } else {
                self.doomed.remove(&place);
            }
        }
        Ok(())
    }

    fn note_sent(&mut self, sent: &SentStep, at: Millis) {
        self.ids
            .extend(sent.ids.iter().map(|id| id.as_str().into()));
        let Some((place, step)) = self.place(&sent.step).zip(self.step(&sent.step).cloned()) else {
            return;
        };
        match step {
            Step::Unconclude { of } => {
                if self.last_sent.get(&place.role) == Some(&of) {
                    self.last_sent.remove(&place.role);
                }
                return;
            }
            Step::Forget { .. } => return,
            Step::Card { .. } => {
                let order = self.entry(&sent.step.item).map(|entry| entry.order);
                let this = order.map(|order| (order, sent.step.step));
                self.card_sent = self.card_sent.max(this);
                return;
            }
            Step::Messages { .. } if place.role == Role::Trusted => {
                self.turns_since.get_or_insert(at);
            }
            Step::DeleteSession { .. } => return,
            Step::Messages { .. }
            | Step::Conclude { .. }
            | Step::Note { .. }
            | Step::Retract { .. } => {}
        }
        // What arrives in a session that is about to be deleted goes with it: nobody is to miss it.
        if !self.is_doomed(&place) {
            self.last_sent.insert(place.role, sent.step.clone());
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
