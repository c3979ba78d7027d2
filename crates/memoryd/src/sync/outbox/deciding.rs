//! The deciding half of the outbox: what brokerd says becomes `decided` lines, or the last look before a send.

use super::*;
use crate::memory::is_forgotten;

impl Outbox {
    /// Decides the turns that go nowhere whatever brokerd says.
    pub(super) fn decide_without_broker(&mut self, now: Millis) -> bool {
        let mut lines = Vec::new();
        for (session, turns) in &self.undecided {
            let owner = self.owner.get(session).copied();
            for brief in turns.values() {
                let facts = TurnFacts {
                    broker: None,
                    owner,
                    ..brief.facts
                };
                if let Decision::Skip(_) = decide::decide(&facts)
                    && lines.len() < DECIDE_TURNS_MAX
                {
                    lines.push(Line::Decided(decided(brief, &facts, &mut None, now)));
                }
            }
        }
        let any = !lines.is_empty();
        self.write(lines);
        any
    }

    pub(super) fn due_session(&self, now: Millis) -> Option<SessionId> {
        let due = self.broker.as_ref().is_none_or(|outage| outage.next <= now);
        self.ask.first().filter(|_| due).cloned()
    }

    pub(super) fn broker_said(&mut self, state: Option<SessionState>, now: Millis) {
        match state {
            None => {
                let failure = Failure::NotReached {
                    kind: "brokerd does not answer",
                };
                if space::failed(
                    &mut self.broker,
                    failure,
                    &self.config.limits,
                    &mut self.random,
                    now,
                ) {
                    self.events.push(Event::BrokerAway);
                }
            }
            Some(_) => {
                if self.broker.take().is_some() {
                    self.events.push(Event::BrokerBack);
                }
            }
        }
        match self.job.take() {
            Some(Job::Decide(session)) => {
                if let Some(state) = state {
                    self.decide_session(&session, state, now);
                }
            }
            Some(Job::Send(sending)) => {
                // It tells of what waits in that session too: by the time of its own question a tool call may have
                // brokerd see the session anew.
                if let (Stage::LastLook(session), Some(state)) = (&sending.stage, state)
                    && !state.seen
                {
                    self.decide_session(session, state, now);
                }
                self.last_look(sending, state, now);
            }
            None => {}
        }
    }

    pub(super) fn decide_session(&mut self, session: &SessionId, state: SessionState, now: Millis) {
        self.ask.remove(session);
        let owner = self.owner.get(session).copied();
        // The next tool call has brokerd see the session anew, with loopd's word alone: that is no second word on
        // what waits here.
        let state = SessionState {
            seen: state.seen && self.ledger.held(session).is_none(),
            ..state
        };
        let mut last = self.ledger.session(session).cloned();
        let mut lines = Vec::new();
        let turns = self.undecided.get(session);
        for brief in turns.into_iter().flat_map(BTreeMap::values) {
            let facts = TurnFacts {
                broker: Some(state),
                owner,
                ..brief.facts
            };
            if matches!(decide::decide(&facts), Decision::Wait(_)) {
                // Order holds: what comes after waits for it too.
                let held = self.ledger.held(session);
                let new = |turn: &u64| held.is_none_or(|held| !held.contains(turn));
                let waiting = turns
                    .into_iter()
                    .flat_map(|turns| turns.range(brief.turn..));
                let turns: Vec<_> = waiting.map(|(turn, _)| *turn).filter(new).collect();
                if !turns.is_empty() {
                    lines.push(Line::Held {
                        at: now,
                        session: session.clone(),
                        turns,
                    });
                }
                break;
            }
            if lines.len() == DECIDE_TURNS_MAX {
                self.ask.insert(session.clone());
                break;
            }
            lines.push(Line::Decided(decided(brief, &facts, &mut last, now)));
        }
        self.write(lines);
    }

    fn restores(&self, step: &StepRef) -> bool {
        matches!(self.ledger.step(step), Some(Step::Conclude { slot, .. }) if is_forgotten(slot))
    }

    pub(super) fn last_look(&mut self, sending: Sending, state: Option<SessionState>, now: Millis) {
        let seen_then = sending.steps.iter().any(|step| match &step.item {
            // The words that an undo brings back of a fact are of a session that may have called no tool.
            ItemId::Edit(_) if self.restores(step) => false,
            // It came through brokerd.
            ItemId::Edit(_) => true,
            ItemId::Turn { .. } => self
                .ledger
                .entry(&step.item)
                .and_then(|entry| entry.decided.broker)
                .is_some_and(|then| then.seen),
        });
        match decide::last_look(seen_then, state) {
            LastLook::Send => {
                self.job = Some(Job::Send(Sending {
                    stage: Stage::Load,
                    ..sending
                }));
            }
            LastLook::Withdraw => {
                let lines = sending
                    .steps
                    .into_iter()
                    .map(|step| Line::Withdrawn { at: now, step })
                    .collect();
                self.write(lines);
            }
            LastLook::Wait(WaitReason::BrokerAway) => {
                let until = self.broker.as_ref().map_or(now, |outage| outage.next);
                self.paused.insert(sending.place, until);
            }
            LastLook::Wait(WaitReason::BrokerForgot) => {
                let until = now.plus_ms(SyncLimits::ms(self.config.limits.retry_ms_max));
                self.paused.insert(sending.place, until);
            }
        }
    }
}

/// The line for a turn that can be decided. `last` is the session's last Honcho session, and moves on.
fn decided(
    brief: &TurnBrief,
    facts: &TurnFacts,
    last: &mut Option<HonchoSession>,
    now: Millis,
) -> Decided {
    let role = match decide::decide(facts) {
        Decision::Trusted(clean) => Ok(trusted(clean)),
        Decision::Untrusted => Ok(Role::Untrusted),
        Decision::Skip(reason) => Err(Some(reason)),
        Decision::Wait(_) => Err(None),
    };
    let mut decided = Decided {
        at: now,
        item: ItemId::Turn {
            session: brief.session.clone(),
            turn: brief.turn,
        },
        skip: role.err().flatten(),
        from: Some(brief.session.clone()),
        session: None,
        steps: Vec::new(),
        log: facts.log,
        broker: facts.broker,
        speaker: brief.speaker.clone(),
        made: None,
    };
    if let (Ok(role), Some(peer)) = (role, &brief.peer) {
        let session = naming::follow(last.as_ref(), &brief.session, Some(peer));
        *last = Some(session.clone());
        decided.session = Some(session);
        decided.steps.push(Step::Messages {
            role,
            peer: peer.clone(),
        });
    }
    decided
}

/// The trusted workspace, for who can show that both labels were clean.
fn trusted(_: decide::Clean) -> Role {
    Role::Trusted
}
