//! The link to memoryd, with a bound on every wait. Called by `turn` and `serve`; a turn goes on without
//! memory, so nothing here is an error.

use std::{
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, sync_channel},
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

/// Questions that wait for the one connection.
const QUEUE_QUESTIONS_MAX: usize = 16;
/// Until memoryd has carried out an owner's command.
const COMMAND_MS_MAX: Duration = Duration::from_secs(30);

/// memoryd, there or not.
#[derive(Debug)]
pub struct Memory {
    path: PathBuf,
    wait: Duration,
    questions: Option<SyncSender<Question>>,
    down: AtomicBool,
}

#[derive(Debug)]
struct Question {
    request: Request,
    answer: SyncSender<Result<Reply, ClientError>>,
}

/// What memoryd says of agent and owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub text: String,
    pub owner_changes: u64,
}

impl Memory {
    /// Starts the thread that owns the connection: a memoryd that hangs holds it up, and nobody else.
    #[must_use]
    pub fn new(path: PathBuf, wait: Duration) -> Self {
        let (questions, asked) = sync_channel::<Question>(QUEUE_QUESTIONS_MAX);
        let kept = Kept::<Link>::new(path.clone(), wait);
        let started = thread::Builder::new().name("memory".into()).spawn(move || {
            for question in asked {
                // Whoever asked may have given up.
                let _ = question.answer.try_send(kept.call(&question.request));
            }
        });
        Self {
            path,
            wait,
            questions: started.ok().map(|_| questions),
            down: AtomicBool::new(false),
        }
    }

    /// Connects, and waits for nothing: memoryd compares all logs with what it knows when loopd comes, and a purge that
    /// was cut off has nobody else to tell it.
    pub fn greet(&self) {
        let (answer, _) = sync_channel(1);
        let request = Request::Identity {
            audience: Audience::Owner {},
        };
        if let Some(questions) = &self.questions {
            let _ = questions.try_send(Question { request, answer });
        }
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

    /// What memory has to say before a turn.
    pub fn context(&self, before: Before) -> Option<(String, Label)> {
        match self.ask(Request::Context(before))? {
            Reply::Context { text, label } if !text.trim().is_empty() => Some((text, label)),
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
        let (answer, answered) = sync_channel(1);
        let asked = self
            .questions
            .as_ref()
            .is_some_and(|questions| questions.try_send(Question { request, answer }).is_ok());
        let reply = match asked.then(|| answered.recv_timeout(self.wait)) {
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
