//! Context before a turn: asks Honcho when a turn ends and when one begins, on threads of its own, so that nobody
//! waits for Honcho longer than a turn may. Made by `run`, called by memoryd's service; writes nothing anywhere.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Instant,
};

use bxcore::{clock::Millis, connect::Kept, random, runbook, secrets::Secret};
use bxsanitize::{Fence, Outcome};
use bxwire::{
    Origin, SessionId, Speaker,
    links::{
        memory::Before,
        memory_tools::About,
        session_state::{self, SessionState, State},
    },
};

use super::{
    before::{self, Asking, FACTS_MAX, Held},
    client::Client,
};
use crate::{
    current::Current,
    logs::Logs,
    store::Store,
    sync::{config::HonchoConfig, handle::Sessions, naming, request::Failure},
};

/// Sessions whose context is held; the one not asked for longest goes first.
const SESSIONS_MAX: usize = 64;
/// Turns, begun or ended, that wait for their thread.
const INBOX_MAX: usize = 8;
/// Parts of one answer: that it may be said, and facts, or that there is nothing.
const PARTS_MAX: usize = 2;
/// Longest text that is asked with, in characters.
const QUERY_CHARS_MAX: usize = 2_000;

/// The context of every turn. Without `[honcho]`, or switched off, there is none.
pub struct Context(Option<Parts>);

struct Parts {
    shared: Arc<Shared>,
    begun: SyncSender<Begun>,
    ended: SyncSender<Ended>,
}

/// A turn that waits for its context.
struct Begun {
    before: Before,
    /// Nobody waits after it.
    until: Instant,
    answer: SyncSender<Came>,
}

/// What comes for it, until the sender is gone: then everything has come.
enum Came {
    /// Both labels allow it: what is held may be said.
    May,
    /// Facts for these very words.
    Facts(Vec<String>),
    Nothing,
}

struct Ended {
    session: SessionId,
    turn: u64,
}

struct Shared {
    config: HonchoConfig,
    store: Arc<Store>,
    logs: Logs,
    broker: PathBuf,
    sessions: Sessions,
    client: Current<Client>,
    /// By session, the newest last.
    held: Mutex<VecDeque<(SessionId, Known)>>,
    down: Mutex<Option<Millis>>,
}

/// What is held of a session.
#[derive(Debug, Clone, Default)]
struct Known {
    /// The words the facts were asked with.
    words: String,
    held: Held,
    /// Honcho was asked what it wrote up of the session, since its last turn ended.
    summed_up: bool,
}

impl Context {
    /// Without Honcho.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Starts the threads, unless it is switched off.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        config: &HonchoConfig,
        key: Option<&Secret>,
        store: Arc<Store>,
        logs: Logs,
        broker: PathBuf,
        sessions: Sessions,
    ) -> std::io::Result<Self> {
        if !config.context.enabled {
            return Ok(Self::none());
        }
        let shared = Arc::new(Shared {
            client: Current::new(client(config, key)),
            config: config.clone(),
            store,
            logs,
            broker,
            sessions,
            held: Mutex::new(VecDeque::new()),
            down: Mutex::new(None),
        });
        let (begun, begins) = sync_channel(INBOX_MAX);
        let (ended, ends) = sync_channel(INBOX_MAX);
        let ours = Arc::clone(&shared);
        thread::Builder::new()
            .name("context".into())
            .spawn(move || ours.answer_all(&begins))?;
        let ours = Arc::clone(&shared);
        thread::Builder::new()
            .name("context-ahead".into())
            .spawn(move || ours.prefetch_all(&ends))?;
        Ok(Self(Some(Parts {
            shared,
            begun,
            ended,
        })))
    }

    /// A new key.
    pub fn reload(&self, key: Option<&Secret>) {
        if let Some(parts) = &self.0 {
            let new = client(&parts.shared.config, key);
            parts.shared.client.replace(new);
        }
    }

    /// What may be said before the turn: what has come in time; empty when there is nothing.
    #[must_use]
    pub fn before(&self, before: Before) -> String {
        let Some(parts) = &self.0 else {
            return String::new();
        };
        let until = Instant::now() + parts.shared.config.context.answer_ms_max;
        let (answer, came) = sync_channel(PARTS_MAX);
        let (session, words) = (before.session.clone(), before.text.clone());
        let begun = Begun {
            before,
            until,
            answer,
        };
        if parts.begun.try_send(begun).is_err() {
            return String::new();
        }
        let left = || until.saturating_duration_since(Instant::now());
        let (mut may, mut facts) = (false, None);
        // An error is the end: everything has come, or time is up.
        while let Ok(part) = came.recv_timeout(left()) {
            match part {
                Came::May => may = true,
                Came::Facts(found) => facts = Some(found),
                Came::Nothing => return String::new(),
            }
        }
        match may {
            true => parts.shared.say(&session, facts, &words),
            false => String::new(),
        }
    }

    /// A turn has ended: what its session knows is fetched for the next one.
    pub fn turn_ended(&self, session: &SessionId, turn: u64) {
        let Some(parts) = &self.0 else { return };
        let ended = Ended {
            session: session.clone(),
            turn,
        };
        match parts.ended.try_send(ended) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }

    /// Name and value for status.
    #[must_use]
    pub fn fact(&self) -> (String, String) {
        let down = self.0.as_ref().and_then(|parts| *lock(&parts.shared.down));
        ("context".into(), before::fact(self.0.is_some(), down))
    }
}

fn client(config: &HonchoConfig, key: Option<&Secret>) -> Client {
    Client::new(config, key, config.read.limits.source_ms_max)
}

impl Shared {
    fn answer_all(&self, begins: &Receiver<Begun>) {
        let broker = Kept::new(self.broker.clone(), self.config.context.answer_ms_max);
        for begun in begins {
            if Instant::now() < begun.until {
                self.answer(begun, &broker);
            }
        }
    }

    /// An answer that nobody waits for any more is held for the next turn.
    fn answer(&self, begun: Begun, broker: &Kept<State>) {
        let before = &begun.before;
        let asking = Asking {
            log: before.label,
            broker: ask(broker, &before.session),
            audience: before.audience,
            excluded: self.excluded(before.speaker.as_ref(), &before.source),
            secret_text: self.is_secret(&before.text),
        };
        if !before::may(&asking) {
            self.forget(&before.session);
            let _ = begun.answer.try_send(Came::Nothing);
            return;
        }
        // While Honcho is away the words are asked with to find out whether it is back, and nobody waits.
        let first = match *lock(&self.down) {
            Some(_) => Came::Nothing,
            None => Came::May,
        };
        let _ = begun.answer.try_send(first);
        let Some(facts) = self.facts(&before.session, &before.text) else {
            let _ = begun.answer.try_send(Came::Nothing);
            return;
        };
        let _ = begun.answer.try_send(Came::Facts(facts));
        // Since its last turn memoryd was started anew, or Honcho was away. A session of which nothing was sent has
        // no summary.
        if !self.known(&before.session).summed_up
            && let Some(honchos) = self.honchos(&before.session)
        {
            self.summary(&before.session, &honchos);
        }
    }

    /// Honcho's name of the session in which this one goes on.
    fn honchos(&self, session: &SessionId) -> Option<String> {
        let within = self.config.context.answer_ms_max;
        self.sessions.last(session, within)
    }

    /// Asks what Honcho wrote up of a session, and holds it.
    fn summary(&self, session: &SessionId, honchos: &str) {
        let client = self.client.get();
        if let Some(summary) = self.came(client.summary(honchos)) {
            let summary = summary.filter(|summary| !self.is_secret(summary));
            self.keep(session, |known| {
                known.held.summary = summary;
                known.summed_up = true;
            });
        }
    }

    fn prefetch_all(&self, ends: &Receiver<Ended>) {
        let broker = Kept::new(self.broker.clone(), self.config.limits.broker_ms_max);
        for ended in ends {
            self.prefetch(&ended, &broker);
        }
    }

    fn prefetch(&self, ended: &Ended, broker: &Kept<State>) {
        let session = &ended.session;
        let Ok(Some(turn)) = self.logs.turn(session, ended.turn) else {
            return;
        };
        let asking = Asking {
            log: turn.label,
            broker: ask(broker, session),
            audience: turn.audience,
            excluded: turn.origin != Origin::Interactive
                || self.excluded(turn.speaker.as_ref(), &turn.source),
            secret_text: self.is_secret(&turn.text),
        };
        if !before::may(&asking) {
            return self.forget(session);
        }
        let known = self.known(session).words == turn.text;
        if !known && self.facts(session, &turn.text).is_none() {
            return;
        }
        // Before its first turn is decided it has the name that this decision will give.
        let honchos = self.honchos(session);
        self.summary(session, honchos.as_deref().unwrap_or(session.as_str()));
    }

    /// Facts near the words, which are held too; `None`: Honcho does not answer.
    fn facts(&self, session: &SessionId, text: &str) -> Option<Vec<String>> {
        let query: String = text.chars().take(QUERY_CHARS_MAX).collect();
        let mut facts = Vec::new();
        if !query.trim().is_empty() {
            let found = self.came(self.client.get().facts(&query, FACTS_MAX))?;
            facts.extend(found.into_iter().map(|fact| fact.text));
            facts.retain(|fact| !self.is_secret(fact));
        }
        self.keep(session, |known| {
            known.words = text.to_owned();
            known.held.facts.clone_from(&facts);
        });
        Some(facts)
    }

    /// Notes whether Honcho answered; what was held while it did is of no use once it does not.
    fn came<T>(&self, result: Result<T, Failure>) -> Option<T> {
        let mut down = lock(&self.down);
        match (result, *down) {
            (Ok(found), since) => {
                if since.is_some() {
                    tracing::info!("context before turns is back");
                    *down = None;
                }
                Some(found)
            }
            (Err(failed), None) => {
                tracing::warn!(
                    reason = failed.kind(),
                    status = failed.status(),
                    "there is no context before turns; see {}",
                    runbook::RECALL_SOURCE_UNAVAILABLE
                );
                *down = Some(Millis::now());
                lock(&self.held).clear();
                None
            }
            (Err(_), Some(_)) => None,
        }
    }

    /// `facts`: for these words; `None`: those that are held, as far as they touch them.
    fn say(&self, session: &SessionId, facts: Option<Vec<String>>, words: &str) -> String {
        let owner = &self.config.owner;
        let mut held = self.known(session).held;
        held.facts = facts.unwrap_or_else(|| before::about(held.facts, words, owner));
        let Ok(nonce) = random::bytes() else {
            return String::new();
        };
        let identity: Vec<String> = self.store.with(|memory| {
            let both = [About::User, About::Agent].into_iter();
            both.flat_map(|about| memory.contents().entries(about))
                .map(|entry| entry.text.clone())
                .collect()
        });
        before::text(&held, &identity, owner, &Fence::new(nonce))
    }

    fn excluded(&self, speaker: Option<&Speaker>, source: &str) -> bool {
        // Whose turns are never synced, nothing is asked with: nobody's words too.
        let unknown = speaker.is_none_or(|speaker| naming::peer(&self.config, speaker).is_none());
        unknown || self.config.excludes(speaker, Some(source))
    }

    fn is_secret(&self, text: &str) -> bool {
        matches!(self.store.check(text), Outcome::Secret(_))
    }

    fn known(&self, session: &SessionId) -> Known {
        let held = lock(&self.held);
        let mut known = held.iter().filter(|(other, _)| other == session);
        known
            .next()
            .map(|(_, known)| known.clone())
            .unwrap_or_default()
    }

    fn keep(&self, session: &SessionId, change: impl FnOnce(&mut Known)) {
        let mut held = lock(&self.held);
        let at = held.iter().position(|(other, _)| other == session);
        let mut known = at
            .and_then(|at| held.remove(at))
            .map(|(_, known)| known)
            .unwrap_or_default();
        change(&mut known);
        if held.len() >= SESSIONS_MAX {
            held.pop_front();
        }
        held.push_back((session.clone(), known));
    }

    fn forget(&self, session: &SessionId) {
        lock(&self.held).retain(|(other, _)| other != session);
    }
}

/// brokerd's word on a session.
fn ask(broker: &Kept<State>, session: &SessionId) -> Option<SessionState> {
    let request = session_state::Request::SessionState {
        session: session.clone(),
    };
    match broker.call(&request) {
        Ok(session_state::Reply::SessionState(state)) => Some(state),
        Ok(session_state::Reply::Refused(_)) | Err(_) => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
