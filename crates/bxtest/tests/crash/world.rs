//! A home with memoryd, a Honcho and a broker that the test speaks for; carries out a day, starts memoryd again
//! whenever it has ended, and does again only what the journal or the log does not hold. Used by every crash test.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bxcore::{
    clock::Millis,
    connect::{Client, ClientError},
    listen::{self, Limits},
};
use bxtest::{Daemon, Home, WAIT};
use bxwire::{
    Audience, EditId, ItemId, Label, Origin, SessionId, Speaker,
    links::{
        control::{self, Control, SyncAction},
        memory::{self, Memory},
        memory_tools::{self as tools, Caller, MemoryOp, MemoryTools},
        session_state::{self, SessionState, State},
    },
    log::{Body, Outcome, Record},
};
use honcho_local::{Fault, Rule};
use memoryd::sync::ledger::{self, Ledger};

use crate::{
    day::{Edit, Event},
    honcho::Honcho,
    shim::{self, Call, Point},
};

const ANSWER_MS_MAX: Duration = Duration::from_secs(20);
/// Between two looks at what has settled.
const LOOK_MS: Duration = Duration::from_millis(2);
/// So long nothing moves before memoryd is told to end its waits. It would by itself, only later.
const NUDGE_MS: Duration = Duration::from_millis(60);
/// Starts of memoryd in one day.
const STARTS_MAX: usize = 400;

/// Holds longer than any request here takes; waits so long that none ends by itself while Honcho is away.
const LIMITS: &str = "[limits]\nhoncho_retry_ms_min = 3000\nhoncho_retry_ms_max = 3000\n\
    honcho_hold_messages_ms = 200\nhoncho_hold_conclusions_ms = 200\nhoncho_read_ms_max = 300\n\
    honcho_request_ms_max = 900\n";

/// The point of the next start, given how many there were.
pub type Points = Box<dyn FnMut(usize) -> Option<Point> + Send>;

pub struct World {
    pub home: Home,
    pub honcho: Honcho,
    words: Arc<Mutex<HashMap<SessionId, SessionState>>>,
    broker: Option<listen::Server>,
    daemon: Option<Daemon>,
    points: Points,
    /// How each start of memoryd ended that was not stopped, and the marks of failed syncs it left.
    pub ends: Vec<String>,
    /// Everything memoryd wrote to stderr.
    pub said: String,
    turns: BTreeMap<SessionId, u64>,
    edits: u64,
    /// Items that must be decided by now.
    due: Vec<ItemId>,
    /// When each turn's words and reply were said.
    pub times: BTreeMap<i64, String>,
    clock: Millis,
}

impl World {
    /// Runs memoryd, its calls logged, with a point at each start for which `points` gives one.
    pub fn new(honcho: Honcho, points: Points) -> Self {
        let mut world = Self {
            home: Home::new(),
            honcho,
            words: Arc::default(),
            broker: None,
            daemon: None,
            points,
            ends: Vec::new(),
            said: String::new(),
            turns: BTreeMap::new(),
            edits: 0,
            due: Vec::new(),
            times: BTreeMap::new(),
            clock: Millis(0),
        };
        let url = world.honcho.url();
        world.home.configure(
            "memoryd",
            &format!(
                "[honcho]\nurl = \"{url}\"\nagent = \"boxmaker\"\nowner = \"owner\"\ntrusted = \"b-trusted\"\n\
                 untrusted = \"b-untrusted\"\nfleet = \"fleet\"\n\n{LIMITS}"
            ),
        );
        world.start_broker();
        world.start();
        world
    }

    // ---- processes ----------------------------------------------------------------------------------

    pub fn calls(&self) -> Vec<Call> {
        shim::calls(&self.log_of_calls())
    }

    fn log_of_calls(&self) -> PathBuf {
        self.home.path().join("calls")
    }

    /// Starts memoryd, as often as it takes.
    pub fn start(&mut self) {
        loop {
            let starts = self.ends.len();
            assert!(
                starts < STARTS_MAX,
                "it ends again and again: {:?}",
                self.ends.last()
            );
            let point = (self.points)(starts);
            let (root, log) = (self.home.path().join("state"), self.log_of_calls());
            let started = self.home.try_start("memoryd", |command| {
                shim::preload(command, &root, &log, point.as_ref());
            });
            match started {
                Ok(daemon) => {
                    self.daemon = Some(daemon);
                    return;
                }
                Err(ended) => {
                    self.said += &ended.stderr;
                    assert!(point.is_some(), "it does not start: {ended:?}");
                    self.ended(&ended.status.to_string());
                }
            }
        }
    }

    /// Starts again what has ended.
    fn revive(&mut self) {
        self.honcho.revive();
        if let Some(daemon) = &mut self.daemon
            && let Some(status) = daemon.ended()
        {
            self.said += &daemon.log();
            self.ended(&status.to_string());
            self.start();
        }
    }

    fn ended(&mut self, status: &str) {
        let held = fs::read_dir(self.memory_file(""))
            .into_iter()
            .flatten()
            .flatten();
        let names = held.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let marks: Vec<_> = names.filter(|name| name.ends_with(".unsynced")).collect();
        self.ends.push(format!("{status}, {marks:?}"));
    }

    /// SIGTERM, and gone; a point may come first.
    pub fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            if daemon.ended().is_none() {
                daemon.signal("TERM");
                let deadline = Instant::now() + WAIT;
                while daemon.ended().is_none() {
                    assert!(Instant::now() < deadline, "memoryd does not stop");
                    std::thread::park_timeout(LOOK_MS);
                }
            }
            self.said += &daemon.log();
        }
    }

    /// From here on nothing happens to it.
    fn spare(&mut self) {
        self.points = Box::new(|_| None);
    }

    /// Its status once the day is over. A last point may come while it is asked; after that none does.
    pub fn status(&mut self) -> control::Reply {
        self.spare();
        let mut status = None;
        self.again("a status", |world| {
            world.revive();
            status = world.control(&control::Request::Status {}).ok();
            status.is_some()
        });
        status.expect("it was waited for")
    }

    fn start_broker(&mut self) {
        let words = Arc::clone(&self.words);
        let path = self.home.dirs.state_socket();
        let server = listen::serve::<State>(&path, Limits::default(), move |mut connection| {
            while let Some(session_state::Request::SessionState { session }) = connection.recv() {
                let words = words.lock().unwrap_or_else(PoisonError::into_inner);
                let state = words.get(&session).copied().unwrap_or(SessionState {
                    class: bxwire::Class::Private,
                    untrusted: false,
                    seen: true,
                });
                drop(words);
                if connection
                    .send(&session_state::Reply::SessionState(state))
                    .is_err()
                {
                    return;
                }
            }
        });
        self.broker = Some(server.expect("a broker"));
    }

    // ---- the day ------------------------------------------------------------------------------------

    /// Carries out a day, and lets everything come to an end.
    pub fn live(&mut self, day: &[Event]) {
        for (number, event) in day.iter().enumerate() {
            self.happens(event);
            self.settle(&format!("event {} of the day, {event:?}", number + 1));
        }
        // Whatever a stop is killed at, the next start makes good.
        if self.ends.is_empty() {
            self.stop();
            self.spare();
            self.start();
            self.settle("the end of the day");
        }
    }

    pub fn happens(&mut self, event: &Event) {
        match event {
            Event::Turn {
                session,
                speaker,
                edits,
            } => self.turn(&session_id(*session), speaker, edits),
            Event::Undo(edit) => self.undo(EditId(*edit)),
            Event::Purge(session) => self.purge(&session_id(*session)),
            Event::BrokerSays(session, state) => {
                let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
                words.insert(session_id(*session), *state);
            }
            Event::BrokerStops => {
                if let Some(broker) = self.broker.take() {
                    broker.stop(Duration::from_secs(2));
                }
            }
            Event::BrokerStarts => self.start_broker(),
            Event::HonchoStops => self.honcho.stop(),
            Event::HonchoStarts => self.honcho.start(),
            Event::AnswerLost(path) => {
                if let Some(server) = self.honcho.server() {
                    let rule = Rule::new(Fault::CommitAndDrop).on("POST", path).times(1);
                    server.controls().add(rule);
                }
            }
        }
    }

    fn turn(&mut self, session: &SessionId, speaker: &Speaker, edits: &[Edit]) {
        let turn = self.turns.get(session).copied().unwrap_or(0) + 1;
        self.turns.insert(session.clone(), turn);
        let mut bodies = Vec::new();
        if turn == 1 {
            bodies.push(Body::Session {
                session: session.clone(),
                source: "chat".into(),
                audience: Audience::Owner {},
            });
        }
        bodies.push(Body::User {
            turn,
            key: format!("k{turn}"),
            text: format!("canary words {turn}"),
            speaker: Some(speaker.clone()),
            origin: Origin::Interactive,
            label: Label::PRIVATE,
            source: None,
        });
        self.log(session, bodies, &format!("canary words {turn}"));
        for edit in edits {
            self.edit(session, turn, speaker, edit);
        }
        let reply = Body::Assistant {
            turn,
            text: format!("canary reply {turn}"),
            reasoning: None,
            calls: Vec::new(),
        };
        let end = Body::TurnEnd {
            turn,
            outcome: Outcome::Replied,
            usage: None,
            reason: None,
            runbook: None,
        };
        self.log(session, vec![reply, end], &format!("canary reply {turn}"));
        self.due.push(ItemId::Turn {
            session: session.clone(),
            turn,
        });
        // loopd tells it once; a memoryd that was not there reads the log when it starts.
        let told = memory::Request::SessionUpdated {
            session: session.clone(),
            turn,
        };
        self.again("a told turn", |world| {
            let path = world.home.dirs.memory_socket();
            let starts = world.ends.len();
            let answer = Client::<Memory>::connect(&path, ANSWER_MS_MAX)
                .and_then(|mut client| client.call(&told));
            world.revive();
            answer.is_ok() || world.ends.len() > starts
        });
    }

    /// Writes records as loopd does, all of one moment.
    fn log(&mut self, session: &SessionId, bodies: Vec<Body>, what: &str) {
        self.clock = Millis(Millis::now().0.max(self.clock.0 + 1));
        self.times.insert(self.clock.0, format!("{session} {what}"));
        let path = self.log_path(session);
        let mut lines = fs::read_to_string(&path).unwrap_or_default();
        for body in bodies {
            let record = Record {
                seq: lines.lines().count() as u64 + 1,
                at: self.clock.to_string(),
                body,
            };
            lines += &(serde_json::to_string(&record).expect("a record") + "\n");
        }
        replace(&path, &lines);
    }

    fn log_path(&self, session: &SessionId) -> PathBuf {
        let folder = self.home.dirs.state_of("loopd").join("sessions");
        fs::create_dir_all(&folder).expect("a folder");
        folder.join(format!("{session}.jsonl"))
    }

    fn edit(&mut self, session: &SessionId, turn: u64, speaker: &Speaker, edit: &Edit) {
        let arguments: MemoryOp = serde_json::from_str(&edit.json).expect("an operation");
        let caller = Caller {
            session: session.clone(),
            turn,
            call: "abc".parse().expect("a call id"),
            label: edit.label,
            speaker: Some(speaker.clone()),
            audience: Audience::Owner {},
        };
        let request = tools::Request::Memory { caller, arguments };
        self.make_edit(&edit.json, |world| {
            let path = world.home.dirs.memory_tools_socket();
            let answer = Client::<MemoryTools>::connect(&path, ANSWER_MS_MAX)
                .and_then(|mut client| client.call(&request));
            match answer {
                Ok(tools::Reply::Done { edit, .. }) => Ok(edit),
                Ok(tools::Reply::Refused(refused)) => Err(refused.kind),
                Err(ClientError::Refused(refused)) => Err(refused.kind),
                Ok(other) => panic!("{other:?}"),
                Err(_) => Ok(None),
            }
        });
    }

    fn undo(&mut self, edit: EditId) {
        let request = control::Request::MemoryUndo {
            edit,
            confirm: true,
        };
        self.make_edit(&format!("undo of {edit}"), |world| {
            match world.control(&request) {
                Ok(control::Reply::Change { edit, .. }) => Ok(edit),
                Ok(other) => panic!("{other:?}"),
                Err(ClientError::Refused(refused)) => Err(refused.kind),
                Err(_) => Ok(None),
            }
        });
    }

    /// What loopd and bxctl do between them; a memoryd that was not there sees the empty log when it starts.
    fn purge(&mut self, session: &SessionId) {
        let path = self.log_path(session);
        let text = fs::read_to_string(&path).expect("a log");
        let read = |line| serde_json::from_str::<Record>(line).expect("a record");
        let mut records: Vec<_> = text.lines().map(read).collect();
        records.iter_mut().for_each(|record| record.body.blank());
        records.push(Record {
            seq: records.len() as u64 + 1,
            at: self.clock.to_string(),
            body: Body::Purged {},
        });
        let line = |record| serde_json::to_string(record).expect("a line") + "\n";
        let lines: String = records.iter().map(line).collect();
        replace(&path, &lines);
        let request = control::Request::MemoryPurge {
            session: session.clone(),
            confirm: true,
        };
        self.make_edit(&format!("purge of {session}"), |world| {
            match world.control(&request) {
                Ok(control::Reply::Change { edit, .. }) => Ok(edit),
                Ok(other) => panic!("{other:?}"),
                Err(ClientError::Refused(refused)) => Err(refused.kind),
                Err(_) => Ok(None),
            }
        });
    }

    pub fn control(&self, request: &control::Request) -> Result<control::Reply, ClientError> {
        let path = self.home.dirs.control_socket("memoryd");
        Client::<Control>::connect(&path, ANSWER_MS_MAX).and_then(|mut client| client.call(request))
    }

    /// Makes an edit once: nobody who got no answer asks again before looking whether it was made.
    fn make_edit(&mut self, what: &str, make: impl Fn(&Self) -> Result<Option<EditId>, String>) {
        self.edits += 1;
        let wanted = EditId(self.edits);
        self.again(what, |world| {
            if world.journalled() >= wanted.0 {
                return true;
            }
            match make(world) {
                Ok(Some(made)) => {
                    assert_eq!(made, wanted, "{what}");
                    assert_eq!(
                        world.journalled(),
                        wanted.0,
                        "acknowledged and not there: {what}"
                    );
                    return true;
                }
                // The disk was full for a moment.
                Err(kind) => assert_eq!(kind, "append-failed", "{what}"),
                Ok(None) => {}
            }
            world.revive();
            false
        });
        self.due.push(ItemId::Edit(wanted));
    }

    fn again(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + WAIT;
        while !done(self) {
            assert!(Instant::now() < deadline, "waited in vain: {what}");
            std::thread::park_timeout(LOOK_MS);
        }
    }

    // ---- what is on the disk ------------------------------------------------------------------------

    pub fn memory_file(&self, name: &str) -> PathBuf {
        self.home.dirs.state_of("memoryd").join(name)
    }

    fn journalled(&self) -> u64 {
        let text = fs::read(self.memory_file("journal.jsonl")).unwrap_or_default();
        text.iter().filter(|byte| **byte == b'\n').count() as u64
    }

    /// What the whole lines of the ledger add up to.
    pub fn ledger(&self) -> Ledger {
        let text = fs::read_to_string(self.memory_file("honcho.jsonl")).unwrap_or_default();
        let mut ledger = Ledger::default();
        for line in text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
        {
            let line = ledger::parse(line).unwrap_or_else(|bad| panic!("{bad:?}: {line}"));
            let fits = ledger.apply(&line);
            assert!(fits.is_ok(), "{fits:?}: {line:?}");
        }
        ledger
    }

    /// Waits until all that can be is decided and sent.
    fn settle(&mut self, after: &str) {
        let deadline = Instant::now() + WAIT;
        let mut nudge = Instant::now() + NUDGE_MS;
        loop {
            self.revive();
            let ledger = self.ledger();
            let broker = self.broker.is_some();
            let undecided = self.due.iter().find(|item| {
                (broker || matches!(item, ItemId::Edit(_))) && ledger.entry(item).is_none()
            });
            let open = self.honcho.is_up() && broker && ledger.open_places().next().is_some();
            if undecided.is_none() && !open {
                return;
            }
            if Instant::now() > deadline {
                let log = self.daemon.as_ref().map(Daemon::log).unwrap_or_default();
                let open: Vec<_> = ledger.open_places().collect();
                panic!("after {after}: undecided {undecided:?}, open {open:?}\n{log}");
            }
            if Instant::now() > nudge {
                let now = SyncAction::Now {};
                let _ = self.control(&control::Request::MemorySync { action: now });
                nudge = Instant::now() + NUDGE_MS;
            }
            std::thread::park_timeout(LOOK_MS);
        }
    }
}

/// Writes a log whole, so that nobody reads half of it.
fn replace(path: &Path, lines: &str) {
    let beside = path.with_file_name("beside");
    fs::write(&beside, lines).expect("a log");
    fs::rename(&beside, path).expect("a log");
}

fn session_id(n: u8) -> SessionId {
    SessionId::new("20260131", [n; 12]).expect("a session id")
}
