//! What each answer of Honcho, and each lack of one, means.

use super::*;

impl Outbox {
    pub(super) fn called(&mut self, result: Result<Answer, Failure>, now: Millis) {
        if let Some(request) = self.checking.take() {
            return self.checked(&request, result, now);
        }
        let Some(sending) = self.flying.take() else {
            return;
        };
        let role = sending.place.role;
        match (sending.stage.clone(), result) {
            // What comes next is chosen anew: steps may have been cancelled while this was on its way.
            (Stage::Probe, Ok(_)) => self.reached(role),
            (
                Stage::Ensure(Made::Workspace) | Stage::Repair,
                Ok(Answer::Workspace { all_off: false }),
            ) if role == Role::Fleet => {
                if matches!(sending.stage, Stage::Repair) {
                    self.misconfigured(role, now);
                } else {
                    self.job = Some(Job::Send(Sending {
                        stage: Stage::Repair,
                        ..sending
                    }));
                }
            }
            (Stage::Ensure(_) | Stage::Repair, Ok(_)) => {
                let made = match &sending.stage {
                    Stage::Ensure(made) => made.clone(),
                    _ => Made::Workspace,
                };
                if made == Made::Workspace {
                    self.space_mut(role).misconfigured = false;
                }
                self.space_mut(role).made(made);
            }
            // A key that may write here and not change the workspace is not a wrong key.
            (
                Stage::Repair,
                Err(Failure::Refused { .. } | Failure::Gone { .. } | Failure::KeyRefused { .. }),
            ) => self.misconfigured(role, now),
            (Stage::Call(_), Ok(answer)) if sending.purpose == Purpose::LookUp => {
                self.reached(role);
                self.looked_up(&sending, answer, now);
            }
            (Stage::Call(request), Ok(answer)) => self.sent(&sending, &request, answer, now),
            (Stage::Call(_), Err(failure)) if sending.purpose == Purpose::Send => {
                self.not_answered(&sending, failure, now);
            }
            (_, Err(failure)) => self.read_failed(&sending, failure, now),
            (_, Ok(_)) => {}
        }
    }

    fn checked(&mut self, request: &Request, result: Result<Answer, Failure>, now: Millis) {
        let (began, ended) = self
            .health
            .answered(request, result, &self.config, &self.ledger, now);
        self.events.extend(began.into_iter().map(Event::Unhealthy));
        self.events.extend(ended.into_iter().map(Event::Healthy));
    }

    pub(super) fn space_mut(&mut self, role: Role) -> &mut Space {
        self.spaces.entry(role).or_default()
    }

    /// A read was answered: writes may go on.
    pub(super) fn reached(&mut self, role: Role) {
        let space = self.space_mut(role);
        space.probe = false;
        if let Some(outage) = space.outage.take() {
            self.events.push(Event::OutageEnded {
                role,
                since: outage.since,
            });
        }
    }

    pub(super) fn misconfigured(&mut self, role: Role, now: Millis) {
        let failure = Failure::Refused {
            kind: "the workspace derives, and could not be told not to",
            status: None,
        };
        let limits = self.config.limits;
        let space = self.spaces.entry(role).or_default();
        if !std::mem::replace(&mut space.misconfigured, true) {
            self.events.push(Event::Misconfigured { role });
        }
        space::failed(&mut space.outage, failure, &limits, &mut self.random, now);
    }

    pub(super) fn sent(
        &mut self,
        sending: &Sending,
        request: &Request,
        answer: Answer,
        now: Millis,
    ) {
        let ids = match answer {
            Answer::Created(ids) => ids,
            _ => Vec::new(),
        };
        let wanted: Vec<usize> = match request {
            Request::AddMessages { messages, .. } => sending
                .steps
                .iter()
                .map(|step| {
                    messages
                        .iter()
                        .filter(|message| message.item == step.item)
                        .count()
                })
                .collect(),
            Request::Conclude { .. } => vec![1],
            _ => vec![0],
        };
        let distinct: BTreeSet<_> = ids.iter().collect();
        let new = distinct.len() == ids.len() && !ids.iter().any(|id| self.ledger.knows(id));
        let fits = ids.iter().all(|id| naming::is_name(id)) && new;
        if ids.len() != wanted.iter().sum::<usize>() || !fits {
            // An answer that does not fit the request is none. An id that is something else's would have that
            // taken back in its stead.
            let failure = Failure::Unknown {
                kind: "an answer that does not fit",
                status: None,
            };
            self.not_answered(sending, failure, now);
            return;
        }
        self.worked(sending);
        if sending.place.role == Role::Fleet {
            // Others may change it at any time, and it must never derive: it is looked at before each write.
            self.space_mut(Role::Fleet).unmade(&Made::Workspace);
        }
        let mut ids = ids.into_iter();
        let steps = sending
            .steps
            .iter()
            .zip(wanted)
            .map(|(step, count)| SentStep {
                step: step.clone(),
                ids: ids.by_ref().take(count).collect(),
                found: false,
            })
            .collect();
        self.write(vec![Line::Sent { at: now, steps }]);
        self.deleted(sending, now);
    }

    /// With a Honcho session goes whatever was on its way there before.
    fn deleted(&mut self, sending: &Sending, now: Millis) {
        let deletes = |step: &&StepRef| self.ledger.step(step).is_some_and(Step::deletes_place);
        let Some(delete) = sending.steps.iter().find(deletes) else {
            return;
        };
        let before = self.ledger.open_at(&sending.place).map(|(_, step)| step);
        let lines = before
            .take_while(|step| step != delete)
            .map(|step| Line::Cancelled { at: now, step })
            .collect();
        self.write(lines);
        // Whatever comes later makes it anew.
        self.space_mut(sending.place.role).forget();
    }

    /// A write went through.
    pub(super) fn worked(&mut self, sending: &Sending) {
        let role = sending.place.role;
        self.reached(role);
        let Some(lane) = self.lane_of(sending) else {
            return;
        };
        *self
            .successes
            .entry((role, lane == Lane::Messages))
            .or_default() += 1;
        if let Some(outage) = self.space_mut(role).lane(lane).take() {
            self.events.push(Event::OutageEnded {
                role,
                since: outage.since,
            });
        }
    }

    pub(super) fn lane_of(&self, sending: &Sending) -> Option<Lane> {
        sending
            .steps
            .first()
            .and_then(|step| self.ledger.step(step))
            .map(lane)
    }

    pub(super) fn looked_up(&mut self, sending: &Sending, answer: Answer, now: Millis) {
        let mut lines = Vec::new();
        for step in &sending.steps {
            let ids = match &answer {
                Answer::Messages(found) => {
                    let name = self.ledger.name(step);
                    let mut parts: Vec<_> = found.iter().filter(|(of, ..)| *of == name).collect();
                    parts.sort_by_key(|(_, part, _)| *part);
                    parts.into_iter().map(|(_, _, id)| id.clone()).collect()
                }
                Answer::Conclusions(ids) => ids
                    .iter()
                    .find(|id| !self.ledger.knows(id))
                    .cloned()
                    .into_iter()
                    .collect(),
                Answer::Done | Answer::Workspace { .. } | Answer::Created(_) | Answer::Queue(_) => {
                    Vec::new()
                }
            };
            if !ids.is_empty() {
                lines.push(Line::Sent {
                    at: now,
                    steps: vec![SentStep {
                        step: step.clone(),
                        ids,
                        found: true,
                    }],
                });
            } else if let Some(taker) = self.taker(&sending.place, step) {
                // It is not there and is not wanted any more.
                lines.push(Line::Cancelled {
                    at: now,
                    step: step.clone(),
                });
                lines.push(Line::Cancelled {
                    at: now,
                    step: taker,
                });
            } else {
                lines.extend(self.not_found(step, now));
            }
        }
        self.write(lines);
    }

    /// The open step that takes this one back.
    pub(super) fn taker(&self, place: &Place, step: &StepRef) -> Option<StepRef> {
        self.ledger
            .open_at(place)
            .map(|(_, open)| open)
            .find(|open| match self.ledger.step(open) {
                Some(Step::Unconclude { of } | Step::Retract { of }) => of == step,
                _ => false,
            })
    }

    pub(super) fn not_found(&mut self, step: &StepRef, now: Millis) -> Option<Line> {
        let tried = match self.ledger.state(step) {
            Some(StepState::Trying(tried)) => *tried,
            _ => now,
        };
        let conclusion = matches!(self.ledger.step(step), Some(Step::Conclude { .. }));
        let role = self.ledger.place(step).map(|place| place.role);
        let lane = self.ledger.step(step).map(lane);
        let successes = role.zip(lane).map_or(0, |(role, lane)| {
            self.successes
                .get(&(role, lane == Lane::Messages))
                .copied()
                .unwrap_or(0)
        });
        let trouble = self.trouble.entry(step.clone()).or_default();
        if conclusion
            && !trouble.ordered
            && now.since(tried) > SyncLimits::ms(self.config.limits.doubt_ms_max)
        {
            trouble.unknowable = true;
            return None;
        }
        if trouble.server_errors >= SERVER_ERRORS_MAX && successes > trouble.lane_then {
            self.events.push(Event::Failed {
                step: step.clone(),
                kind: "server-error".into(),
                status: Some(500),
            });
            return Some(Line::Failed {
                at: now,
                step: step.clone(),
                kind: "server-error".into(),
                status: Some(500),
            });
        }
        trouble.cleared = true;
        trouble.doubt_since = None;
        None
    }

    /// A write had no usable answer.
    pub(super) fn not_answered(&mut self, sending: &Sending, failure: Failure, now: Millis) {
        let role = sending.place.role;
        let idempotent = sending
            .steps
            .first()
            .and_then(|step| self.ledger.step(step))
            .is_some_and(Step::is_idempotent);
        let deletes = |step: &StepRef| self.ledger.step(step).is_some_and(Step::deletes);
        let deletes = sending.steps.iter().all(deletes);
        let not_sent = Line::NotSent {
            at: now,
            steps: sending.steps.clone(),
        };
        match failure {
            Failure::Gone { status: 404 } if deletes => {
                self.worked(sending);
                let steps = sending
                    .steps
                    .iter()
                    .map(|step| SentStep {
                        step: step.clone(),
                        ids: Vec::new(),
                        found: false,
                    })
                    .collect();
                self.write(vec![Line::Sent { at: now, steps }]);
                self.deleted(sending, now);
            }
            Failure::NotReached { .. } => {
                self.write(vec![not_sent]);
                self.outage(role, failure, now);
            }
            Failure::Later { .. } => {
                self.write(vec![not_sent]);
                self.lane_outage(sending, failure, now);
            }
            Failure::KeyRefused { status } => {
                self.write(vec![not_sent]);
                self.key_refused(role, status, now);
            }
            Failure::Refused { kind, status } => {
                self.reached(role);
                if let [step] = sending.steps.as_slice() {
                    self.fail(step.clone(), kind, status, now);
                } else {
                    for step in &sending.steps {
                        self.trouble.entry(step.clone()).or_default().alone = true;
                    }
                    self.write(vec![not_sent]);
                }
            }
            Failure::Gone { status } => self.gone(sending, status, now),
            Failure::Unknown { status, .. } => {
                if !idempotent {
                    self.events.push(Event::InDoubt {
                        steps: sending.steps.len(),
                        role,
                    });
                }
                let server = status.is_some_and(|status| status >= 500);
                let successes = self
                    .lane_of(sending)
                    .and_then(|lane| self.successes.get(&(role, lane == Lane::Messages)))
                    .copied()
                    .unwrap_or(0);
                for step in &sending.steps {
                    let trouble = self.trouble.entry(step.clone()).or_default();
                    trouble.doubt_since = Some(now);
                    trouble.cleared = false;
                    if server {
                        if trouble.server_errors == 0 {
                            trouble.lane_then = successes;
                        }
                        trouble.server_errors += 1;
                        // Twice is no outage: one poisoned item must not hold its neighbours.
                        trouble.alone = trouble.server_errors > 1;
                    }
                }
                // What is looked up is failed when it is not found.
                let given_up = |step: &&StepRef| {
                    self.trouble.get(step).is_some_and(|trouble| {
                        trouble.server_errors >= SERVER_ERRORS_MAX && successes > trouble.lane_then
                    })
                };
                let given_up = sending.steps.iter().find(given_up).cloned();
                if let Some(step) = given_up.filter(|_| idempotent) {
                    self.fail(step, "server-error", status, now);
                }
                if server {
                    self.lane_outage(sending, failure, now);
                } else {
                    self.outage(role, failure, now);
                }
            }
        }
    }

    /// What the step needs is not there, or not as we thought: everything is made sure of again.
    pub(super) fn gone(&mut self, sending: &Sending, status: u16, now: Millis) {
        self.space_mut(sending.place.role).forget();
        let mut lines = vec![Line::NotSent {
            at: now,
            steps: sending.steps.clone(),
        }];
        for step in &sending.steps {
            let trouble = self.trouble.entry(step.clone()).or_default();
            trouble.gone += 1;
            if trouble.gone >= GONE_MAX {
                self.events.push(Event::Failed {
                    step: step.clone(),
                    kind: "gone".into(),
                    status: Some(status),
                });
                lines.push(Line::Failed {
                    at: now,
                    step: step.clone(),
                    kind: "gone".into(),
                    status: Some(status),
                });
            }
        }
        self.write(lines);
        let until = now.plus_ms(SyncLimits::ms(self.config.limits.retry_ms_min));
        self.paused.insert(sending.place.clone(), until);
    }

    /// A probe, a look-up or something that makes sure had no usable answer: nothing is lost by that.
    pub(super) fn read_failed(&mut self, sending: &Sending, failure: Failure, now: Millis) {
        let role = sending.place.role;
        match failure {
            Failure::KeyRefused { status } => self.key_refused(role, status, now),
            // This session alone: it may be on its way out.
            Failure::Gone { status }
                if matches!(sending.stage, Stage::Ensure(Made::Session(..))) =>
            {
                self.gone(sending, status, now);
            }
            Failure::Gone { .. }
            | Failure::NotReached { .. }
            | Failure::Unknown { .. }
            | Failure::Later { .. }
            | Failure::Refused { .. } => self.outage(role, failure, now),
        }
    }

    pub(super) fn outage(&mut self, role: Role, failure: Failure, now: Millis) {
        let limits = self.config.limits;
        let space = self.spaces.entry(role).or_default();
        space.probe = true;
        space.forget();
        if space::failed(&mut space.outage, failure, &limits, &mut self.random, now) {
            self.events.push(Event::OutageBegan {
                role,
                reason: failure.kind(),
                status: failure.status(),
            });
        }
    }

    pub(super) fn lane_outage(&mut self, sending: &Sending, failure: Failure, now: Millis) {
        let role = sending.place.role;
        let Some(lane) = self.lane_of(sending) else {
            return;
        };
        let limits = self.config.limits;
        let space = self.spaces.entry(role).or_default();
        space.probe = true;
        space.forget();
        if space::failed(space.lane(lane), failure, &limits, &mut self.random, now) {
            self.events.push(Event::OutageBegan {
                role,
                reason: failure.kind(),
                status: failure.status(),
            });
        }
    }

    pub(super) fn key_refused(&mut self, role: Role, status: u16, now: Millis) {
        let space = self.space_mut(role);
        space.forget();
        space.probe = true;
        if space.key_refused.replace((now, status)).is_none() {
            self.events.push(Event::KeyRefused { role });
        }
    }

    pub(super) fn fail(&mut self, step: StepRef, kind: &str, status: Option<u16>, now: Millis) {
        self.events.push(Event::Failed {
            step: step.clone(),
            kind: kind.into(),
            status,
        });
        self.write(vec![Line::Failed {
            at: now,
            step,
            kind: kind.into(),
            status,
        }]);
    }
}
