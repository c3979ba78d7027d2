//! A home with loopd in it, and stand-ins for everything around it. Used by every test of this folder.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bxcore::{
    connect::Client,
    listen::{self, Connection},
};
use bxtest::{Daemon, Home, WAIT};
use bxwire::{
    Audience, Cause, Class, Label, Origin, SessionId, Speaker, Trust,
    links::{
        memory::{self, Memory},
        tools::{self, CallOutcome, Tool, Tools},
        turns::{Request, TurnEvent, Turns},
    },
    log::{Body, Record},
};
use model_local::{Behaviour, Gate, Options, Reply, Server};
use serde_json::json;

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

/// What the fake brokerd was asked and answers.
#[derive(Default)]
pub struct Broker {
    state: Mutex<BrokerState>,
}

#[derive(Default)]
pub struct BrokerState {
    pub tools: Vec<Tool>,
    pub calls: Vec<tools::Request>,
    pub raises: Vec<(SessionId, Label, Cause)>,
    pub approvals: Vec<tools::Request>,
    pub cancels: usize,
    pub label: Label,
    pub causes: Vec<Cause>,
    pub behaviour: Behave,
}

/// What a call gets.
#[derive(Clone, Default)]
pub enum Behave {
    #[default]
    Echo,
    Result(CallOutcome, String, Label),
    /// Closes the connection instead of answering.
    Vanish,
    /// Waits until it is cancelled.
    Hang(Gate),
    /// Asks for approval, and waits for it.
    Ask,
}

/// What the fake memoryd was asked and answers.
#[derive(Default)]
pub struct Mem {
    state: Mutex<MemState>,
}

#[derive(Default)]
pub struct MemState {
    pub identity: String,
    pub owner_changes: u64,
    pub context: Option<(String, Label)>,
    pub notices: Vec<String>,
    pub updates: Vec<u64>,
    pub audiences: Vec<Audience>,
    pub commands: Vec<memory::Request>,
}

impl Broker {
    pub fn lock(&self) -> MutexGuard<'_, BrokerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut connection: Connection<Tools>) {
        while let Some(request) = connection.recv() {
            let reply = match request {
                tools::Request::ListTools {} => tools::Reply::Tools {
                    tools: self.lock().tools.clone(),
                    digest: "d".into(),
                },
                tools::Request::Raise {
                    session,
                    label,
                    cause,
                } => {
                    self.lock().raises.push((session, label, cause));
                    tools::Reply::Done {}
                }
                tools::Request::CancelCall { .. } => {
                    self.lock().cancels += 1;
                    tools::Reply::Done {}
                }
                request @ tools::Request::ApproveCall { .. } => {
                    self.lock().approvals.push(request);
                    tools::Reply::Done {}
                }
                tools::Request::SessionCauses { .. } => {
                    let state = self.lock();
                    tools::Reply::Causes {
                        label: state.label,
                        causes: state.causes.clone(),
                    }
                }
                request @ tools::Request::CallTool { .. } => {
                    match self.call(request, &mut connection) {
                        Some(reply) => reply,
                        None => return,
                    }
                }
            };
            if connection.send(&reply).is_err() {
                return;
            }
        }
    }

    fn call(
        &self,
        request: tools::Request,
        connection: &mut Connection<Tools>,
    ) -> Option<tools::Reply> {
        let tools::Request::CallTool {
            call,
            tool,
            arguments,
            ..
        } = request.clone()
        else {
            return None;
        };
        let behaviour = {
            let mut state = self.lock();
            state.calls.push(request);
            state.behaviour.clone()
        };
        let result = |outcome, text: String, label: Label| {
            Some(tools::Reply::Result {
                outcome,
                text,
                label,
                session_label: label,
                causes: Vec::new(),
            })
        };
        match behaviour {
            Behave::Echo => result(
                CallOutcome::Done,
                format!("{tool} {arguments}"),
                Label::PRIVATE,
            ),
            Behave::Result(outcome, text, label) => result(outcome, text, label),
            Behave::Vanish => None,
            Behave::Hang(gate) => {
                gate.open();
                bxtest::wait_for("a cancellation", || (self.lock().cancels > 0).then_some(()));
                result(CallOutcome::Cancelled, "cancelled".into(), Label::default())
            }
            Behave::Ask => {
                let what = "run it?".into();
                connection
                    .send(&tools::Reply::Approval { call, what })
                    .ok()?;
                bxtest::wait_for("an approval", || {
                    (!self.lock().approvals.is_empty()).then_some(())
                });
                result(CallOutcome::Done, "approved".into(), Label::PRIVATE)
            }
        }
    }
}

impl Mem {
    pub fn lock(&self) -> MutexGuard<'_, MemState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut connection: Connection<Memory>) {
        while let Some(request) = connection.recv() {
            let mut state = self.lock();
            let reply = match request {
                memory::Request::Identity { audience } => {
                    state.audiences.push(audience);
                    memory::Reply::Identity {
                        text: state.identity.clone(),
                        label: Label::new(Class::Private.min(audience.class_max()), Trust::Trusted),
                        digest: "d".into(),
                        owner_changes: state.owner_changes,
                    }
                }
                memory::Request::Context { .. } => {
                    let (text, label) = state.context.clone().unwrap_or_default();
                    memory::Reply::Context { text, label }
                }
                memory::Request::SessionUpdated { turn, .. } => {
                    state.updates.push(turn);
                    memory::Reply::Updated {
                        notices: state.notices.clone(),
                    }
                }
                request @ memory::Request::OwnerCommand { .. } => {
                    state.commands.push(request);
                    memory::Reply::Answer {
                        text: "undone".into(),
                    }
                }
            };
            drop(state);
            if connection.send(&reply).is_err() {
                return;
            }
        }
    }
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
    };
    records.iter().map(kind).collect()
}

pub const SOON: Duration = Duration::from_secs(20);
