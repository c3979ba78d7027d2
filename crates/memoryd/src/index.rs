//! The full-text index over entries, notes and turns: `memory/index.sqlite`, only a cache. One table for each
//! class and trust, so that no row ever changes the rank of a row with another label. Called by the service;
//! rebuilt from logs and journal when it is gone, broken or of another version.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bxcore::{clock::Millis, runbook};
use bxwire::{EditId, Label, SessionId, links::memory_tools::About};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Transaction, params};

use crate::{
    logs::{Cursor, LogError, Logs, Turn},
    memory::{Contents, Memory},
};

/// Counts up with every change of the tables; another number means a rebuild.
const SCHEMA_VERSION: i64 = 1;
/// Pages that SQLite keeps in memory, in KiB.
const CACHE_KIB_MAX: i64 = 1_024;
/// Pages of the write-ahead log, after which it is folded into the file.
const WAL_PAGES_MAX: i64 = 256;

/// Why the index did not answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("cannot use the index {}", path.display())]
    Sqlite {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("cannot make the index {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Log(#[from] LogError),
}

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
    /// Opens the index, or makes an empty one. What fails here is tried again at each use.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let index = Self {
            path: path.into(),
            connection: Mutex::new(None),
            reading: Mutex::new(()),
            stale: AtomicBool::new(false),
        };
        if let Err(error) = index.run(|_| Ok(())) {
            tracing::error!("{}", bxcore::report::line(&error, None));
        }
        index
    }

    /// Whether everything has to be taken in anew; asking answers once.
    #[must_use]
    pub fn take_stale(&self) -> bool {
        self.stale.swap(false, Ordering::SeqCst)
    }

    /// Runs `work` in a transaction; a broken file is thrown away and `work` runs on an empty one.
    fn run<T>(
        &self,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, IndexError> {
        let failed = |source| IndexError::Sqlite {
            path: self.path.clone(),
            source,
        };
        let mut open = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut result = self.attempt(&mut open, &work);
        if let Err(IndexError::Sqlite { source, .. }) = &result
            && is_broken(source)
        {
            *open = None;
            remove(&self.path).map_err(|source| IndexError::Io {
                path: self.path.clone(),
                source,
            })?;
            tracing::info!("threw a broken index away; see {}", runbook::INDEX_REBUILT);
            result = self.attempt(&mut open, &work);
        }
        match result {
            Err(IndexError::Sqlite { source, .. }) => Err(failed(source)),
            other => other,
        }
    }

    fn attempt<T>(
        &self,
        open: &mut Option<Connection>,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, IndexError> {
        let failed = |source| IndexError::Sqlite {
            path: self.path.clone(),
            source,
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
        let failed = |source| IndexError::Sqlite {
            path: self.path.clone(),
            source,
        };
        // SQLite makes files that others may read; this one is made first.
        fs::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)
            .map_err(|source| IndexError::Io {
                path: self.path.clone(),
                source,
            })?;
        let mut connection = Connection::open(&self.path).map_err(failed)?;
        let new = prepare(&mut connection).map_err(failed)?;
        if new {
            self.stale.store(true, Ordering::SeqCst);
        }
        Ok(connection)
    }

    /// Takes in a session's turns that ended since the last time.
    ///
    /// # Errors
    /// [`IndexError`]; nothing was taken in then.
    pub fn take_session(&self, logs: &Logs, session: &SessionId) -> Result<(), IndexError> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let name = session.as_str();
        let mut cursor = self.run(|tx| read_cursor(tx, name))?.unwrap_or_default();
        let turns = logs.turns_after(session, &mut cursor)?;
        self.run(|tx| {
            for turn in &turns {
                put_turn(tx, turn)?;
            }
            write_cursor(tx, name, &cursor)
        })
    }

    /// Compares every log's length with what was taken in, and takes in the rest. Stops between two sessions
    /// when told to. A log that cannot be read keeps no other back; their errors come back.
    ///
    /// # Errors
    /// [`IndexError`] of the index or of the logs' folder.
    pub fn take_logs(
        &self,
        logs: &Logs,
        stopping: &AtomicBool,
    ) -> Result<Vec<IndexError>, IndexError> {
        let mut known = self.run(|tx| {
            let mut rows = tx.prepare("SELECT session, cursor FROM cursors")?;
            rows.query_map([], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?
            .collect::<rusqlite::Result<std::collections::BTreeMap<_, _>>>()
        })?;
        let mut errors = Vec::new();
        for (session, bytes) in logs.sessions()? {
            if stopping.load(Ordering::SeqCst) {
                return Ok(errors);
            }
            let cursor = known.remove(session.as_str());
            let cursor = cursor.and_then(|text| serde_json::from_str::<Cursor>(&text).ok());
            let taken = match cursor {
                Some(cursor) if cursor.offset == bytes => Ok(()),
                Some(cursor) if cursor.offset > bytes => self
                    .forget_session(session.as_str())
                    .and_then(|()| self.take_session(logs, &session)),
                _ => self.take_session(logs, &session),
            };
            match taken {
                Err(error @ IndexError::Log(_)) => errors.push(error),
                other => other?,
            }
        }
        for session in known.keys() {
            self.forget_session(session)?;
        }
        Ok(errors)
    }

    fn forget_session(&self, session: &str) -> Result<(), IndexError> {
        self.run(|tx| {
            take_out(tx, session)?;
            tx.execute("DELETE FROM cursors WHERE session = ?1", [session])?;
            Ok(())
        })
    }

    /// Takes in what an edit changed, from memory as it is now.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn take_edit(&self, memory: &Memory, id: EditId) -> Result<(), IndexError> {
        let Some(edit) = memory.edit(id) else {
            return Ok(());
        };
        self.run(|tx| {
            if last_edit(tx)? + 1 != id.0 {
                return put_memory(tx, memory);
            }
            for change in &edit.changes {
                take_out(tx, change.subject())?;
            }
            for change in &edit.changes {
                // An edit may change the same entry twice.
                take_out(tx, change.subject())?;
                put_subject(tx, memory.contents(), change.subject())?;
            }
            set_last_edit(tx, id.0)
        })
    }

    /// Takes in all of memory, if edits are missing.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn take_memory(&self, memory: &Memory) -> Result<(), IndexError> {
        self.run(|tx| {
            if last_edit(tx)? == memory.edits().len() as u64 {
                return Ok(());
            }
            put_memory(tx, memory)
        })
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
        let table = table(label);
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

    /// Whether at most one row in fifty of the table holds the term.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn is_rare(&self, label: Label, term: &str) -> Result<bool, IndexError> {
        let table = table(label);
        self.run(|tx| {
            let rows: i64 = tx.query_row(
                &format!("SELECT coalesce(max(rowid), 0) FROM {table}"),
                [],
                |row| row.get(0),
            )?;
            let most = (rows / 50).max(1);
            let found: i64 = tx.query_row(
                &format!(
                    "SELECT count(*) FROM (SELECT rowid FROM {table} WHERE {table} MATCH ?1 LIMIT ?2)"
                ),
                params![term, most + 1],
                |row| row.get(0),
            )?;
            Ok(found <= most)
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
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_os_string();
        name.push(end);
        match fs::remove_file(PathBuf::from(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes the tables unless they are there; says whether it did.
fn prepare(connection: &mut Connection) -> rusqlite::Result<bool> {
    // Nobody else opens it; so SQLite needs no shared memory, which a full disk would take away.
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES_MAX)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB_MAX)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == SCHEMA_VERSION {
        return Ok(false);
    }
    let tx = connection.transaction()?;
    let old: Vec<String> = tx
        .prepare(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND (name IN ('cursors', 'places', 'meta') \
             OR sql LIKE 'CREATE VIRTUAL%')",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for name in old {
        tx.execute_batch(&format!("DROP TABLE \"{}\"", name.replace('"', "\"\"")))?;
    }
    tx.execute_batch(
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);
         CREATE TABLE cursors(session TEXT PRIMARY KEY, cursor TEXT NOT NULL);
         CREATE TABLE places(subject TEXT NOT NULL, label INTEGER NOT NULL, row INTEGER NOT NULL, \
         PRIMARY KEY (subject, label, row)) WITHOUT ROWID;",
    )?;
    for label in Label::all() {
        tx.execute_batch(&format!(
            "CREATE VIRTUAL TABLE {} USING fts5(text, source UNINDEXED, subject UNINDEXED, item UNINDEXED, \
             at UNINDEXED, tokenize = 'porter unicode61 remove_diacritics 2')",
            table(label)
        ))?;
    }
    tx.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    tx.commit()?;
    Ok(true)
}

fn table(label: Label) -> String {
    format!("text_{}_{}", label.class.name(), label.trust.name())
}

fn label_number(label: Label) -> i64 {
    let at = Label::all().position(|other| other == label);
    at.and_then(|at| i64::try_from(at).ok()).unwrap_or(0)
}

fn read_cursor(tx: &Transaction<'_>, session: &str) -> rusqlite::Result<Option<Cursor>> {
    let text: Option<String> = tx
        .query_row(
            "SELECT cursor FROM cursors WHERE session = ?1",
            [session],
            |row| row.get(0),
        )
        .optional()?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

fn write_cursor(tx: &Transaction<'_>, session: &str, cursor: &Cursor) -> rusqlite::Result<()> {
    let text = serde_json::to_string(cursor)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    tx.execute(
        "INSERT OR REPLACE INTO cursors(session, cursor) VALUES (?1, ?2)",
        [session, &text],
    )?;
    Ok(())
}

fn last_edit(tx: &Transaction<'_>) -> rusqlite::Result<u64> {
    let last: Option<i64> = tx
        .query_row("SELECT value FROM meta WHERE key = 'edit'", [], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(last.and_then(|last| u64::try_from(last).ok()).unwrap_or(0))
}

fn set_last_edit(tx: &Transaction<'_>, last: u64) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT OR REPLACE INTO meta(key, value) VALUES ('edit', ?1)",
        [i64::try_from(last).unwrap_or(i64::MAX)],
    )?;
    Ok(())
}

struct New<'a> {
    label: Label,
    source: Source,
    subject: &'a str,
    item: &'a str,
    at: &'a str,
    text: &'a str,
}

fn put(tx: &Transaction<'_>, new: &New<'_>) -> rusqlite::Result<()> {
    if new.text.trim().is_empty() {
        return Ok(());
    }
    // Inert before it is kept, so that the marks of a match can only be ours.
    let text = bxsanitize::neutralise_cow(new.text, usize::MAX);
    let at = Millis::parse(new.at).unwrap_or_default();
    tx.prepare_cached(&format!(
        "INSERT INTO {}(text, source, subject, item, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        table(new.label)
    ))?
    .execute(params![
        text,
        new.source as i64,
        new.subject,
        new.item,
        at.0
    ])?;
    tx.prepare_cached("INSERT INTO places(subject, label, row) VALUES (?1, ?2, ?3)")?
        .execute(params![
            new.subject,
            label_number(new.label),
            tx.last_insert_rowid()
        ])?;
    Ok(())
}

fn put_turn(tx: &Transaction<'_>, turn: &Turn) -> rusqlite::Result<()> {
    let item = format!("{}/{}", turn.session, turn.turn);
    let sides = [
        (Source::Words, &turn.said_at, &turn.text),
        (Source::Reply, &turn.ended_at, &turn.reply),
    ];
    for (source, at, text) in sides {
        put(
            tx,
            &New {
                label: turn.label,
                source,
                subject: turn.session.as_str(),
                item: &item,
                at,
                text,
            },
        )?;
    }
    Ok(())
}

/// Removes every row of an entry, note or session.
fn take_out(tx: &Transaction<'_>, subject: &str) -> rusqlite::Result<()> {
    for label in Label::all() {
        let number = label_number(label);
        tx.prepare_cached(&format!(
            "DELETE FROM {} WHERE rowid IN (SELECT row FROM places WHERE subject = ?1 AND label = ?2)",
            table(label)
        ))?
        .execute(params![subject, number])?;
    }
    tx.execute("DELETE FROM places WHERE subject = ?1", [subject])?;
    Ok(())
}

fn put_subject(tx: &Transaction<'_>, contents: &Contents, id: &str) -> rusqlite::Result<()> {
    for about in [About::User, About::Agent] {
        if let Some(entry) = contents.entry(about, id) {
            put(
                tx,
                &New {
                    label: Label::PRIVATE,
                    source: Source::Identity,
                    subject: id,
                    item: &entry.edit.to_string(),
                    at: &entry.at,
                    text: &entry.text,
                },
            )?;
        }
    }
    if let Some(note) = contents.note(id) {
        put(
            tx,
            &New {
                label: note.label,
                source: Source::Note,
                subject: id,
                item: &note.edit.to_string(),
                at: &note.at,
                text: &note.text,
            },
        )?;
    }
    Ok(())
}

fn put_memory(tx: &Transaction<'_>, memory: &Memory) -> rusqlite::Result<()> {
    let contents = memory.contents();
    let old: Vec<String> = tx
        .prepare("SELECT DISTINCT subject FROM places WHERE subject NOT LIKE '%-____________'")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for subject in old {
        take_out(tx, &subject)?;
    }
    let entries = [About::User, About::Agent]
        .into_iter()
        .flat_map(|about| contents.entries(about))
        .map(|entry| &entry.id);
    for id in entries.chain(contents.notes().iter().map(|note| &note.id)) {
        put_subject(tx, contents, id)?;
    }
    set_last_edit(tx, memory.edits().len() as u64)
}

#[cfg(test)]
mod tests;
