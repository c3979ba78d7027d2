//! Passes a call of a tool that memoryd serves on to memoryd, over a connection of its own. Keeps nothing and
//! decides nothing; memoryd being away is an answer.

use std::{
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bxcore::{
    connect::{Client, ClientError},
    report, runbook,
};
use bxwire::{
    Cause, Label,
    links::memory_tools::{FactsOp, MemoryTools, Reply, Request},
};

use crate::running::Token;

/// What memoryd made of a call.
#[derive(Debug)]
pub enum Answer {
    Done {
        text: String,
        label: Label,
        causes: Vec<Cause>,
        /// Memory was changed.
        changed: bool,
    },
    Denied(String),
    Failed(String),
}

/// The connection to memoryd, as far as there is one.
#[derive(Debug, Default)]
pub struct Memory {
    /// It was away at the last call; logged when this changes.
    away: AtomicBool,
    /// The tools that it serves and the model gets, as it last said.
    tools: Mutex<Option<Vec<String>>>,
}

/// How long the list of tools waits for memoryd: what it last said is good enough.
const TOOLS_MS_MAX: Duration = Duration::from_millis(150);

/// What memoryd says now of its tools; `None`: it does not answer.
fn tools(socket: &Path) -> Option<Vec<String>> {
    let mut client = Client::<MemoryTools>::connect(socket, TOOLS_MS_MAX).ok()?;
    match client.call(&Request::Tools {}) {
        Ok(Reply::Tools { names }) => Some(names),
        _ => None,
    }
}

impl Memory {
    /// Whether the model gets a tool that memoryd serves. While memoryd has never said, it does.
    pub fn offers(&self, socket: &Path) -> impl Fn(&str) -> bool + use<> {
        let said = tools(socket);
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        *known = said.or(known.take());
        let known = known.clone();
        move |name| {
            let has = |names: &Vec<String>| names.iter().any(|known| known == name);
            known.as_ref().is_none_or(has)
        }
    }

    /// Whether the last call found nobody, and nobody is there now either.
    #[must_use]
    pub fn is_away(&self, socket: &Path) -> bool {
        self.away.load(Ordering::Relaxed) && tools(socket).is_none()
    }

    /// Calls memoryd and relays its progress. `progress` gives false when nobody listens any more.
    pub fn call(
        &self,
        socket: &Path,
        request: &Request,
        token: &Token,
        wait: Duration,
        progress: &mut dyn FnMut(String) -> bool,
    ) -> Answer {
        let end = Instant::now() + wait;
        let mut sent = false;
        let answered = self.converse(socket, request, token, end, &mut sent, progress);
        let error = match answered {
            Ok(answer) => {
                if self.away.swap(false, Ordering::Relaxed) {
                    tracing::info!("memoryd answers again");
                }
                return answer;
            }
            Err(error) => error,
        };
        if let ClientError::Refused(refused) = &error {
            return Answer::Failed(format!("memory refused the call: {}", refused.message));
        }
        if !token.is_cancelled() && !self.away.swap(true, Ordering::Relaxed) {
            tracing::warn!("memoryd is away: {}", report::actionable(&error));
        }
        let doubt = match (sent, request) {
            (
                true,
                Request::Memory { .. }
                | Request::Facts {
                    arguments:
                        FactsOp::Conclude { .. }
                        | FactsOp::Forget { .. }
                        | FactsOp::Profile { card: Some(_) },
                    ..
                },
            ) => ", and whether the change was made is not known",
            _ => "",
        };
        let what = format!("memory is unavailable{doubt}");
        let why = match error {
            ClientError::Timeout(_) => "it did not answer in time",
            ClientError::Version { .. } => "it is of another version",
            _ => "its daemon does not answer",
        };
        Answer::Failed(format!(
            "{what}: {why}; see {}",
            runbook::MEMORY_UNAVAILABLE
        ))
    }

    fn converse(
        &self,
        socket: &Path,
        request: &Request,
        token: &Token,
        end: Instant,
        sent: &mut bool,
        progress: &mut dyn FnMut(String) -> bool,
    ) -> Result<Answer, ClientError> {
        // Zero is no bound to a socket.
        let left = || {
            end.saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1))
        };
        let mut client = Client::<MemoryTools>::connect(socket, left())?;
        if let Ok(closer) = client.closer() {
            token.closes(closer);
        }
        client.send(request)?;
        *sent = true;
        loop {
            client.set_answer_ms_max(left());
            match client.recv()? {
                Reply::Progress { text } => {
                    if !progress(text) {
                        token.cancel();
                    }
                    if Instant::now() >= end {
                        return Err(ClientError::Timeout(socket.into()));
                    }
                }
                Reply::Done {
                    text,
                    label,
                    causes,
                    edit,
                } => {
                    return Ok(Answer::Done {
                        text,
                        label,
                        causes,
                        changed: edit.is_some(),
                    });
                }
                Reply::Denied { text } => return Ok(Answer::Denied(text)),
                Reply::Tools { .. } => {
                    return Ok(Answer::Failed("memory gave another answer".into()));
                }
                // `recv` makes an error of it.
                Reply::Refused(refused) => return Err(ClientError::Refused(refused)),
            }
        }
    }
}
