//! The SQLite file behind the server. Every call runs in one transaction under one lock, so a call is
//! all or nothing and calls never see each other half done. Nothing here knows HTTP.

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
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde_json::{Map, Value};

use crate::clock;
use crate::errors::{Refusal, StartError};

pub struct Store {
    connection: Mutex<Connection>,
    drain_after: Duration,
}

impl Store {
    /// Opens the file, or makes it; without one the data live in memory. What was deleted goes for
    /// good once it has been deleted for `drain_after`.
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
        let connection = match file {
            Some(file) => Connection::open(file),
            None => Connection::open_in_memory(),
        }
        .map_err(failed)?;
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
                 PRAGMA busy_timeout = 5000;",
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
        Ok(Self {
            connection: Mutex::new(connection),
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
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
        self.drain(&transaction)?;
        let done = call(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Removes everything.
    ///
    /// # Errors
    /// The database refused.
    pub fn forget(&self) -> Result<(), Refusal> {
        self.run(|db| Ok(db.execute("DELETE FROM workspaces", []).map(drop)?))
    }

    /// What Honcho's worker does in the background is done here before each call instead: nobody can
    /// tell the difference, and no thread has to wake up for it.
    fn drain(&self, db: &Transaction<'_>) -> Result<(), Refusal> {
        let wait = i64::try_from(self.drain_after.as_micros()).unwrap_or(i64::MAX);
        let due = clock::now().saturating_sub(wait);
        for sql in [
            "DELETE FROM sessions WHERE deleted_at <= ?1",
            "DELETE FROM workspaces WHERE deleted_at <= ?1",
        ] {
            let exists = sql.replacen("DELETE", "SELECT 1", 1) + " LIMIT 1";
            if db.prepare_cached(&exists)?.exists([due])? {
                db.prepare_cached(sql)?.execute([due])?;
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A handler that panicked dropped its transaction, which rolled it back.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
