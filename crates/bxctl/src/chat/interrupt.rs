//! Ctrl-C while a turn runs: the first stops the turn, the next one leaves. Called by the signal thread and by
//! `turn`; never prints.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bxcore::{connect::Closer, paths::Dirs};
use bxwire::{SessionId, links::turns::Request};

use crate::link;

/// What a Ctrl-C came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressed {
    /// The running turn was told to stop.
    Cancelled,
    /// Nothing runs, or it was pressed twice: leave.
    Leave,
}

/// What runs now.
#[derive(Debug, Clone, Default)]
pub struct Interrupts(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    running: bool,
    cancelled: bool,
    session: Option<SessionId>,
    closer: Option<Closer>,
}

/// A turn runs as long as this lives.
#[derive(Debug)]
pub struct Running(Interrupts);

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.state() = State::default();
    }
}

impl Interrupts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn begins.
    pub fn running(&self) -> Running {
        *self.state() = State {
            running: true,
            ..State::default()
        };
        Running(self.clone())
    }

    /// The turn has this connection.
    pub fn connected(&self, closer: Closer, session: Option<SessionId>) {
        let mut state = self.state();
        state.closer = Some(closer);
        state.session = session;
    }

    /// The turn runs in this session.
    pub fn accepted(&self, session: SessionId) {
        self.state().session = Some(session);
    }

    /// Whether the turn was told to stop.
    pub fn cancelled(&self) -> bool {
        self.state().cancelled
    }

    /// Ctrl-C.
    pub fn press(&self, dirs: &Dirs) -> Pressed {
        let mut state = self.state();
        if !state.running || state.cancelled {
            return Pressed::Leave;
        }
        state.cancelled = true;
        let session = state.session.clone();
        let told = session.is_some_and(|session| {
            // Asking takes a connection of its own: the turn's is busy with the answer.
            drop(state);
            link::loopd(dirs, &Request::Cancel { session }).is_ok()
        });
        if !told && let Some(closer) = &self.state().closer {
            // A client that hangs up cancels too.
            closer.close();
        }
        Pressed::Cancelled
    }
}
