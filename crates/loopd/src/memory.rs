//! The link to memoryd, with a bound on every wait: a connection for identity and what has ended, and some that ask for
//! context. Called by `turn` and `serve`; a turn goes on without memory, so nothing here is an error.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use bxcore::{
    connect::{Client, ClientError, Kept},
    report,
};
use bxwire::{
    Audience, Label, SessionId,
    links::memory::{Before, Memory as Link, Reply, Request},
};

/// Questions that wait for one connection.
const QUEUE_QUESTIONS_MAX: usize = 16;
/// Turns that ask for context at a time; one more goes without.
const CONTEXTS_MAX: usize = 4;
/// Until memoryd has carried out an owner's command.
const COMMAND_MS_MAX: Duration = Duration::from_secs(30);

/// memoryd, there or not.
#[derive(Debug)]
pub struct Memory {
    path: PathBuf,
    wait: Duration,
    /// All but context: what memoryd answers from what it has.
    line: Line,
    /// An answer takes as long as a turn waits when Honcho is slow, so none stands behind another.
    contexts: [Line; CONTEXTS_MAX],
    down: AtomicBool,
}

type Answer = Result<Reply, ClientError>;

#[derive(Debug)]
struct Question {
    request: Request,
    answer: SyncSender<Answer>,
}

/// A connection and the thread that owns it: a memoryd that hangs holds it up, and nobody else.
#[derive(Debug)]
struct Line {
    /// `None`: the system had no thread for it.
    questions: Option<SyncSender<Question>>,
    /// Somebody has it for a question of theirs alone.
    taken: Arc<AtomicBool>,
}

impl Line {
    fn start(name: &str, path: PathBuf, wait: Duration) -> Self {
        let (questions, asked) = sync_channel::<Question>(QUEUE_QUESTIONS_MAX);
        let taken = Arc::new(AtomicBool::new(false));
        let ours = Arc::clone(&taken);
        let kept = Kept::<Link>::new(path, wait);
        let started = thread::Builder::new().name(name.into()).spawn(move || {
            for question in asked {
                let answer = kept.call(&question.request);
                ours.store(false, Ordering::SeqCst);
                // Whoever asked may have given up.
                let _ = question.answer.try_send(answer);
            }
        });
        Self {
            questions: started.ok().map(|_| questions),
            taken,
        }
    }

    /// Whether nobody had it; it is free again once its question is answered or given up.
    fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::SeqCst)
    }

    /// Where the answer comes; `None`: too many wait.
    fn ask(&self, request: Request) -> Option<Receiver<Answer>> {
        let (answer, answered) = sync_channel(1);
        let questions = self.questions.as_ref()?;
        let asked = questions.try_send(Question { request, answer });
        asked.is_ok().then_some(answered)
    }
}

/// What memoryd says of agent and owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub text: String,
    pub owner_changes: u64,
}

impl Memory {
    /// Starts the threads.
    #[must_use]
    pub fn new(path: PathBuf, wait: Duration) -> Self {
        let start = |name| Line::start(name, path.clone(), wait);
        Self {
            line: start("memory"),
            contexts: std::array::from_fn(|_| start("context")),
            path,
            wait,
            down: AtomicBool::new(false),
        }
    }

    /// Connects, and waits for nothing: memoryd compares all logs with what it knows when loopd comes, and a purge that
    /// was cut off has nobody else to tell it.
    pub fn greet(&self) {
        let audience = Audience::Owner {};
        let _ = self.line.ask(Request::Identity { audience });
    }

    /// What the system text may say before this audience.
    pub fn identity(&self, audience: Audience) -> Option<Identity> {
        match self.ask(Request::Identity { audience })? {
            Reply::Identity {
                text,
                label,
                owner_changes,
                ..
            } => {
                // memoryd filters; what it should not have sent is not used.
                let fits = label.class <= audience.class_max();
                fits.then_some(Identity {
                    text,
                    owner_changes,
                })
            }
            _ => None,
        }
    }

    /// What memory has to say before a turn. Nothing, in time, is an answer too, and no sign that memoryd is down.
    pub fn context(&self, before: Before) -> Option<(String, Label)> {
        let line = self.contexts.iter().find(|line| line.take())?;
        let answered = line.ask(Request::Context(before))?;
        match answered.recv_timeout(self.wait) {
            Ok(Ok(Reply::Context { text, label })) if !text.trim().is_empty() => {
                Some((text, label))
            }
            _ => None,
        }
    }

    /// Tells of an ended turn and gives the lines for the user.
    pub fn updated(&self, session: &SessionId, turn: u64) -> Vec<String> {
        let request = Request::SessionUpdated {
            session: session.clone(),
            turn,
        };
        match self.ask(request) {
            Some(Reply::Updated { notices }) => notices,
            _ => Vec::new(),
        }
    }

    /// Passes an owner's command on, over a connection of its own.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn command(&self, request: &Request) -> Result<Reply, ClientError> {
        let mut client = Client::<Link>::connect(&self.path, self.wait)?;
        client.set_answer_ms_max(COMMAND_MS_MAX);
        client.call(request)
    }

    /// Whether memoryd does not answer. Where the last question had no answer, it is asked again: it may be back.
    #[must_use]
    pub fn is_down(&self) -> bool {
        let audience = Audience::Owner {};
        self.down.load(Ordering::SeqCst) && self.ask(Request::Identity { audience }).is_none()
    }

    fn ask(&self, request: Request) -> Option<Reply> {
        let answered = self.line.ask(request);
        let reply = match answered.map(|answered| answered.recv_timeout(self.wait)) {
            Some(Ok(Ok(reply))) => Ok(reply),
            Some(Ok(Err(error))) => Err(report::line(&error, None)),
            _ => Err("no answer in time".into()),
        };
        match (&reply, self.down.swap(reply.is_err(), Ordering::SeqCst)) {
            (Err(why), false) => {
                tracing::warn!(
                    "memory is unavailable: {why}; see {}",
                    bxcore::runbook::MEMORY_UNAVAILABLE
                );
            }
            (Ok(_), true) => tracing::info!("memory is available again"),
            _ => {}
        }
        reply.ok()
    }
}
