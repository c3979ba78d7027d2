//! One source of `recall`: its thread, which searches, and probes while the source does not answer. Used by
//! `service`. A recall waits only for sources that answered the last time; nothing that comes late is read.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use bxcore::{clock::Millis, runbook};
use bxwire::Label;
use roncho::models::conclusions::ConclusionQuery;
use serde_json::{Map, Value, json};

use super::{
    config::ReadLimits,
    hits::{self, Author, Conclusion, Message, Own, Place, Retracted},
    mark,
    reads::Client,
};
use crate::{
    current::Current,
    recall::{Hit, Query, interleave},
    sync::request::Failure,
};

/// Messages asked for, at most: what does not count falls away afterwards.
const MESSAGES_MAX: usize = 40;
/// Messages asked for, for each hit wanted.
const MESSAGES_PER_HIT: usize = 3;
/// Longest query that is sent, in characters.
pub const QUERY_CHARS_MAX: usize = 2_000;
/// Retractions read of one writer's notes in one session.
const RETRACTIONS_MAX: usize = 50;
/// Searches and stops waiting for the thread; there is one search at a time, and one that waited too long is
/// answered at once.
const INBOX_MAX: usize = 16;
/// What a probe looks for.
const PROBE: &str = "hello";

/// What a source is and where.
#[derive(Debug, Clone)]
pub struct Spec {
    pub place: Place,
    /// Of everything it answers.
    pub label: Label,
    /// Whose conclusions are asked for, about themselves.
    pub peers: Vec<String>,
    pub own: Own,
    /// Ceiling of a conclusion's distance.
    pub distance: f64,
    pub limits: ReadLimits,
}

/// Which source answers, and what it found.
pub type Arrival = (usize, Result<Vec<Hit>, Away>);

/// Whether an answer may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Yes,
    No,
}

/// Why there are no hits of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    /// It does not answer.
    Unavailable,
    /// Other recalls had its time.
    Busy,
}

impl Away {
    /// As a result says it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Busy => "busy with other recalls; ask again",
        }
    }
}

/// A search for one recall.
pub struct Search {
    pub query: Query,
    pub deadline: Instant,
    /// Nobody may be there any more.
    pub answer: Sender<Arrival>,
    pub number: usize,
}

enum Letter {
    Search(Box<Search>),
    /// There is a new key.
    Look,
    Stop,
}

/// Why a source is not asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Down {
    /// In fixed words.
    pub reason: &'static str,
    pub since: Millis,
    pub key_refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Ready,
    /// Its last call has not ended, and will by then; what is said when it has not.
    Busy(Instant, Away),
    Down(Down),
}

/// A source and its thread.
pub struct Source {
    pub spec: Spec,
    client: Arc<Current<Client>>,
    state: Arc<Mutex<State>>,
    inbox: SyncSender<Letter>,
}

impl Source {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(spec: Spec, client: Client) -> std::io::Result<Self> {
        let (inbox, received) = sync_channel(INBOX_MAX);
        let state = Arc::new(Mutex::new(State::Ready));
        let client = Arc::new(Current::new(client));
        let worker = Worker {
            spec: spec.clone(),
            client: Arc::clone(&client),
            state: Arc::clone(&state),
            inbox: received,
            unanswered: Notes::new(),
        };
        // Never joined: it may be in a call, and a stop waits for no Honcho.
        thread::Builder::new()
            .name(format!("read-{}", short(spec.place.name())))
            .spawn(move || worker.run())?;
        Ok(Self {
            spec,
            client,
            state,
            inbox,
        })
    }

    /// Has it search, unless it cannot. With what is said when no answer comes.
    #[must_use]
    pub fn ask(&self, search: Search) -> (Asked, Away) {
        let mut state = lock(&self.state);
        let deadline = search.deadline;
        let otherwise = match &*state {
            State::Down(_) => return (Asked::No, Away::Unavailable),
            State::Busy(until, away) if Instant::now() > *until => return (Asked::No, *away),
            // Another recall's; this one's turn comes after it.
            State::Busy(..) => Away::Busy,
            State::Ready => Away::Unavailable,
        };
        let letter = Letter::Search(Box::new(search));
        if self.inbox.try_send(letter).is_err() {
            return (Asked::No, Away::Busy);
        }
        if *state == State::Ready {
            *state = State::Busy(deadline, Away::Unavailable);
        }
        (Asked::Yes, otherwise)
    }

    /// Why it is not asked, when it did not answer.
    #[must_use]
    pub fn down(&self) -> Option<Down> {
        match &*lock(&self.state) {
            State::Down(down) => Some(down.clone()),
            State::Ready | State::Busy(..) => None,
        }
    }

    /// Gives it a new key; it is tried at once, or, where so much waits, by what waits or the next probe.
    pub fn reload(&self, client: Client) {
        self.client.replace(client);
        let _ = self.inbox.try_send(Letter::Look);
    }

    /// Ends the thread, or leaves it in its call.
    pub fn stop(&self) {
        let _ = self.inbox.try_send(Letter::Stop);
    }
}

/// A thread's name has 15 bytes.
fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(10)]
}

struct Worker {
    spec: Spec,
    client: Arc<Current<Client>>,
    state: Arc<Mutex<State>>,
    inbox: Receiver<Letter>,
    /// Whose notes the last search could not look up, if it failed there.
    unanswered: Notes,
}

impl Worker {
    fn run(mut self) {
        let mut probe_ms = self.spec.limits.probe_ms_min;
        loop {
            let down = matches!(*lock(&self.state), State::Down(_));
            let letter = if down {
                self.inbox.recv_timeout(probe_ms)
            } else {
                probe_ms = self.spec.limits.probe_ms_min;
                self.inbox
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected)
            };
            match letter {
                Ok(Letter::Search(search)) => self.answer(&search),
                Ok(Letter::Look) => {
                    if down {
                        self.probe();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.probe();
                    probe_ms = (probe_ms * 2).min(self.spec.limits.probe_ms_max);
                }
                Ok(Letter::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn answer(&mut self, search: &Search) {
        // It may have waited behind a call that failed or took its time.
        let down = matches!(*lock(&self.state), State::Down(_));
        let left = search.deadline.saturating_duration_since(Instant::now());
        let away = match (down, left.is_zero()) {
            (true, _) => Some(Away::Unavailable),
            (false, true) => Some(Away::Busy),
            (false, false) => None,
        };
        if let Some(away) = away {
            let _ = search.answer.send((search.number, Err(away)));
            return;
        }
        // With less than half of its time left for it, a source that answers each alone may be late.
        let late = match left < self.spec.limits.source_ms_max / 2 {
            true => Away::Busy,
            false => Away::Unavailable,
        };
        *lock(&self.state) = State::Busy(search.deadline, late);
        let found = self.search(search).and_then(|hits| {
            // Late is as good as never: nobody reads it, so it marks nothing.
            in_time(search.deadline).map(|()| hits)
        });
        let busy = late == Away::Busy && found.is_err() && in_time(search.deadline).is_err();
        // Known before anybody hears of it, so that the next recall finds it so.
        let (failed, away) = match busy {
            true => (None, Away::Busy),
            false => (found.as_ref().err().copied(), Away::Unavailable),
        };
        self.is_now(failed);
        let _ = search.answer.send((search.number, found.map_err(|_| away)));
    }

    /// Makes the calls that a recall makes, those again that failed: any of them may be what does not answer.
    fn probe(&self) {
        let deadline = Instant::now() + self.spec.limits.source_ms_max;
        let tried = self.tried(deadline).and_then(|()| in_time(deadline));
        self.is_now(tried.err());
    }

    fn tried(&self, deadline: Instant) -> Result<(), Failure> {
        let client = self.client.get();
        client.messages(PROBE, 1, None, deadline)?;
        for peer in &self.spec.peers {
            let query = self.about(peer, PROBE, 1, Map::new());
            client.conclusions(&query, deadline)?;
        }
        match self.look_up(&self.unanswered, deadline) {
            // That a session is gone by now is an answer.
            Ok(_) | Err(Failure::Gone { .. }) => Ok(()),
            Err(failed) => Err(failed),
        }
    }

    fn is_now(&self, failed: Option<Failure>) {
        let mut state = lock(&self.state);
        let source = self.spec.place.name();
        let was = match &*state {
            State::Down(down) => Some(down.clone()),
            State::Ready | State::Busy(..) => None,
        };
        *state = match failed {
            None => State::Ready,
            Some(failed) => State::Down(Down {
                reason: failed.kind(),
                since: was.as_ref().map_or_else(Millis::now, |down| down.since),
                key_refused: matches!(failed, Failure::KeyRefused { .. }),
            }),
        };
        match (&was, failed) {
            (None, Some(failed)) => tracing::warn!(
                source,
                reason = failed.kind(),
                status = failed.status(),
                "recall cannot search a source; see {}",
                runbook::RECALL_SOURCE_UNAVAILABLE
            ),
            (Some(down), None) => tracing::info!(
                source,
                seconds = Millis::now().since(down.since) / 1000,
                "recall can search a source again"
            ),
            _ => {}
        }
    }

    fn search(&mut self, search: &Search) -> Result<Vec<Hit>, Failure> {
        self.unanswered.clear();
        let query = &search.query;
        let limit = (query.hits * MESSAGES_PER_HIT).min(MESSAGES_MAX);
        let mut messages: Vec<_> = self
            .client
            .get()
            .messages(&words(&query.text), limit, times(query), search.deadline)?
            .into_iter()
            .map(arrived)
            .collect();
        hits::wanted(&mut messages, &self.spec.own, query.since, query.until);
        let mut concluded = Vec::new();
        for peer in &self.spec.peers {
            in_time(search.deadline)?;
            concluded.push(self.conclusions(peer, query, search.deadline)?);
        }
        // Honcho says no distances: the nearest of each in turn, so that no peer's push out another's.
        let conclusions = interleave(concluded, usize::MAX);
        let (messages, conclusions) = marked(messages, conclusions, query)?;
        let retracted = match self.spec.place {
            Place::Fleet => self.retracted(&messages, search.deadline)?,
            Place::Reader(_) => Retracted::new(),
        };
        let Spec {
            place, label, own, ..
        } = &self.spec;
        let told = hits::of_messages(place, *label, own, &messages, &retracted);
        let concluded = hits::of_conclusions(place, *label, conclusions);
        // What was concluded says more in fewer words.
        Ok(interleave(vec![concluded, told], usize::MAX))
    }

    fn conclusions(
        &self,
        peer: &str,
        query: &Query,
        deadline: Instant,
    ) -> Result<Vec<Conclusion>, Failure> {
        let within = times(query).unwrap_or_default();
        let asked = self.about(peer, &cut(&query.text), query.hits, within);
        let mut found: Vec<_> = self
            .client
            .get()
            .conclusions(&asked, deadline)?
            .into_iter()
            .map(|found| Conclusion {
                id: found.id,
                observed: found.observed_id,
                created_at: found.created_at,
                content: found.content,
            })
            .collect();
        hits::wanted_conclusions(&mut found, query.since, query.until);
        Ok(found)
    }

    /// A query of what is concluded about a peer.
    fn about(
        &self,
        peer: &str,
        text: &str,
        most: usize,
        mut filters: Map<String, Value>,
    ) -> ConclusionQuery {
        filters.insert("observer_id".into(), json!(peer));
        filters.insert("observed_id".into(), json!(peer));
        ConclusionQuery::new(text)
            .top_k(u32::try_from(most).unwrap_or(1))
            .distance(self.spec.distance)
            .filters(filters)
    }

    /// Which of these notes their own writers took back. Not knowing is no answer.
    fn retracted(
        &mut self,
        messages: &[(Message, String)],
        deadline: Instant,
    ) -> Result<Retracted, Failure> {
        let mut notes = Notes::new();
        for (author, item) in messages.iter().filter_map(|(note, _)| note.retractable()) {
            notes.entry(author).or_default().push(item);
        }
        let found = self.look_up(&notes, deadline);
        if found.is_err() {
            self.unanswered = notes;
        }
        found
    }

    fn look_up(&self, notes: &Notes, deadline: Instant) -> Result<Retracted, Failure> {
        let mut retracted = Retracted::new();
        for (author, items) in notes {
            in_time(deadline)?;
            let filters = map(json!({
                "peer_id": author.peer,
                "metadata": {"installation": author.installation, "retracts": {"in": items}},
            }));
            let found =
                self.client
                    .get()
                    .listed(&author.session, RETRACTIONS_MAX, &filters, deadline)?;
            for message in found.into_iter().map(arrived) {
                hits::take_retraction(&message, author, items, &mut retracted);
            }
        }
        Ok(retracted)
    }
}

/// Notes that may have been taken back, by who could.
type Notes = BTreeMap<Author, Vec<String>>;
/// Messages in which a word matches, with their marked texts; conclusions in any case.
type Marked = (Vec<(Message, String)>, Vec<(Conclusion, String)>);

fn marked(
    messages: Vec<Message>,
    conclusions: Vec<Conclusion>,
    query: &Query,
) -> Result<Marked, Failure> {
    let texts: Vec<&str> = messages
        .iter()
        .map(|message| message.content.as_str())
        .chain(conclusions.iter().map(|found| found.content.as_str()))
        .collect();
    let marks = mark::mark(&texts, &query.expression()).map_err(|_| Failure::Unknown {
        kind: "no memory to measure it",
        status: None,
    })?;
    let mut marks = marks.into_iter();
    let messages: Vec<_> = messages
        .into_iter()
        .zip(marks.by_ref())
        .filter_map(|(message, text)| Some((message, text?)))
        .collect();
    Ok((messages, by_distance(conclusions, marks)))
}

fn by_distance(
    conclusions: Vec<Conclusion>,
    marks: impl Iterator<Item = Option<String>>,
) -> Vec<(Conclusion, String)> {
    let with_text = |(found, text): (Conclusion, Option<String>)| {
        let text = text.unwrap_or_else(|| mark::inert(&found.content).into_owned());
        (found, text)
    };
    conclusions.into_iter().zip(marks).map(with_text).collect()
}

fn arrived(message: roncho::Message) -> Message {
    let text = |key: &str| {
        let value = message.metadata.get(key).and_then(Value::as_str);
        value.map(str::to_owned)
    };
    Message {
        installation: text("installation"),
        item: text("item"),
        retracts: text("retracts"),
        moved: message.metadata.get("moved") == Some(&Value::Bool(true)),
        id: message.id,
        peer: message.peer_id,
        session: message.session_id,
        created_at: message.created_at,
        content: message.content,
    }
}

/// Honcho looks a text with punctuation up as it stands and not by its words.
fn words(text: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() { c } else { ' ' };
    let plain: String = text.chars().take(QUERY_CHARS_MAX).map(plain).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str) -> String {
    text.chars().take(QUERY_CHARS_MAX).collect()
}

/// The times asked for, as Honcho's filter; it is checked again here.
fn times(query: &Query) -> Option<Map<String, Value>> {
    let mut within = Map::new();
    if query.since != Millis(i64::MIN) {
        within.insert("gte".into(), json!(query.since.to_string()));
    }
    if query.until != Millis(i64::MAX) {
        within.insert("lte".into(), json!(query.until.to_string()));
    }
    (!within.is_empty()).then(|| map(json!({ "created_at": within })))
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn in_time(deadline: Instant) -> Result<(), Failure> {
    if Instant::now() <= deadline {
        return Ok(());
    }
    Err(Failure::Unknown {
        kind: "no answer in time",
        status: None,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a recall waits beyond the limit for the thread to notice it.
pub const GRACE_MS: Duration = Duration::from_millis(20);
