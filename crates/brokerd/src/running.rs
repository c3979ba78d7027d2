//! The calls that run now, so that another connection can end one or answer for its owner. Bounded by the
//! connections there are.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use bxcore::connect::Closer;
use bxwire::{CallId, SessionId, links::turns::Answer};

/// One running call, as others may act on it.
#[derive(Default)]
pub struct Token {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    cancelled: bool,
    waiting: bool,
    answer: Option<Answer>,
    /// Ends the conversation with memoryd.
    closer: Option<Closer>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    pub fn cancel(&self) {
        let mut state = lock(&self.state);
        state.cancelled = true;
        if let Some(closer) = state.closer.take() {
            closer.close();
        }
        self.changed.notify_all();
    }

    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        lock(&self.state).cancelled
    }

    /// Has a cancel close this connection too, at once if it has come already.
    pub fn closes(&self, closer: Closer) {
        let mut state = lock(&self.state);
        if state.cancelled {
            closer.close();
        } else {
            state.closer = Some(closer);
        }
    }

    /// From here on an answer is taken.
    pub fn ask(&self) {
        lock(&self.state).waiting = true;
    }

    /// The owner's answer. `None`: cancelled, or nobody answered by `end`.
    pub fn wait(&self, end: Instant) -> Option<Answer> {
        let mut state = lock(&self.state);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if state.cancelled || state.answer.is_some() || left.is_zero() {
                state.waiting = false;
                return state.answer.take().filter(|_| !state.cancelled);
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn answer(&self, answer: Answer) -> bool {
        let mut state = lock(&self.state);
        if !state.waiting || state.answer.is_some() {
            return false;
        }
        state.answer = Some(answer);
        self.changed.notify_all();
        true
    }
}

type Key = (SessionId, CallId);

/// Every running call.
#[derive(Debug, Default)]
pub struct Running {
    calls: Mutex<HashMap<Key, Arc<Token>>>,
    stopping: AtomicBool,
}

/// A call's place in [`Running`]; dropped, it is free again.
#[derive(Debug)]
pub struct Entry<'a> {
    running: &'a Running,
    key: Key,
    pub token: Arc<Token>,
}

impl Running {
    /// Enters a call. `None`: one of this name runs already.
    pub fn enter(&self, session: &SessionId, call: &CallId) -> Option<Entry<'_>> {
        let key = (session.clone(), call.clone());
        let mut calls = lock(&self.calls);
        if calls.contains_key(&key) {
            return None;
        }
        let token = Arc::new(Token::default());
        if self.stopping.load(Ordering::SeqCst) {
            token.cancel();
        }
        calls.insert(key.clone(), Arc::clone(&token));
        Some(Entry {
            running: self,
            key,
            token,
        })
    }

    /// Cancels a call. `false`: it does not run.
    pub fn cancel(&self, session: &SessionId, call: &CallId) -> bool {
        let found = self.find(session, call);
        found.inspect(|token| token.cancel()).is_some()
    }

    /// Answers for a call's owner. `false`: it does not run, or does not ask.
    pub fn answer(&self, session: &SessionId, call: &CallId, answer: Answer) -> bool {
        self.find(session, call)
            .is_some_and(|token| token.answer(answer))
    }

    /// Cancels what runs and what is still to come.
    pub fn stop(&self) {
        let calls = lock(&self.calls);
        self.stopping.store(true, Ordering::SeqCst);
        for token in calls.values() {
            token.cancel();
        }
    }

    fn find(&self, session: &SessionId, call: &CallId) -> Option<Arc<Token>> {
        let key = (session.clone(), call.clone());
        lock(&self.calls).get(&key).cloned()
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        lock(&self.running.calls).remove(&self.key);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn names() -> (SessionId, CallId) {
        (
            SessionId::new("20260131", [3; 12]).unwrap(),
            "c1".parse().unwrap(),
        )
    }

    #[test]
    fn a_call_runs_once_and_its_name_is_free_afterwards() {
        let (session, call) = names();
        let running = Running::default();
        let entry = running.enter(&session, &call).unwrap();
        assert!(running.enter(&session, &call).is_none());
        assert!(running.cancel(&session, &call));
        assert!(entry.token.is_cancelled());
        drop(entry);
        assert!(!running.cancel(&session, &call));
        assert!(!running.enter(&session, &call).unwrap().token.is_cancelled());
    }

    #[test]
    fn an_answer_counts_only_while_it_is_asked_for() {
        let (session, call) = names();
        let running = Running::default();
        let entry = running.enter(&session, &call).unwrap();
        assert!(!running.answer(&session, &call, Answer::Once));
        entry.token.ask();
        assert!(running.answer(&session, &call, Answer::Deny));
        assert!(!running.answer(&session, &call, Answer::Once), "one answer");
        let end = Instant::now() + Duration::from_secs(60);
        assert_eq!(entry.token.wait(end), Some(Answer::Deny));
    }

    #[test]
    fn nobody_answers_or_the_call_is_cancelled() {
        let (session, call) = names();
        let running = Running::default();
        let entry = running.enter(&session, &call).unwrap();
        entry.token.ask();
        assert_eq!(entry.token.wait(Instant::now()), None);
        running.stop();
        let end = Instant::now() + Duration::from_secs(60);
        assert_eq!(entry.token.wait(end), None);
        let late = "c2".parse().unwrap();
        let late = running.enter(&session, &late).unwrap();
        assert!(late.token.is_cancelled());
    }
}
