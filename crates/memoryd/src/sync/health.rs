//! Whether what was sent is still there, and whether Honcho makes anything of it: what to look at next, and what an
//! answer means. Pure; part of `outbox`, which asks only when nothing else is to be done. Sends are what sets it
//! going: without one nothing is ever looked at, and no workspace is looked at more than once a day.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bxcore::{clock::Millis, runbook};

use super::{
    config::{HonchoConfig, Role, SyncLimits},
    ledger::{Ledger, Place, Step, StepState},
    request::{Answer, Failure, Queue, Request},
    space::Space,
};

/// Most conclusions looked for at once; the newest.
const SAMPLE_MAX: usize = 100;
/// One conclusion of so many may be gone: dreaming merges some.
const GONE_ONE_IN: usize = 5;

/// What is wrong although nothing failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warning {
    /// The last thing sent to this workspace is not there.
    LastMissing(Role),
    /// So many of the conclusions looked for are gone.
    ConclusionsGone { gone: usize, of: usize },
    /// No conclusion was derived from what was sent since then.
    NothingDerived { since: Millis },
}

impl Warning {
    /// For a person.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::LastMissing(role) => format!(
                "what was sent last to the {} workspace is not there any more",
                role.name()
            ),
            Self::ConclusionsGone { gone, of } => {
                format!("{gone} of {of} conclusions that were written are gone from Honcho")
            }
            Self::NothingDerived { since } => {
                format!("Honcho has derived nothing from the turns sent since {since}")
            }
        }
    }

    #[must_use]
    pub fn runbook(&self) -> runbook::Runbook {
        match self {
            Self::LastMissing(_) | Self::ConclusionsGone { .. } => runbook::HONCHO_ITEMS_GONE,
            Self::NothingDerived { .. } => runbook::HONCHO_NOTHING_DERIVED,
        }
    }

    /// Whether both tell of the same condition, with other figures perhaps.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::LastMissing(one), Self::LastMissing(other)) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Queue,
    Last,
    Conclusions,
    Derived,
}

/// The looks at one workspace.
#[derive(Debug, Clone, Default)]
struct Round {
    /// Something was sent since the last round began.
    sent: bool,
    /// Not looked at again before this time.
    next: Option<Millis>,
    left: VecDeque<Check>,
}

/// What is known of Honcho's health in this run.
#[derive(Debug)]
pub struct Health {
    rounds: BTreeMap<Role, Round>,
    /// When the first turn was sent that nothing was seen to come of yet.
    turns_since: Option<Millis>,
    queue: Option<(Millis, Queue)>,
    warnings: BTreeSet<Warning>,
}

impl Health {
    #[must_use]
    pub fn new(ledger: &Ledger) -> Self {
        Self {
            rounds: Role::ALL.map(|role| (role, Round::default())).into(),
            turns_since: ledger.turns_since(),
            queue: None,
            warnings: BTreeSet::new(),
        }
    }

    /// What holds now.
    pub fn warnings(&self) -> impl Iterator<Item = &Warning> {
        self.warnings.iter()
    }

    /// Honcho's queue of the trusted workspace, and when it was asked.
    #[must_use]
    pub fn queue(&self) -> Option<(Millis, Queue)> {
        self.queue
    }

    /// Something went to a place and is recorded as sent.
    pub fn sent(&mut self, place: &Place, step: &Step, at: Millis) {
        self.round(place.role).sent = true;
        if place.role == Role::Trusted && matches!(step, Step::Messages { .. }) {
            self.turns_since.get_or_insert(at);
        }
    }

    /// The next thing to look at. Asking again without an answer gives the same.
    pub fn next(
        &mut self,
        config: &HonchoConfig,
        ledger: &Ledger,
        spaces: &BTreeMap<Role, Space>,
        now: Millis,
    ) -> Option<Request> {
        for role in Role::ALL {
            if !spaces.get(&role).is_some_and(answers) {
                continue;
            }
            let day = SyncLimits::ms(config.limits.health_ms);
            let round = self.round(role);
            if round.sent && round.next.is_none_or(|next| next <= now) {
                round.sent = false;
                round.next = Some(now.plus_ms(day));
                round.left = checks(role);
            }
            while let Some(check) = self.round(role).left.front().copied() {
                if let Some(request) = self.request(check, role, config, ledger, now) {
                    return Some(request);
                }
                self.round(role).left.pop_front();
            }
        }
        None
    }

    /// When there is something to look at, if nothing happens before.
    #[must_use]
    pub fn wake(&self, spaces: &BTreeMap<Role, Space>) -> Option<Millis> {
        self.rounds
            .iter()
            .filter(|(role, round)| round.sent && spaces.get(role).is_some_and(answers))
            .filter_map(|(_, round)| round.next)
            .min()
    }

    /// Takes in an answer. What began, and what ended.
    pub fn answered(
        &mut self,
        request: &Request,
        result: Result<Answer, Failure>,
        config: &HonchoConfig,
        ledger: &Ledger,
        now: Millis,
    ) -> (Vec<Warning>, Vec<Warning>) {
        let role = request.role();
        let before = self.warnings.clone();
        let check = self.round(role).left.pop_front();
        match (check, result) {
            (_, Err(_)) => {
                // Nothing is known, and whoever is busy is not asked more; the next send asks again.
                let wait = SyncLimits::ms(config.limits.retry_ms_max.min(config.limits.health_ms));
                let round = self.round(role);
                round.left.clear();
                round.next = Some(now.plus_ms(wait));
            }
            (Some(Check::Queue), Ok(Answer::Queue(queue))) => {
                self.queue = Some((now, queue));
                if !queue.derives {
                    self.turns_since = None;
                    self.end(|warning| matches!(warning, Warning::NothingDerived { .. }));
                }
            }
            (Some(Check::Last), Ok(answer)) => {
                let missing = !is_there(ledger, role, &answer);
                self.end(|warning| *warning == Warning::LastMissing(role));
                if missing {
                    self.warnings.insert(Warning::LastMissing(role));
                }
            }
            (Some(Check::Conclusions), Ok(Answer::Conclusions(there))) => {
                let of = match request {
                    Request::Standing { ids, .. } => ids.len(),
                    _ => 0,
                };
                let gone = of.saturating_sub(there.len());
                self.end(|warning| matches!(warning, Warning::ConclusionsGone { .. }));
                if gone * GONE_ONE_IN > of {
                    self.warnings.insert(Warning::ConclusionsGone { gone, of });
                }
            }
            (Some(Check::Derived), Ok(Answer::Conclusions(newest))) => {
                let derived = newest.iter().any(|id| !ledger.knows(id));
                self.end(|warning| matches!(warning, Warning::NothingDerived { .. }));
                if derived {
                    // From here on the next turn begins another day.
                    self.turns_since = None;
                } else if let Some(since) = self.turns_since {
                    self.warnings.insert(Warning::NothingDerived { since });
                }
            }
            _ => {}
        }
        let new = |of: &BTreeSet<Warning>, than: &BTreeSet<Warning>| {
            of.iter()
                .filter(|warning| !than.iter().any(|other| other.is_like(warning)))
                .copied()
                .collect()
        };
        (new(&self.warnings, &before), new(&before, &self.warnings))
    }

    fn round(&mut self, role: Role) -> &mut Round {
        self.rounds.entry(role).or_default()
    }

    fn end(&mut self, which: impl Fn(&Warning) -> bool) {
        self.warnings.retain(|warning| !which(warning));
    }

    /// `None`: there is nothing to look for.
    fn request(
        &mut self,
        check: Check,
        role: Role,
        config: &HonchoConfig,
        ledger: &Ledger,
        now: Millis,
    ) -> Option<Request> {
        match check {
            Check::Queue => Some(Request::Queue { role }),
            Check::Last => {
                let last = ledger.last_sent(role)?;
                match ledger.step(last)? {
                    Step::Conclude { .. } => Some(Request::Standing {
                        role,
                        ids: ids(ledger, role)?.to_vec(),
                    }),
                    _ => Some(Request::FindMessages {
                        role,
                        session: ledger.place(last)?.session,
                        names: vec![ledger.name(last)],
                    }),
                }
            }
            Check::Conclusions => {
                let ids = ledger.standing(SAMPLE_MAX);
                if ids.is_empty() {
                    self.end(|warning| matches!(warning, Warning::ConclusionsGone { .. }));
                    return None;
                }
                Some(Request::Standing { role, ids })
            }
            Check::Derived => {
                let since = self.turns_since?;
                if now.since(since) < SyncLimits::ms(config.limits.health_ms) {
                    return None;
                }
                Some(Request::NewConclusions {
                    role,
                    peer: config.owner.clone(),
                    since,
                })
            }
        }
    }
}

fn checks(role: Role) -> VecDeque<Check> {
    match role {
        // The queue first: it may say that nothing will ever be derived.
        Role::Trusted => [
            Check::Queue,
            Check::Last,
            Check::Conclusions,
            Check::Derived,
        ]
        .into(),
        Role::Untrusted | Role::Fleet => [Check::Last].into(),
    }
}

/// Whether a workspace may be asked: nothing says that it would not answer.
fn answers(space: &Space) -> bool {
    space.outage.is_none() && space.key_refused.is_none() && !space.probe
}

fn ids(ledger: &Ledger, role: Role) -> Option<&[String]> {
    match ledger.state(ledger.last_sent(role)?)? {
        StepState::Sent { ids, .. } => Some(ids),
        _ => None,
    }
}

/// Whether everything that the last step made is in the answer.
fn is_there(ledger: &Ledger, role: Role, answer: &Answer) -> bool {
    let Some(ids) = ids(ledger, role) else {
        return true;
    };
    ids.iter().all(|id| match answer {
        Answer::Messages(found) => found.iter().any(|(_, _, found)| found == id),
        Answer::Conclusions(found) => found.contains(id),
        _ => false,
    })
}

#[cfg(test)]
mod tests;
