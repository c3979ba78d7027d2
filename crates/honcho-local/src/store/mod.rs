//! The SQLite file behind the server. Every call runs in one transaction under one lock, so a call is
//! all or nothing and calls never see each other half done. Nothing here knows HTTP.

mod drain;
mod schema;

pub mod cards;
pub mod conclusions;
pub mod dump;
pub mod members;
pub mod messages;
pub mod peers;
pub mod queue;
pub mod scopes;
pub mod search;
pub mod sessions;
pub mod summaries;
pub mod workspaces;

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde_json::{Map, Value};

use crate::errors::{Refusal, StartError};

pub struct Store {
    inside: Mutex<drain::Inside>,
    /// A deletion was accepted, or the server stops.
    changed: Condvar,
    drain_after: Duration,
}

impl Store {
    /// Opens the file, or makes it; without one the data live in memory. What was deleted goes for
    /// good once it has been deleted for `drain_after`, and at once where that was before this start.
    ///
    /// # Errors
    /// The file cannot be opened, is no database, or was made by a newer version.
    pub fn open(file: Option<&Path>, drain_after: Duration) -> Result<Self, StartError> {
        let path = file.unwrap_or(Path::new(":memory:"));
        let failed = |source| StartError::Open {
            path: path.to_owned(),
            source,
        };
        if let Some(file) = file {
            keep_private(file);
        }
        let mut connection = match file {
            Some(file) => Connection::open(file),
            None => Connection::open_in_memory(),
        }
        .map_err(failed)?;
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
                 PRAGMA busy_timeout = 5000; PRAGMA secure_delete = ON;",
            )
            .map_err(failed)?;
        let version: i64 = connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(failed)?;
        if version > schema::VERSION {
            return Err(StartError::Newer {
                path: path.to_owned(),
            });
        }
        if version == 0 {
            let script = format!(
                "BEGIN; {} PRAGMA user_version = {}; COMMIT;",
                schema::TABLES,
                schema::VERSION
            );
            connection.execute_batch(&script).map_err(failed)?;
        }
        connection.execute_batch(schema::LATER).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(128);
        drain::at_start(&mut connection).map_err(failed)?;
        Ok(Self {
            inside: Mutex::new(drain::Inside::new(connection, file.is_some())),
            changed: Condvar::new(),
            drain_after,
        })
    }

    /// Runs one call; its changes are on the disk when this returns, or not there at all.
    ///
    /// # Errors
    /// What the call was refused with, or an unexpected error of the database.
    pub fn run<T>(
        &self,
        call: impl FnOnce(&Transaction<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut inside = self.lock();
        self.drain_due(&mut inside)?;
        let connection = &mut inside.connection;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
        let done = call(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Runs a call that deletes something: what of it is still in the file goes by itself.
    ///
    /// # Errors
    /// As for `run`.
    pub fn remove<T>(
        &self,
        call: impl FnOnce(&Transaction<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let done = self.run(|db| {
            let done = call(db)?;
            drain::mark(db)?;
            Ok(done)
        })?;
        self.removed(&mut self.lock());
        Ok(done)
    }

    /// Removes everything.
    ///
    /// # Errors
    /// The database refused.
    pub fn forget(&self) -> Result<(), Refusal> {
        self.remove(|db| Ok(db.execute("DELETE FROM workspaces", []).map(drop)?))
    }

    fn lock(&self) -> MutexGuard<'_, drain::Inside> {
        // A handler that panicked dropped its transaction, which rolled it back.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a new file readable for its owner alone, for it holds what people said; SQLite gives the files
/// beside it the same mode. Where this fails, opening fails too and says why.
fn keep_private(file: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    let _ = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
}

/// Stored JSON as a value; what this program wrote always reads.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn text(map: &Map<String, Value>) -> Result<String, Refusal> {
    serde_json::to_string(map).map_err(|_| Refusal::unexpected())
}

/// The items of one page of a filtered list, and how many there are in all.
pub struct Found {
    pub items: Vec<Value>,
    pub total: usize,
}
