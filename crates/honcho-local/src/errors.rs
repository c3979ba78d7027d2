//! What a call is refused with, and why a server could not start. Made by every handler; a refusal
//! may echo what its own caller sent (as Honcho does), and is therefore never logged.

use std::path::PathBuf;

use serde_json::{Value, json};

/// One `{"detail": …}` answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub status: u16,
    pub detail: Value,
}

impl Refusal {
    pub fn new(status: u16, detail: impl Into<Value>) -> Self {
        Self {
            status,
            detail: detail.into(),
        }
    }

    /// The one thing Honcho says when it does not know what went wrong.
    pub fn unexpected() -> Self {
        Self::new(500, "An unexpected error occurred")
    }

    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(404, what.into())
    }

    pub fn no_workspace(name: &str) -> Self {
        Self::not_found(format!("Workspace {name} not found"))
    }

    pub fn no_session(name: &str, workspace: &str) -> Self {
        Self::not_found(format!("Session {name} not found in workspace {workspace}"))
    }

    pub fn no_peer(name: &str, workspace: &str) -> Self {
        Self::not_found(format!("Peer {name} not found in workspace {workspace}"))
    }

    pub fn unprocessable(detail: impl Into<Value>) -> Self {
        Self::new(422, detail)
    }

    pub fn body(&self) -> Value {
        json!({ "detail": self.detail })
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        // The code names the kind of failure; the message could quote a value.
        tracing::error!(code = ?error.sqlite_error_code(), "the database refused a statement");
        Self::unexpected()
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot open the database {}; give --db a file in a folder this user may write", path.display())]
    Open {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("the database {} was made by a newer honcho-local; use that one", path.display())]
    Newer { path: PathBuf },
    #[error("cannot listen on {address}; choose a free port or 127.0.0.1:0")]
    Listen {
        address: String,
        source: std::io::Error,
    },
    #[error("cannot serve on {address}")]
    Serve {
        address: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    #[error("cannot ask the model")]
    Roots(#[from] bxcore::http::NoRoots),
}
