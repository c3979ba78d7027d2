//! What the ledger's lines add up to: what was decided, what is waiting, what is where in Honcho. Pure; `worker`
//! keeps the file.

mod line;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bxcore::clock::Millis;
use bxwire::{ItemId, SessionId};

use super::{config::Role, decide::SkipReason, naming::HonchoSession};
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
    entries: HashMap<ItemId, Entry>,
    items: Vec<ItemId>,
    /// Open steps of each place, in the order they were decided.
    open: BTreeMap<Place, BTreeSet<(u64, usize)>>,
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
    /// Honcho's ids of the conclusions that were ever written.
    concluded: HashSet<String>,
    /// The last step of each role that made something which was not taken back since.
    last_sent: BTreeMap<Role, StepRef>,
    /// When the first turn went to the trusted workspace.
    turns_since: Option<Millis>,
    /// The newest replacement of the owner's card that was sent.
    card_sent: Option<(u64, usize)>,
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
            Line::Opened { at, installation } => {
                if self.opened.is_some() {
                    return Err(Misfit::OpenedTwice);
                }
                self.opened = Some((*at, installation.clone()));
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
        }
        Ok(())
    }

    fn decide(&mut self, decided: &Decided) -> Result<(), Misfit> {
        if self.entries.contains_key(&decided.item) {
            return Err(Misfit::DecidedTwice);
        }
        let order = self.items.len() as u64;
        self.items.push(decided.item.clone());
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
            match step {
                Step::Conclude { slot, .. } => {
                    self.slots.insert(slot.clone(), this.clone());
                    self.makers.insert(slot.clone(), this);
                }
                Step::Note { slot, .. } => {
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
                if let Some(from) = &decided.from
                    && place.session.starts_with(from.as_str())
                    && !matches!(decided.steps[step], Step::DeleteSession { .. })
                {
                    self.places
                        .entry(from.clone())
                        .or_default()
                        .insert(place.clone());
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
        Ok(())
    }

    fn note_sent(&mut self, sent: &SentStep, at: Millis) {
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
            Step::Conclude { .. } => self.concluded.extend(sent.ids.iter().cloned()),
            Step::Messages { .. } if place.role == Role::Trusted => {
                self.turns_since.get_or_insert(at);
            }
            Step::DeleteSession { .. } => return,
            Step::Messages { .. } | Step::Note { .. } | Step::Retract { .. } => {}
        }
        self.last_sent.insert(place.role, sent.step.clone());
    }

    /// Where a step is done: what takes something back, where that is.
    #[must_use]
    pub fn place(&self, step: &StepRef) -> Option<Place> {
        let entry = self.entries.get(&step.item)?;
        let session = || {
            entry
                .decided
                .session
                .as_ref()
                .map(|session| session.name.clone())
        };
        match entry.decided.steps.get(step.step)? {
            Step::Messages { role, .. } => session().map(|session| Place {
                role: *role,
                session,
            }),
            Step::Conclude { .. } | Step::Forget { .. } | Step::Card { .. } => {
                session().map(|session| Place {
                    role: Role::Trusted,
                    session,
                })
            }
            Step::Note { .. } => session().map(|session| Place {
                role: Role::Fleet,
                session,
            }),
            Step::Unconclude { of } | Step::Retract { of } if of.item != step.item => {
                self.place(of)
            }
            Step::Unconclude { .. } | Step::Retract { .. } => None,
            Step::DeleteSession { role, session } => Some(Place {
                role: *role,
                session: session.clone(),
            }),
        }
    }

    /// Every place that a Boxmaker session has in Honcho.
    pub fn places(&self, session: &SessionId) -> impl Iterator<Item = &Place> {
        self.places.get(session).into_iter().flatten()
    }

    #[must_use]
    pub fn opened(&self) -> Option<Millis> {
        self.opened.as_ref().map(|(at, _)| *at)
    }

    #[must_use]
    pub fn installation(&self) -> &str {
        self.opened.as_ref().map_or("", |(_, id)| id)
    }

    #[must_use]
    pub fn entry(&self, item: &ItemId) -> Option<&Entry> {
        self.entries.get(item)
    }

    /// Every item in the order it was decided.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.items.iter().filter_map(|item| self.entries.get(item))
    }

    #[must_use]
    pub fn state(&self, step: &StepRef) -> Option<&StepState> {
        self.entries.get(&step.item)?.states.get(step.step)
    }

    #[must_use]
    pub fn step(&self, step: &StepRef) -> Option<&Step> {
        self.entries.get(&step.item)?.decided.steps.get(step.step)
    }

    /// How many of a workspace's steps are what.
    #[must_use]
    pub fn counts(&self, role: Role) -> Counts {
        self.counts.get(&role).copied().unwrap_or_default()
    }

    /// How many items went nowhere, by reason.
    pub fn skipped(&self) -> impl Iterator<Item = (SkipReason, u64)> + '_ {
        self.skipped.iter().map(|(reason, count)| (*reason, *count))
    }

    /// The steps that failed.
    pub fn failed(&self) -> impl Iterator<Item = &StepRef> {
        self.failed.iter()
    }

    /// The places with something to do.
    pub fn open_places(&self) -> impl Iterator<Item = &Place> {
        self.open.keys()
    }

    /// A place's open steps, oldest first, each with its order.
    pub fn open_at(&self, place: &Place) -> impl Iterator<Item = (u64, StepRef)> + '_ {
        self.open
            .get(place)
            .into_iter()
            .flatten()
            .filter_map(|(order, step)| {
                let item = self.items.get(usize::try_from(*order).ok()?)?;
                let step = StepRef {
                    item: item.clone(),
                    step: *step,
                };
                Some((*order, step))
            })
    }

    /// The last Honcho session of a Boxmaker session.
    #[must_use]
    pub fn session(&self, session: &SessionId) -> Option<&HonchoSession> {
        self.sessions.get(session)
    }

    /// The step that made what Honcho holds of an entry or note.
    #[must_use]
    pub fn slot(&self, slot: &str) -> Option<&StepRef> {
        self.slots.get(slot)
    }

    /// The last step that ever wrote an entry, a note or the card, or deleted a fact. `None`: Honcho was never told.
    #[must_use]
    pub fn maker(&self, slot: &str) -> Option<&StepRef> {
        self.makers.get(slot)
    }

    /// Whether a replacement of the card is older than one that was sent: sending it now would undo that.
    #[must_use]
    pub fn is_old_card(&self, step: &StepRef) -> bool {
        let order = self.entry(&step.item).map(|entry| (entry.order, step.step));
        order < self.card_sent
    }

    /// The newest replacement of the card that is to be sent and was not yet.
    #[must_use]
    pub fn card_open(&self) -> Option<&ItemId> {
        let open = self.open.values().flatten().rev();
        open.filter_map(|(order, step)| {
            let entry = self
                .entries
                .get(self.items.get(usize::try_from(*order).ok()?)?)?;
            let card = matches!(entry.decided.steps.get(*step)?, Step::Card { .. });
            card.then_some((*order, &entry.decided.item))
        })
        .max_by_key(|(order, _)| *order)
        .map(|(_, item)| item)
    }

    /// Whether a step that deletes the conclusion with this id is to be sent and was not yet.
    #[must_use]
    pub fn deletes(&self, id: &str) -> bool {
        let made = |of: &StepRef| match self.state(of) {
            Some(StepState::Sent { ids, .. }) => ids.iter().any(|made| made == id),
            _ => false,
        };
        self.open_places()
            .flat_map(|place| self.open_at(place))
            .any(|(_, step)| match self.step(&step) {
                Some(Step::Forget { id: deleted, .. }) => deleted == id,
                Some(Step::Unconclude { of }) => made(of),
                _ => false,
            })
    }

    /// Whether a conclusion's id is recorded for some step, so that a look-up does not take it for another's.
    #[must_use]
    pub fn knows(&self, id: &str) -> bool {
        self.concluded.contains(id)
    }

    /// The last step of a role that made something which was not taken back since.
    #[must_use]
    pub fn last_sent(&self, role: Role) -> Option<&StepRef> {
        self.last_sent.get(&role)
    }

    /// When the first turn went to the trusted workspace.
    #[must_use]
    pub fn turns_since(&self) -> Option<Millis> {
        self.turns_since
    }

    /// Ids of conclusions that Honcho should hold, the newest `most`.
    #[must_use]
    pub fn standing(&self, most: usize) -> Vec<String> {
        let mut held: Vec<_> = self
            .slots
            .values()
            .filter(|step| matches!(self.step(step), Some(Step::Conclude { .. })))
            .filter_map(|step| match self.state(step)? {
                StepState::Sent { ids, .. } => {
                    Some((self.entry(&step.item)?.order, step.step, ids))
                }
                _ => None,
            })
            .collect();
        held.sort_unstable();
        let newest = held.into_iter().rev().take(most);
        newest.flat_map(|(_, _, ids)| ids).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use bxwire::Label;

    use super::*;

    fn opened() -> Ledger {
        let mut ledger = Ledger::default();
        let line = Line::Opened {
            at: Millis(0),
            installation: "i".into(),
        };
        ledger.apply(&line).unwrap();
        ledger
    }

    fn turn(n: u64) -> Decided {
        let from: SessionId = "20260131-abcdefghijkl".parse().unwrap();
        Decided {
            at: Millis(1),
            item: ItemId::Turn {
                session: from.clone(),
                turn: n,
            },
            skip: None,
            session: Some(HonchoSession {
                name: from.to_string(),
                speakers: vec!["owner".into()],
            }),
            from: Some(from),
            steps: vec![Step::Messages {
                role: Role::Trusted,
                peer: "owner".into(),
            }],
            log: Label::PRIVATE,
            broker: None,
            speaker: None,
            made: None,
        }
    }

    fn step(decided: &Decided) -> StepRef {
        StepRef {
            item: decided.item.clone(),
            step: 0,
        }
    }

    #[test]
    fn what_is_decided_waits_until_it_is_sent() {
        let mut ledger = opened();
        let (one, two) = (turn(1), turn(2));
        ledger.apply(&Line::Decided(one.clone())).unwrap();
        ledger.apply(&Line::Decided(two.clone())).unwrap();
        let place = ledger.place(&step(&one)).unwrap();
        let open: Vec<_> = ledger.open_at(&place).map(|(_, step)| step).collect();
        assert_eq!(open, [step(&one), step(&two)]);
        let sent = Line::Sent {
            at: Millis(2),
            steps: vec![SentStep {
                step: step(&one),
                ids: vec!["m1".into()],
                found: false,
            }],
        };
        ledger.apply(&sent).unwrap();
        assert_eq!(ledger.open_at(&place).count(), 1);
        assert_eq!(ledger.last_sent(Role::Trusted), Some(&step(&one)));
        assert_eq!(ledger.turns_since(), Some(Millis(2)));
        assert!(!ledger.knows("m1"), "it is no conclusion");
        let counts = ledger.counts(Role::Trusted);
        assert_eq!((counts.decided, counts.open, counts.sent), (2, 1, 1));
        let failed = Line::Failed {
            at: Millis(3),
            step: step(&two),
            kind: "refused".into(),
            status: Some(422),
        };
        ledger.apply(&failed).unwrap();
        assert_eq!(ledger.failed().collect::<Vec<_>>(), [&step(&two)]);
        let again = Line::Requeued {
            at: Millis(4),
            step: step(&two),
        };
        ledger.apply(&again).unwrap();
        let counts = ledger.counts(Role::Trusted);
        assert_eq!(
            (counts.open, counts.failed, ledger.failed().count()),
            (1, 0, 0)
        );
    }

    #[test]
    fn a_line_that_does_not_fit_is_refused() {
        let sent = Line::Withdrawn {
            at: Millis(0),
            step: step(&turn(1)),
        };
        assert_eq!(Ledger::default().apply(&sent), Err(Misfit::NotOpened));
        let mut ledger = opened();
        assert_eq!(ledger.apply(&sent), Err(Misfit::UnknownStep));
        ledger.apply(&Line::Decided(turn(1))).unwrap();
        assert_eq!(
            ledger.apply(&Line::Decided(turn(1))),
            Err(Misfit::DecidedTwice)
        );
    }

    #[test]
    fn a_decision_with_a_later_kind_of_step_is_newer_to_older_programs_and_reads_back() {
        let forget = Step::Forget {
            slot: "d1".into(),
            id: "x".into(),
        };
        let card = Step::Card {
            slot: "c1".into(),
            change: 0,
        };
        let delete = Step::DeleteSession {
            role: Role::Fleet,
            session: "s".into(),
        };
        for step in [forget, card, delete] {
            let mut decided = turn(1);
            decided.steps.push(step);
            let line = Line::Decided(decided);
            let text = written(&line);
            assert!(text.starts_with(r#"{"type":"decided2","#), "{text}");
            assert_eq!(parse(&text).unwrap(), line);
        }
        let known = Line::Decided(turn(1));
        assert!(written(&known).starts_with(r#"{"type":"decided","#));
        assert_eq!(parse(&written(&known)).unwrap(), known);
    }

    #[test]
    fn an_older_card_is_not_sent_after_a_newer_one() {
        let mut ledger = opened();
        let replaced = |n| Decided {
            item: ItemId::Edit(bxwire::EditId(n)),
            steps: vec![Step::Card {
                slot: format!("c{n}"),
                change: 0,
            }],
            ..turn(1)
        };
        let (one, two) = (replaced(1), replaced(2));
        for decided in [&one, &two] {
            ledger.apply(&Line::Decided(decided.clone())).unwrap();
        }
        assert_eq!(ledger.card_open(), Some(&two.item));
        let sent = |decided: &Decided| Line::Sent {
            at: Millis(2),
            steps: vec![SentStep {
                step: step(decided),
                ids: Vec::new(),
                found: false,
            }],
        };
        assert!(!ledger.is_old_card(&step(&one)));
        ledger.apply(&sent(&two)).unwrap();
        assert_eq!(ledger.card_open(), Some(&one.item));
        assert!(ledger.is_old_card(&step(&one)) && !ledger.is_old_card(&step(&two)));
        assert_eq!(ledger.last_sent(Role::Trusted), None, "nothing to look for");
    }

    #[test]
    fn a_line_reads_back_and_a_newer_kind_is_newer() {
        for line in [
            Line::Decided(turn(1)),
            Line::Sending {
                at: Millis(5),
                steps: vec![step(&turn(1))],
            },
            Line::Failed {
                at: Millis(5),
                step: step(&turn(1)),
                kind: "refused".into(),
                status: Some(422),
            },
        ] {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(parse(&text).unwrap(), line, "{text}");
        }
        use bxcore::append::BadLine;
        assert_eq!(parse(r#"{"type":"folded"}"#), Err(BadLine::Newer));
        assert!(matches!(
            parse(r#"{"type":"sent"}"#),
            Err(BadLine::Corrupt(_))
        ));
        assert!(matches!(parse("nonsense"), Err(BadLine::Corrupt(_))));
    }
}
