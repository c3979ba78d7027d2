//! A home with a running memoryd, and the three clients. Used by every test here.

use std::{fs, time::Duration};

use bxcore::connect::Client;
use bxtest::{Daemon, Home};
use bxwire::{
    Audience, Label, Origin, SessionId, Speaker,
    links::{
        control::{self, Control},
        memory::{self, Memory},
        memory_tools::{self as tools, Caller, MemoryOp, MemoryTools, Recall},
    },
    log::{Body, Outcome, Record},
};

/// How long a test waits for an answer.
const ANSWER_MS_MAX: Duration = Duration::from_secs(20);

pub struct World {
    pub home: Home,
    daemon: Option<Daemon>,
}

impl World {
    pub fn new() -> Self {
        let mut world = Self::stopped();
        world.start();
        world
    }

    pub fn stopped() -> Self {
        Self {
            home: Home::new(),
            daemon: None,
        }
    }

    pub fn start(&mut self) {
        self.daemon = Some(self.home.start("memoryd"));
    }

    pub fn run(&mut self, daemon: Daemon) {
        self.daemon = Some(daemon);
    }

    pub fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("memoryd runs")
    }

    /// SIGTERM; what it wrote. It must end well.
    pub fn stop(&mut self) -> String {
        let ended = self.daemon.take().expect("memoryd runs").stop();
        assert!(ended.status.success(), "{ended:?}");
        ended.stderr
    }

    pub fn kill(&mut self) {
        self.daemon.take().expect("memoryd runs").kill();
    }

    /// A file under `state/memory`.
    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    pub fn put(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    pub fn path(&self, file: &str) -> std::path::PathBuf {
        self.home.dirs.state_of("memoryd").join(file)
    }

    pub fn tool(&self, request: tools::Request) -> tools::Reply {
        let path = self.home.dirs.memory_tools_socket();
        let mut client = Client::<MemoryTools>::connect(&path, ANSWER_MS_MAX).expect("memoryd");
        client.send(&request).expect("a request");
        match client.recv() {
            Ok(reply) => reply,
            Err(bxcore::connect::ClientError::Refused(refused)) => refused.into(),
            Err(error) => panic!("{error}"),
        }
    }

    pub fn op(&self, caller: Caller, json: &str) -> tools::Reply {
        let arguments: MemoryOp = serde_json::from_str(json).expect("an operation");
        self.tool(tools::Request::Memory { caller, arguments })
    }

    /// An operation in the owner's clean turn that must be carried out.
    pub fn done(&self, json: &str) -> String {
        match self.op(owner(), json) {
            tools::Reply::Done {
                text, label, edit, ..
            } => {
                assert_eq!(label, Label::PRIVATE);
                assert!(edit.is_some());
                text
            }
            other => panic!("{json}: {other:?}"),
        }
    }

    pub fn denied(&self, caller: Caller, json: &str) -> String {
        match self.op(caller, json) {
            tools::Reply::Denied { text } => text,
            other => panic!("{json}: {other:?}"),
        }
    }

    pub fn recall(&self, caller: Caller, query: &str) -> (String, Label) {
        let arguments = ask(query);
        match self.tool(tools::Request::Recall { caller, arguments }) {
            tools::Reply::Done { text, label, .. } => (text, label),
            other => panic!("{query}: {other:?}"),
        }
    }

    pub fn control(&self, request: control::Request) -> control::Reply {
        let path = self.home.dirs.control_socket("memoryd");
        let mut client = Client::<Control>::connect(&path, ANSWER_MS_MAX).expect("memoryd");
        match client.call(&request) {
            Ok(reply) => reply,
            Err(bxcore::connect::ClientError::Refused(refused)) => refused.into(),
            Err(error) => panic!("{error}"),
        }
    }

    pub fn status(&self) -> control::Status {
        match self.control(control::Request::Status {}) {
            control::Reply::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    pub fn memory(&self, request: memory::Request) -> memory::Reply {
        let path = self.home.dirs.memory_socket();
        let mut client = Client::<Memory>::connect(&path, ANSWER_MS_MAX).expect("memoryd");
        match client.call(&request) {
            Ok(reply) => reply,
            Err(bxcore::connect::ClientError::Refused(refused)) => refused.into(),
            Err(error) => panic!("{error}"),
        }
    }

    pub fn identity(&self) -> (String, u64) {
        let audience = Audience::Owner {};
        match self.memory(memory::Request::Identity { audience }) {
            memory::Reply::Identity {
                text,
                owner_changes,
                ..
            } => (text, owner_changes),
            other => panic!("{other:?}"),
        }
    }

    /// A turn in a session's log, as loopd writes it.
    pub fn log(&self, session: &SessionId, turn: u64, label: Label, text: &str, reply: &str) {
        self.begin(session, Audience::Owner {});
        let bodies = [
            Body::User {
                turn,
                key: format!("k{turn}"),
                text: text.into(),
                speaker: Some(local("owner")),
                origin: Origin::Interactive,
                label,
                source: None,
            },
            Body::Assistant {
                turn,
                text: reply.into(),
                reasoning: None,
                calls: Vec::new(),
            },
            Body::TurnEnd {
                turn,
                outcome: Outcome::Replied,
                usage: None,
                reason: None,
                runbook: None,
            },
        ];
        self.records(session, bodies);
    }

    /// A session's first record, unless it is there.
    pub fn begin(&self, session: &SessionId, audience: Audience) {
        if !self.log_path(session).exists() {
            let first = Body::Session {
                session: session.clone(),
                source: "cli".into(),
                audience,
            };
            self.records(session, [first]);
        }
    }

    fn log_path(&self, session: &SessionId) -> std::path::PathBuf {
        let folder = self.home.dirs.state_of("loopd").join("sessions");
        fs::create_dir_all(&folder).expect("a folder");
        folder.join(format!("{session}.jsonl"))
    }

    fn records(&self, session: &SessionId, bodies: impl IntoIterator<Item = Body>) {
        let path = self.log_path(session);
        let mut lines = fs::read_to_string(&path).unwrap_or_default();
        for body in bodies {
            let record = Record {
                seq: lines.lines().count() as u64 + 1,
                at: "2026-01-31T10:00:00.000Z".into(),
                body,
            };
            lines += &(serde_json::to_string(&record).expect("a record") + "\n");
        }
        fs::write(path, lines).expect("a log");
    }

    pub fn updated(&self, session: &SessionId, turn: u64) -> memory::Reply {
        self.memory(memory::Request::SessionUpdated {
            session: session.clone(),
            turn,
        })
    }
}

pub fn ask(query: &str) -> Recall {
    Recall::of(query)
}

pub fn session() -> SessionId {
    "20260131-abcdefghijkl".parse().expect("a session id")
}

pub fn local(name: &str) -> Speaker {
    Speaker {
        realm: "local".into(),
        name: name.into(),
    }
}

pub fn caller(label: Label, speaker: &str) -> Caller {
    Caller {
        session: session(),
        turn: 1,
        call: "abc123def".parse().expect("a call id"),
        label,
        speaker: Some(local(speaker)),
        audience: Audience::Owner {},
    }
}

pub fn owner() -> Caller {
    caller(Label::PRIVATE, "owner")
}

/// Adds an entry about the owner.
pub fn add(text: &str) -> String {
    format!(r#"{{"op":"add","about":"user","text":"{text}"}}"#)
}

pub fn note(text: &str) -> String {
    format!(r#"{{"op":"note","text":"{text}"}}"#)
}
