//! A home with loopd in it, and stand-ins for everything around it. Used by every test of this folder.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bxcore::{connect::Client, listen};
use bxtest::{Daemon, Home, WAIT};
use bxwire::{
    Audience, Origin, SessionId, Speaker,
    links::{
        control,
        memory::Memory,
        tools::{Tool, Tools},
        turns::{Request, TurnEvent, Turns},
    },
    log::{Body, Record},
};
use model_local::{Behaviour, Options, Reply, Server};
use serde_json::json;

pub use crate::fakes::{Behave, Broker, Mem};

/// Short waits, so that failures come soon.
const LIMITS: &str = "[limits]\nmodel_wait_ms = 300\nretry_wait_ms = 10\nloading_poll_ms = 10\n\
    silence_ms_max = 60000\nmemory_wait_ms = 2000\n";

pub struct World {
    pub home: Home,
    pub model: Server,
    pub broker: Arc<Broker>,
    pub memory: Arc<Mem>,
    daemon: Option<Daemon>,
    links: Vec<listen::Server>,
}

pub fn tool(name: &str) -> Tool {
    Tool {
        name: name.into(),
        description: format!("does {name}"),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }
}

/// A world whose model says these replies.
pub fn world(script: Vec<Reply>) -> World {
    with(Behaviour::Script(script), Options::default(), LIMITS)
}

pub fn with(behaviour: Behaviour, options: Options, rest: &str) -> World {
    let mut world = unstarted(behaviour, options, rest);
    world.start();
    world
}

/// Everything but loopd itself.
pub fn unstarted(behaviour: Behaviour, options: Options, rest: &str) -> World {
    let home = Home::new();
    let model = Server::start_with(behaviour, options).unwrap();
    home.configure(
        "loopd",
        &format!("[model]\nurl = \"{}\"\n{rest}", model.url()),
    );
    let broker = Arc::new(Broker::default());
    broker.lock().tools = vec![tool("read_file"), tool("write_file")];
    let memory = Arc::new(Mem::default());
    memory.lock().identity = "About your owner: likes tea.".into();
    let mut world = World {
        home,
        model,
        broker,
        memory,
        daemon: None,
        links: Vec::new(),
    };
    world.serve_broker();
    world.serve_memory();
    world
}

pub fn owner() -> Speaker {
    Speaker {
        realm: "local".into(),
        name: "owner".into(),
    }
}

/// A turn of the owner's.
pub fn turn(key: &str, session: Option<&SessionId>, text: &str) -> Request {
    Request::Turn {
        key: key.into(),
        session: session.cloned(),
        text: text.into(),
        speaker: Some(owner()),
        origin: Origin::Interactive,
        untrusted: false,
        audience: Audience::Owner {},
        source: "test".into(),
    }
}

impl World {
    pub fn serve_broker(&mut self) {
        let broker = Arc::clone(&self.broker);
        let path = self.home.dirs.tools_socket();
        let serving =
            listen::serve::<Tools>(&path, listen::Limits::default(), move |c| broker.serve(c));
        self.links.push(serving.unwrap());
    }

    pub fn serve_memory(&mut self) {
        let memory = Arc::clone(&self.memory);
        let path = self.home.dirs.memory_socket();
        let serving =
            listen::serve::<Memory>(&path, listen::Limits::default(), move |c| memory.serve(c));
        self.links.push(serving.unwrap());
    }

    /// Ends the fake brokerd and the fake memoryd.
    pub fn stop_links(&mut self) {
        for link in self.links.drain(..) {
            link.stop(WAIT);
        }
    }

    pub fn start(&mut self) {
        self.daemon = Some(self.home.start("loopd"));
    }

    /// Starts it with a limit on the size of files, in KiB; a write over it fails as on a full disk.
    pub fn start_limited(&mut self, kib: u64) {
        let program = bxtest::program("loopd");
        let started = self.home.try_start("loopd", |command| {
            let home = self.home.path().to_owned();
            let mut limited = std::process::Command::new("sh");
            limited
                .args([
                    "-c",
                    "ulimit -f $(($1 * 2)); shift; exec \"$@\"",
                    "sh",
                    &kib.to_string(),
                ])
                .arg(program)
                .arg("--home")
                .arg(&home)
                .stdin(std::process::Stdio::null())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::piped());
            for (name, value) in command.get_envs() {
                if let Some(value) = value {
                    limited.env(name, value);
                }
            }
            *command = limited;
        });
        self.daemon = Some(started.unwrap());
    }

    pub fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    pub fn kill(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    pub fn stop(&mut self) -> bxtest::Ended {
        self.daemon.take().unwrap().stop()
    }

    pub fn client(&self) -> Client<Turns> {
        Client::connect(&self.home.dirs.turns_socket(), WAIT).unwrap()
    }

    pub fn status(&self) -> control::Status {
        let path = self.home.dirs.control_socket("loopd");
        let mut client = Client::<control::Control>::connect(&path, WAIT).unwrap();
        match client.call(&control::Request::Status {}).unwrap() {
            control::Reply::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    /// Runs a turn on a connection of its own and gives its events.
    pub fn run(&self, request: &Request) -> Vec<TurnEvent> {
        let mut client = self.client();
        client.send(request).unwrap();
        events(&mut client)
    }

    /// A first turn that is replied to: its session and reply.
    pub fn say(&self, text: &str) -> (SessionId, String) {
        let key = format!("key of {text}");
        let events = self.run(&turn(&key, None, text));
        (accepted(&events).0, reply(&events).to_owned())
    }

    pub fn log(&self, session: &SessionId) -> Vec<Record> {
        let text = std::fs::read_to_string(self.log_path(session)).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub fn log_path(&self, session: &SessionId) -> PathBuf {
        self.home
            .dirs
            .state
            .join(format!("loop/sessions/{session}.jsonl"))
    }

    pub fn logs(&self) -> Vec<PathBuf> {
        let folder = self.home.dirs.state.join("loop/sessions");
        std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    }

    /// The messages of the model's n-th chat request.
    pub fn messages(&self, chat: usize) -> Vec<serde_json::Value> {
        self.model.chats()[chat].body["messages"]
            .as_array()
            .unwrap()
            .clone()
    }
}

/// Reads a turn's events to its last one.
pub fn events(client: &mut Client<Turns>) -> Vec<TurnEvent> {
    let mut events = Vec::new();
    loop {
        let event = client.recv().unwrap();
        let last = matches!(event, TurnEvent::Reply { .. } | TurnEvent::Failed { .. });
        events.push(event);
        if last {
            return events;
        }
    }
}

pub fn accepted(events: &[TurnEvent]) -> (SessionId, u64) {
    match &events[0] {
        TurnEvent::Accepted { session, turn } => (session.clone(), *turn),
        other => panic!("{other:?}"),
    }
}

pub fn reply(events: &[TurnEvent]) -> &str {
    match events.last() {
        Some(TurnEvent::Reply { text, .. }) => text,
        other => panic!("{other:?} after {events:?}"),
    }
}

pub fn failure(events: &[TurnEvent]) -> (&str, &str) {
    match events.last() {
        Some(TurnEvent::Failed { reason, runbook }) => (reason, runbook),
        other => panic!("{other:?}"),
    }
}

pub fn deltas(events: &[TurnEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        TurnEvent::Delta { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

pub fn notices(events: &[TurnEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        TurnEvent::Notice { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

pub fn kinds(records: &[Record]) -> Vec<&'static str> {
    let kind = |record: &Record| match record.body {
        Body::Session { .. } => "session",
        Body::Epoch { .. } => "epoch",
        Body::User { .. } => "user",
        Body::Context { .. } => "context",
        Body::Assistant { .. } => "assistant",
        Body::ToolResult { .. } => "result",
        Body::Summary { .. } => "summary",
        Body::TurnEnd { .. } => "end",
        Body::Purged {} => "purged",
    };
    records.iter().map(kind).collect()
}

pub const SOON: Duration = Duration::from_secs(20);
