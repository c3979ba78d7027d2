//! From a step and its texts to a request.

use super::*;

impl Outbox {
    pub(super) fn loaded(&mut self, loads: Vec<Result<Load, LoadError>>, now: Millis) {
        let Some(Job::Send(mut sending)) = self.job.take() else {
            return;
        };
        let mut steps = Vec::new();
        let mut messages: Vec<Message> = Vec::new();
        let mut text = None;
        let mut card = None;
        let mut bytes = 0;
        for (step, load) in sending.steps.iter().zip(loads) {
            match load {
                Ok(Load::Messages(more)) => {
                    let size: usize = more.iter().map(|message| message.content.len()).sum();
                    let full = messages.len() + more.len() > BATCH_MESSAGES_MAX
                        || bytes + size > BATCH_BYTES_MAX;
                    if full && !messages.is_empty() {
                        break;
                    }
                    bytes += size;
                    messages.extend(more);
                }
                Ok(Load::Conclusion(content)) => text = Some(content),
                Ok(Load::Card(lines)) => card = Some(lines),
                Ok(Load::Nothing) => {}
                Err(LoadError::Unreadable) if steps.is_empty() => {
                    let until = now.plus_ms(SyncLimits::ms(self.config.limits.retry_ms_min));
                    self.paused.insert(sending.place, until);
                    return;
                }
                Err(LoadError::Purged) if sending.purpose == Purpose::Send => {
                    // Those before it go first.
                    if steps.is_empty() {
                        let step = step.clone();
                        self.write(vec![Line::Cancelled { at: now, step }]);
                        return;
                    }
                    break;
                }
                Err(_) if sending.purpose == Purpose::LookUp => {
                    // Without its text nobody can tell whether it is there.
                    self.trouble.entry(step.clone()).or_default().unknowable = true;
                    return;
                }
                Err(error) if steps.is_empty() => {
                    let kind = match error {
                        LoadError::Secret => "secret-text",
                        LoadError::Missing | LoadError::Unreadable | LoadError::Purged => {
                            "text-missing"
                        }
                    };
                    self.fail(step.clone(), kind, None, now);
                    return;
                }
                // Those before it go first.
                Err(_) => break,
            }
            steps.push(step.clone());
        }
        let Some(request) = self.request(&sending, &steps, messages, text, card) else {
            // What was to be taken back never came to Honcho, or a later card did.
            let lines = steps
                .into_iter()
                .map(|step| Line::Cancelled { at: now, step })
                .collect();
            self.write(lines);
            return;
        };
        sending.steps = steps;
        let request = Box::new(request);
        if sending.purpose == Purpose::Send {
            self.write(vec![Line::Sending {
                at: now,
                steps: sending.steps.clone(),
            }]);
            sending.stage = Stage::Mark(request);
        } else {
            sending.stage = Stage::Call(request);
        }
        self.job = Some(Job::Send(sending));
    }

    pub(super) fn request(
        &self,
        sending: &Sending,
        steps: &[StepRef],
        messages: Vec<Message>,
        text: Option<String>,
        card: Option<Vec<String>>,
    ) -> Option<Request> {
        let Place { role, session } = sending.place.clone();
        let first = steps.first()?;
        Some(match (self.ledger.step(first)?, sending.purpose) {
            (Step::Unconclude { of }, _) => match self.ledger.state(of)? {
                StepState::Sent { ids, .. } => Request::Unconclude {
                    role,
                    id: ids.first()?.clone(),
                },
                _ => return None,
            },
            (Step::DeleteSession { role, session }, _) => Request::DeleteSession {
                role: *role,
                session: session.clone(),
            },
            (Step::Conclude { peer, .. }, purpose) => {
                let (peer, content) = (peer.clone(), text?);
                match purpose {
                    Purpose::Send => Request::Conclude {
                        role,
                        session,
                        peer,
                        content,
                    },
                    Purpose::LookUp => Request::FindConclusions {
                        role,
                        session,
                        peer,
                        content,
                    },
                }
            }
            (Step::Forget { id, .. }, _) => Request::Unconclude {
                role,
                id: id.clone(),
            },
            (Step::Card { .. }, _) if self.ledger.is_old_card(first) => return None,
            (Step::Card { .. }, _) => Request::SetCard {
                role,
                peer: self.config.owner.clone(),
                lines: card?,
            },
            (Step::Retract { of }, Purpose::Send) if !self.was_sent(of) => return None,
            (Step::Messages { .. } | Step::Note { .. } | Step::Retract { .. }, purpose) => {
                match purpose {
                    Purpose::Send => Request::AddMessages {
                        role,
                        session,
                        messages,
                    },
                    Purpose::LookUp => Request::FindMessages {
                        role,
                        session,
                        names: steps.iter().map(|step| self.ledger.name(step)).collect(),
                    },
                }
            }
        })
    }

    pub(super) fn was_sent(&self, step: &StepRef) -> bool {
        matches!(self.ledger.state(step), Some(StepState::Sent { .. }))
    }
}
