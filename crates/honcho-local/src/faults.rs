//! What a test may do to the server: make it misbehave for chosen requests, and read what was asked of
//! it. Inactive unless the server was started with test controls.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Call;

/// Requests remembered; the oldest go first.
pub const RECORDS_MAX: usize = 100_000;
/// Bytes of bodies remembered in all; the oldest requests go first.
pub const RECORD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// One way to misbehave. Where nothing else is said the request is not carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Answers with this status and nothing is done, or, with `commit`, after it was done.
    Status {
        status: u16,
        #[serde(default)]
        retry_after: Option<u64>,
        #[serde(default)]
        commit: bool,
    },
    /// Answers 401.
    RefuseKey,
    /// Carries the request out after a wait, and answers then.
    HandleLate { ms: u64 },
    /// Carries the request out at once, and answers after a wait.
    AnswerLate { ms: u64 },
    /// Reads the request and leaves it; with `commit` it was carried out.
    NeverAnswer {
        #[serde(default)]
        commit: bool,
    },
    /// Closes the connection without an answer.
    DropBefore,
    /// Carries the request out, then closes the connection without an answer.
    CommitAndDrop,
    /// Carries the request out, sends half of the answer's body and closes.
    CutBody,
    /// Carries the request out and sends the answer one byte at a time.
    Drip { every_ms: u64 },
    /// Carries the request out and answers with bytes that are no JSON.
    Garbage,
    /// Carries the request out and answers with a body of this many bytes.
    Huge { bytes: usize },
    /// Does nothing and answers 200 with this body.
    Says { body: String },
    /// Loses everything that was stored, then serves the request.
    Forget,
}

/// A fault, and the requests it is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub fault: Fault,
    /// Any method when absent.
    #[serde(default)]
    pub method: Option<String>,
    /// The whole path, without the query; `*` stands for any run of characters.
    #[serde(default = "any_path")]
    pub path: String,
    /// How many requests it is for; until cleared when absent.
    #[serde(default)]
    pub times: Option<u64>,
    /// Matching requests that are served as usual before it begins.
    #[serde(default)]
    pub after: u64,
}

fn any_path() -> String {
    String::from("*")
}

impl Rule {
    /// For every request, until cleared.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            method: None,
            path: any_path(),
            times: None,
            after: 0,
        }
    }

    pub fn on(mut self, method: &str, path: &str) -> Self {
        self.method = Some(method.to_owned());
        self.path = path.to_owned();
        self
    }

    pub fn path(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    pub fn after(mut self, requests: u64) -> Self {
        self.after = requests;
        self
    }

    fn is_for(&self, call: &Call) -> bool {
        self.method
            .as_ref()
            .is_none_or(|method| method.eq_ignore_ascii_case(&call.method))
            && glob(&self.path, &call.path)
    }
}

/// `*` stands for any run of characters, everything else for itself.
fn glob(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// One request as it came, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    pub number: u64,
    pub method: String,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub authorization: Option<String>,
    /// JSON where it was JSON, else its text.
    pub body: Value,
    /// What it came to, whether or not that was sent. `None`: it was not carried out.
    pub status: Option<u16>,
    /// Whether a whole answer was sent.
    pub answered: bool,
    pub fault: Option<Fault>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    records: VecDeque<Record>,
    /// Each body's length, beside `records`.
    lengths: VecDeque<usize>,
    bytes: usize,
    count: u64,
}

/// The switch and the record. Clones share both, also across a restart of the server.
#[derive(Clone, Default)]
pub struct Controls {
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Controls {
    /// Adds a rule; the first that fits a request counts.
    pub fn add(&self, rule: Rule) {
        self.lock().rules.push(rule);
    }

    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    pub fn requests(&self) -> Vec<Record> {
        self.lock().records.iter().cloned().collect()
    }

    pub fn forget_requests(&self) {
        let mut state = self.lock();
        state.records.clear();
        state.lengths.clear();
        state.bytes = 0;
    }

    /// Waits until the record looks as wanted; false when it does not within the time.
    pub fn wait_for(&self, within: Duration, wanted: impl Fn(&[Record]) -> bool) -> bool {
        let deadline = Instant::now() + within;
        let mut state = self.lock();
        loop {
            if wanted(state.records.make_contiguous()) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.1.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes a request; its number, and the fault it meets.
    pub(crate) fn begin(&self, call: &Call) -> (u64, Option<Fault>) {
        let body = match serde_json::from_slice(&call.body) {
            Ok(value) => value,
            Err(_) if call.body.is_empty() => Value::Null,
            Err(_) => Value::from(String::from_utf8_lossy(&call.body)),
        };
        let mut state = self.lock();
        let fault = state.pick(call);
        state.count += 1;
        let number = state.count;
        state.make_room(call.body.len());
        state.records.push_back(Record {
            number,
            method: call.method.clone(),
            path: call.path.clone(),
            query: call.query.clone(),
            authorization: call.authorization.clone(),
            body,
            status: None,
            answered: false,
            fault: fault.clone(),
        });
        drop(state);
        self.shared.1.notify_all();
        (number, fault)
    }

    pub(crate) fn end(&self, number: u64, status: Option<u16>, answered: bool) {
        if let Some(record) = self
            .lock()
            .records
            .iter_mut()
            .rev()
            .find(|record| record.number == number)
        {
            record.status = status;
            record.answered = answered;
        }
        self.shared.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn make_room(&mut self, length: usize) {
        self.lengths.push_back(length);
        self.bytes += length;
        while self.records.len() >= RECORDS_MAX
            || (self.bytes > RECORD_BYTES_MAX && !self.records.is_empty())
        {
            self.records.pop_front();
            self.bytes -= self.lengths.pop_front().unwrap_or(0);
        }
    }

    fn pick(&mut self, call: &Call) -> Option<Fault> {
        for rule in self
            .rules
            .iter_mut()
            .filter(|rule| rule.times != Some(0) && rule.is_for(call))
        {
            if rule.after > 0 {
                rule.after -= 1;
                continue;
            }
            rule.times = rule.times.map(|times| times - 1);
            return Some(rule.fault.clone());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs() {
        for (pattern, text, want) in [
            ("*", "/v3", true),
            ("/v3/*/messages", "/v3/a/b/messages", true),
            ("/v3/*/messages", "/v3/a/messages/list", false),
            ("/health", "/health", true),
            ("/health", "/healthy", false),
            ("*/a/*/b", "/a/x/b", true),
            ("*ab", "/ab/b", false),
        ] {
            assert_eq!(glob(pattern, text), want, "{pattern} {text}");
        }
    }
}
