//! What to do next, and what an answer means: the state machine of the sync worker. Pure: [`Outbox::next`]
//! gives one [`Task`], whoever runs it hands the outcome to [`Outbox::done`]. A call may take its time: while it
//! is on its way there are other tasks, so that what ends meanwhile is decided at once. Nothing is believed
//! before its line is durable, and no request leaves before its `sending` line is.

mod answers;
mod choose;
mod deciding;
mod load;
mod task;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use bxcore::clock::Millis;
use bxwire::{
    ItemId, SessionId, Speaker,
    links::{control::OwnerDecision, session_state::SessionState},
};

use super::{
    config::{HonchoConfig, Role, SyncLimits},
    decide::{self, Decision, LastLook, TurnFacts, WaitReason},
    health::{Health, Warning},
    ledger::{Decided, Ledger, Line, Place, SentStep, Step, StepRef, StepState},
    mirror::{self, EditBrief},
    naming::{self, HonchoSession},
    request::{Answer, Failure, Message, Request},
    space::{self, Lane, Made, Outage, Space},
};
use crate::edit::{Change, Edit};
pub use task::{Event, LastCard, Load, LoadError, Outcome, Task, TurnBrief, Undecided};

/// Most messages in one request.
/// Source: recorded, `crates/honcho-local/fixtures/recorded/21-messages-empty-batch.json` and its like.
pub const BATCH_MESSAGES_MAX: usize = 100;
/// Most bytes of text in one request, far below the client's cap on an answer that repeats them.
pub const BATCH_BYTES_MAX: usize = 1_000_000;
/// Most turns looked at for one request.
const BATCH_TURNS_MAX: usize = 50;
/// Most turns decided with one append.
const DECIDE_TURNS_MAX: usize = 500;
/// Server errors after which an item is failed, when later ones of its kind went through.
const SERVER_ERRORS_MAX: u32 = 5;
/// Times an item may be told that what it needs is gone, though it was just made sure of.
const GONE_MAX: u32 = 5;

/// What is remembered of an open step in this run.
#[derive(Debug, Clone, Copy, Default)]
struct Trouble {
    /// When its last try ended without an answer.
    doubt_since: Option<Millis>,
    /// Looked up and not found: it may be tried again.
    cleared: bool,
    /// Looked up too late to know.
    unknowable: bool,
    /// The owner wants it sent if a look does not find it, however late that is.
    ordered: bool,
    /// Goes alone, since it was in a batch that was refused.
    alone: bool,
    server_errors: u32,
    /// Successes of its lane when its server errors began.
    lane_then: u64,
    gone: u32,
}

#[derive(Debug)]
struct Writing {
    lines: Vec<Line>,
    not_before: Millis,
}

#[derive(Debug, Clone)]
enum Job {
    Decide(SessionId),
    Send(Sending),
}

#[derive(Debug, Clone)]
struct Sending {
    place: Place,
    steps: Vec<StepRef>,
    purpose: Purpose,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Send what was not sent.
    Send,
    /// Find out whether it was.
    LookUp,
}

#[derive(Debug, Clone)]
enum Stage {
    Probe,
    Ensure(Made),
    Repair,
    LastLook(SessionId),
    Load,
    /// The `sending` line is being appended.
    Mark(Box<Request>),
    Call(Box<Request>),
}

/// The state machine.
#[derive(Debug)]
pub struct Outbox {
    config: HonchoConfig,
    ledger: Ledger,
    undecided: BTreeMap<SessionId, BTreeMap<u64, TurnBrief>>,
    /// Sessions about which brokerd is to be asked.
    ask: BTreeSet<SessionId>,
    edits: VecDeque<(Edit, EditBrief)>,
    owner: HashMap<SessionId, OwnerDecision>,
    broker: Option<Outage>,
    writing: Option<Writing>,
    appends_fail: bool,
    job: Option<Job>,
    /// The call that is on its way; one at a time.
    flying: Option<Sending>,
    spaces: BTreeMap<Role, Space>,
    /// Places that wait on their own, until then.
    paused: HashMap<Place, Millis>,
    trouble: HashMap<StepRef, Trouble>,
    /// Successes of each lane in this run.
    successes: HashMap<(Role, bool), u64>,
    health: Health,
    /// A look at what was sent before, on its way; nothing hangs on it.
    checking: Option<Request>,
    random: u64,
    events: Vec<Event>,
}

impl Outbox {
    /// Starts from what the ledger holds. A try without an end is in doubt. `seed` spreads the waits.
    #[must_use]
    pub fn new(config: HonchoConfig, ledger: Ledger, seed: u64) -> Self {
        Self {
            health: Health::new(&ledger),
            checking: None,
            config,
            ledger,
            undecided: BTreeMap::new(),
            ask: BTreeSet::new(),
            edits: VecDeque::new(),
            owner: HashMap::new(),
            broker: None,
            writing: None,
            appends_fail: false,
            job: None,
            flying: None,
            spaces: Role::ALL.map(|role| (role, Space::default())).into(),
            paused: HashMap::new(),
            trouble: HashMap::new(),
            successes: HashMap::new(),
            random: seed | 1,
            events: Vec::new(),
        }
    }

    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    #[must_use]
    pub fn config(&self) -> &HonchoConfig {
        &self.config
    }

    #[must_use]
    pub fn space(&self, role: Role) -> &Space {
        &self.spaces[&role]
    }

    #[must_use]
    pub fn broker_outage(&self) -> Option<&Outage> {
        self.broker.as_ref()
    }

    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Whether a step is in doubt: tried, without an answer, and not on its way.
    #[must_use]
    pub fn in_doubt(&self, step: &StepRef) -> bool {
        let on_its_way = self.flying.as_ref().is_some_and(|sending| {
            matches!(sending.stage, Stage::Call(_))
                && sending.purpose == Purpose::Send
                && sending.steps.contains(step)
        });
        let tried = matches!(self.ledger.state(step), Some(StepState::Trying(_)));
        let idempotent = self.ledger.step(step).is_some_and(Step::is_idempotent);
        tried && !on_its_way && !idempotent
    }

    /// Whether the ledger cannot be written: nothing is decided or sent.
    #[must_use]
    pub fn appends_fail(&self) -> bool {
        self.appends_fail
    }

    /// Turns that cannot be decided yet, and why; `None`: they are about to be.
    pub fn undecided(&self) -> impl Iterator<Item = (ItemId, Option<WaitReason>)> + '_ {
        self.undecided.iter().flat_map(|(session, turns)| {
            let reason = match &self.broker {
                _ if self.ledger.held(session).is_some() => Some(WaitReason::BrokerForgot),
                Some(_) => Some(WaitReason::BrokerAway),
                None => None,
            };
            turns.keys().map(move |turn| {
                let item = ItemId::Turn {
                    session: session.clone(),
                    turn: *turn,
                };
                (item, reason)
            })
        })
    }

    /// What happened since the last call, for the log.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// A turn has ended. Repeating one changes nothing. Every undecided turn is tried again.
    pub fn turn_ended(&mut self, brief: TurnBrief) {
        let item = ItemId::Turn {
            session: brief.session.clone(),
            turn: brief.turn,
        };
        if self.ledger.entry(&item).is_none() {
            self.undecided
                .entry(brief.session.clone())
                .or_default()
                .insert(brief.turn, brief);
        }
        self.ask_again();
    }

    /// brokerd may answer now, or say something else.
    pub fn ask_again(&mut self) {
        self.ask.extend(self.undecided.keys().cloned());
        if let Some(outage) = &mut self.broker {
            outage.next = Millis(i64::MIN);
        }
    }

    /// Where the owner's card is.
    ///
    /// # Errors
    /// An edit of it is not decided yet.
    pub fn last_card(&self) -> Result<LastCard, Undecided> {
        let card = |change: &Change| matches!(change, Change::Carded { .. });
        let mut waiting = self.edits.iter().flat_map(|(edit, _)| &edit.changes);
        match waiting.any(card) {
            true => Err(Undecided),
            false => Ok(match self.ledger.card_open() {
                Some(item) => LastCard::Open(item.clone()),
                None => LastCard::Sent(self.ledger.card_whose().cloned()),
            }),
        }
    }

    /// Whether the conclusion with this id of Honcho's is about to be deleted, or may be: an edit is not decided yet.
    #[must_use]
    pub fn deletes(&self, id: &str) -> bool {
        !self.edits.is_empty() || self.ledger.deletes(id)
    }

    /// An edit was journalled. Repeating one changes nothing.
    pub fn edit_made(&mut self, edit: Edit, brief: EditBrief) {
        let known = self.ledger.entry(&ItemId::Edit(edit.id)).is_some()
            || self.edits.iter().any(|(waiting, _)| waiting.id == edit.id);
        if !known {
            self.edits.push_back((edit, brief));
        }
    }

    /// The owner's word on the undecided turns of a session. How many there are.
    pub fn owner_decides(&mut self, session: &SessionId, decision: OwnerDecision) -> usize {
        let count = self.undecided.get(session).map_or(0, BTreeMap::len);
        if count > 0 {
            self.owner.insert(session.clone(), decision);
            self.ask_again();
        }
        count
    }

    /// Ends every wait but the holds of what is in doubt: a first request may still be on its way.
    pub fn try_now(&mut self, now: Millis) {
        for space in self.spaces.values_mut() {
            space.try_now(now);
        }
        self.paused.clear();
        self.ask_again();
    }

    /// The owner's order to try a step again: one that failed, or one in doubt. `false`: neither.
    pub fn retry(&mut self, item: &ItemId, now: Millis) -> bool {
        let Some(entry) = self.ledger.entry(item) else {
            return false;
        };
        let steps: Vec<_> = (0..entry.states.len())
            .map(|step| StepRef {
                item: item.clone(),
                step,
            })
            .filter(|step| {
                matches!(self.ledger.state(step), Some(StepState::Failed { .. }))
                    || self.in_doubt(step)
            })
            .collect();
        let found = !steps.is_empty();
        for step in steps {
            if self.in_doubt(&step) {
                // It may be there: what is found is not sent again, and an undo takes back what was found.
                let trouble = Trouble {
                    ordered: true,
                    ..Trouble::default()
                };
                self.trouble.insert(step, trouble);
            } else {
                self.trouble.remove(&step);
                self.write(vec![Line::Requeued { at: now, step }]);
            }
        }
        found
    }

    /// The next thing to do. Asking again without an outcome gives the same, but for a call: that is on its way
    /// then, and the next thing is what can be done beside it.
    pub fn next(&mut self, now: Millis) -> Task {
        if self.writing.is_none() && self.job.is_none() {
            if let Some((edit, brief)) = self.edits.front() {
                let lines = mirror::decide_edit(&self.config, &self.ledger, edit, brief, now);
                self.write(lines);
            } else if self.decide_without_broker(now) {
            } else if let Some(session) = self.due_session(now) {
                self.job = Some(Job::Decide(session));
            } else if self.flying.is_some() || self.checking.is_some() {
                return Task::Wait(None);
            } else {
                let (sending, wake) = self.choose(now);
                match sending {
                    Some(sending) => self.job = Some(Job::Send(sending)),
                    None => match self
                        .health
                        .next(&self.config, &self.ledger, &self.spaces, now)
                    {
                        Some(request) => {
                            self.checking = Some(request.clone());
                            return Task::Call(Box::new(request));
                        }
                        None => return Task::Wait(self.wake(wake)),
                    },
                }
            }
        }
        if let Some(writing) = &self.writing {
            return if now < writing.not_before {
                Task::Wait(Some(writing.not_before))
            } else {
                Task::Append(writing.lines.clone())
            };
        }
        let sending = match &self.job {
            None => return Task::Wait(None),
            Some(Job::Decide(session)) => return Task::AskBroker(session.clone()),
            Some(Job::Send(sending)) => sending,
        };
        let role = sending.place.role;
        let request = match &sending.stage {
            Stage::LastLook(session) => return Task::AskBroker(session.clone()),
            Stage::Load => return Task::Load(sending.steps.clone()),
            Stage::Probe => Box::new(Request::Probe { role }),
            Stage::Ensure(made) => Box::new(self.ensure(role, made)),
            Stage::Repair => Box::new(Request::Repair { role }),
            Stage::Mark(request) | Stage::Call(request) => request.clone(),
        };
        if let Some(Job::Send(sending)) = self.job.take() {
            self.flying = Some(sending);
        }
        Task::Call(request)
    }

    /// Takes in how the last task ended.
    pub fn done(&mut self, outcome: Outcome, now: Millis) {
        match outcome {
            Outcome::Appended => self.appended(),
            Outcome::AppendFailed => {
                if let Some(writing) = &mut self.writing {
                    writing.not_before =
                        now.plus_ms(SyncLimits::ms(self.config.limits.retry_ms_min));
                }
                if !std::mem::replace(&mut self.appends_fail, true) {
                    self.events.push(Event::AppendsFail);
                }
            }
            Outcome::Broker(state) => self.broker_said(state, now),
            Outcome::Loaded(loads) => self.loaded(loads, now),
            Outcome::Called(result) => self.called(result, now),
        }
    }

    fn write(&mut self, lines: Vec<Line>) {
        if lines.is_empty() {
            return;
        }
        match &mut self.writing {
            Some(writing) => writing.lines.extend(lines),
            None => {
                self.writing = Some(Writing {
                    lines,
                    not_before: Millis(i64::MIN),
                });
            }
        }
    }

    fn appended(&mut self) {
        if std::mem::replace(&mut self.appends_fail, false) {
            self.events.push(Event::AppendsWork);
        }
        let Some(writing) = self.writing.take() else {
            return;
        };
        for line in &writing.lines {
            // The lines were made from this very ledger; one that does not fit is a bug, and sending on would
            // be worse than ending.
            self.ledger
                .apply(line)
                .unwrap_or_else(|misfit| panic!("a line of our own does not fit: {misfit}"));
            match line {
                Line::Decided(decided) => self.forget_undecided(&decided.item),
                Line::Sent { at, steps } => {
                    for sent in steps {
                        if let (Some(place), Some(step)) =
                            (self.ledger.place(&sent.step), self.ledger.step(&sent.step))
                        {
                            self.health.sent(&place, step, *at);
                        }
                        self.trouble.remove(&sent.step);
                    }
                }
                Line::Failed { step, .. }
                | Line::Withdrawn { step, .. }
                | Line::Cancelled { step, .. } => {
                    self.trouble.remove(step);
                }
                Line::NotSent { steps, .. } => {
                    for step in steps {
                        if let Some(trouble) = self.trouble.get_mut(step) {
                            trouble.doubt_since = None;
                        }
                    }
                }
                Line::Opened { .. }
                | Line::Sending { .. }
                | Line::Requeued { .. }
                | Line::Held { .. } => {}
            }
        }
        if let Some(Job::Send(sending)) = &mut self.job
            && let Stage::Mark(request) = &sending.stage
        {
            sending.stage = Stage::Call(request.clone());
            for step in &sending.steps {
                self.trouble.entry(step.clone()).or_default().cleared = false;
            }
        }
    }

    fn forget_undecided(&mut self, item: &ItemId) {
        match item {
            ItemId::Edit(id) => self.edits.retain(|(edit, _)| edit.id != *id),
            ItemId::Turn { session, turn } => {
                if let Some(turns) = self.undecided.get_mut(session) {
                    turns.remove(turn);
                    if turns.is_empty() {
                        self.undecided.remove(session);
                        self.ask.remove(session);
                        self.owner.remove(session);
                    }
                }
            }
        }
    }

    fn wake(&self, places: Option<Millis>) -> Option<Millis> {
        let broker = self
            .broker
            .as_ref()
            .filter(|_| !self.ask.is_empty())
            .map(|outage| outage.next);
        let health = self.health.wake(&self.spaces);
        [places, broker, health].into_iter().flatten().min()
    }
}

fn lane(step: &Step) -> Lane {
    match step {
        Step::Messages { .. }
        | Step::Note { .. }
        | Step::Retract { .. }
        | Step::DeleteSession { .. } => Lane::Messages,
        Step::Conclude { .. }
        | Step::Unconclude { .. }
        | Step::Forget { .. }
        | Step::Card { .. } => Lane::Conclusions,
    }
}

#[cfg(test)]
mod tests;
