//! Which place goes next, and what it needs before it can.

use super::*;

impl Outbox {
    /// The oldest thing that may be done now; else the earliest time at which something may be.
    pub(super) fn choose(&mut self, now: Millis) -> (Option<Sending>, Option<Millis>) {
        let mut wake: Option<Millis> = None;
        let mut best: Option<(bool, u64, Sending)> = None;
        let mut later = |at: Option<Millis>| {
            if let Some(at) = at {
                wake = Some(wake.map_or(at, |wake| wake.min(at)));
            }
        };
        for place in self.ledger.open_places() {
            if let Some(until) = self.paused.get(place).filter(|until| **until > now) {
                later(Some(*until));
                continue;
            }
            match self.candidate(place, now) {
                Ok(Some((order, sending))) => {
                    let troubled = sending
                        .steps
                        .first()
                        .and_then(|step| self.trouble.get(step))
                        .is_some_and(|trouble| trouble.server_errors > 0);
                    let better = best
                        .as_ref()
                        .is_none_or(|(was, than, _)| (troubled, order) < (*was, *than));
                    if better {
                        best = Some((troubled, order, sending));
                    }
                }
                Ok(None) => {}
                Err(at) => later(at),
            }
        }
        (best.map(|(_, _, sending)| sending), wake)
    }

    /// What a place can do now.
    pub(super) fn candidate(
        &self,
        place: &Place,
        now: Millis,
    ) -> Result<Option<(u64, Sending)>, Option<Millis>> {
        if let Some(deletion) = self.deletion(place, now)? {
            return Ok(Some(deletion));
        }
        let mut open = self
            .ledger
            .open_at(place)
            .filter(|(_, step)| !self.is_unknowable(step))
            .peekable();
        let Some((order, head)) = open.peek().cloned() else {
            return Ok(None);
        };
        let Some(step) = self.ledger.step(&head) else {
            return Ok(None);
        };
        let space = &self.spaces[&place.role];
        space.ready(lane(step), now)?;
        let trouble = self.trouble.get(&head).copied().unwrap_or_default();
        let (purpose, steps) = match (self.ledger.state(&head), step) {
            (_, Step::Unconclude { of }) => {
                let known = !self.ledger.state(of).is_some_and(StepState::is_open);
                (
                    Purpose::Send,
                    if known {
                        vec![head.clone()]
                    } else {
                        Vec::new()
                    },
                )
            }
            (_, Step::Forget { .. }) => (Purpose::Send, vec![head.clone()]),
            _ if self.waits_for_deletion(&head) => (Purpose::Send, Vec::new()),
            (Some(StepState::Trying(_)), _) if !trouble.cleared => {
                if let Some(free) = self.held_until(&head).filter(|free| *free > now) {
                    return Err(Some(free));
                }
                if matches!(step, Step::Card { .. }) {
                    // Only now: a first request that is carried out late would undo a later one.
                    return Ok(Some((
                        order,
                        self.sending(place, vec![head], Purpose::Send),
                    )));
                }
                let steps = open
                    .map(|(_, step)| step)
                    .take_while(|step| {
                        matches!(self.ledger.state(step), Some(StepState::Trying(_)))
                            && matches!(self.ledger.step(step), Some(Step::Messages { .. }))
                            && !self
                                .trouble
                                .get(step)
                                .is_some_and(|trouble| trouble.cleared)
                    })
                    .take(BATCH_TURNS_MAX)
                    .collect::<Vec<_>>();
                (
                    Purpose::LookUp,
                    if steps.is_empty() {
                        vec![head.clone()]
                    } else {
                        steps
                    },
                )
            }
            (_, Step::Messages { .. }) if !trouble.alone => {
                let steps = open
                    .map(|(_, step)| step)
                    .take_while(|step| {
                        let trouble = self.trouble.get(step).copied().unwrap_or_default();
                        let ready = matches!(self.ledger.state(step), Some(StepState::Waiting))
                            || trouble.cleared;
                        ready
                            && !trouble.alone
                            && matches!(self.ledger.step(step), Some(Step::Messages { .. }))
                    })
                    .take(BATCH_TURNS_MAX)
                    .collect();
                (Purpose::Send, steps)
            }
            _ => (Purpose::Send, vec![head.clone()]),
        };
        if steps.is_empty() {
            return Ok(None);
        }
        Ok(Some((order, self.sending(place, steps, purpose))))
    }

    fn sending(&self, place: &Place, steps: Vec<StepRef>, purpose: Purpose) -> Sending {
        let stage = if self.spaces[&place.role].probe {
            Stage::Probe
        } else {
            self.after_probe(place, &steps, purpose)
        };
        Sending {
            place: place.clone(),
            steps,
            purpose,
            stage,
        }
    }

    /// Whether only the owner can say what became of a step, or of what it takes back: it holds up nobody.
    fn is_unknowable(&self, step: &StepRef) -> bool {
        let of = match self.ledger.step(step) {
            Some(Step::Unconclude { of } | Step::Retract { of }) => of,
            _ => step,
        };
        let known = |step| {
            self.trouble
                .get(step)
                .is_some_and(|trouble| trouble.unknowable)
        };
        known(step) || (known(of) && self.ledger.state(of).is_some_and(StepState::is_open))
    }

    /// The deletion of a whole place, as soon as nothing that was tried before can still arrive there: a message
    /// after it would make the session anew. What was tried needs no look then.
    fn deletion(
        &self,
        place: &Place,
        now: Millis,
    ) -> Result<Option<(u64, Sending)>, Option<Millis>> {
        if !self.ledger.is_doomed(place) {
            return Ok(None);
        }
        self.spaces[&place.role].ready(Lane::Messages, now)?;
        let mut free: Option<Millis> = None;
        for (order, step) in self.ledger.open_at(place) {
            if self.ledger.step(&step).is_some_and(Step::deletes_place) {
                return match free.filter(|free| *free > now) {
                    Some(free) => Err(Some(free)),
                    None => Ok(Some((
                        order,
                        self.sending(place, vec![step], Purpose::Send),
                    ))),
                };
            }
            free = free.max(self.held_until(&step));
        }
        Ok(None)
    }

    /// Until when the last try of a step may still be carried out; `None`: none may.
    fn held_until(&self, step: &StepRef) -> Option<Millis> {
        let Some(StepState::Trying(tried)) = self.ledger.state(step) else {
            return None;
        };
        let trouble = self.trouble.get(step).copied().unwrap_or_default();
        let limits = &self.config.limits;
        let hold = match lane(self.ledger.step(step)?) {
            Lane::Messages => SyncLimits::ms(limits.hold_messages_ms),
            Lane::Conclusions => SyncLimits::ms(limits.hold_conclusions_ms),
        };
        Some(trouble.doubt_since.unwrap_or(*tried).plus_ms(hold))
    }

    /// Whether what a step writes is still there in a place that its own edit deletes first.
    fn waits_for_deletion(&self, step: &StepRef) -> bool {
        let Some(entry) = self.ledger.entry(&step.item) else {
            return false;
        };
        let role = self.ledger.place(step).map(|place| place.role);
        let open = |(step, state): (&Step, &StepState)| {
            matches!(step, Step::DeleteSession { role: of, .. } if Some(*of) == role)
                && state.is_open()
        };
        let steps = entry.decided.steps.iter().zip(&entry.states);
        steps.take(step.step).any(open)
    }

    pub(super) fn after_probe(&self, place: &Place, steps: &[StepRef], purpose: Purpose) -> Stage {
        let first = steps.first().and_then(|step| self.ledger.step(step));
        match (purpose, first) {
            // By its metadata: no text is needed.
            (
                Purpose::LookUp,
                Some(Step::Messages { .. } | Step::Note { .. } | Step::Retract { .. }),
            ) => {
                return Stage::Call(Box::new(Request::FindMessages {
                    role: place.role,
                    session: place.session.clone(),
                    names: steps.iter().map(|step| self.ledger.name(step)).collect(),
                }));
            }
            (Purpose::LookUp, _) => return Stage::Load,
            (Purpose::Send, Some(step)) if step.deletes() => return Stage::Load,
            _ => {}
        }
        match self.missing(place, steps) {
            Some(made) => Stage::Ensure(made),
            None => self.before_load(steps),
        }
    }

    pub(super) fn before_load(&self, steps: &[StepRef]) -> Stage {
        let from = steps.first().and_then(|step| match self.ledger.step(step) {
            // A retraction repeats the note's words: they are the note's session's.
            Some(Step::Retract { of }) => self.ledger.whose(of),
            _ => self.ledger.whose(step),
        });
        from.cloned().map_or(Stage::Load, Stage::LastLook)
    }

    pub(super) fn missing(&self, place: &Place, steps: &[StepRef]) -> Option<Made> {
        let session = self.session_of(place, steps)?;
        let peers: Vec<_> = steps
            .iter()
            .filter_map(|step| match self.ledger.step(step)? {
                Step::Conclude { peer, .. } | Step::Messages { peer, .. } => Some(peer.clone()),
                Step::Card { .. } => Some(self.config.owner.clone()),
                Step::Unconclude { .. }
                | Step::Note { .. }
                | Step::Retract { .. }
                | Step::Forget { .. }
                | Step::DeleteSession { .. } => None,
            })
            .collect();
        self.spaces[&place.role].missing(&self.config.agent, &peers, &session)
    }

    /// The members a place's session is made with: those of the first step that writes to it.
    pub(super) fn session_of(&self, place: &Place, steps: &[StepRef]) -> Option<HonchoSession> {
        let of = steps.first()?;
        let maker = match self.ledger.step(of)? {
            Step::Retract { of } | Step::Unconclude { of } => of,
            _ => of,
        };
        let session = self.ledger.entry(&maker.item)?.decided.session.clone()?;
        (session.name == place.session).then_some(session)
    }

    pub(super) fn ensure(&self, role: Role, made: &Made) -> Request {
        match made {
            Made::Workspace => Request::Workspace { role },
            Made::Peer(peer) => Request::Peer {
                role,
                peer: peer.clone(),
                observed: *peer != self.config.agent,
            },
            Made::Session(name, speakers) => Request::Session {
                role,
                session: HonchoSession {
                    name: name.clone(),
                    speakers: speakers.clone(),
                },
            },
        }
    }
}
