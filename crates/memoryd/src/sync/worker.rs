//! The one sync thread: does what `outbox` says, and waits in one inbox. A second thread owns the request in
//! flight, so that neither a stop nor a slow answer holds this one. Never decides anything itself.

mod reading;
mod say;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use bxcore::{
    append::{AppendError, AppendFile, BadLine},
    clock::Millis,
    connect::Kept,
    daemon, random, report, runbook, sealed,
    secrets::Secret,
};
use bxsanitize::Refuser;
use bxwire::{
    EditId, ItemId, SessionId,
    links::{
        control::{self, SyncAction},
        session_state::{self, SessionState, State},
    },
};

use super::{
    config::{HonchoConfig, Role, SyncLimits},
    handle::{Handle, INBOX_MAX, Letter, Question, StartError},
    honcho::{CALL_GRACE_MS, Honcho},
    ledger::{self, Ledger, Line, StepRef},
    outbox::{Event, LastCard, Load, LoadError, Outbox, Outcome, Task},
    request::{Answer, Failure, Request},
    review, status, texts,
};
use crate::{
    edit::{By, Edit},
    logs::{Cursor, Logs, Standing, Turn},
    store::Store,
};

/// Requests given up on that may still hold a thread.
const ABANDONED_MAX: usize = 4;

/// What the worker needs.
pub struct Parts {
    pub config: HonchoConfig,
    pub keys: BTreeMap<Role, Secret>,
    pub refuser: Refuser,
    pub store: Arc<Store>,
    pub logs: Logs,
    /// `memory/honcho.jsonl`.
    pub ledger: PathBuf,
    /// brokerd's session state socket.
    pub broker: PathBuf,
}

/// Opens the ledger and starts the thread.
///
/// # Errors
/// [`StartError`].
pub fn start(parts: Parts) -> Result<Handle, StartError> {
    let (file, ledger) = open(&parts.ledger)?;
    same_journal(&ledger, &parts.store)?;
    let honcho =
        Honcho::new(&parts.config, parts.keys, ledger.installation()).map_err(StartError::Url)?;
    let installation = ledger.installation().to_owned();
    let seed = random::bytes().map_err(StartError::System)?;
    let (inbox, received) = sync_channel(INBOX_MAX);
    let rescan = Arc::new(AtomicBool::new(false));
    let limits = parts.config.limits;
    let mut worker = Worker {
        outbox: Outbox::new(parts.config, ledger, u64::from_le_bytes(seed)),
        file,
        honcho: Arc::new(honcho),
        refuser: Arc::new(parts.refuser),
        store: parts.store,
        logs: parts.logs,
        broker: Kept::new(parts.broker, limits.broker_ms_max),
        cursors: HashMap::new(),
        edits: EditId(0),
        limits,
        clock: Clock::start(),
        sender: inbox.clone(),
        inbox: received,
        rescan: Arc::clone(&rescan),
        calling: None,
        calls: 0,
        abandoned: 0,
        unreadable: false,
        cards: Vec::new(),
    };
    let thread = thread::Builder::new()
        .name("sync".into())
        .spawn(move || worker.run())
        .map_err(StartError::System)?;
    Ok(Handle::new(installation, inbox, rescan, thread))
}

/// Reads the ledger through; a new one is opened with its first line.
fn open(path: &std::path::Path) -> Result<(AppendFile, Ledger), StartError> {
    let mut ledger = Ledger::default();
    let mut file = AppendFile::open(path, 0o600, |_, text| {
        sealed::check(text).map_err(|broken| BadLine::Corrupt(broken.to_string()))?;
        let line = ledger::parse(text)?;
        ledger
            .apply(&line)
            .map_err(|misfit| BadLine::Corrupt(misfit.to_string()))
    })?;
    if ledger.opened().is_none() {
        let id: [u8; 8] = random::bytes().map_err(StartError::System)?;
        let key: [u8; 16] = random::bytes().map_err(StartError::System)?;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = Line::Opened {
            at: Millis::now(),
            installation: hex(&id),
            key: Some(hex(&key)),
        };
        file.append(&seal(&line))?;
        // The first line of an empty ledger always fits.
        let _ = ledger.apply(&line);
    }
    Ok((file, ledger))
}

/// An edit is journalled before it is decided, so the journal holds every decided one; else numbers would be
/// given again, and a decision would stand for another edit.
fn same_journal(ledger: &Ledger, store: &Store) -> Result<(), StartError> {
    for entry in ledger.entries() {
        let decided = &entry.decided;
        if let ItemId::Edit(id) = decided.item {
            let same = store
                .edit(id)
                .is_some_and(|edit| decided.made.as_ref().is_none_or(|made| *made == edit.at));
            if !same {
                return Err(StartError::JournalBehind(id));
            }
        }
    }
    Ok(())
}

fn seal(line: &Line) -> String {
    sealed::seal(&ledger::written(line))
}

/// The system's time at start, and from then on never backwards.
struct Clock {
    wall: Millis,
    since: Instant,
}

impl Clock {
    fn start() -> Self {
        Self {
            wall: Millis::now(),
            since: Instant::now(),
        }
    }

    fn now(&self) -> Millis {
        self.wall.plus_ms(SyncLimits::ms(self.since.elapsed()))
    }
}

struct Calling {
    id: u64,
    deadline: Instant,
}

struct Worker {
    outbox: Outbox,
    file: AppendFile,
    honcho: Arc<Honcho>,
    refuser: Arc<Refuser>,
    store: Arc<Store>,
    logs: Logs,
    broker: Kept<State>,
    cursors: HashMap<SessionId, Cursor>,
    /// The last edit offered to the outbox.
    edits: EditId,
    limits: SyncLimits,
    clock: Clock,
    sender: SyncSender<Letter>,
    inbox: Receiver<Letter>,
    rescan: Arc<AtomicBool>,
    calling: Option<Calling>,
    calls: u64,
    /// Calls given up on whose threads have not ended.
    abandoned: usize,
    /// A log could not be read; said once.
    unreadable: bool,
    /// Who waits to hear where the card is; no more than memoryd has connections.
    cards: Vec<SyncSender<LastCard>>,
}

impl Worker {
    fn run(&mut self) {
        self.look_through();
        loop {
            self.say();
            if self.rescan.swap(false, Ordering::SeqCst) {
                self.look_through();
            }
            let more = self.step();
            if !more {
                return;
            }
        }
    }

    /// One task; `false`: stop.
    fn step(&mut self) -> bool {
        // What has already arrived comes first, so that a decision is made from all of it.
        while let Ok(message) = self.inbox.try_recv() {
            if !self.take(message) {
                return false;
            }
        }
        if !self.cards.is_empty()
            && let Ok(last) = self.outbox.last_card()
        {
            for answer in self.cards.drain(..) {
                let _ = answer.try_send(last.clone());
            }
        }
        let now = self.clock.now();
        match self.outbox.next(now) {
            Task::Append(lines) => {
                let lines: Vec<_> = lines.iter().map(seal).collect();
                let outcome = match self.file.append_all(&lines) {
                    Ok(_) => Outcome::Appended,
                    Err(error @ AppendError::Lost { .. }) => daemon::exit_lost(&error),
                    Err(AppendError::Full { .. }) => Outcome::AppendFailed,
                };
                self.done(outcome);
                true
            }
            Task::AskBroker(session) => {
                let state = self.ask_broker(&session);
                self.done(Outcome::Broker(state));
                true
            }
            Task::Load(steps) => {
                let loads = self.load(&steps);
                self.done(Outcome::Loaded(loads));
                true
            }
            Task::Call(request) => {
                self.call(*request);
                true
            }
            Task::Wait(until) => {
                let timer = until.map(|until| Duration::from_millis(until.since(now).max(1)));
                let deadline = self
                    .calling
                    .as_ref()
                    .map(|calling| calling.deadline.saturating_duration_since(Instant::now()));
                self.wait([timer, deadline].into_iter().flatten().min())
            }
        }
    }

    fn done(&mut self, outcome: Outcome) {
        self.outbox.done(outcome, self.clock.now());
    }

    /// Waits in the one place; `false`: stop.
    fn wait(&mut self, wait: Option<Duration>) -> bool {
        let message = match wait {
            None => self
                .inbox
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
            Some(wait) => self.inbox.recv_timeout(wait),
        };
        match message {
            Ok(message) => self.take(message),
            Err(RecvTimeoutError::Timeout) => {
                self.give_up();
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }

    fn take(&mut self, message: Letter) -> bool {
        match message {
            Letter::Turn(session) => self.read(&session),
            Letter::Edits => self.read_edits(),
            Letter::Rescan => self.look_through(),
            Letter::Reload(keys, refuser) => self.reload(keys, refuser),
            Letter::Ask(question, answer) => {
                let reply = self.answer(question);
                let _ = answer.try_send(reply);
            }
            Letter::Notices(answer) => {
                let _ = answer.try_send(status::notices(&self.outbox, self.clock.now()));
            }
            Letter::Session(session, answer) => {
                let last = self.outbox.ledger().session(&session);
                let _ = answer.try_send(last.map(|last| last.name.clone()));
            }
            Letter::Card(answer) => {
                self.read_edits();
                self.cards.push(answer);
            }
            Letter::Deletes(id, answer) => {
                self.read_edits();
                let _ = answer.try_send(self.outbox.deletes(&id));
            }
            Letter::Called(id, result) => self.called(id, result),
            Letter::Stop => return false,
        }
        true
    }

    fn called(&mut self, id: u64, result: Result<Answer, Failure>) {
        match &self.calling {
            Some(calling) if calling.id == id => {
                self.calling = None;
                self.done(Outcome::Called(result));
            }
            // Given up on long ago; its item was looked up since.
            _ => self.abandoned = self.abandoned.saturating_sub(1),
        }
    }

    /// The request in flight has had its time.
    fn give_up(&mut self) {
        if self
            .calling
            .as_ref()
            .is_some_and(|calling| calling.deadline <= Instant::now())
        {
            self.calling = None;
            self.abandoned += 1;
            self.done(Outcome::Called(Err(Failure::Unknown {
                kind: "no whole answer in time",
                status: None,
            })));
        }
    }

    fn call(&mut self, request: Request) {
        if self.abandoned >= ABANDONED_MAX {
            self.done(Outcome::Called(Err(Failure::NotReached {
                kind: "too many unanswered requests",
            })));
            return;
        }
        self.calls += 1;
        let id = self.calls;
        let honcho = Arc::clone(&self.honcho);
        let sender = self.sender.clone();
        let spawned = thread::Builder::new()
            .name("honcho-call".into())
            .spawn(move || {
                let result = honcho.call(&request);
                let _ = sender.send(Letter::Called(id, result));
            });
        match spawned {
            Ok(_) => {
                self.calling = Some(Calling {
                    id,
                    deadline: Instant::now() + self.limits.request_ms_max + CALL_GRACE_MS,
                });
            }
            Err(_) => self.done(Outcome::Called(Err(Failure::NotReached {
                kind: "no thread for the request",
            }))),
        }
    }

    fn ask_broker(&self, session: &SessionId) -> Option<SessionState> {
        let request = session_state::Request::SessionState {
            session: session.clone(),
        };
        match self.broker.call(&request) {
            Ok(session_state::Reply::SessionState(state)) => Some(state),
            Ok(session_state::Reply::Refused(_)) | Err(_) => None,
        }
    }

    fn reload(&mut self, keys: BTreeMap<Role, Secret>, refuser: Arc<Refuser>) {
        self.refuser = refuser;
        let config = self.outbox.config();
        match Honcho::new(config, keys, self.outbox.ledger().installation()) {
            Ok(honcho) => {
                self.honcho = Arc::new(honcho);
                self.outbox.try_now(self.clock.now());
            }
            Err(error) => tracing::error!("kept the old keys: {error}"),
        }
    }

    fn answer(&mut self, question: Question) -> control::Reply {
        let now = self.clock.now();
        match question {
            Question::Sync(action) => {
                match action {
                    SyncAction::Show {} => {}
                    SyncAction::Now {} => self.outbox.try_now(now),
                    SyncAction::Retry { item } => {
                        if !self.outbox.retry(&item, now) {
                            return bxwire::Refused::new(
                                "nothing-to-retry",
                                format!(
                                    "{item} has neither failed nor is it in doubt; `bxctl memory why {item}` says \
                                     where it is"
                                ),
                            )
                            .with_runbook(runbook::HONCHO_SEND_REFUSED.anchor())
                            .into();
                        }
                    }
                    SyncAction::RetryAll {} => {
                        for item in status::failed(&self.outbox) {
                            self.outbox.retry(&item, now);
                        }
                    }
                }
                control::Reply::Sync(status::sync(&self.outbox, now))
            }
            Question::Review => {
                let (held, more) = review::review(self.outbox.ledger());
                control::Reply::Review { held, more }
            }
            Question::Why(item, facts) => {
                control::Reply::Why(status::why(&self.outbox, &item, facts))
            }
            Question::Places(session) => control::Reply::Change {
                done: false,
                lines: status::places(&self.outbox, &session),
                edit: None,
            },
            Question::Decide(session, decision) => {
                match self.outbox.owner_decides(&session, decision) {
                    0 => bxwire::Refused::new(
                        "nothing-undecided",
                        format!("every turn of {session} is decided already"),
                    )
                    .into(),
                    _ => control::Reply::Done {},
                }
            }
        }
    }
}
