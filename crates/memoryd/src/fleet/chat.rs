//! `ask_memory`: one question to Honcho's own answers over whole workspaces, two at a time, each with its limit.
//! Called by memoryd's service, which waits; creates no workspace and no peer.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel},
    },
    thread,
    time::Instant,
};

use bxsanitize::Outcome;
use bxwire::{
    Cause, Label,
    links::memory_tools::{AskMemory, Reasoning},
};
use roncho::models::chat::ReasoningLevel;

use super::{
    able::{Able, WorkspaceChat},
    config::ReadLimits,
    hits::set_in,
    reads::Client,
    service::{ReadKeys, stays_here},
    slots::{CHATS_MAX, Slots},
};
use crate::{
    current::Current,
    recall::{Answer, Reader, tag},
    sync::{
        config::{HonchoConfig, Role},
        request::Failure,
    },
};

/// Longest question, in characters.
pub const QUESTION_CHARS_MAX: usize = 2_000;
/// Longest reply of one workspace that is passed on, in characters.
const REPLY_CHARS_MAX: usize = 4_000;
/// Before each line of a reply.
const INDENT: &str = "  ";

/// A workspace that can be asked.
struct Place {
    name: String,
    label: Label,
    /// The owner's peer and the agent's.
    peers: Vec<String>,
    workspace: String,
    client: Current<Client>,
}

struct Shared {
    /// The agent's own trusted workspace, by which it is known what this Honcho can.
    own: Arc<Place>,
    places: Vec<Arc<Place>>,
    limits: ReadLimits,
    workspace_chat: WorkspaceChat,
    slots: Slots,
}

/// Everything that can be asked.
pub struct Chats {
    shared: Arc<Shared>,
    stop: SyncSender<()>,
}

/// What came of one workspace.
enum Came {
    Started,
    Ended(Result<Option<String>, Failure>),
}

impl Chats {
    /// Builds the clients and starts a thread that finds out what this Honcho can.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(config: &HonchoConfig, keys: &ReadKeys) -> std::io::Result<Self> {
        let place = |(name, label, agent, workspace): (String, _, _, String)| {
            let client = client(config, &name, &workspace, keys);
            Arc::new(Place {
                name,
                label,
                peers: vec![config.owner.clone(), agent],
                workspace,
                client: Current::new(client),
            })
        };
        let [own, untrusted, fleet] = listed_own(config).map(place);
        let readers = listed_readers(config).map(place);
        let places = [Arc::clone(&own), untrusted, fleet];
        let shared = Arc::new(Shared {
            own,
            places: places.into_iter().chain(readers).collect(),
            limits: config.read.limits,
            workspace_chat: WorkspaceChat::default(),
            slots: Slots::default(),
        });
        let (stop, stopped) = sync_channel(1);
        let ours = Arc::clone(&shared);
        thread::Builder::new()
            .name("chat-probe".into())
            .spawn(move || ours.find_out_first(&stopped))?;
        Ok(Self { shared, stop })
    }

    /// New keys.
    pub fn reload(&self, config: &HonchoConfig, keys: &ReadKeys) {
        for place in &self.shared.places {
            let client = client(config, &place.name, &place.workspace, keys);
            place.client.replace(client);
        }
    }

    /// Ends the thread, or leaves it in its call.
    pub fn stop(&self) {
        let _ = self.stop.try_send(());
    }

    /// For status.
    #[must_use]
    pub fn fact(&self) -> &'static str {
        self.shared.workspace_chat.fact()
    }

    /// Asks and waits. `say` is told how it goes and answers false when nobody waits any more.
    ///
    /// # Errors
    /// What is wrong with the arguments, for the model.
    pub fn ask(
        &self,
        arguments: &AskMemory,
        reader: Reader,
        refuse: impl Fn(&str) -> Outcome,
        say: &mut dyn FnMut(String) -> bool,
    ) -> Result<Answer, String> {
        let question = arguments.question.trim();
        if question.is_empty() || question.chars().count() > QUESTION_CHARS_MAX {
            return Err(format!(
                "`question` must have 1 to {QUESTION_CHARS_MAX} characters"
            ));
        }
        let places = self.named(&arguments.workspaces)?;
        let holds_key = matches!(refuse(question), Outcome::Secret(_));
        if let Some(line) = stays_here(reader, holds_key) {
            return Ok(answer(&[], &[line.to_owned()]));
        }
        let shown = reader.audience.class_max();
        let (places, above): (Vec<_>, Vec<_>) = places
            .into_iter()
            .partition(|place| place.label.class <= shown);
        let lines: Vec<_> = above
            .iter()
            .map(|place| {
                format!(
                    "Not asked: {}, whose memory is above {}, which others who read this session may not see.",
                    place.name,
                    shown.name()
                )
            })
            .collect();
        let replies = self.converse(question, arguments.reasoning, places, say);
        Ok(answer(&replies, &lines))
    }

    fn named(&self, names: &[String]) -> Result<Vec<Arc<Place>>, String> {
        let mut seen = BTreeSet::new();
        let own = [String::from("own")];
        let names = if names.is_empty() { &own[..] } else { names };
        let mut places = Vec::new();
        for name in names.iter().filter(|name| seen.insert(*name)) {
            let mut known = self.shared.places.iter();
            match known.find(|place| place.name == *name) {
                Some(place) => places.push(Arc::clone(place)),
                None => {
                    let known: Vec<_> = self
                        .shared
                        .places
                        .iter()
                        .map(|place| place.name.as_str())
                        .collect();
                    return Err(format!(
                        "`workspaces` has a name that is not known; there are {}",
                        known.join(", ")
                    ));
                }
            }
        }
        Ok(places)
    }

    /// What each workspace answered, in the order asked; `None`: it did not.
    fn converse(
        &self,
        question: &str,
        reasoning: Option<Reasoning>,
        places: Vec<Arc<Place>>,
        say: &mut dyn FnMut(String) -> bool,
    ) -> Vec<(Arc<Place>, Option<Option<String>>)> {
        let limits = self.shared.limits;
        let end = Instant::now() + limits.ask_ms_max;
        let mut open: BTreeMap<usize, Option<Instant>> =
            (0..places.len()).map(|number| (number, None)).collect();
        let mut came: Vec<Option<Option<String>>> = vec![None; places.len()];
        let (sender, received) = channel();
        let job = Arc::new(Job {
            shared: Arc::clone(&self.shared),
            question: question.to_owned(),
            level: match reasoning {
                None | Some(Reasoning::Minimal) => ReasoningLevel::Minimal,
                Some(Reasoning::Low) => ReasoningLevel::Low,
            },
            queue: Mutex::new(places.iter().cloned().enumerate().collect()),
            no_workspace_chat: OnceLock::new(),
            over: Arc::default(),
            end,
        });
        for _ in 0..CHATS_MAX.min(places.len()) {
            let (job, sender) = (Arc::clone(&job), sender.clone());
            let spawned = thread::Builder::new()
                .name("honcho-chat".into())
                .spawn(move || job.work(&sender));
            if spawned.is_err() {
                tracing::warn!("no thread for a chat");
            }
        }
        drop(sender);
        let mut next_word = Instant::now();
        while !open.is_empty() {
            let now = Instant::now();
            // A chat that has had its time is over, whatever its thread does.
            open.retain(|_, started| {
                started.is_none_or(|started| now < started + limits.chat_ms_max)
            });
            if open.is_empty() || now >= end {
                break;
            }
            if now >= next_word {
                let names: Vec<_> = open.keys().map(|at| places[*at].name.as_str()).collect();
                if !say(format!("asking Honcho: {}", names.join(", "))) {
                    break;
                }
                next_word = now + limits.progress_ms;
            }
            let firsts = open.values().flatten().map(|at| *at + limits.chat_ms_max);
            let until = firsts.chain([end, next_word]).min().unwrap_or(end);
            match received.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((number, Came::Started)) => {
                    if let Some(started) = open.get_mut(&number) {
                        *started = Some(Instant::now());
                    }
                }
                Ok((number, Came::Ended(ended))) => {
                    if open.remove(&number).is_some() {
                        came[number] = ended.ok();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        job.over.store(true, Ordering::SeqCst);
        self.shared.slots.wake();
        places.into_iter().zip(came).collect()
    }
}

impl Shared {
    /// Whether this Honcho answers over whole workspaces, asked once more.
    fn find_out(&self) -> Able {
        self.workspace_chat
            .find_out(&self.own.client.get(), self.probed_by())
    }

    fn probed_by(&self) -> Instant {
        Instant::now() + self.limits.source_ms_max
    }

    fn has_no_workspace_chat(&self) -> bool {
        self.workspace_chat
            .is_missing(&self.own.client.get(), self.probed_by())
    }

    /// Asks until it is known.
    fn find_out_first(&self, stopped: &Receiver<()>) {
        let mut wait = self.limits.probe_ms_min;
        while self.find_out() == Able::Unknown {
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => wait = (wait * 2).min(self.limits.probe_ms_max),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// One call's work.
struct Job {
    shared: Arc<Shared>,
    question: String,
    level: ReasoningLevel,
    queue: Mutex<VecDeque<(usize, Arc<Place>)>>,
    /// Found out once, by the first chat.
    no_workspace_chat: OnceLock<bool>,
    /// Nobody waits any more.
    over: Arc<AtomicBool>,
    end: Instant,
}

impl Job {
    fn work(&self, sender: &Sender<(usize, Came)>) {
        let limit_ms = self.shared.limits.chat_ms_max;
        while let Some(_slot) = self.shared.slots.take(limit_ms, self.end, &self.over) {
            let Some((number, place)) = lock(&self.queue).pop_front() else {
                return;
            };
            let _ = sender.send((number, Came::Started));
            let deadline = (Instant::now() + limit_ms).min(self.end);
            let ended = self.chat(&place, deadline);
            if let Err(failed) = &ended {
                tracing::warn!(
                    workspace = place.name,
                    reason = failed.kind(),
                    status = failed.status(),
                    "ask_memory had no answer"
                );
            }
            let _ = sender.send((number, Came::Ended(ended)));
        }
    }

    /// `None`: Honcho has nothing to say. However slowly it answers, this ends at the deadline, or a probe later.
    fn chat(&self, place: &Place, deadline: Instant) -> Result<Option<String>, Failure> {
        let client = place.client.get();
        let ask = |peer| client.chat(peer, &self.question, self.level, deadline);
        let missing = || self.shared.has_no_workspace_chat();
        if !self.no_workspace_chat.get_or_init(missing) {
            let reply = ask(None);
            match reply.as_ref().map_err(Failure::status) {
                // Another Honcho than it was.
                Err(Some(404 | 405)) if self.shared.find_out() == Able::Missing => {}
                // Nobody has written to that workspace yet.
                Err(Some(404)) => return Ok(None),
                _ => return reply,
            }
        }
        let mut said = Vec::new();
        for peer in &place.peers {
            if !client.has(peer, deadline)? {
                continue;
            }
            if let Some(text) = ask(Some(peer))? {
                said.push(format!("About {peer}: {text}"));
            }
        }
        Ok((!said.is_empty()).then(|| said.join("\n")))
    }
}

fn answer(replies: &[(Arc<Place>, Option<Option<String>>)], lines: &[String]) -> Answer {
    let (mut parts, mut away) = (Vec::new(), Vec::new());
    let mut label = Label::default();
    let mut causes = Vec::new();
    for (place, reply) in replies {
        match reply {
            None => away.push(format!("{}: unavailable", place.name)),
            Some(None) => parts.push(format!("{}: nothing is known there", place.name)),
            Some(Some(text)) => {
                label = label.join(place.label);
                parts.push(format!(
                    "{} {}, answered by Honcho:\n{}",
                    tag("memory", place.label),
                    place.name,
                    set_in(text, REPLY_CHARS_MAX, INDENT)
                ));
                // Whether it raises the session or not: brokerd keeps each, and tells the user what raised.
                if !Label::PRIVATE.covers(place.label) {
                    causes.push(Cause {
                        source: format!("ask_memory read an answer from {}", place.name),
                        label: place.label,
                    });
                }
            }
        }
    }
    parts.extend(away);
    parts.extend_from_slice(lines);
    Answer {
        text: parts.join("\n"),
        label,
        causes,
    }
}

/// A workspace: name, label, whose agent's, Honcho's name.
type Listed = (String, Label, String, String);

fn listed_own(config: &HonchoConfig) -> [Listed; 3] {
    let own = |name: &str, label, workspace: &str| {
        let (agent, workspace) = (config.agent.clone(), workspace.to_owned());
        (name.to_owned(), label, agent, workspace)
    };
    [
        own("own", Label::PRIVATE, &config.trusted),
        own("untrusted", Label::UNLABELLED, &config.untrusted),
        own("fleet", Label::UNLABELLED, &config.fleet),
    ]
}

fn listed_readers(config: &HonchoConfig) -> impl Iterator<Item = Listed> {
    config.read.readers.iter().map(|reader| {
        let (agent, workspace) = (reader.agent.clone(), reader.workspace.clone());
        (agent.clone(), reader.label, agent, workspace)
    })
}

fn client(config: &HonchoConfig, name: &str, workspace: &str, keys: &ReadKeys) -> Client {
    let key = match name {
        "own" => keys.own.get(&Role::Trusted),
        "untrusted" => keys.own.get(&Role::Untrusted),
        "fleet" => keys.own.get(&Role::Fleet),
        agent => keys.readers.get(agent),
    };
    Client::new(config, workspace, key)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
