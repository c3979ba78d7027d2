//! What Honcho's worker does in the background: what was deleted goes for good, from the tables and from the
//! bytes of the file. One thread of the server runs it, and each call drains what is due before it begins.

use std::sync::PoisonError;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::Store;
use crate::clock::{self, Micros};
use crate::errors::Refusal;

/// How long the thread leaves the file alone after the database refused.
const RETRY_WAIT: Duration = Duration::from_secs(60);

/// The deleted, until it is drained.
const TABLES: [&str; 2] = ["sessions", "workspaces"];
/// Indexes that keep what was deleted unless they are told not to.
const INDEXES: [&str; 2] = ["messages_fts", "conclusions_fts"];

/// What the lock holds.
pub struct Inside {
    pub connection: Connection,
    /// When the bytes of rows that are gone go too; `None`: there are none, or there is no file.
    scrub_at: Option<Micros>,
    in_file: bool,
    stopping: bool,
}

impl Inside {
    pub fn new(connection: Connection, in_file: bool) -> Self {
        Self {
            connection,
            scrub_at: None,
            in_file,
            stopping: false,
        }
    }

    fn scrub_by(&mut self, at: Micros) {
        if self.in_file {
            self.scrub_at = Some(self.scrub_at.map_or(at, |before| before.min(at)));
        }
    }

    /// Has the bytes go of rows that are gone. Zeroing them as they go is not enough: SQLite leaves copies
    /// between the cells when it moves rows to another page, so every page is written anew.
    fn scrub(&mut self) -> rusqlite::Result<()> {
        if self.scrub_at.is_none() {
            return Ok(());
        }
        scrub(&self.connection)?;
        self.scrub_at = None;
        Ok(())
    }
}

/// Drains what was accepted before the last end, and has the indexes forget for good from now on.
pub fn at_start(connection: &mut Connection) -> rusqlite::Result<()> {
    for index in INDEXES {
        let set = format!("SELECT 1 FROM {index}_config WHERE k = 'secure-delete' AND v = 1");
        if connection.prepare(&set)?.exists([])? {
            continue;
        }
        let db = connection.transaction()?;
        db.execute_batch(&format!(
            "INSERT INTO {index} ({index}) VALUES ('rebuild');
             INSERT INTO {index} ({index}, rank) VALUES ('secure-delete', 1);"
        ))?;
        mark(&db)?;
        db.commit()?;
    }
    drain(connection, Micros::MAX)?;
    // The last end may also have come between rows and bytes.
    if connection.prepare("SELECT 1 FROM unscrubbed")?.exists([])? {
        scrub(connection)?;
    }
    Ok(())
}

/// Removes what was deleted until then; whether that was anything.
fn drain(connection: &mut Connection, until: Micros) -> rusqlite::Result<bool> {
    let mut removed = false;
    let db = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    for table in TABLES {
        if any(&db, table, until)? {
            db.prepare_cached(&format!("DELETE FROM {table} WHERE deleted_at <= ?1"))?
                .execute([until])?;
            removed = true;
        }
    }
    if removed {
        mark(&db)?;
    }
    db.commit()?;
    Ok(removed)
}

fn any(db: &Transaction<'_>, table: &str, until: Micros) -> rusqlite::Result<bool> {
    let sql = format!("SELECT 1 FROM {table} WHERE deleted_at <= ?1 LIMIT 1");
    db.prepare_cached(&sql)?.exists([until])
}

/// Notes in the file that its bytes have to follow its rows.
pub fn mark(db: &Transaction<'_>) -> rusqlite::Result<()> {
    db.execute("INSERT OR IGNORE INTO unscrubbed (key) VALUES (1)", [])?;
    Ok(())
}

fn scrub(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("VACUUM")?;
    let busy: bool =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy {
        // Another program reads the file.
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(code, None));
    }
    connection.execute("DELETE FROM unscrubbed", [])?;
    Ok(())
}

impl Store {
    /// Drains each deletion when its time has come, until the server stops; then all that is left.
    pub fn drain_until_stopped(&self) {
        let mut inside = self.lock();
        while !inside.stopping {
            let wait = self.tidy(&mut inside).unwrap_or(Some(RETRY_WAIT));
            // A stop takes the lock to say so, and the lock is ours until the wait has begun.
            inside = match wait {
                None => self
                    .changed
                    .wait(inside)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(wait) => {
                    let waited = self.changed.wait_timeout(inside, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        // A refusal is logged where it is made, and the next start does the rest.
        let _ = drain_all(&mut inside);
    }

    /// Has `drain_until_stopped` finish.
    pub fn stop_draining(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Notes that a call deleted something. Many in a row are one rewriting of the file.
    pub(super) fn removed(&self, inside: &mut Inside) {
        inside.scrub_by(clock::now().saturating_add(self.wait()));
        self.changed.notify_all();
    }

    /// Drains what is due.
    pub(super) fn drain_due(&self, inside: &mut Inside) -> Result<(), Refusal> {
        let due = clock::now().saturating_sub(self.wait());
        if drain(&mut inside.connection, due)? {
            inside.scrub_by(clock::now());
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Does what is due; how long it is until something else is.
    fn tidy(&self, inside: &mut Inside) -> Result<Option<Duration>, Refusal> {
        self.drain_due(inside)?;
        if inside.scrub_at.is_some_and(|at| at <= clock::now()) {
            inside.scrub()?;
        }
        let mut next = inside.scrub_at;
        for table in TABLES {
            let oldest: Option<Micros> = inside.connection.query_row(
                &format!("SELECT min(deleted_at) FROM {table} WHERE deleted_at IS NOT NULL"),
                [],
                |row| row.get(0),
            )?;
            let due = oldest.map(|oldest| oldest.saturating_add(self.wait()));
            next = next.into_iter().chain(due).min();
        }
        let left = next.map(|at| at.saturating_sub(clock::now()).max(0));
        Ok(left.map(|micros| Duration::from_micros(micros.unsigned_abs())))
    }

    fn wait(&self) -> Micros {
        Micros::try_from(self.drain_after.as_micros()).unwrap_or(Micros::MAX)
    }
}

/// What waits goes at a stop: nobody may start this again.
fn drain_all(inside: &mut Inside) -> Result<(), Refusal> {
    if drain(&mut inside.connection, Micros::MAX)? {
        inside.scrub_by(clock::now());
    }
    Ok(inside.scrub()?)
}
