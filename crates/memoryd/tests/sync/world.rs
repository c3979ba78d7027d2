//! A home with memoryd, a Honcho in this process and a broker that the test speaks for.

use std::{
    collections::HashMap,
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use bxcore::{
    clock::Millis,
    connect::{Client, ClientError},
    listen::{self, Limits},
};
use bxtest::{Daemon, Home, wait_for};
use bxwire::{
    Audience, Class, EditId, Label, Origin, SessionId, Speaker,
    links::{
        control::{self, Control, Sync, SyncAction},
        memory::{self, Memory},
        memory_tools::{self as tools, Caller, MemoryOp, MemoryTools},
        session_state::{self, SessionState, State},
    },
    log::{Body, Outcome, Record},
};
use honcho_local::{Fault, Options, Rule, Server};
use serde_json::Value;

pub const ANSWER_MS_MAX: Duration = Duration::from_secs(20);

/// Waits short enough for a test; holds are longer than any request here takes.
pub const LIMITS: &str = "\n[limits]\nhoncho_retry_ms_min = 40\nhoncho_retry_ms_max = 200\n\
    honcho_hold_messages_ms = 150\nhoncho_hold_conclusions_ms = 150\nhoncho_read_ms_max = 1500\n\
    honcho_request_ms_max = 3000\n";

pub const CLEAN: SessionState = SessionState {
    class: Class::Private,
    untrusted: false,
    seen: true,
};
pub const UNTRUSTED: SessionState = SessionState {
    untrusted: true,
    ..CLEAN
};
pub const SECRET: SessionState = SessionState {
    class: Class::Secret,
    ..CLEAN
};

type Words = Arc<Mutex<HashMap<SessionId, SessionState>>>;

pub struct World {
    pub home: Home,
    pub honcho: Option<Server>,
    words: Words,
    broker: Option<listen::Server>,
    daemon: Option<Daemon>,
    pub extra: String,
    /// More keys under `[limits]`.
    pub limits: &'static str,
    /// Items made so far: nothing has settled before each of them is decided.
    made: std::cell::RefCell<Vec<String>>,
    /// Everything memoryd ever wrote to stderr.
    pub said: String,
}

impl World {
    pub fn new() -> Self {
        Self::with("")
    }

    /// `extra` goes into the configuration.
    pub fn with(extra: &str) -> Self {
        let mut world = Self::stopped(extra);
        world.start();
        world
    }

    /// `limits` are more keys under `[limits]`.
    pub fn limited(limits: &'static str) -> Self {
        let mut world = Self::stopped("");
        world.limits = limits;
        world.configure();
        world.start();
        world
    }

    pub fn stopped(extra: &str) -> Self {
        let home = Home::new();
        let honcho =
            Server::start(Options::at(home.path().join("honcho.sqlite"))).expect("a Honcho");
        let mut world = Self {
            home,
            honcho: Some(honcho),
            words: Words::default(),
            broker: None,
            daemon: None,
            extra: extra.into(),
            limits: "",
            made: std::cell::RefCell::default(),
            said: String::new(),
        };
        world.start_broker();
        world.configure();
        world
    }

    pub fn configure(&self) {
        let url = self.honcho().url();
        self.home.configure(
            "memoryd",
            &format!(
                "[honcho]\nurl = \"{url}\"\nagent = \"boxmaker\"\nowner = \"owner\"\ntrusted = \"b-trusted\"\n\
                 untrusted = \"b-untrusted\"\nfleet = \"fleet\"\n{}{LIMITS}{}",
                self.extra, self.limits
            ),
        );
    }

    pub fn honcho(&self) -> &Server {
        self.honcho.as_ref().expect("Honcho runs")
    }

    /// A turn that Honcho has taken, and whose request it does not answer.
    pub fn turn_without_answer(&mut self, session: &SessionId, turn: u64) {
        let controls = self.honcho().controls();
        controls.add(
            Rule::new(Fault::NeverAnswer { commit: true })
                .on("POST", "*/messages")
                .times(1),
        );
        self.turn(session, turn);
        let controls = self.honcho().controls();
        assert!(controls.wait_for(bxtest::WAIT, |requests| {
            let mut paths = requests.iter().map(|request| &request.path);
            paths.any(|path| path.ends_with("/messages"))
        }));
    }

    /// Honcho ends; its data and its address stay.
    pub fn stop_honcho(&mut self) -> Options {
        self.honcho.take().expect("Honcho runs").stop()
    }

    pub fn start_honcho(&mut self, options: Options) {
        self.honcho = Some(Server::start(options).expect("Honcho at its old address"));
    }

    pub fn start_broker(&mut self) {
        let words = Arc::clone(&self.words);
        let path = self.home.dirs.state_socket();
        let server = listen::serve::<State>(&path, Limits::default(), move |mut connection| {
            while let Some(session_state::Request::SessionState { session }) = connection.recv() {
                let word = words.lock().expect("words").get(&session).copied();
                let state = word.unwrap_or(CLEAN);
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

    pub fn stop_broker(&mut self) {
        self.broker
            .take()
            .expect("a broker")
            .stop(Duration::from_secs(2));
    }

    /// What brokerd says of a session from now on.
    pub fn broker_says(&self, session: &SessionId, state: SessionState) {
        self.words
            .lock()
            .expect("words")
            .insert(session.clone(), state);
    }

    pub fn start(&mut self) {
        self.daemon = Some(self.home.start("memoryd"));
    }

    pub fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("memoryd runs")
    }

    pub fn kill(&mut self) {
        let daemon = self.daemon.take().expect("memoryd runs");
        self.said += &daemon.log();
        daemon.kill();
    }

    pub fn stop(&mut self) {
        let ended = self.daemon.take().expect("memoryd runs").stop();
        assert!(ended.status.success(), "{ended:?}");
        self.said += &ended.stderr;
    }

    // ---- what is done -------------------------------------------------------------------------------

    pub fn turn(&self, session: &SessionId, turn: u64) {
        self.turn_of(session, turn, &Said::default());
    }

    /// A finished turn in loopd's log, and memoryd told of it.
    pub fn turn_of(&self, session: &SessionId, turn: u64, said: &Said) {
        self.log(session, turn, said);
        self.made.borrow_mut().push(format!("{session}/{turn}"));
        self.memory(&memory::Request::SessionUpdated {
            session: session.clone(),
            turn,
        });
    }

    pub fn log(&self, session: &SessionId, turn: u64, said: &Said) {
        let folder = self.home.dirs.state_of("loopd").join("sessions");
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(format!("{session}.jsonl"));
        let mut bodies = Vec::new();
        if !path.exists() {
            bodies.push(Body::Session {
                session: session.clone(),
                source: said.source.into(),
                audience: Audience::Owner {},
            });
        }
        bodies.push(Body::User {
            turn,
            key: format!("k{turn}"),
            text: said.text.clone().unwrap_or_else(|| format!("words {turn}")),
            speaker: said.speaker.clone(),
            origin: said.origin,
            label: Label::PRIVATE,
            source: Some(said.source.into()),
        });
        if let Some(label) = said.result {
            bodies.push(Body::ToolResult {
                turn,
                call: "abc".parse().expect("a call id"),
                tool: "read_file".into(),
                text: "something".into(),
                label: Some(label),
                from_broker: true,
            });
        }
        if said.outcome == Outcome::Replied {
            bodies.push(Body::Assistant {
                turn,
                text: said
                    .reply
                    .clone()
                    .unwrap_or_else(|| format!("reply {turn}")),
                reasoning: None,
                calls: Vec::new(),
            });
        }
        bodies.push(Body::TurnEnd {
            turn,
            outcome: said.outcome,
            usage: None,
            reason: None,
            runbook: None,
        });
        let mut lines = fs::read_to_string(&path).unwrap_or_default();
        for body in bodies {
            let record = Record {
                seq: lines.lines().count() as u64 + 1,
                at: Millis::now().to_string(),
                body,
            };
            lines += &(serde_json::to_string(&record).expect("a record") + "\n");
        }
        fs::write(path, lines).expect("a log");
    }

    /// What loopd does when the owner purges a session: its log without texts, in a new file, and memoryd told.
    pub fn purge_log(&self, session: &SessionId) {
        let folder = self.home.dirs.state_of("loopd").join("sessions");
        let path = folder.join(format!("{session}.jsonl"));
        let text = fs::read_to_string(&path).expect("a log");
        let read = |line| serde_json::from_str::<Record>(line).expect("a record");
        let mut records: Vec<_> = text.lines().map(read).collect();
        records.iter_mut().for_each(|record| record.body.blank());
        records.push(Record {
            seq: records.len() as u64 + 1,
            at: Millis::now().to_string(),
            body: Body::Purged {},
        });
        let line = |record| serde_json::to_string(record).expect("a line") + "\n";
        let lines: String = records.iter().map(line).collect();
        let beside = folder.join("new");
        fs::write(&beside, lines).expect("a log");
        fs::rename(beside, path).expect("a log");
        if self.daemon.is_some() {
            self.memory(&memory::Request::SessionUpdated {
                session: session.clone(),
                turn: 1,
            });
        }
    }

    pub fn memory(&self, request: &memory::Request) -> memory::Reply {
        let path = self.home.dirs.memory_socket();
        let mut client = Client::<Memory>::connect(&path, ANSWER_MS_MAX).expect("memoryd");
        client.call(request).expect("an answer")
    }

    /// The memory tool, in a session with this label; the edit it made.
    pub fn tool(&self, session: &SessionId, label: Label, json: &str) -> EditId {
        self.tool_in(session, 1, label, json)
    }

    /// The same in a later turn.
    pub fn tool_in(&self, session: &SessionId, turn: u64, label: Label, json: &str) -> EditId {
        self.call_by(session, turn, owner(), label, json)
    }

    /// The same in somebody else's turn.
    pub fn tool_of(&self, session: &SessionId, by: Speaker, label: Label, json: &str) -> EditId {
        self.call_by(session, 1, by, label, json)
    }

    fn call_by(
        &self,
        session: &SessionId,
        turn: u64,
        speaker: Speaker,
        label: Label,
        json: &str,
    ) -> EditId {
        let arguments: MemoryOp = serde_json::from_str(json).expect("an operation");
        let caller = Caller {
            session: session.clone(),
            turn,
            call: "abc".parse().expect("a call id"),
            label,
            speaker: Some(speaker),
            audience: Audience::Owner {},
        };
        let path = self.home.dirs.memory_tools_socket();
        let mut client = Client::<MemoryTools>::connect(&path, ANSWER_MS_MAX).expect("memoryd");
        match client.call(&tools::Request::Memory { caller, arguments }) {
            Ok(tools::Reply::Done {
                edit: Some(edit), ..
            }) => {
                self.made.borrow_mut().push(edit.to_string());
                edit
            }
            other => panic!("{json}: {other:?}"),
        }
    }

    pub fn control(&self, request: &control::Request) -> control::Reply {
        let path = self.home.dirs.control_socket("memoryd");
        let mut client = Client::<Control>::connect(&path, ANSWER_MS_MAX).expect("memoryd");
        match client.call(request) {
            Ok(reply) => reply,
            Err(ClientError::Refused(refused)) => refused.into(),
            Err(error) => panic!("{error}"),
        }
    }

    pub fn undo(&self, edit: EditId) {
        let undo = control::Request::MemoryUndo {
            edit,
            confirm: true,
        };
        match self.control(&undo) {
            control::Reply::Change {
                done: true,
                edit: Some(undone),
                ..
            } => self.made.borrow_mut().push(undone.to_string()),
            other => panic!("{other:?}"),
        }
    }

    pub fn sync(&self, action: SyncAction) -> Sync {
        match self.control(&control::Request::MemorySync { action }) {
            control::Reply::Sync(sync) => sync,
            other => panic!("{other:?}"),
        }
    }

    pub fn why(&self, item: &str) -> control::Why {
        let item = item.parse().expect("an item");
        match self.control(&control::Request::MemoryWhy { item }) {
            control::Reply::Why(why) => why,
            other => panic!("{other:?}"),
        }
    }

    // ---- what is seen -------------------------------------------------------------------------------

    /// Waits until everything that was made is decided.
    pub fn decided(&self) {
        for item in &*self.made.borrow() {
            wait_for("a decision", || self.is_decided(item).then_some(()));
        }
    }

    /// Waits until everything that was made is decided, and nothing waits or is in doubt.
    pub fn settle(&self) -> Sync {
        self.decided();
        wait_for("everything to be sent", || {
            let sync = self.sync(SyncAction::Show {});
            let open = sync
                .workspaces
                .iter()
                .any(|workspace| workspace.waiting + workspace.in_doubt > 0);
            (!open && sync.undecided.is_empty()).then_some(sync)
        })
    }

    fn is_decided(&self, item: &str) -> bool {
        let why = self.why(item);
        why.facts.iter().any(|(fact, _)| fact == "decided")
    }

    /// Waits until `check` is true of what `sync` shows.
    pub fn until(&self, what: &str, mut check: impl FnMut(&Sync) -> bool) -> Sync {
        wait_for(what, || {
            Some(self.sync(SyncAction::Show {})).filter(|sync| check(sync))
        })
    }

    /// Each message of a workspace as `session peer: text`, in Honcho's order.
    pub fn messages(&self, workspace: &str) -> Vec<String> {
        let dump = self.honcho().dump(workspace).expect("a dump");
        let mut found = Vec::new();
        for session in dump["sessions"].as_array().into_iter().flatten() {
            for message in session["messages"].as_array().into_iter().flatten() {
                let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
                let id = session["id"].as_str().unwrap_or_default();
                found.push(format!("{id} {}: {}", text("peer_id"), text("content")));
            }
        }
        found
    }

    /// Each conclusion of a workspace as `peer: text`.
    pub fn conclusions(&self, workspace: &str) -> Vec<String> {
        let dump = self.honcho().dump(workspace).expect("a dump");
        let mut found: Vec<_> = dump["conclusions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|conclusion| {
                let text = |key: &str| conclusion[key].as_str().unwrap_or_default().to_owned();
                assert_eq!(text("observer_id"), text("observed_id"));
                assert!(
                    conclusion["session_id"].is_string(),
                    "dreaming skips what has no session"
                );
                format!("{}: {}", text("observed_id"), text("content"))
            })
            .collect();
        found.sort();
        found
    }

    pub fn until_conclusions(&self, workspace: &str, want: &[&str]) {
        wait_for("the conclusions", || {
            (self
                .honcho()
                .dump(workspace)
                .is_ok_and(|dump| !dump.is_null())
                && self.conclusions(workspace) == want)
                .then_some(())
        });
    }

    /// Everything that was asked of Honcho but for reads: at its start memoryd finds out what Honcho can.
    pub fn written(&self) -> Vec<String> {
        let requests = self.honcho().controls().requests();
        let reads = ["/chat", "/search", "/query", "/list"];
        requests
            .into_iter()
            .filter(|request| request.method != "GET")
            .map(|request| request.path)
            .filter(|path| !reads.iter().any(|read| path.ends_with(read)))
            .collect()
    }

    pub fn dump(&self, workspace: &str) -> Value {
        self.honcho().dump(workspace).expect("a dump")
    }
}

/// What was said in a turn.
pub struct Said {
    pub text: Option<String>,
    pub reply: Option<String>,
    pub speaker: Option<Speaker>,
    pub origin: Origin,
    pub outcome: Outcome,
    pub source: &'static str,
    /// The label of a tool's result in it.
    pub result: Option<Label>,
}

impl Default for Said {
    fn default() -> Self {
        Self {
            text: None,
            reply: None,
            speaker: Some(owner()),
            origin: Origin::Interactive,
            outcome: Outcome::Replied,
            source: "chat",
            result: None,
        }
    }
}

pub fn owner() -> Speaker {
    speaker("local", "owner")
}

pub fn speaker(realm: &str, name: &str) -> Speaker {
    Speaker {
        realm: realm.into(),
        name: name.into(),
    }
}

pub fn session(n: u8) -> SessionId {
    SessionId::new("20260131", [n; 12]).expect("a session id")
}
