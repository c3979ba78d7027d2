//! What a test can have the server say: sensible replies, and every way of going wrong. Made by
//! tests, read by `server` and `replay`; does nothing by itself.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::completion::{Call, Completion};

/// How chat requests are answered.
#[derive(Clone)]
pub enum Behaviour {
    /// By the plain rules, as the program does.
    Rules,
    /// One reply a call, in order. A call too many is answered 500 and counted by
    /// [`Server::calls_beyond_script`](crate::Server::calls_beyond_script).
    Script(Vec<Reply>),
    /// By a function of the request.
    Answer(Arc<dyn Fn(&Value) -> Reply + Send + Sync>),
}

impl Behaviour {
    /// Answers every call by a function of the request.
    pub fn answer(function: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Behaviour {
        Behaviour::Answer(Arc::new(function))
    }
}

/// One answer to one call.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) what: What,
    pub(crate) holds: Vec<Hold>,
    pub(crate) cut_after: Option<usize>,
    pub(crate) cut_before: Option<usize>,
}

#[derive(Clone)]
pub(crate) enum What {
    /// A reply in the shape that the request asks for, with true counts.
    Say(Completion),
    /// A head and a body with its length.
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// An event stream whose body arrives in exactly these chunks.
    Stream(Vec<Vec<u8>>),
    /// Everything after the request, head included, one write a piece.
    Raw(Vec<Vec<u8>>),
    Rules,
    Compute(Arc<dyn Fn(&Value) -> Reply + Send + Sync>),
}

impl fmt::Debug for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Say(completion) => completion.fmt(f),
            What::Answer { status, .. } => write!(f, "Answer({status})"),
            What::Stream(chunks) => write!(f, "Stream({} chunks)", chunks.len()),
            What::Raw(pieces) => write!(f, "Raw({} pieces)", pieces.len()),
            What::Rules => f.write_str("Rules"),
            What::Compute(_) => f.write_str("Compute"),
        }
    }
}

/// Waits at a gate before the piece with that number. The head is piece 0.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) before: usize,
    pub(crate) gate: Gate,
}

impl Reply {
    fn new(what: What) -> Reply {
        Reply {
            what,
            holds: Vec::new(),
            cut_after: None,
            cut_before: None,
        }
    }

    /// Says that text.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::completion(Completion {
            text: text.into(),
            ..Completion::default()
        })
    }

    /// Says nothing at all, politely.
    pub fn empty() -> Reply {
        Reply::completion(Completion::default())
    }

    /// Calls one tool.
    pub fn call(name: &str, arguments: &Value) -> Reply {
        Reply::call_raw(name, &arguments.to_string())
    }

    /// Calls one tool with arguments that need not be JSON.
    pub fn call_raw(name: &str, arguments: &str) -> Reply {
        let call = Call {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            id: None,
        };
        Reply::completion(Completion {
            calls: vec![call],
            ..Completion::default()
        })
    }

    /// Any text, thinking, calls and finish reason.
    pub fn completion(completion: Completion) -> Reply {
        Reply::new(What::Say(completion))
    }

    /// A status, headers and a body with its length.
    pub fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Reply {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Reply::new(What::Answer {
            status,
            headers,
            body: body.into(),
        })
    }

    /// An error as llama-server words it.
    pub fn error(status: u16, kind: &str, message: &str) -> Reply {
        let refusal = crate::check::Refusal::new(status, kind, message);
        let json = ("Content-Type", "application/json; charset=utf-8");
        Reply::answer(status, &[json], refusal.body.to_string())
    }

    /// The answer while the model loads.
    pub fn loading() -> Reply {
        Reply::error(503, "unavailable_error", "Loading model")
    }

    /// An event stream whose body arrives in exactly these chunks, one write each.
    pub fn stream(chunks: Vec<Vec<u8>>) -> Reply {
        Reply::new(What::Stream(chunks))
    }

    /// Exactly these bytes, status line and headers included, one write a piece.
    pub fn raw(pieces: Vec<Vec<u8>>) -> Reply {
        Reply::new(What::Raw(pieces))
    }

    /// What the plain rules say.
    pub fn rules() -> Reply {
        Reply::new(What::Rules)
    }

    /// Whatever the function makes of the request.
    pub fn compute(function: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Reply {
        Reply::new(What::Compute(Arc::new(function)))
    }

    /// Falls silent before that piece until the gate opens, the client leaves or the server stops.
    /// Piece 0 is the head, then one piece a chunk or event; without `stream`, the body is piece 1.
    #[must_use]
    pub fn hold_before(mut self, piece: usize, gate: &Gate) -> Reply {
        self.holds.push(Hold {
            before: piece,
            gate: gate.clone(),
        });
        self
    }

    /// Closes the connection once that many bytes were written, head included.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Reply {
        self.cut_after = Some(bytes);
        self
    }

    /// Closes the connection instead of writing that piece; before piece 0, without a word.
    #[must_use]
    pub fn cut_before(mut self, piece: usize) -> Reply {
        self.cut_before = Some(piece);
        self
    }
}

/// A gate that a test opens. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<GateInner>);

#[derive(Debug, Default)]
struct GateInner {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    open: bool,
    waiting: usize,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.lock().open = true;
        self.0.changed.notify_all();
    }

    /// Waits until an answer is held at the gate; false if none is in that time.
    pub fn wait_held(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.lock();
        while state.waiting == 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .0
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// Blocks until the gate is open or `give_up` says so; [`Gate::nudge`] has it asked again.
    pub(crate) fn pass(&self, give_up: impl Fn() -> bool) {
        let mut state = self.lock();
        state.waiting += 1;
        self.0.changed.notify_all();
        while !state.open && !give_up() {
            state = self
                .0
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }

    /// Has everybody who waits look again at the reason to give up.
    pub(crate) fn nudge(&self) {
        let _state = self.lock();
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
