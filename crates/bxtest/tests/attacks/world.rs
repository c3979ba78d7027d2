//! A fleet whose model does whatever it is told: each test says which tools it calls, as a model would that obeyed
//! the attacker to the letter. What the daemons make of it is what is looked at.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use bxtest::{
    fleet::{Agent, DAEMONS, Ended, Fleet, Setup},
    look, wait_for,
};
use bxwire::{
    Audience, Cause, ItemId, Label, Origin, SessionId,
    links::{
        control::{self, Sync, SyncAction},
        turns,
    },
    log::Record,
};
use model_local::{Behaviour, Reply};
use roncho::{MessageCreate, blocking::Client as Roncho};
use serde_json::{Value, json};

/// The agents' places.
pub const GARDEN: usize = 0;
pub const KITCHEN: usize = 1;

/// What the model says when it was told nothing.
const NOTHING_PLANNED: &str = "Nothing was planned.";

pub struct World {
    pub fleet: Fleet,
    script: Arc<Mutex<VecDeque<Reply>>>,
    keys: u64,
    /// Turns that were replied to, by agent.
    turns: Vec<(usize, ItemId)>,
}

/// One turn: by default the owner's, to whom alone the agent then says a word.
pub struct Turn<'a> {
    pub at: usize,
    pub session: Option<&'a SessionId>,
    pub text: &'a str,
    pub speaker: &'a str,
    pub untrusted: bool,
    pub audience: Audience,
    /// What the model calls, one after the other.
    pub calls: &'a [(&'a str, Value)],
    /// What it says then.
    pub reply: &'a str,
}

impl Default for Turn<'_> {
    fn default() -> Self {
        Self {
            at: GARDEN,
            session: None,
            text: "go on",
            speaker: "local/owner",
            untrusted: false,
            audience: Audience::Owner {},
            calls: &[],
            reply: "Done.",
        }
    }
}

/// A turn that was replied to.
pub struct Said {
    pub session: SessionId,
    pub item: ItemId,
    pub label: Label,
    /// What the model read of its calls.
    pub results: Vec<String>,
}

impl World {
    /// One agent.
    pub fn one() -> Self {
        Self::with(Setup {
            names: &["garden"],
            ..Setup::default()
        })
    }

    /// As the setup says, but for the model.
    pub fn with(setup: Setup) -> Self {
        let script = Arc::new(Mutex::new(VecDeque::<Reply>::new()));
        let told = Arc::clone(&script);
        let model = Behaviour::answer(move |_| {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.pop_front()
                .unwrap_or_else(|| Reply::text(NOTHING_PLANNED))
        });
        let fleet = Fleet::start_as(Setup { model, ..setup });
        Self {
            fleet: fleet.expect("a fleet"),
            script,
            keys: 0,
            turns: Vec::new(),
        }
    }

    pub fn agent(&self, at: usize) -> &Agent {
        &self.fleet.agents[at]
    }

    // ---- what is done --------------------------------------------------------------------------------

    /// The owner says something to the first agent, which calls these tools.
    pub fn say(
        &mut self,
        session: Option<&SessionId>,
        text: &str,
        calls: &[(&str, Value)],
    ) -> Said {
        self.turn(&Turn {
            session,
            text,
            calls,
            ..Turn::default()
        })
    }

    /// A turn, to its end.
    pub fn turn(&mut self, turn: &Turn<'_>) -> Said {
        self.try_turn(turn).expect("a reply")
    }

    /// The same; `Err`: what loopd says is wrong.
    pub fn try_turn(&mut self, turn: &Turn<'_>) -> Result<Said, String> {
        {
            let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
            script.clear();
            script.extend(
                turn.calls
                    .iter()
                    .map(|(tool, arguments)| Reply::call(tool, arguments)),
            );
            script.push_back(Reply::text(turn.reply));
        }
        self.keys += 1;
        let ask = self.agent(turn.at).send(turns::Request::Turn {
            key: format!("key-{}", self.keys),
            session: turn.session.cloned(),
            text: turn.text.into(),
            speaker: turn.speaker.parse().ok(),
            origin: Origin::Interactive,
            untrusted: turn.untrusted,
            audience: turn.audience,
            source: "chat".into(),
        });
        let (session, ended) = ask.run();
        match ended {
            Ended::Replied {
                turn: number,
                text,
                label,
                ..
            } => {
                assert_ne!(text, NOTHING_PLANNED);
                let session = session.expect("a session");
                let item = ItemId::Turn {
                    session: session.clone(),
                    turn: number,
                };
                self.turns.push((turn.at, item.clone()));
                Ok(Said {
                    session,
                    item,
                    label,
                    results: self.results(turn.calls.len()),
                })
            }
            Ended::Failed(why) | Ended::Broken(why) => Err(why),
        }
    }

    /// The last results of tools in the last prompt.
    fn results(&self, count: usize) -> Vec<String> {
        let chats = self.fleet.model().chats();
        let last = chats.last().expect("a prompt");
        let messages = last.body["messages"].as_array().cloned();
        let tools: Vec<_> = messages
            .unwrap_or_default()
            .into_iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
            .collect();
        assert!(tools.len() >= count, "a call was not made");
        tools[tools.len() - count..].to_vec()
    }

    pub fn restart(&mut self, at: usize, daemons: &[&'static str]) {
        for daemon in daemons {
            self.fleet.kill(at, daemon);
        }
        for daemon in daemons {
            self.fleet.agents[at].start(daemon).expect("it starts");
        }
    }

    pub fn restart_all(&mut self, at: usize) {
        self.restart(at, &DAEMONS);
    }

    pub fn control(&self, at: usize, request: &control::Request) -> control::Reply {
        self.agent(at)
            .control("memoryd", request)
            .expect("an answer")
    }

    // ---- what others do ------------------------------------------------------------------------------

    pub fn roncho(&self, workspace: &str) -> Roncho {
        bxtest::other_agent(&self.fleet.server().url(), workspace)
    }

    /// A fleet note as any agent's memoryd writes it.
    pub fn note_by(&self, peer: &str, item: &str, text: &str) {
        let metadata = json!({"installation": format!("of-{peer}"), "item": item, "part": 0});
        let Value::Object(metadata) = metadata else {
            unreachable!("an object")
        };
        let message = MessageCreate::new(text, peer)
            .with_created_at("2026-01-31T10:00:00Z")
            .with_metadata(metadata);
        self.roncho(bxtest::fleet::FLEET)
            .add_messages("s1", &[message])
            .expect("it is stored");
    }

    // ---- what is seen --------------------------------------------------------------------------------

    pub fn label(&self, at: usize, session: &SessionId) -> Label {
        self.agent(at).label(session).expect("a label")
    }

    pub fn causes(&self, at: usize, session: &SessionId) -> Vec<Cause> {
        self.agent(at).label_and_causes(session).expect("a label").1
    }

    pub fn sync(&self, at: usize) -> Sync {
        look::sync(&self.fleet, at).expect("memoryd")
    }

    pub fn sync_now(&self, at: usize) {
        self.control(
            at,
            &control::Request::MemorySync {
                action: SyncAction::Now {},
            },
        );
    }

    pub fn why(&self, at: usize, item: &ItemId) -> control::Why {
        let request = control::Request::MemoryWhy { item: item.clone() };
        match self.control(at, &request) {
            control::Reply::Why(why) => why,
            other => panic!("{other:?}"),
        }
    }

    pub fn is_decided(&self, at: usize, item: &ItemId) -> bool {
        let why = self.why(at, item);
        why.facts.iter().any(|(fact, _)| fact == "decided")
    }

    /// A turn that need never be decided.
    pub fn forget(&mut self, item: &ItemId) {
        self.turns.retain(|(_, kept)| kept != item);
    }

    /// Waits until all that was said and edited is decided, and nothing waits or is in doubt.
    pub fn settle(&self) {
        for (at, item) in &self.turns {
            wait_for(&format!("a decision on turn {item}"), || {
                self.is_decided(*at, item).then_some(())
            });
        }
        for at in 0..self.fleet.agents.len() {
            for edit in look::edits(&self.fleet, at).expect("memoryd") {
                wait_for("a decision on an edit", || {
                    self.is_decided(at, &ItemId::Edit(edit.edit)).then_some(())
                });
            }
            wait_for("everything to be sent", || {
                let sync = self.sync(at);
                let open = sync
                    .workspaces
                    .iter()
                    .any(|workspace| workspace.waiting + workspace.in_doubt > 0);
                (!open && sync.undecided.is_empty()).then_some(())
            });
        }
    }

    /// Who said what in a workspace, in Honcho's order.
    pub fn messages(&self, workspace: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        look::messages(&self.fleet, workspace)
            .iter()
            .map(|message| (text(&message["peer_id"]), text(&message["content"])))
            .collect()
    }

    /// Of whom what is concluded in a workspace.
    pub fn conclusions(&self, workspace: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let dump = self.fleet.honcho();
        dump[workspace]["conclusions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| (text(&one["observed_id"]), text(&one["content"])))
            .collect()
    }

    /// Everything in an agent's trusted workspace.
    pub fn trusted(&self, at: usize) -> String {
        look::whole(&self.fleet, &self.agent(at).trusted())
    }

    pub fn untrusted(&self, at: usize) -> String {
        look::whole(&self.fleet, &self.agent(at).untrusted())
    }

    /// Every body that was ever sent to Honcho, those of requests that wrote nothing among them.
    pub fn asked(&self) -> String {
        format!("{:?}", self.fleet.server().controls().requests())
    }

    /// What is in an agent's identity.
    pub fn identity(&self, at: usize) -> Vec<String> {
        let files = look::files(&self.fleet, at).expect("memoryd");
        let entries = files.user.into_iter().chain(files.agent);
        entries.map(|entry| entry.text).collect()
    }

    pub fn notes(&self, at: usize) -> Vec<control::Note> {
        look::files(&self.fleet, at).expect("memoryd").notes
    }

    pub fn log_lines(&self, at: usize, session: &SessionId) -> Vec<String> {
        let folder = self.agent(at).dirs().state_of("loopd").join("sessions");
        let text = std::fs::read_to_string(folder.join(format!("{session}.jsonl")));
        text.expect("a log").lines().map(str::to_owned).collect()
    }

    pub fn records(&self, at: usize, session: &SessionId) -> Vec<Record> {
        let lines = self.log_lines(at, session);
        lines
            .iter()
            .map(|line| serde_json::from_str(line).expect("a record"))
            .collect()
    }

    /// A file of an agent's state.
    pub fn state(&self, at: usize, file: &str) -> std::path::PathBuf {
        self.agent(at).dirs().state.join(file)
    }
}

pub fn note(text: &str) -> (&'static str, Value) {
    ("memory", json!({"op": "note", "text": text}))
}

pub fn remember(text: &str) -> (&'static str, Value) {
    (
        "memory",
        json!({"op": "add", "about": "user", "text": text}),
    )
}

pub fn conclude(text: &str) -> (&'static str, Value) {
    ("facts", json!({"op": "conclude", "text": text}))
}

pub fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({"path": path}))
}

pub fn recall(query: &str) -> (&'static str, Value) {
    ("recall", json!({"query": query}))
}

/// Fails unless a text is in none of its encodings anywhere in `place`.
pub fn absent(word: &str, place: &str, what: &str) {
    let lower = place.to_lowercase();
    for (name, form) in forms(word) {
        assert!(
            !lower.contains(&form.to_lowercase()),
            "{what} holds `{word}`, {name}"
        );
    }
}

/// A word as itself, backwards, in hexadecimal and in base64.
fn forms(word: &str) -> Vec<(&'static str, String)> {
    let hex = word.bytes().map(|byte| format!("{byte:02x}")).collect();
    vec![
        ("as it is", word.to_owned()),
        ("backwards", word.chars().rev().collect()),
        ("in hexadecimal", hex),
        ("in base64", base64(word.as_bytes())),
    ]
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks_exact(3) {
        let group = (u32::from(chunk[0]) << 16) | (u32::from(chunk[1]) << 8) | u32::from(chunk[2]);
        for shift in [18, 12, 6, 0] {
            out.push(char::from(ALPHABET[(group >> shift) as usize & 63]));
        }
    }
    out
}
