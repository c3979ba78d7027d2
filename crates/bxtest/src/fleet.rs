//! The agents of one fleet, each with its four daemons as real programs, over one Honcho and one model
//! stand-in on the loopback. Used by the scenario and the attacks; decides nothing.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use bxcore::{connect::Client, paths::Dirs, report};
use bxwire::{
    Audience, Cause, Label, Origin, SessionId, Speaker,
    links::{
        control::{self, Control},
        turns::{self, TurnEvent, Turns},
    },
};
use honcho_local::{Options, Server};
use model_local::Behaviour;
use serde_json::Value;

use crate::{Daemon, Home};

/// In the order in which they are started; any order would do.
pub const DAEMONS: [&str; 4] = ["memoryd", "brokerd", "loopd", "gatewayd"];
/// The workspace that both agents write their untrusted notes to.
pub const FLEET: &str = "fleet";
/// The owner's name, as a speaker and as a peer.
pub const OWNER: &str = "owner";

/// How long one answer of a daemon may take.
const ANSWER_MS_MAX: Duration = Duration::from_secs(20);

/// What a fleet is like; the usual one is the demo's.
pub struct Setup {
    /// How the model server answers.
    pub model: Behaviour,
    pub names: &'static [&'static str],
    /// Where the agents look for Honcho instead of at the fleet's own.
    pub honcho: Option<String>,
    /// More of an agent's `memoryd.toml`, by its name: keys of `[honcho]`, then further sections.
    pub memoryd: Box<dyn Fn(&str) -> String>,
    /// More keys under memoryd's `[limits]`.
    pub limits: &'static str,
    /// More keys under loopd's `[limits]`.
    pub loopd: &'static str,
    /// More keys under each daemon's `[limits]`.
    pub each: &'static str,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            model: Behaviour::Rules,
            names: &["garden", "kitchen"],
            honcho: None,
            memoryd: Box::new(|_| String::new()),
            limits: "",
            loopd: "",
            each: "",
        }
    }
}

/// What the world is made of.
pub struct Fleet {
    pub agents: Vec<Agent>,
    model: model_local::Server,
    /// `None` while it is stopped.
    honcho: Option<Server>,
    /// What starts it again on the same address and file.
    parked: Options,
    /// Holds Honcho's file and the folders the agents may read.
    folder: tempfile::TempDir,
}

/// One agent.
pub struct Agent {
    pub name: &'static str,
    home: Home,
    running: BTreeMap<&'static str, Daemon>,
}

/// How one try of a turn ended.
#[derive(Debug, Clone)]
pub enum Ended {
    Replied {
        turn: u64,
        text: String,
        label: Label,
        /// What the user was told besides.
        notices: Vec<String>,
    },
    /// loopd says that it failed.
    Failed(String),
    /// Nobody knows: loopd was away, or went away.
    Broken(String),
}

/// One request for a turn, with all that a client's thread needs.
pub struct Ask {
    socket: PathBuf,
    request: turns::Request,
}

impl Fleet {
    /// Starts the demo's fleet.
    ///
    /// # Errors
    /// What did not start, and why.
    pub fn start() -> Result<Self, String> {
        Self::start_as(Setup::default())
    }

    /// Starts everything.
    ///
    /// # Errors
    /// What did not start, and why.
    pub fn start_as(setup: Setup) -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("bxfleet")
            .tempdir()
            .map_err(|error| format!("no folder: {error}"))?;
        let options = Options::at(folder.path().join("honcho.sqlite"));
        let honcho = Server::start(options.clone()).map_err(|error| report::line(&error, None))?;
        let mut fleet = Self {
            agents: setup.names.iter().map(|name| Agent::new(name)).collect(),
            model: model_local::Server::start(setup.model.clone()),
            parked: Options {
                listen: honcho.address(),
                ..options
            },
            honcho: Some(honcho),
            folder,
        };
        for at in 0..fleet.agents.len() {
            fleet.configure(at, &setup);
            for daemon in DAEMONS {
                fleet.agents[at].start(daemon)?;
            }
        }
        Ok(fleet)
    }

    /// A file that the agents' tools may read, as `ROOT/NAME`.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, root: &str, name: &str, text: &str) {
        let folder = self.folder.path().join(root);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(name), text).expect("a file");
    }

    fn configure(&self, at: usize, setup: &Setup) {
        let agent = &self.agents[at];
        let Agent { name, home, .. } = agent;
        let own = format!("http://{}", self.parked.listen);
        let url = setup.honcho.as_ref().unwrap_or(&own);
        let each = format!("[limits]\n{}", setup.each);
        self.write("inbox", "README", "What others sent.\n");
        self.write("vault", "README", "What nobody else may know.\n");
        let root = |name: &str| self.folder.path().join(name).display().to_string();
        home.configure(
            "loopd",
            &format!(
                "[model]\nurl = \"{}\"\n\n{each}{}",
                self.model.url(),
                setup.loopd
            ),
        );
        home.configure(
            "brokerd",
            &format!(
                "[[root]]\nname = \"inbox\"\npath = \"{}\"\nclass = \"private\"\ntrust = \"untrusted\"\n\n\
                 [[root]]\nname = \"vault\"\npath = \"{}\"\nclass = \"secret\"\ntrust = \"trusted\"\n\n{each}",
                root("inbox"),
                root("vault"),
            ),
        );
        home.configure(
            "memoryd",
            &format!(
                "[honcho]\nurl = \"{url}\"\nagent = \"{name}\"\nowner = \"{OWNER}\"\n\
                 trusted = \"{}\"\nuntrusted = \"{}\"\nfleet = \"{FLEET}\"\n{}\n\
                 {each}\nhoncho_retry_ms_min = 100\nhoncho_retry_ms_max = 500\n\
                 honcho_hold_messages_ms = 300\nhoncho_hold_conclusions_ms = 300\n\
                 recall_probe_ms_min = 50\nrecall_probe_ms_max = 200\n{}\n",
                agent.trusted(),
                agent.untrusted(),
                (setup.memoryd)(name),
                setup.limits,
            ),
        );
        home.configure("gatewayd", &each);
    }

    /// kill -9 for one daemon.
    pub fn kill(&mut self, at: usize, daemon: &str) {
        if let Some(running) = self.agents[at].running.remove(daemon) {
            running.kill();
        }
    }

    /// Stops Honcho; its file stays.
    pub fn stop_honcho(&mut self) {
        if let Some(server) = self.honcho.take() {
            self.parked = server.stop();
        }
    }

    /// Starts Honcho again where it was.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_honcho(&mut self) -> Result<(), String> {
        if self.honcho.is_none() {
            let server = Server::start(self.parked.clone());
            self.honcho = Some(server.map_err(|error| report::line(&error, None))?);
        }
        Ok(())
    }

    /// Honcho itself, for its faults and its record of requests.
    ///
    /// # Panics
    /// While it is stopped.
    #[must_use]
    pub fn server(&self) -> &Server {
        self.honcho.as_ref().expect("Honcho runs")
    }

    #[must_use]
    pub fn model(&self) -> &model_local::Server {
        &self.model
    }

    /// Everything Honcho holds, by workspace; nothing while it is stopped.
    #[must_use]
    pub fn honcho(&self) -> Value {
        let dump = self.honcho.as_ref().map(Server::dump_all);
        dump.and_then(Result::ok).unwrap_or(Value::Null)
    }
}

impl Agent {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            home: Home::new(),
            running: BTreeMap::new(),
        }
    }

    /// Starts a daemon and waits until it is ready.
    ///
    /// # Errors
    /// Its last words.
    pub fn start(&mut self, daemon: &'static str) -> Result<(), String> {
        let started = self
            .home
            .try_start(daemon, |_| {})
            .map_err(|ended| format!("{daemon} ended ({}): {}", ended.status, ended.stderr))?;
        self.running.insert(daemon, started);
        Ok(())
    }

    #[must_use]
    pub fn trusted(&self) -> String {
        format!("{}-trusted", self.name)
    }

    #[must_use]
    pub fn untrusted(&self) -> String {
        format!("{}-untrusted", self.name)
    }

    #[must_use]
    pub fn dirs(&self) -> &Dirs {
        &self.home.dirs
    }

    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A daemon that runs, for example to send it a signal.
    #[must_use]
    pub fn daemon(&self, daemon: &str) -> Option<&Daemon> {
        self.running.get(daemon)
    }

    /// The process of a daemon, if it runs.
    #[must_use]
    pub fn pid(&self, daemon: &str) -> Option<u32> {
        self.running.get(daemon).map(Daemon::pid)
    }

    /// What a daemon has logged since it was last started.
    #[must_use]
    pub fn log(&self, daemon: &str) -> String {
        self.running
            .get(daemon)
            .map(Daemon::log)
            .unwrap_or_default()
    }

    /// One request to a daemon's control socket.
    ///
    /// # Errors
    /// What bxctl would say.
    pub fn control(
        &self,
        daemon: &str,
        request: &control::Request,
    ) -> Result<control::Reply, String> {
        let socket = self.dirs().control_socket(daemon);
        Client::<Control>::connect(&socket, ANSWER_MS_MAX)
            .and_then(|mut client| client.call(request))
            .map_err(|error| report::actionable(&error))
    }

    /// A session's label, loopd's and brokerd's word joined.
    ///
    /// # Errors
    /// What bxctl would say.
    pub fn label(&self, session: &SessionId) -> Result<Label, String> {
        self.label_and_causes(session).map(|(label, _)| label)
    }

    /// The same, and what raised it.
    ///
    /// # Errors
    /// What bxctl would say.
    pub fn label_and_causes(&self, session: &SessionId) -> Result<(Label, Vec<Cause>), String> {
        let request = turns::Request::SessionLabel {
            session: session.clone(),
        };
        let answer = Client::<Turns>::connect(&self.dirs().turns_socket(), ANSWER_MS_MAX)
            .and_then(|mut client| client.call(&request))
            .map_err(|error| report::actionable(&error))?;
        match answer {
            TurnEvent::SessionLabel { label, causes, .. } => Ok((label, causes)),
            other => Err(format!("an odd answer: {other:?}")),
        }
    }

    /// The owner says something.
    #[must_use]
    pub fn ask(&self, session: Option<SessionId>, key: String, text: &str) -> Ask {
        self.send(turns::Request::Turn {
            key,
            session,
            text: text.into(),
            speaker: Some(Speaker {
                realm: "local".into(),
                name: OWNER.into(),
            }),
            origin: Origin::Interactive,
            untrusted: false,
            audience: Audience::Owner {},
            source: "demo".into(),
        })
    }

    /// Any turn, ready to be sent.
    #[must_use]
    pub fn send(&self, request: turns::Request) -> Ask {
        Ask {
            socket: self.dirs().turns_socket(),
            request,
        }
    }
}

impl Ask {
    /// Sends it and reads until the turn's end. The session comes back as soon as loopd has named it, however
    /// the turn ends.
    #[must_use]
    pub fn run(self) -> (Option<SessionId>, Ended) {
        let (mut session, mut turn) = (None, 0);
        let mut notices = Vec::new();
        let mut client = match Client::<Turns>::connect(&self.socket, ANSWER_MS_MAX) {
            Ok(client) => client,
            Err(error) => return (None, Ended::Broken(report::actionable(&error))),
        };
        if let Err(error) = client.send(&self.request) {
            return (None, Ended::Broken(report::actionable(&error)));
        }
        loop {
            match client.recv() {
                Ok(TurnEvent::Accepted {
                    session: named,
                    turn: number,
                }) => (session, turn) = (Some(named), number),
                Ok(TurnEvent::Reply { text, label }) => {
                    let ended = Ended::Replied {
                        turn,
                        text,
                        label,
                        notices,
                    };
                    return (session, ended);
                }
                Ok(TurnEvent::Failed { reason, runbook }) => {
                    let ended = Ended::Failed(format!("{reason}; see docs/runbook.md#{runbook}"));
                    return (session, ended);
                }
                Ok(TurnEvent::Notice { text }) => notices.push(text),
                Ok(_) => {}
                Err(error) => return (session, Ended::Broken(report::actionable(&error))),
            }
        }
    }
}
