//! The link to brokerd: the tools, calls and what became of them, raises. Called by `turn` and `serve`; a
//! call's connection is its own, so that one call can be ended.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use bxcore::{
    connect::{Client, ClientError},
    report,
};
use bxwire::{
    CallId, Cause, Label, Refused, SessionId,
    links::{
        tools::{CallOutcome, Reply, Request, Tool, Tools},
        turns::Answer,
    },
};

use crate::cancel::Cancel;

/// How long a cancelled call may still say how it ended.
const CANCEL_MS_MAX: Duration = Duration::from_secs(2);

/// The tool that may think for minutes; brokerd gives it 170 s.
const ASK_MEMORY: &str = "ask_memory";

/// brokerd, there or not.
#[derive(Debug)]
pub struct Broker {
    path: PathBuf,
    wait: Duration,
    tool_silence: Duration,
    ask_memory: Duration,
    down: AtomicBool,
}

/// How a call ended.
#[derive(Debug)]
pub enum Called {
    Result {
        outcome: CallOutcome,
        text: String,
        label: Label,
        /// What raised the session's label with it.
        causes: Vec<Cause>,
    },
    /// brokerd refused it and ran nothing.
    Refused,
    /// brokerd was not reached and ran nothing.
    Unavailable,
    /// brokerd was reached, and nobody knows what it did.
    Lost,
}

/// What a running call says.
pub enum Event {
    Progress(String),
    Approval { call: CallId, what: String },
}

impl Broker {
    #[must_use]
    pub fn new(
        path: PathBuf,
        wait: Duration,
        tool_silence: Duration,
        ask_memory: Duration,
    ) -> Self {
        Self {
            path,
            wait,
            tool_silence,
            ask_memory,
            down: AtomicBool::new(false),
        }
    }

    /// The tools, in brokerd's order; `None` when it is away.
    pub fn tools(&self) -> Option<Vec<Tool>> {
        match self.ask(&Request::ListTools {}) {
            Ok(Reply::Tools { tools, .. }) => Some(tools),
            _ => None,
        }
    }

    /// Raises a session's label. Best effort: every call carries the label too.
    pub fn raise(&self, session: &SessionId, label: Label, cause: Cause) {
        let _ = self.ask(&Request::Raise {
            session: session.clone(),
            label,
            cause,
        });
    }

    /// brokerd's word on a session.
    ///
    /// # Errors
    /// [`ClientError`]; a refusal means that it does not know the session.
    pub fn causes(&self, session: &SessionId) -> Result<(Label, Vec<Cause>, u64), ClientError> {
        match self.ask(&Request::SessionCauses {
            session: session.clone(),
        })? {
            Reply::Causes {
                label,
                causes,
                more,
            } => Ok((label, causes, more)),
            _ => Err(unexpected()),
        }
    }

    /// Passes the owner's answer on.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn approve(
        &self,
        session: &SessionId,
        call: &CallId,
        answer: Answer,
    ) -> Result<(), ClientError> {
        let request = Request::ApproveCall {
            session: session.clone(),
            call: call.clone(),
            answer,
        };
        match self.ask(&request)? {
            Reply::Done {} => Ok(()),
            _ => Err(unexpected()),
        }
    }

    /// Whether brokerd does not answer. Where the last try found nobody, it is tried again: it may be back.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::SeqCst) && self.tools().is_none()
    }

    /// Runs a `CallTool` to its end, or ends it when `cancel` says so.
    pub fn call(&self, request: &Request, cancel: &Cancel, mut on: impl FnMut(Event)) -> Called {
        let mut client = match self.connect(self.tool_silence) {
            Ok(client) => client,
            Err(ClientError::Refused(_)) => return Called::Refused,
            Err(_) => return Called::Unavailable,
        };
        let Ok(closer) = client.closer() else {
            return Called::Unavailable;
        };
        if client.send(request).is_err() {
            return Called::Lost;
        }
        let stop = match request {
            Request::CallTool { session, call, .. } => Some(Request::CancelCall {
                session: session.clone(),
                call: call.clone(),
            }),
            _ => None,
        };
        let path = self.path.clone();
        let wait = self.wait;
        let _hook = cancel.hook(move || {
            // Neither may hold up whoever cancels.
            spawn("cancel-call", move || {
                let asked = stop.map(|stop| Client::<Tools>::connect(&path, wait)?.call(&stop));
                if let Some(Err(error)) = asked {
                    tracing::warn!("cannot cancel a call: {}", report::line(&error, None));
                }
            });
            spawn("cancel-close", move || {
                thread::park_timeout(CANCEL_MS_MAX);
                closer.close();
            });
        });
        // Its progress does not make a question's time any longer.
        let mut end = match request {
            Request::CallTool { tool, .. } if tool == ASK_MEMORY => {
                Some(Instant::now() + self.ask_memory)
            }
            _ => None,
        };
        loop {
            if let Some(end) = end {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    // The connection closes, and brokerd ends the call.
                    return Called::Lost;
                }
                client.set_answer_ms_max(left);
            }
            match client.recv() {
                Ok(Reply::Progress { text }) => on(Event::Progress(text)),
                Ok(Reply::Approval { call, what }) => {
                    // The owner may think first.
                    end = end.map(|_| Instant::now() + self.tool_silence);
                    on(Event::Approval { call, what });
                }
                Ok(Reply::Result {
                    outcome,
                    text,
                    label,
                    causes,
                    ..
                }) => {
                    return Called::Result {
                        outcome,
                        text,
                        label,
                        causes,
                    };
                }
                Err(ClientError::Refused(_)) => return Called::Refused,
                Ok(_) | Err(_) => return Called::Lost,
            }
        }
    }

    fn ask(&self, request: &Request) -> Result<Reply, ClientError> {
        self.connect(self.wait)?.call(request)
    }

    fn connect(&self, wait: Duration) -> Result<Client<Tools>, ClientError> {
        let connected = Client::connect(&self.path, wait);
        let down = connected.is_err();
        match (&connected, self.down.swap(down, Ordering::SeqCst)) {
            (Err(error), false) => {
                let why = report::line(error, Some(bxcore::runbook::TOOLS_UNAVAILABLE));
                tracing::warn!("tools are unavailable: {why}");
            }
            (Ok(_), true) => tracing::info!("tools are available again"),
            _ => {}
        }
        connected
    }
}

fn unexpected() -> ClientError {
    ClientError::Refused(Refused::new(
        "bad-answer",
        "brokerd gave an answer to another question",
    ))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().name(name.into()).spawn(work) {
        tracing::warn!(%error, "cannot start a thread");
    }
}
