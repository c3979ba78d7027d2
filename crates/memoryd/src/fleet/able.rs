//! Whether this Honcho answers over a whole workspace, which not every one does. Asked by `chat` when a question
//! depends on it, and at start for status; one small request that makes nothing.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use roncho::models::chat::ReasoningLevel;

use super::reads::Client;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Able {
    #[default]
    Unknown,
    There,
    Missing,
}

/// What is known of it. `client` is of the agent's own trusted workspace.
#[derive(Default)]
pub struct WorkspaceChat {
    known: Mutex<Able>,
}

impl WorkspaceChat {
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
    pub fn is_missing(&self, client: &Client, deadline: Instant) -> bool {
        let known = *self.known();
        known != Able::There && self.find_out(client, deadline) == Able::Missing
    }

    /// Asks. Without an answer, what was known stands.
    pub fn find_out(&self, client: &Client, deadline: Instant) -> Able {
        // An empty question is refused before anything is done, where the route is there at all.
        let asked = client.chat(None, "", ReasoningLevel::Minimal, deadline);
        let mut known = self.known();
        let was = *known;
        *known = match asked.map_err(|failed| failed.status()) {
            Ok(_) | Err(Some(422)) => Able::There,
            Err(Some(404 | 405)) => Able::Missing,
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

    fn known(&self) -> MutexGuard<'_, Able> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
