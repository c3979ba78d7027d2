//! Whether this Honcho answers over a whole workspace, which not every one does. Asked by `chat` when a question
//! depends on it, and at start for status; one small request that makes nothing.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError, RwLock,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use roncho::{
    blocking::{Client, Error},
    models::chat::DialecticOptions,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Able {
    Unknown,
    There,
    Missing,
}

/// What is known of it, and who finds out.
pub struct WorkspaceChat {
    known: Mutex<Able>,
    /// Waits a short time only.
    prober: RwLock<Client>,
}

impl WorkspaceChat {
    #[must_use]
    pub fn new(prober: Client) -> Self {
        Self {
            known: Mutex::new(Able::Unknown),
            prober: RwLock::new(prober),
        }
    }

    /// A new key.
    pub fn reload(&self, prober: Client) {
        *self.prober.write().unwrap_or_else(PoisonError::into_inner) = prober;
    }

    /// For status.
    #[must_use]
    pub fn fact(&self) -> &'static str {
        match *self.known() {
            Able::Unknown => "not known yet what this Honcho can",
            Able::There => "asks whole workspaces",
            Able::Missing => {
                "asks the owner's and the agent's peers: this Honcho has no workspace chat"
            }
        }
    }

    /// Whether it has one. What it had not it may have learned since, so that is asked again.
    pub fn is_missing(&self) -> bool {
        let known = *self.known();
        known != Able::There && self.find_out() == Able::Missing
    }

    /// Asks. Without an answer, what was known stands.
    pub fn find_out(&self) -> Able {
        // An empty question is refused before anything is done, where the route is there at all.
        let empty = DialecticOptions::default();
        let prober = self.prober.read().unwrap_or_else(PoisonError::into_inner);
        let asked = prober.workspace_chat(&empty);
        let mut known = self.known();
        let was = *known;
        *known = match asked {
            Ok(_) | Err(Error::Status { status: 422, .. }) => Able::There,
            Err(Error::Status {
                status: 404 | 405, ..
            }) => Able::Missing,
            Err(_) => was,
        };
        match (was, *known) {
            (Able::Unknown | Able::There, Able::Missing) => {
                tracing::info!("this Honcho has no workspace chat; ask_memory asks peers");
            }
            (Able::Missing, Able::There) => {
                tracing::info!("this Honcho has a workspace chat now; ask_memory asks that");
            }
            _ => {}
        }
        *known
    }

    /// Asks until it is known.
    pub fn find_out_first(&self, stopped: &Receiver<()>, wait_min: Duration, wait_max: Duration) {
        let mut wait = wait_min;
        while self.find_out() == Able::Unknown {
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => wait = (wait * 2).min(wait_max),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Able> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
