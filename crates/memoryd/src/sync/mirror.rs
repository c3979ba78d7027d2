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
            Some(StepState::Waiting) if deletes => self.cancels.push(last),
            // Cancelled: by a first try at deciding this very edit, whose line a crash took.
            Some(StepState::Failed { .. } | StepState::Cancelled) if deletes => {}
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
            Some(StepState::Waiting | StepState::Trying(_) | StepState::Sent { .. }) => {
                self.from = self
                    .ledger
                    .entry(&of.item)
                    .and_then(|e| e.decided.from.clone());
                self.write(slot, change, Some(about));
            }
            Some(StepState::Failed { .. } | StepState::Withdrawn | StepState::Cancelled) | None => {
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
        let from_of = |step: &StepRef| {
            let entry = self.ledger.entry(&step.item)?;
            let own = match entry.decided.steps.get(step.step)? {
                Step::Conclude { from, .. } | Step::Note { from, .. } => from.clone(),
                _ => None,
            };
            own.or_else(|| entry.decided.from.clone())
        };
        let from = from_of(&maker);
        let withdrawn =
            |step: &StepRef| matches!(self.ledger.state(step), Some(StepState::Withdrawn));
        if withdrawn(&maker) || (withdrawn(&last) && from_of(&last) == from) {
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
mod tests {
    use bxwire::{Label, SessionId};

    use super::*;
    use crate::{
        edit::KeptLocal,
        sync::{config::tests::config, ledger::SentStep},
    };

    const BRIEF: EditBrief = EditBrief {
        secret_text: false,
        excluded: false,
        authors: Vec::new(),
    };

    struct Bench {
        config: HonchoConfig,
        ledger: Ledger,
        next: u64,
    }

    impl Bench {
        fn new() -> Self {
            let mut ledger = Ledger::default();
            let opened = Line::Opened {
                at: Millis(0),
                installation: "i".into(),
            };
            ledger.apply(&opened).unwrap();
            Self {
                config: config(),
                ledger,
                next: 1,
            }
        }

        fn edit(&mut self, label: Label, undoes: Option<u64>, changes: Vec<Change>) -> Edit {
            let id = EditId(self.next);
            self.next += 1;
            Edit {
                id,
                at: "2026-01-31T10:00:00.000Z".into(),
                by: By::Session {
                    session: session(),
                    turn: 1,
                    speaker: "local/owner".parse().ok(),
                },
                what: "test".into(),
                changes,
                undoes: undoes.map(EditId),
                label,
                kept_local: None,
                files: Vec::new(),
            }
        }

        /// Decides an edit and gives its steps.
        fn decide(&mut self, edit: &Edit) -> Decided {
            let lines = decide_edit(&self.config, &self.ledger, edit, &BRIEF, Millis(1));
            for line in &lines {
                self.ledger.apply(line).unwrap();
            }
            match lines.last() {
                Some(Line::Decided(decided)) => decided.clone(),
                other => panic!("{other:?}"),
            }
        }

        fn make(&mut self, label: Label, undoes: Option<u64>, changes: Vec<Change>) -> Decided {
            let edit = self.edit(label, undoes, changes);
            self.decide(&edit)
        }

        fn sent(&mut self, edit: u64) {
            let item = ItemId::Edit(EditId(edit));
            let steps = self.ledger.entry(&item).unwrap().states.len();
            for step in 0..steps {
                let sent = SentStep {
                    step: StepRef {
                        item: item.clone(),
                        step,
                    },
                    ids: vec![format!("id-{edit}-{step}")],
                    found: false,
                };
                let line = Line::Sent {
                    at: Millis(2),
                    steps: vec![sent],
                };
                self.ledger.apply(&line).unwrap();
            }
        }
    }

    fn session() -> SessionId {
        "20260131-abcdefghijkl".parse().unwrap()
    }

    fn of(edit: u64) -> StepRef {
        StepRef {
            item: ItemId::Edit(EditId(edit)),
            step: 0,
        }
    }

    fn added(entry: &str) -> Change {
        Change::Added {
            about: About::User,
            entry: entry.into(),
            text: "t".into(),
        }
    }

    fn noted(note: &str) -> Change {
        Change::Noted {
            note: note.into(),
            text: "t".into(),
        }
    }

    fn conclude(peer: &str, slot: &str, change: usize) -> Step {
        Step::Conclude {
            peer: peer.into(),
            slot: slot.into(),
            change,
            from: None,
        }
    }

    const CLEAN: Label = Label::PRIVATE;

    #[test]
    fn identity_add_is_a_conclusion_of_whom_it_is_about() {
        let mut bench = Bench::new();
        let decided = bench.make(CLEAN, None, vec![added("u1")]);
        assert_eq!(decided.steps, [conclude("owner", "u1", 0)]);
        assert_eq!(decided.session.unwrap().name, session().to_string());
        let agent = Change::Added {
            about: About::Agent,
            entry: "a2".into(),
            text: "t".into(),
        };
        let decided = bench.make(CLEAN, None, vec![agent]);
        assert_eq!(decided.steps, [conclude("boxmaker", "a2", 0)]);
    }

    #[test]
    fn identity_replace_deletes_the_old_conclusion_and_makes_the_new_one() {
        let mut bench = Bench::new();
        bench.make(CLEAN, None, vec![added("u1")]);
        bench.sent(1);
        let replaced = Change::Replaced {
            about: About::User,
            entry: "u1".into(),
            before: "t".into(),
            after: "s".into(),
        };
        let decided = bench.make(CLEAN, None, vec![replaced]);
        let want = [Step::Unconclude { of: of(1) }, conclude("owner", "u1", 0)];
        assert_eq!(decided.steps, want);
    }

    #[test]
    fn a_dropped_entry_loses_its_conclusion_and_a_moved_one_keeps_it() {
        let mut bench = Bench::new();
        bench.make(CLEAN, None, vec![added("u1")]);
        bench.make(CLEAN, None, vec![added("u2")]);
        bench.sent(1);
        bench.sent(2);
        let fate = |entry: &str| (About::User, entry.to_owned(), "t".to_owned());
        let (about, entry, text) = fate("u1");
        let dropped = Change::Dropped { about, entry, text };
        let (about, entry, text) = fate("u2");
        let moved = Change::Moved { about, entry, text };
        let decided = bench.make(CLEAN, None, vec![dropped.clone(), moved.clone()]);
        assert_eq!(decided.steps, [Step::Unconclude { of: of(1) }]);
        bench.sent(3);
        // Its undo writes the dropped one again and leaves the moved one alone.
        let undone = vec![dropped.reversed(), moved.reversed()];
        let decided = bench.make(CLEAN, Some(3), undone);
        assert_eq!(decided.steps, [conclude("owner", "u1", 0)]);
    }

    #[test]
    fn a_trusted_note_is_a_conclusion_and_an_untrusted_one_a_message_in_the_fleet() {
        let mut bench = Bench::new();
        let trusted = bench.make(CLEAN, None, vec![noted("n1")]);
        assert_eq!(trusted.steps, [conclude("boxmaker", "n1", 0)]);
        let untrusted = bench.make(Label::UNLABELLED, None, vec![noted("n2")]);
        let want = Step::Note {
            slot: "n2".into(),
            change: 0,
            from: None,
        };
        assert_eq!(untrusted.steps, [want]);
        assert!(untrusted.session.unwrap().speakers.is_empty());
    }

    #[test]
    fn a_fact_is_a_conclusion_about_the_owner_and_never_goes_to_the_fleet() {
        let mut bench = Bench::new();
        let fact = bench.make(CLEAN, None, vec![noted("f1")]);
        assert_eq!(fact.steps, [conclude("owner", "f1", 0)]);
        let untrusted = bench.make(Label::UNLABELLED, None, vec![noted("f2")]);
        assert_eq!(untrusted.skip, Some(SkipReason::NothingToSend));
        bench.sent(1);
        let undo = bench.make(CLEAN, Some(1), vec![noted("f1").reversed()]);
        assert_eq!(undo.steps, [Step::Unconclude { of: of(1) }]);
        let redo = bench.make(CLEAN, Some(3), vec![noted("f1")]);
        assert_eq!(redo.steps, [conclude("owner", "f1", 0)]);
    }

    fn forgot(n: u64) -> Change {
        Change::Forgot {
            fact: format!("d{n}"),
            id: "x".into(),
            text: "t".into(),
            from: Some(session()),
        }
    }

    fn forget(n: u64) -> Step {
        Step::Forget {
            slot: format!("d{n}"),
            id: "x".into(),
        }
    }

    #[test]
    fn a_fact_of_honchos_own_is_deleted_written_again_and_deleted_again() {
        let mut bench = Bench::new();
        let decided = bench.make(CLEAN, None, vec![forgot(1)]);
        assert_eq!(decided.steps, [forget(1)]);
        assert_eq!(decided.session.unwrap().name, "boxmaker-owner");
        bench.sent(1);
        let undo = bench.make(CLEAN, Some(1), vec![forgot(1).reversed()]);
        assert_eq!(undo.steps, [conclude("owner", "d1", 0)]);
        assert_eq!(undo.from, Some(session()), "whose words they are");
        bench.sent(2);
        let redo = bench.make(CLEAN, Some(2), vec![forgot(1)]);
        assert_eq!(redo.steps, [Step::Unconclude { of: of(2) }]);
        bench.sent(3);
        let undo = bench.make(CLEAN, Some(3), vec![forgot(1).reversed()]);
        assert_eq!(undo.steps, [conclude("owner", "d1", 0)]);
        // What was not deleted yet needs no writing.
        bench.make(CLEAN, None, vec![forgot(5)]);
        let undo = bench.make(CLEAN, Some(5), vec![forgot(5).reversed()]);
        assert_eq!(undo.skip, Some(SkipReason::NothingToSend));
        assert_eq!(bench.ledger.state(&of(5)), Some(&StepState::Cancelled));
        let redo = bench.make(CLEAN, Some(6), vec![forgot(5)]);
        assert_eq!(redo.steps, [forget(5)]);
    }

    fn carded(n: u64) -> Change {
        let card = |line: &str, from| crate::edit::Card {
            lines: vec![line.into()],
            from,
        };
        Change::Carded {
            card: format!("c{n}"),
            before: card("old", None),
            after: card("new", Some(session())),
        }
    }

    #[test]
    fn a_card_is_replaced_in_one_place_and_undone_only_when_it_went() {
        let mut bench = Bench::new();
        let step = |n: u64| Step::Card {
            slot: format!("c{n}"),
            change: 0,
        };
        let decided = bench.make(CLEAN, None, vec![carded(1)]);
        assert_eq!(
            (decided.steps, decided.from),
            (vec![step(1)], Some(session()))
        );
        assert_eq!(decided.session.unwrap().name, "boxmaker-owner");
        bench.sent(1);
        let undo = bench.make(CLEAN, Some(1), vec![carded(1).reversed()]);
        assert_eq!(
            (undo.steps, undo.from),
            (vec![step(1)], None),
            "Honcho's own"
        );
        // Not sent yet: the redo takes it back, and Honcho keeps the new one.
        let redo = bench.make(CLEAN, Some(2), vec![carded(1)]);
        assert_eq!(redo.skip, Some(SkipReason::NothingToSend));
        assert_eq!(bench.ledger.state(&of(2)), Some(&StepState::Cancelled));
        let undo = bench.make(CLEAN, Some(3), vec![carded(1).reversed()]);
        assert_eq!(undo.steps, [step(1)]);
        // What was kept here goes nowhere by undo and redo.
        let mut flagged = bench.edit(CLEAN, None, vec![carded(5)]);
        flagged.kept_local = Some(KeptLocal::Flagged);
        assert_eq!(bench.decide(&flagged).skip, Some(SkipReason::Flagged));
        let mut undo = bench.edit(CLEAN, Some(5), vec![carded(5).reversed()]);
        undo.by = By::Owner {};
        assert_eq!(bench.decide(&undo).skip, Some(SkipReason::NothingToSend));
        let untrusted = bench.make(Label::UNLABELLED, None, vec![carded(7)]);
        assert_eq!(untrusted.skip, Some(SkipReason::NothingToSend));
    }

    #[test]
    fn a_withdrawn_card_is_not_sent_by_undo_and_redo_but_the_old_one_is_put_back() {
        let mut bench = Bench::new();
        bench.make(CLEAN, None, vec![carded(1)]);
        let withdrawn = Line::Withdrawn {
            at: Millis(3),
            step: of(1),
        };
        bench.ledger.apply(&withdrawn).unwrap();
        let redo = bench.make(CLEAN, Some(99), vec![carded(1)]);
        assert_eq!(redo.skip, Some(SkipReason::NothingToSend));
        // A try of it may have arrived.
        let undo = bench.make(CLEAN, Some(1), vec![carded(1).reversed()]);
        assert_eq!(undo.steps.len(), 1);
    }

    #[test]
    fn flagged_secret_and_untrusted_identity_go_nowhere() {
        let mut bench = Bench::new();
        let mut flagged = bench.edit(Label::UNLABELLED, None, vec![noted("n1")]);
        flagged.kept_local = Some(KeptLocal::Flagged);
        assert_eq!(bench.decide(&flagged).skip, Some(SkipReason::Flagged));
        let secret = Label::new(bxwire::Class::Secret, bxwire::Trust::Trusted);
        let decided = bench.make(secret, None, vec![noted("n2")]);
        assert_eq!(decided.skip, Some(SkipReason::SecretClass));
        let decided = bench.make(Label::UNLABELLED, None, vec![added("u3")]);
        assert_eq!(decided.skip, Some(SkipReason::NothingToSend));
    }

    #[test]
    fn an_undo_cancels_what_was_not_sent_and_reverses_what_was() {
        let mut bench = Bench::new();
        bench.make(CLEAN, None, vec![added("u1")]);
        let undo = bench.make(CLEAN, Some(1), vec![added("u1").reversed()]);
        assert_eq!(undo.skip, Some(SkipReason::NothingToSend));
        assert_eq!(bench.ledger.state(&of(1)), Some(&StepState::Cancelled));
        // Redo, sent, and undone again.
        bench.make(CLEAN, Some(2), vec![added("u1")]);
        bench.sent(3);
        let undo = bench.make(CLEAN, Some(3), vec![added("u1").reversed()]);
        assert_eq!(undo.steps, [Step::Unconclude { of: of(3) }]);
    }

    #[test]
    fn an_undo_brings_back_words_as_their_own_sessions() {
        let other: SessionId = "20260131-zzzzzzzzzzzz".parse().unwrap();
        let replaced = Change::Replaced {
            about: About::User,
            entry: "u1".into(),
            before: "t".into(),
            after: "s".into(),
        };
        let replaced_elsewhere = |bench: &mut Bench| {
            let mut edit = bench.edit(CLEAN, None, vec![replaced.clone()]);
            edit.by = By::Session {
                session: other.clone(),
                turn: 1,
                speaker: "local/owner".parse().ok(),
            };
            bench.decide(&edit);
        };
        let undo = |bench: &mut Bench| {
            let mut undo = bench.edit(CLEAN, Some(2), vec![replaced.reversed()]);
            undo.by = By::Owner {};
            let brief = EditBrief {
                authors: vec![(0, EditId(1))],
                ..BRIEF
            };
            let lines = decide_edit(&bench.config, &bench.ledger, &undo, &brief, Millis(1));
            match lines.last() {
                Some(Line::Decided(decided)) => decided.clone(),
                other => panic!("{other:?}"),
            }
        };
        let wrote = |decided: &Decided| {
            let from = |step: &Step| match step {
                Step::Conclude { from, .. } => Some(from.clone()),
                _ => None,
            };
            decided.steps.iter().find_map(from)
        };
        let mut bench = Bench::new();
        bench.make(CLEAN, None, vec![added("u1")]);
        bench.sent(1);
        replaced_elsewhere(&mut bench);
        bench.sent(2);
        assert_eq!(wrote(&undo(&mut bench)), Some(Some(session())));
        // Words that were withdrawn stay here, whoever replaced them since.
        let mut bench = Bench::new();
        bench.make(CLEAN, None, vec![added("u1")]);
        let withdrawn = Line::Withdrawn {
            at: Millis(1),
            step: of(1),
        };
        bench.ledger.apply(&withdrawn).unwrap();
        replaced_elsewhere(&mut bench);
        bench.sent(2);
        assert_eq!(wrote(&undo(&mut bench)), None);
    }

    #[test]
    fn an_undo_of_what_failed_cancels_it() {
        let mut bench = Bench::new();
        bench.make(CLEAN, None, vec![added("u1")]);
        let failed = Line::Failed {
            at: Millis(2),
            step: of(1),
            kind: "refused".into(),
            status: Some(422),
        };
        bench.ledger.apply(&failed).unwrap();
        let undo = bench.make(CLEAN, Some(1), vec![added("u1").reversed()]);
        assert_eq!(undo.skip, Some(SkipReason::NothingToSend));
        assert_eq!(bench.ledger.state(&of(1)), Some(&StepState::Cancelled));
        assert_eq!(bench.ledger.failed().count(), 0);
    }

    #[test]
    fn an_undo_of_what_is_in_doubt_waits_behind_it() {
        let mut bench = Bench::new();
        bench.make(CLEAN, None, vec![added("u1")]);
        let sending = Line::Sending {
            at: Millis(1),
            steps: vec![of(1)],
        };
        bench.ledger.apply(&sending).unwrap();
        let undo = bench.make(CLEAN, Some(1), vec![added("u1").reversed()]);
        assert_eq!(undo.steps, [Step::Unconclude { of: of(1) }]);
        assert_eq!(bench.ledger.place(&of(1)), bench.ledger.place(&of(2)));
    }

    #[test]
    fn an_untrusted_note_undone_is_retracted_and_redone_never_becomes_trusted() {
        let mut bench = Bench::new();
        bench.make(Label::UNLABELLED, None, vec![noted("n1")]);
        bench.sent(1);
        let undo = bench.make(CLEAN, Some(1), vec![noted("n1").reversed()]);
        assert_eq!(undo.steps, [Step::Retract { of: of(1) }]);
        bench.sent(2);
        let redo = bench.make(CLEAN, Some(2), vec![noted("n1")]);
        let want = Step::Note {
            slot: "n1".into(),
            change: 0,
            from: None,
        };
        assert_eq!(redo.steps, [want]);
        // What was withdrawn or excluded is not sent by way of undo and redo either.
        let kept = bench.make(CLEAN, None, vec![added("u9")]);
        let withdrawn = Line::Withdrawn {
            at: Millis(3),
            step: of(4),
        };
        bench.ledger.apply(&withdrawn).unwrap();
        assert_eq!(kept.steps.len(), 1);
        bench.make(CLEAN, Some(4), vec![added("u9").reversed()]);
        let redo = bench.make(CLEAN, Some(5), vec![added("u9")]);
        assert_eq!(redo.skip, Some(SkipReason::NothingToSend));
        bench.make(CLEAN, Some(99), vec![added("u10")]);
        assert!(
            bench.ledger.maker("u10").is_none(),
            "it was never to go anywhere"
        );
        // What is brought back is asked about its own session before it goes.
        bench.make(CLEAN, None, vec![added("u11")]);
        bench.make(CLEAN, Some(8), vec![added("u11").reversed()]);
        let mut back = bench.edit(CLEAN, Some(9), vec![added("u11")]);
        back.by = By::Owner {};
        assert_eq!(bench.decide(&back).from, Some(session()));
        // A note that was kept here is not sent by way of undo and redo either.
        let mut flagged = bench.edit(Label::UNLABELLED, None, vec![noted("n2")]);
        flagged.kept_local = Some(KeptLocal::Flagged);
        bench.decide(&flagged);
        bench.make(CLEAN, Some(11), vec![noted("n2").reversed()]);
        let redo = bench.make(CLEAN, Some(12), vec![noted("n2")]);
        assert_eq!(redo.skip, Some(SkipReason::NothingToSend));
    }
}
