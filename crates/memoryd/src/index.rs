//! The full-text index over entries, notes and turns: `memory/index.sqlite`, only a cache. One table for each
//! class and trust, so that no row ever changes the rank of a row with another label. Called by the service;
//! rebuilt from logs and journal when it is gone, broken or of another version.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bxcore::{clock::Millis, runbook};
use bxwire::{EditId, Label, SessionId};
use rusqlite::{Connection, ErrorCode, Transaction, params};

use crate::logs::{Cursor, LogError, Logs, Standing};

mod rows;
pub use rows::{New, TOKENIZER, of_memory};

/// Why the index did not answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("cannot use the index {}", path.display())]
    Sqlite { path: PathBuf, source: Sqlite },
    #[error("cannot make the index {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What SQLite said. Its own cause is the same again with a number, so the chain ends here.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Sqlite(rusqlite::Error);

/// What a row was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Identity,
    Note,
    /// What was said in a turn.
    Words,
    /// The agent's reply.
    Reply,
}

impl Source {
    const ALL: [Self; 4] = [Self::Identity, Self::Note, Self::Words, Self::Reply];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Note => "note",
            Self::Words => "words",
            Self::Reply => "reply",
        }
    }
}

/// What a pass over the logs found besides turns.
#[derive(Debug, Default)]
pub struct Pass {
    /// Of logs that could not be read.
    pub errors: Vec<IndexError>,
    /// Sessions whose logs hold no texts any more.
    pub purged: Vec<SessionId>,
}

/// One row that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub id: i64,
    pub source: Source,
    /// An entry's or note's id; a session.
    pub subject: String,
    /// What `bxctl memory why` takes.
    pub item: String,
    pub at: Millis,
    /// The text, each match between U+0002 and U+0003.
    pub marked: String,
}

/// The open index.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    connection: Mutex<Option<Connection>>,
    /// Held from reading a log to taking it in, so that two threads never take the same turn.
    reading: Mutex<()>,
    /// Rebuilt and not yet filled.
    stale: AtomicBool,
}

impl Index {
    /// The index at `path`, opened or made at its first use: a start does not wait for it.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.into(),
            connection: Mutex::new(None),
            reading: Mutex::new(()),
            stale: AtomicBool::new(false),
        }
    }

    /// Whether everything has to be taken in anew; asking answers once.
    #[must_use]
    pub fn take_stale(&self) -> bool {
        self.stale.swap(false, Ordering::SeqCst)
    }

    /// Whether [`Index::take_stale`] would say so.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::SeqCst)
    }

    /// Runs `work` in a transaction; a broken file is thrown away and `work` runs on an empty one.
    fn run<T>(
        &self,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, IndexError> {
        let mut open = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut result = self.attempt(&mut open, &work);
        if let Err(IndexError::Sqlite { source, .. }) = &result
            && is_broken(&source.0)
        {
            *open = None;
            remove(&self.path).map_err(|source| IndexError::Io {
                path: self.path.clone(),
                source,
            })?;
            tracing::info!("threw a broken index away; see {}", runbook::INDEX_REBUILT);
            result = self.attempt(&mut open, &work);
        }
        result
    }

    fn attempt<T>(
        &self,
        open: &mut Option<Connection>,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, IndexError> {
        let failed = |error| IndexError::Sqlite {
            path: self.path.clone(),
            source: Sqlite(error),
        };
        let connection = match open {
            Some(connection) => connection,
            None => open.insert(self.connect()?),
        };
        let transaction = connection.transaction().map_err(failed)?;
        let value = work(&transaction).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(value)
    }

    fn connect(&self) -> Result<Connection, IndexError> {
        let failed = |error| IndexError::Sqlite {
            path: self.path.clone(),
            source: Sqlite(error),
        };
        let io = |source| IndexError::Io {
            path: self.path.clone(),
            source,
        };
        // SQLite follows a link and writes into what it finds, so no name may lead to a file that is elsewhere.
        if !is_own(&self.path).map_err(io)? {
            remove(&self.path).map_err(io)?;
            tracing::warn!(
                "threw away what was no index of ours; see {}",
                runbook::INDEX_REBUILT
            );
        }
        // SQLite makes files that others may read; this one is made first.
        fs::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)
            .map_err(io)?;
        let mut connection = Connection::open(&self.path).map_err(failed)?;
        let new = rows::prepare(&mut connection).map_err(failed)?;
        if new {
            self.stale.store(true, Ordering::SeqCst);
        }
        Ok(connection)
    }

    /// Takes in a session's turns that ended since the last time; whether its log was purged.
    ///
    /// # Errors
    /// [`IndexError`]; nothing was taken in then.
    pub fn take_session(&self, logs: &Logs, session: &SessionId) -> Result<bool, IndexError> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let name = session.as_str();
        let mut cursor = self
            .run(|tx| rows::read_cursor(tx, name))?
            .unwrap_or_default();
        let before = cursor.clone();
        let turns = logs.turns_after(session, &mut cursor)?;
        self.run(|tx| {
            if before.offset > cursor.offset || !before.is_same_file(&cursor) {
                rows::take_out(tx, name)?;
            }
            for turn in &turns {
                rows::put_turn(tx, turn)?;
            }
            rows::write_cursor(tx, name, &cursor)
        })?;
        Ok(cursor.is_purged())
    }

    /// Compares every log with what was taken in, and takes in the rest. Stops between two sessions when told to. A
    /// log that cannot be read keeps no other back.
    ///
    /// # Errors
    /// [`IndexError`] of the index or of the logs' folder.
    pub fn take_logs(&self, logs: &Logs, stopping: &AtomicBool) -> Result<Pass, IndexError> {
        let mut known = self.run(|tx| {
            let mut rows = tx.prepare("SELECT session, cursor FROM cursors")?;
            rows.query_map([], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?
            .collect::<rusqlite::Result<BTreeMap<_, _>>>()
        })?;
        let mut pass = Pass::default();
        for (session, found) in logs.sessions()? {
            if stopping.load(Ordering::SeqCst) {
                return Ok(pass);
            }
            let cursor = known.remove(session.as_str());
            let cursor = cursor.and_then(|text| serde_json::from_str::<Cursor>(&text).ok());
            let taken = match cursor {
                Some(cursor) if cursor.stands(found) == Standing::Read => Ok(cursor.is_purged()),
                _ => self.take_session(logs, &session),
            };
            match taken {
                Ok(true) => pass.purged.push(session),
                Ok(false) => {}
                Err(error @ IndexError::Log(_)) => pass.errors.push(error),
                Err(error) => return Err(error),
            }
        }
        for session in known.keys() {
            self.forget_session(session)?;
        }
        Ok(pass)
    }

    /// The last purge that the file was made after; `EditId(0)`: none.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn last_purge(&self) -> Result<EditId, IndexError> {
        self.run(rows::last_purge)
    }

    /// Throws the file away and makes an empty one, so that no page of it holds what was purged.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn start_over(&self, purge: EditId) -> Result<(), IndexError> {
        let mut open = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *open = None;
        remove(&self.path).map_err(|source| IndexError::Io {
            path: self.path.clone(),
            source,
        })?;
        self.attempt(&mut open, |tx| rows::set_last_purge(tx, purge))
    }

    fn forget_session(&self, session: &str) -> Result<(), IndexError> {
        self.run(|tx| {
            rows::take_out(tx, session)?;
            tx.execute("DELETE FROM cursors WHERE session = ?1", [session])?;
            Ok(())
        })
    }

    /// Takes in what an edit changed: `rows` are those of its `subjects` after it. `false`: earlier edits are
    /// missing, and nothing was taken in.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn take_edit(
        &self,
        id: EditId,
        subjects: &BTreeSet<String>,
        rows: &[New],
    ) -> Result<bool, IndexError> {
        self.run(|tx| {
            if rows::last_edit(tx)?.0 + 1 != id.0 {
                return Ok(false);
            }
            for subject in subjects {
                rows::take_out(tx, subject)?;
            }
            rows.iter().try_for_each(|row| rows::put(tx, row))?;
            rows::set_last_edit(tx, id)?;
            Ok(true)
        })
    }

    /// Takes in all of memory as it is after the edit `last`.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn take_memory(&self, last: EditId, rows: &[New]) -> Result<(), IndexError> {
        self.run(|tx| {
            rows::take_out_memory(tx)?;
            rows.iter().try_for_each(|row| rows::put(tx, row))?;
            rows::set_last_edit(tx, last)
        })
    }

    /// The last edit taken in.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn last_edit(&self) -> Result<EditId, IndexError> {
        self.run(rows::last_edit)
    }

    /// The best rows of one table. `expression` is FTS5's; times are inclusive.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn search(
        &self,
        label: Label,
        expression: &str,
        since: Millis,
        until: Millis,
        limit: usize,
    ) -> Result<Vec<Row>, IndexError> {
        let table = rows::table(label);
        let sql = format!(
            "SELECT rowid, source, subject, item, at, highlight({table}, 0, char(2), char(3)) \
             FROM {table} WHERE {table} MATCH ?1 AND at BETWEEN ?2 AND ?3 ORDER BY rank LIMIT ?4"
        );
        self.run(|tx| {
            let mut rows = tx.prepare_cached(&sql)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            rows.query_map(params![expression, since.0, until.0, limit], |row| {
                let source: i64 = row.get(1)?;
                Ok(Row {
                    id: row.get(0)?,
                    source: usize::try_from(source)
                        .ok()
                        .and_then(|at| Source::ALL.get(at).copied())
                        .unwrap_or(Source::Note),
                    subject: row.get(2)?,
                    item: row.get(3)?,
                    at: Millis(row.get(4)?),
                    marked: row.get(5)?,
                })
            })?
            .collect()
        })
    }

    /// Whether at most one row in fifty of these tables holds the term (`term` is FTS5's).
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn is_rare(&self, labels: &[Label], term: &str) -> Result<bool, IndexError> {
        self.run(|tx| {
            let mut rows = 0_i64;
            for label in labels {
                rows += tx.query_row(
                    &format!(
                        "SELECT coalesce(max(rowid), 0) FROM {}",
                        rows::table(*label)
                    ),
                    [],
                    |row| row.get::<_, i64>(0),
                )?;
            }
            let most = (rows / 50).max(1);
            let mut found = 0_i64;
            for label in labels {
                let table = rows::table(*label);
                found += tx.query_row(
                    &format!(
                        "SELECT count(*) FROM (SELECT rowid FROM {table} WHERE {table} MATCH ?1 LIMIT ?2)"
                    ),
                    params![term, most + 1 - found],
                    |row| row.get::<_, i64>(0),
                )?;
                if found > most {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Rows in all tables.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn rows(&self) -> Result<u64, IndexError> {
        self.run(|tx| {
            let rows: i64 = tx.query_row("SELECT count(*) FROM places", [], |row| row.get(0))?;
            Ok(u64::try_from(rows).unwrap_or(0))
        })
    }
}

fn is_broken(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// The file and what SQLite keeps beside it.
fn remove(path: &Path) -> io::Result<()> {
    for name in names(path) {
        match fs::remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether each of its files is a plain one without another name, or not there.
fn is_own(path: &Path) -> io::Result<bool> {
    for name in names(path) {
        match fs::symlink_metadata(name) {
            Ok(found) if !found.is_file() || found.nlink() > 1 => return Ok(false),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(true)
}

/// The file, and those that SQLite keeps beside it.
fn names(path: &Path) -> impl Iterator<Item = PathBuf> {
    ["", "-wal", "-shm", "-journal"].into_iter().map(|end| {
        let mut name = path.as_os_str().to_os_string();
        name.push(end);
        PathBuf::from(name)
    })
}

#[cfg(test)]
mod tests;
