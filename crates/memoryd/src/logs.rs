//! Reads loopd's session logs: whole lines only, synced before anybody decides from them. Called by the index
//! and the sync worker, each with its own [`Cursor`]; never writes, and ignores an unfinished last line.

use std::{
    fs::{self, OpenOptions},
    io::{self, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use bxcore::{
    append::{self, OpenError},
    plain,
    report::Actionable,
    runbook::{self, Runbook},
};
use bxwire::{
    Audience, Label, Origin, SessionId, Speaker,
    log::{Body, Outcome, Record, TYPES},
};
use serde::{Deserialize, Serialize};

/// A turn that has ended, as its log tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    pub session: SessionId,
    pub turn: u64,
    pub text: String,
    /// The agent's final reply; empty when there was none.
    pub reply: String,
    pub speaker: Option<Speaker>,
    pub origin: Origin,
    /// The client or channel it came through.
    pub source: String,
    pub audience: Audience,
    pub outcome: Outcome,
    /// When the words were said, and when the reply was final: RFC 3339.
    pub said_at: String,
    pub ended_at: String,
    /// loopd's label of the session at the turn's end: the join over every record up to it.
    pub label: Label,
    /// Whether the session's log holds, up to here, a result that brokerd gave.
    pub broker_results: bool,
    /// The owner had the session's texts removed: there are none here.
    pub purged: bool,
}

/// A log as the folder shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub bytes: u64,
    /// Another file, when a purge wrote the log anew.
    inode: u64,
}

/// How far a log was read, and what it said up to there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// Bytes of whole lines read.
    pub offset: u64,
    lines: usize,
    label: Label,
    broker_results: bool,
    source: String,
    #[serde(default)]
    audience: Option<Audience>,
    /// The turn that has begun and not ended.
    open: Option<OpenTurn>,
    /// Which file it was; 0: not known.
    #[serde(default)]
    inode: u64,
    /// The log says that it was purged.
    #[serde(default)]
    purged: bool,
}

/// How a log stands to what was read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Read,
    /// There is more.
    Grown,
    /// It is not the file that was read, or was cut: it is read from its start.
    Anew,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OpenTurn {
    turn: u64,
    text: String,
    reply: String,
    speaker: Option<Speaker>,
    origin: Origin,
    source: Option<String>,
    said_at: String,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot read the session logs in {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(transparent)]
    File(#[from] OpenError),
}

impl Actionable for LogError {
    fn runbook(&self) -> Option<Runbook> {
        match self {
            Self::Folder { .. } => Some(runbook::STATE_UNUSABLE),
            Self::File(error) => error.runbook(),
        }
    }
}

/// loopd's `sessions/` folder.
#[derive(Debug, Clone)]
pub struct Logs {
    folder: PathBuf,
}

impl Logs {
    /// `folder` is `state/loop/sessions`.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Every session with its log, oldest id first. No folder yet: none.
    ///
    /// # Errors
    /// [`LogError::Folder`].
    pub fn sessions(&self) -> Result<Vec<(SessionId, Found)>, LogError> {
        let failed = |source| LogError::Folder {
            path: self.folder.clone(),
            source,
        };
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let id = name
                .to_str()
                .and_then(|name| name.strip_suffix(".jsonl"))
                .and_then(|name| name.parse::<SessionId>().ok());
            if let Some(id) = id {
                found.push((id, Found::of(&entry.metadata().map_err(failed)?)));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// The turns that ended after the cursor, which moves past them; all of them when the log is another file than
    /// the one it stands in. The log is synced first, so that what is decided from it cannot be lost. No log: none.
    ///
    /// # Errors
    /// [`LogError`]; the cursor has not moved then.
    pub fn turns_after(
        &self,
        session: &SessionId,
        cursor: &mut Cursor,
    ) -> Result<Vec<Turn>, LogError> {
        let path = self.folder.join(format!("{session}.jsonl"));
        let failed = |source| OpenError::Io {
            path: path.clone(),
            source,
        };
        let mut file = match plain::open(&path, OpenOptions::new().read(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed)?,
        };
        file.sync_data().map_err(failed)?;
        let found = Found::of(&file.metadata().map_err(failed)?);
        let mut next = match cursor.stands(found) {
            Standing::Read | Standing::Grown => cursor.clone(),
            Standing::Anew => Cursor::default(),
        };
        next.inode = found.inode;
        file.seek(SeekFrom::Start(next.offset)).map_err(failed)?;
        let before = next.lines;
        let mut turns = Vec::new();
        let mut lines = 0;
        let read = append::read_lines(&path, file, |_, line| {
            lines += 1;
            let record = append::typed(line, &TYPES)?;
            turns.extend(next.take(session, record));
            Ok(())
        })
        .map_err(|error| renumber(error, before))?;
        next.offset += read;
        next.lines += lines;
        // A purge's record is the last one.
        turns.iter_mut().for_each(|turn| turn.purged = next.purged);
        *cursor = next;
        Ok(turns)
    }

    /// How many turns of a session have ended, and whether its texts were removed; `None`: it has no log.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn purged(&self, session: &SessionId) -> Result<Option<(u64, bool)>, LogError> {
        let mut cursor = Cursor::default();
        let turns = self.turns_after(session, &mut cursor)?;
        let last = turns.last().map_or(0, |turn| turn.turn);
        Ok((cursor.lines > 0).then_some((last, cursor.purged)))
    }

    /// One turn, read from the start of its log; `None` when it has not ended there.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn turn(&self, session: &SessionId, turn: u64) -> Result<Option<Turn>, LogError> {
        let turns = self.turns_after(session, &mut Cursor::default())?;
        Ok(turns.into_iter().find(|found| found.turn == turn))
    }

    /// The client or channel that a turn came through, ended or not; `None`: its log does not hold it.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn source_of_turn(
        &self,
        session: &SessionId,
        turn: u64,
    ) -> Result<Option<String>, LogError> {
        let mut cursor = Cursor::default();
        let mut ended = self.turns_after(session, &mut cursor)?.into_iter();
        if let Some(ended) = ended.find(|ended| ended.turn == turn) {
            return Ok(Some(ended.source));
        }
        let open = cursor.open.filter(|open| open.turn == turn);
        Ok(open.map(|open| open.source.unwrap_or(cursor.source)))
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Lines are counted from where reading began; people count from the file's start.
fn renumber(error: OpenError, before: usize) -> OpenError {
    match error {
        OpenError::Corrupt { path, line, what } => OpenError::Corrupt {
            path,
            line: line + before,
            what,
        },
        OpenError::Newer { path, line } => OpenError::Newer {
            path,
            line: line + before,
        },
        other => other,
    }
}

impl Found {
    fn of(found: &fs::Metadata) -> Self {
        Self {
            bytes: found.len(),
            inode: found.ino(),
        }
    }
}

impl Cursor {
    /// Whether there is something to read.
    #[must_use]
    pub fn stands(&self, found: Found) -> Standing {
        if found.bytes < self.offset || (self.inode != 0 && self.inode != found.inode) {
            Standing::Anew
        } else if found.bytes == self.offset {
            Standing::Read
        } else {
            Standing::Grown
        }
    }

    /// Whether both stand in one file, as far as that is known.
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.inode == 0 || self.inode == other.inode
    }

    /// Whether the log, as far as it was read, says that its texts were removed.
    #[must_use]
    pub fn is_purged(&self) -> bool {
        self.purged
    }

    /// Takes in one record; a turn that it ends comes back. Values only.
    pub fn take(&mut self, session: &SessionId, record: Record) -> Option<Turn> {
        if let Some(label) = record.body.label() {
            self.label = self.label.join(label);
        }
        match record.body {
            Body::Session {
                source, audience, ..
            } => {
                self.source = source;
                self.audience = Some(audience);
            }
            Body::User {
                turn,
                text,
                speaker,
                origin,
                source,
                ..
            } => {
                self.open = Some(OpenTurn {
                    turn,
                    text,
                    reply: String::new(),
                    speaker,
                    origin,
                    source,
                    said_at: record.at,
                });
            }
            Body::Assistant { text, calls, .. } => {
                if let Some(open) = &mut self.open {
                    // Words beside a tool call are not the reply; the last record without one is.
                    open.reply = if calls.is_empty() {
                        text
                    } else {
                        String::new()
                    };
                }
            }
            Body::ToolResult { from_broker, .. } => self.broker_results |= from_broker,
            Body::TurnEnd { turn, outcome, .. } => {
                let open = self.open.take().filter(|open| open.turn == turn)?;
                return Some(Turn {
                    session: session.clone(),
                    turn,
                    text: open.text,
                    reply: open.reply,
                    speaker: open.speaker,
                    origin: open.origin,
                    source: open.source.unwrap_or_else(|| self.source.clone()),
                    audience: self.audience.unwrap_or(Audience::Owner {}),
                    outcome,
                    said_at: open.said_at,
                    ended_at: record.at,
                    label: self.label,
                    broker_results: self.broker_results,
                    purged: false,
                });
            }
            Body::Purged {} => self.purged = true,
            Body::Epoch { .. } | Body::Context { .. } | Body::Summary { .. } => {}
        }
        None
    }
}
