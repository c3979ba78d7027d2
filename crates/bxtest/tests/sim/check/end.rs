//! Once everything works for long enough: every decision, and every item's end.

use super::*;

impl World {
    /// Once everything works for long enough.
    pub fn check_end(&mut self) {
        self.check();
        let outbox = self.outbox.as_ref().expect("memoryd runs");
        let ledger = outbox.ledger();
        assert_eq!(outbox.undecided().count(), 0, "turns are undecided");
        // Every turn and edit has its decision.
        for session in &self.sessions {
            for turn in session.truth_at.keys() {
                let item = ItemId::Turn {
                    session: session.id.clone(),
                    turn: *turn,
                };
                assert!(ledger.entry(&item).is_some(), "{item} was never decided");
            }
        }
        for edit in &self.edits {
            assert!(
                ledger.entry(&ItemId::Edit(edit.id)).is_some(),
                "{} was lost",
                edit.id
            );
        }
        for entry in ledger.entries() {
            let item = &entry.decided.item;
            for (index, state) in entry.states.iter().enumerate() {
                let step = StepRef {
                    item: item.clone(),
                    step: index,
                };
                let role = ledger.place(&step).expect("a place").role;
                match state {
                    StepState::Waiting | StepState::Trying(_) => {
                        // Messages can be looked up for ever.
                        let conclusion =
                            matches!(entry.decided.steps[index], Step::Conclude { .. });
                        assert!(
                            (conclusion && outbox.in_doubt(&step))
                                || waits_for_doubt(outbox, &step),
                            "{item} still waits"
                        );
                    }
                    StepState::Sent { ids, .. } => {
                        let place = ledger.place(&step).expect("a place");
                        for id in ids {
                            if self.is_of_purged(&place.session) {
                                continue;
                            }
                            assert!(
                                self.is_there(role, id),
                                "{item} is recorded as sent and is not there"
                            );
                        }
                    }
                    StepState::Failed { .. } | StepState::Withdrawn | StepState::Cancelled => {}
                }
            }
            self.check_decision(entry);
        }
        self.check_order();
        self.check_ids(ledger);
        self.check_undone(outbox);
        self.check_common(outbox);
        self.check_retracted(outbox);
        self.check_forgotten(outbox);
        self.check_card(ledger);
        self.check_purged();
        self.check_standing(ledger);
        self.check_health();
    }

    /// Nothing was lost here, so nothing is said to be; that nothing is derived is said unless Honcho says it.
    fn check_health(&self) {
        let outbox = self.outbox.as_ref().expect("memoryd runs");
        for warning in outbox.health().warnings() {
            assert!(
                matches!(warning, Warning::NothingDerived { .. }) && !self.honcho.says_so,
                "{warning:?}"
            );
        }
    }

    /// G1 and G5: a decision is never cleaner than one made at once would have been, and a trusted one names
    /// two daemons that both said so.
    fn check_decision(&self, entry: &Entry) {
        let decided = &entry.decided;
        let item = &decided.item;
        if decided.skip.is_some() {
            return;
        }
        let truth = self.truth_of(item);
        assert!(
            decided.log.class < Class::Secret,
            "{item} was secret by the log"
        );
        if let ItemId::Turn { .. } = item {
            let broker = decided.broker.expect("brokerd's word");
            let clean = !broker.untrusted && !decided.log.is_untrusted();
            assert!(broker.class < Class::Secret, "{item} was secret by brokerd");
            self.check_turn(entry);
            let trusted = |step: &Step| {
                matches!(
                    step,
                    Step::Messages {
                        role: Role::Trusted,
                        ..
                    }
                )
            };
            assert!(
                clean || !decided.steps.iter().any(trusted),
                "{item} was clean by one alone"
            );
        }
        for step in &decided.steps {
            let trusted = matches!(
                step,
                Step::Messages {
                    role: Role::Trusted,
                    ..
                } | Step::Conclude { .. }
                    | Step::Card { .. }
            );
            assert!(
                !trusted || (!truth.is_untrusted() && truth.class < Class::Secret),
                "{item} was decided cleaner than it was"
            );
        }
        if let Some(speaker) = &decided.speaker {
            assert!(
                !self.config.exclude_speakers.contains(speaker),
                "{item} was excluded"
            );
        }
        let source = |id: &SessionId| self.sessions.iter().find(|found| found.id == *id);
        if let Some(session) = decided.from.as_ref().and_then(source) {
            let excluded = self
                .config
                .exclude_sources
                .iter()
                .any(|name| name == session.source);
            // It may take back what others had sent.
            let takes =
                |step: &Step| matches!(step, Step::Unconclude { .. } | Step::Retract { .. });
            assert!(
                !excluded || decided.steps.iter().all(takes),
                "{item} came from an excluded source"
            );
        }
    }

    /// A turn that goes somewhere was a person's and had its reply, and brokerd knew its session or the owner
    /// decided.
    fn check_turn(&self, entry: &Entry) {
        let ItemId::Turn { session, turn } = &entry.decided.item else {
            return;
        };
        let found = self.sessions.iter().find(|found| found.id == *session);
        let found = found.expect("a session");
        let of_turn = |record: &&log::Record| record.body.turn() == Some(*turn);
        for record in found.records.iter().filter(of_turn) {
            match &record.body {
                log::Body::User { origin, .. } => assert_eq!(*origin, Origin::Interactive),
                log::Body::TurnEnd { outcome, .. } => assert_eq!(*outcome, log::Outcome::Replied),
                _ => {}
            }
        }
        let trusted = |step: &Step| {
            matches!(
                step,
                Step::Messages {
                    role: Role::Trusted,
                    ..
                }
            )
        };
        let owner = self.owner_said.contains(session) && !entry.decided.steps.iter().any(trusted);
        let seen = entry.decided.broker.is_some_and(|broker| broker.seen);
        assert!(
            seen || owner || !found.had_results(*turn),
            "{session}/{turn} was decided though brokerd had forgotten its session"
        );
    }

    /// No id of Honcho's stands for two steps.
    fn check_ids(&self, ledger: &Ledger) {
        let mut known = std::collections::BTreeSet::new();
        for entry in ledger.entries() {
            for state in &entry.states {
                if let StepState::Sent { ids, .. } = state {
                    for id in ids {
                        assert!(known.insert(id), "{id} is recorded for two steps");
                    }
                }
            }
        }
    }

    fn is_there(&self, role: Role, id: &str) -> bool {
        let message = self
            .honcho
            .messages(role)
            .any(|(_, stored)| stored.id == id);
        let space = &self.honcho.spaces[&role];
        message || space.conclusions.iter().any(|found| found.id == id)
    }

    /// Within a Honcho session turns are in order, but for those the owner had tried again.
    fn check_order(&self) {
        for role in Role::ALL {
            let mut last = BTreeMap::<&str, u64>::new();
            for (session, stored) in self.honcho.messages(role) {
                if let ItemId::Turn { turn, .. } = stored.message.item
                    && !self.retried.contains(&stored.message.item)
                {
                    let before = last.insert(session, turn).unwrap_or(0);
                    assert!(before <= turn, "turn {turn} after {before} in {session}");
                }
            }
        }
    }
}

/// A step that takes back what nobody knows to be there waits with it.
fn waits_for_doubt(outbox: &Outbox, step: &StepRef) -> bool {
    match outbox.ledger().step(step) {
        Some(Step::Unconclude { of } | Step::Retract { of }) => outbox.in_doubt(of),
        _ => false,
    }
}
