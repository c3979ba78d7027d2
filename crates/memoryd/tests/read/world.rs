//! A home with memoryd, which reads two agents and the fleet, and a Honcho in this process.

use std::{fs, time::Duration};

use bxcore::connect::{Client, ClientError};
use bxtest::{Daemon, Home};
use bxwire::{
    Audience, Cause, Label, Origin, SessionId,
    links::{
        control::{self, Control},
        memory_tools::{AskMemory, Caller, MemoryOp, MemoryTools, Recall, Reply, Request},
    },
    log::{Body, Record},
};
use honcho_local::{Options, Record as Asked, Server};
use roncho::{
    ConclusionCreate, MessageCreate, PeerCreate, SessionCreate, blocking::Client as Roncho,
    models::ConclusionBatchCreate,
};
use serde_json::{Map, Value, json};

const ANSWER_MS_MAX: Duration = Duration::from_secs(20);

/// kitchen is read as the default says, garden is trusted.
pub const READERS: &str = "[[honcho.read]]\nagent = \"kitchen\"\nworkspace = \"k-trusted\"\n\
    [[honcho.read]]\nagent = \"garden\"\nworkspace = \"g-trusted\"\ntrust = \"trusted\"\n";

/// Limits under which a source that answers at all answers in time, however busy the machine.
pub const PATIENT: &str = "recall_source_ms_max = 8000\n";
/// A limit short enough to be waited for.
pub const SHORT: &str = "recall_source_ms_max = 400\n";

pub struct World {
    pub home: Home,
    pub honcho: Option<Server>,
    pub daemon: Option<Daemon>,
    honcho_keys: String,
    limits: String,
}

/// What a tool answered.
#[derive(Debug)]
pub struct Answer {
    pub text: String,
    pub label: Label,
    pub causes: Vec<Cause>,
    pub progress: Vec<String>,
}

impl Answer {
    pub fn lines(&self) -> Vec<&str> {
        self.text.lines().collect()
    }

    /// The line after the first that holds `word`.
    pub fn after(&self, word: &str) -> &str {
        let mut lines = self.text.lines();
        lines.find(|line| line.contains(word));
        lines.next().unwrap_or("")
    }

    /// Lines that begin like a hit.
    pub fn heads(&self) -> Vec<&str> {
        let lines = self.text.lines();
        lines.filter(|line| line.starts_with('[')).collect()
    }
}

impl World {
    pub fn new() -> Self {
        Self::with("", READERS, PATIENT)
    }

    /// `honcho`: keys of `[honcho]`; `rest`: what follows it; `limits`: keys of `[limits]`.
    pub fn with(honcho: &str, rest: &str, limits: &str) -> Self {
        let mut world = Self::stopped(honcho, rest, limits);
        world.start();
        world
    }

    pub fn stopped(honcho: &str, rest: &str, limits: &str) -> Self {
        let home = Home::new();
        let server =
            Server::start(Options::at(home.path().join("honcho.sqlite"))).expect("a Honcho");
        let world = Self {
            home,
            honcho: Some(server),
            daemon: None,
            honcho_keys: format!("{honcho}\n{rest}"),
            limits: limits.into(),
        };
        world.configure("");
        world
    }

    pub fn configure(&self, secrets: &str) {
        self.home.configure(
            "memoryd",
            &format!(
                "[honcho]\nurl = \"{}\"\nagent = \"boxmaker\"\nowner = \"owner\"\ntrusted = \"b-trusted\"\n\
                 untrusted = \"b-untrusted\"\nfleet = \"fleet\"\n{}\n{secrets}\n[limits]\n\
                 recall_probe_ms_min = 30\nrecall_probe_ms_max = 60\nhoncho_retry_ms_min = 60000\n\
                 honcho_retry_ms_max = 60000\n{}",
                self.honcho().url(),
                self.honcho_keys,
                self.limits
            ),
        );
    }

    pub fn honcho(&self) -> &Server {
        self.honcho.as_ref().expect("Honcho runs")
    }

    pub fn start(&mut self) {
        self.daemon = Some(self.home.start("memoryd"));
    }

    pub fn log(&self) -> String {
        self.daemon.as_ref().expect("memoryd runs").log()
    }

    // ---- what others wrote ---------------------------------------------------------------------------

    pub fn roncho(&self, workspace: &str) -> Roncho {
        bxtest::other_agent(&self.honcho().url(), workspace)
    }

    /// Threads of memoryd with this name.
    pub fn threads(&self, name: &str) -> usize {
        let pid = self.daemon.as_ref().expect("memoryd runs").pid();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
        let comm = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
        tasks
            .filter_map(|task| comm(task.ok()?))
            .filter(|comm| comm.trim() == name)
            .count()
    }

    /// A message as anybody may write it.
    pub fn message(&self, workspace: &str, peer: &str, text: &str, metadata: Value) {
        self.message_in("s1", workspace, peer, text, metadata);
    }

    pub fn message_in(
        &self,
        session: &str,
        workspace: &str,
        peer: &str,
        text: &str,
        metadata: Value,
    ) {
        let Value::Object(metadata) = metadata else {
            panic!("no metadata");
        };
        let message = MessageCreate::new(text, peer)
            .with_created_at("2026-01-31T10:00:00Z")
            .with_metadata(metadata);
        self.roncho(workspace)
            .add_messages(session, &[message])
            .expect("it is stored");
    }

    /// A fleet note as memoryd writes it.
    pub fn note(&self, peer: &str, item: &str, text: &str) {
        let metadata = json!({"installation": format!("of-{peer}"), "item": item, "part": 0});
        self.message("fleet", peer, text, metadata);
    }

    pub fn conclude(&self, workspace: &str, peer: &str, text: &str) {
        let client = self.roncho(workspace);
        client.peer(&PeerCreate::new(peer)).expect("a peer");
        client
            .session(&SessionCreate::new("s1"))
            .expect("a session");
        let create = ConclusionCreate::new(text, peer, peer).with_session_id("s1");
        client
            .create_conclusions(&ConclusionBatchCreate::new(vec![create]))
            .expect("it is stored");
    }

    // ---- what the agent does -------------------------------------------------------------------------

    /// The log of the callers' session, of which the first turn has begun. `source`: where the session began;
    /// `turn`: where the turn came from, if elsewhere.
    pub fn begins(&self, source: &str, turn: Option<&str>) {
        let folder = self.home.dirs.state_of("loopd").join("sessions");
        fs::create_dir_all(&folder).expect("a folder");
        let caller = caller(Label::PRIVATE, Audience::Owner {});
        let bodies = [
            Body::Session {
                session: caller.session.clone(),
                source: source.into(),
                audience: caller.audience,
            },
            Body::User {
                turn: caller.turn,
                key: "k1".into(),
                text: "which boat?".into(),
                speaker: caller.speaker,
                origin: Origin::Interactive,
                label: caller.label,
                source: turn.map(str::to_owned),
            },
        ];
        let lines = (1..).zip(bodies).map(|(seq, body)| {
            let at = "2026-01-31T10:00:00.000Z".into();
            serde_json::to_string(&Record { seq, at, body }).expect("a record") + "\n"
        });
        let path = folder.join(format!("{}.jsonl", caller.session));
        fs::write(path, lines.collect::<String>()).expect("a log");
    }

    pub fn local_note(&self, label: Label, text: &str) {
        let arguments = MemoryOp::Note { text: text.into() };
        let caller = caller(label, Audience::Owner {});
        self.tool(&Request::Memory { caller, arguments })
            .expect("a note");
    }

    pub fn recall(&self, query: &str) -> Answer {
        self.recall_in(Label::PRIVATE, &ask(query))
    }

    pub fn recall_in(&self, label: Label, arguments: &Recall) -> Answer {
        self.recall_before(label, Audience::Owner {}, arguments)
    }

    pub fn recall_before(&self, label: Label, audience: Audience, arguments: &Recall) -> Answer {
        let request = Request::Recall {
            caller: caller(label, audience),
            arguments: arguments.clone(),
        };
        self.tool(&request).expect("an answer")
    }

    pub fn ask_memory(&self, question: &str, workspaces: &[&str]) -> Answer {
        self.try_ask(Label::PRIVATE, question, workspaces)
            .expect("an answer")
    }

    /// `Err`: why it was denied.
    pub fn try_ask(
        &self,
        label: Label,
        question: &str,
        workspaces: &[&str],
    ) -> Result<Answer, String> {
        let arguments = AskMemory {
            question: question.into(),
            workspaces: workspaces.iter().map(|name| (*name).to_owned()).collect(),
            reasoning: None,
        };
        let caller = caller(label, Audience::Owner {});
        self.tool(&Request::AskMemory { caller, arguments })
    }

    pub fn tool(&self, request: &Request) -> Result<Answer, String> {
        let path = self.home.dirs.memory_tools_socket();
        let mut client = Client::<MemoryTools>::connect(&path, ANSWER_MS_MAX).expect("memoryd");
        client.send(request).expect("sent");
        let mut progress = Vec::new();
        loop {
            match client.recv().expect("an answer") {
                Reply::Progress { text } => progress.push(text),
                Reply::Done {
                    text,
                    label,
                    causes,
                    ..
                } => {
                    return Ok(Answer {
                        text,
                        label,
                        causes,
                        progress,
                    });
                }
                Reply::Denied { text } => return Err(text),
                other => panic!("{other:?}"),
            }
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

    pub fn status(&self) -> control::Status {
        match self.control(&control::Request::Status {}) {
            control::Reply::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    // ---- what is seen --------------------------------------------------------------------------------

    /// Requests that ask for something, probes left out.
    pub fn asked(&self) -> Vec<Asked> {
        let all = self.honcho().controls().requests();
        let probe = |record: &Asked| match record.body["query"].as_str() {
            None => true,
            Some(query) => query.is_empty() || query == "hello",
        };
        all.into_iter().filter(|record| !probe(record)).collect()
    }

    /// A secret file for a key.
    pub fn key_file(&self, name: &str, key: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.home.path().join(format!("{name}.key"));
        fs::write(&path, key).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        format!("[secrets.{name}]\nfile = \"{}\"\n", path.display())
    }
}

pub fn caller(label: Label, audience: Audience) -> Caller {
    Caller {
        session: SessionId::new("20260131", [1; 12]).expect("an id"),
        turn: 1,
        call: "abc".parse().expect("a call id"),
        label,
        speaker: "local/owner".parse().ok(),
        audience,
    }
}

pub fn ask(query: &str) -> Recall {
    Recall::of(query)
}

/// Metadata of nothing in particular.
pub fn none() -> Value {
    Value::Object(Map::new())
}
