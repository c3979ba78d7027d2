//! One session besides its log: a short summary of it, and who runs in it or waits. Used by `sessions`, `serve`
//! and `turn`; keeps no text of any turn.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bxwire::{
    Audience, Label, SessionId,
    log::{Body, Outcome, Record},
};

use crate::cancel::{Cancel, Reason};

/// What a log says in short.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub started: String,
    pub source: String,
    pub audience: Option<Audience>,
    pub turns: u64,
    pub last: Option<Outcome>,
    pub label: Label,
    /// The first turn's key and source: a client that never learnt the id asks again with them.
    pub first_key: Option<(String, String)>,
    pub records: u64,
    pub open: Option<u64>,
    /// The owner had its texts removed: it takes no more turns.
    pub purged: bool,
}

impl Summary {
    /// Takes in one more record.
    pub fn add(&mut self, record: &Record) {
        self.records = record.seq;
        if let Some(label) = record.body.label() {
            self.label = self.label.join(label);
        }
        match &record.body {
            Body::Session {
                source, audience, ..
            } => {
                self.started.clone_from(&record.at);
                self.source.clone_from(source);
                self.audience = Some(*audience);
            }
            Body::User {
                turn, key, source, ..
            } => {
                self.turns = *turn;
                self.last = None;
                self.open = Some(*turn);
                if *turn == 1 {
                    self.first_key = Some((
                        key.clone(),
                        source.clone().unwrap_or_else(|| self.source.clone()),
                    ));
                }
            }
            Body::TurnEnd { outcome, .. } => {
                self.last = Some(*outcome);
                self.open = None;
            }
            Body::Purged {} => self.purged = true,
            _ => {}
        }
    }
}

/// One session.
#[derive(Debug)]
pub struct Session {
    pub id: SessionId,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    summary: Summary,
    /// The first one runs, the others wait.
    queue: VecDeque<(u64, Cancel)>,
    next: u64,
    /// memoryd's count of the owner's changes when this session's epoch began.
    owner_changes: Option<u64>,
}

/// A turn's place in its session's queue; dropped, the next one runs.
#[derive(Debug)]
pub struct Place {
    session: Arc<Session>,
    number: u64,
}

/// The queue is full.
#[derive(Debug)]
pub struct Full;

impl Session {
    #[must_use]
    pub fn new(id: SessionId, summary: Summary) -> Arc<Self> {
        Arc::new(Self {
            id,
            state: Mutex::new(State {
                summary,
                ..State::default()
            }),
            changed: Condvar::new(),
        })
    }

    /// Joins the queue.
    ///
    /// # Errors
    /// [`Full`].
    pub fn enter(self: &Arc<Self>, cancel: &Cancel, waiting_max: usize) -> Result<Place, Full> {
        let mut state = self.lock();
        if state.queue.len() > waiting_max {
            return Err(Full);
        }
        let number = state.next;
        state.next += 1;
        state.queue.push_back((number, cancel.clone()));
        drop(state);
        Ok(Place {
            session: Arc::clone(self),
            number,
        })
    }

    /// Cancels the turn that runs; false when none does.
    pub fn stop(&self, reason: Reason) -> bool {
        let running = self.lock().queue.front().map(|(_, cancel)| cancel.clone());
        running.inspect(|cancel| cancel.cancel(reason)).is_some()
    }

    /// Cancels all that run or wait.
    pub fn stop_all(&self, reason: Reason) {
        let all: Vec<Cancel> = self
            .lock()
            .queue
            .iter()
            .map(|(_, cancel)| cancel.clone())
            .collect();
        all.iter().for_each(|cancel| cancel.cancel(reason));
    }

    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.lock().queue.is_empty()
    }

    #[must_use]
    pub fn summary(&self) -> Summary {
        self.lock().summary.clone()
    }

    /// Brings the summary up to a log's records.
    pub fn update(&self, records: &[Record]) {
        let mut state = self.lock();
        let seen = usize::try_from(state.summary.records).unwrap_or(usize::MAX);
        for record in records.iter().skip(seen) {
            state.summary.add(record);
        }
    }

    #[must_use]
    pub fn owner_changes(&self) -> Option<u64> {
        self.lock().owner_changes
    }

    pub fn set_owner_changes(&self, count: Option<u64>) {
        self.lock().owner_changes = count;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until it is first; false when it was cancelled before.
    #[must_use]
    pub fn wait(&self, cancel: &Cancel) -> bool {
        let session = Arc::clone(&self.session);
        let _hook = cancel.hook(move || {
            let _state = session.lock();
            session.changed.notify_all();
        });
        let mut state = self.session.lock();
        while state
            .queue
            .front()
            .is_none_or(|(number, _)| *number != self.number)
        {
            if cancel.reason().is_some() {
                return false;
            }
            // The time is a belt beside the braces: every change wakes it.
            let woken = self
                .session
                .changed
                .wait_timeout(state, Duration::from_secs(1));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.session.lock();
        state.queue.retain(|(number, _)| *number != self.number);
        self.session.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_run_in_order_and_one_too_many_is_refused() {
        let id = SessionId::new("20260131", [1; 12]).unwrap();
        let session = Session::new(id, Summary::default());
        let cancel = Cancel::default();
        let first = session.enter(&cancel, 1).unwrap();
        let second = session.enter(&cancel, 1).unwrap();
        assert!(session.enter(&cancel, 1).is_err());
        assert!(first.wait(&cancel));
        drop(first);
        assert!(second.wait(&cancel));
        let gone = Cancel::default();
        let third = session.enter(&gone, 1).unwrap();
        gone.cancel(Reason::Client);
        assert!(!third.wait(&gone));
    }
}
