//! What came in and how each answer ended, for a test to look at. Written by `server` and `replay`;
//! never read by anything that answers.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::Request;

/// Requests kept; the oldest goes first.
pub const RECORDED_REQUESTS_MAX: usize = 4_096;

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Not all of it is written.
    Running,
    /// Written whole, or cut where the script says so.
    Done,
    /// The client hung up before the last piece was written.
    Disconnected,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Counts all requests from 0.
    pub number: u64,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// The body as JSON; null where it was none.
    pub body: Value,
    pub raw: Vec<u8>,
    pub outcome: Outcome,
}

impl Recorded {
    /// The first header of that name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether it asked for a chat completion.
    pub fn is_chat(&self) -> bool {
        self.path.ends_with("/chat/completions")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Record {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    kept: VecDeque<Recorded>,
}

impl Record {
    pub(crate) fn add(&self, request: &Request) -> u64 {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        if state.kept.len() >= RECORDED_REQUESTS_MAX {
            state.kept.pop_front();
        }
        state.kept.push_back(Recorded {
            number,
            method: request.method.clone(),
            path: request.path.clone(),
            headers: request.headers.clone(),
            body: serde_json::from_slice(&request.body).unwrap_or(Value::Null),
            raw: request.body.clone(),
            outcome: Outcome::Running,
        });
        self.changed.notify_all();
        number
    }

    /// The first outcome that is told stays.
    pub(crate) fn end(&self, number: u64, outcome: Outcome) {
        let mut state = self.lock();
        if let Some(one) = state.kept.iter_mut().find(|one| one.number == number)
            && one.outcome == Outcome::Running
        {
            one.outcome = outcome;
        }
        self.changed.notify_all();
    }

    pub(crate) fn all(&self) -> Vec<Recorded> {
        self.lock().kept.iter().cloned().collect()
    }

    /// Waits until `enough` holds for the requests so far.
    pub(crate) fn wait(
        &self,
        time: Duration,
        enough: impl Fn(&VecDeque<Recorded>) -> bool,
    ) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.lock();
        loop {
            if enough(&state.kept) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
