//! Every session by its id, and the keys of first turns. Used by `serve` and `turn`;
//! keeps no text of any turn.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bxcore::{
    append::{AppendError, AppendFile, OpenError},
    clock::Millis,
    paths, random,
    report::Actionable,
    runbook::{self, Runbook},
};
use bxwire::{FRAME_BYTES_MAX, SessionId, links::turns::SessionSummary, log::Record};

use crate::{
    log::{self, LOG_MODE},
    session::{Session, Summary},
};

/// Keys of first turns that are remembered across sessions.
pub const FIRST_KEYS_MAX: usize = 4_096;
/// Longest listing in bytes: one frame, without what stands around the sessions.
const LIST_BYTES_MAX: usize = FRAME_BYTES_MAX - 256;

/// All of them.
#[derive(Debug)]
pub struct Sessions {
    folder: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: BTreeMap<SessionId, Arc<Session>>,
    first_keys: HashMap<(String, String), SessionId>,
    key_order: VecDeque<(String, String)>,
}

/// Why the sessions cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    #[error(transparent)]
    Folder(#[from] paths::FolderError),
    #[error("cannot list {}", path.display())]
    List { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Log(#[from] OpenError),
    #[error("{} is named like no session", .0.display())]
    Stranger(PathBuf),
}

impl Actionable for SessionsError {
    fn runbook(&self) -> Option<Runbook> {
        match self {
            Self::Folder(error) => error.runbook(),
            Self::Log(error) => error.runbook(),
            Self::List { .. } => Some(runbook::STATE_UNUSABLE),
            Self::Stranger(_) => Some(runbook::FILE_CORRUPT),
        }
    }
}

impl Sessions {
    /// Reads every log, cuts torn ends and closes turns that have none.
    ///
    /// # Errors
    /// [`SessionsError`]: the daemon does not start.
    pub fn open(folder: &Path) -> Result<Self, SessionsError> {
        paths::make_private(folder, 0o750)?;
        let list = |source| SessionsError::List {
            path: folder.into(),
            source,
        };
        let mut inner = Inner::default();
        for entry in std::fs::read_dir(folder).map_err(list)? {
            let path = entry.map_err(list)?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let Some(name) = name.strip_suffix(".jsonl") else {
                continue; // A marker or a temporary file of `bxcore::append`.
            };
            let id: SessionId = name
                .parse()
                .map_err(|_| SessionsError::Stranger(path.clone()))?;
            match summarise(&path)? {
                Some(summary) => drop(inner.sessions.insert(id.clone(), Session::new(id, summary))),
                // A crash before the first record: nobody was told of this session.
                None => std::fs::remove_file(&path).map_err(list)?,
            }
        }
        let mut keys: Vec<_> = inner
            .sessions
            .values()
            .filter_map(|session| {
                let summary = session.summary();
                summary
                    .first_key
                    .map(|key| (summary.started, key, session.id.clone()))
            })
            .collect();
        keys.sort();
        for (_, key, id) in keys {
            inner.remember(key, id);
        }
        Ok(Self {
            folder: folder.into(),
            inner: Mutex::new(inner),
        })
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn get(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.lock().sessions.get(id).cloned()
    }

    /// The session whose first turn had this key, or a new one.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn begin(&self, key: &str, source: &str) -> io::Result<Arc<Session>> {
        let mut inner = self.lock();
        let key = (key.to_owned(), source.to_owned());
        if let Some(found) = inner
            .first_keys
            .get(&key)
            .and_then(|id| inner.sessions.get(id))
        {
            return Ok(Arc::clone(found));
        }
        let id =
            SessionId::new(&Millis::now().date(), random::bytes()?).map_err(io::Error::other)?;
        let session = Session::new(id.clone(), Summary::default());
        inner.sessions.insert(id.clone(), Arc::clone(&session));
        inner.remember(key, id);
        Ok(session)
    }

    /// Makes sure that a session is known, now that its log has its first record.
    pub fn adopt(&self, session: &Arc<Session>, key: &str, source: &str) {
        let mut inner = self.lock();
        if !inner.sessions.contains_key(&session.id) {
            let id = session.id.clone();
            inner.sessions.insert(id.clone(), Arc::clone(session));
            inner.remember((key.into(), source.into()), id);
        }
    }

    /// Forgets a session whose first record could not be written. Only the turn that has the session's first
    /// place may: nobody else has its log open then.
    pub fn forget(&self, id: &SessionId) {
        let mut inner = self.lock();
        inner.sessions.remove(id);
        inner.first_keys.retain(|_, session| session != id);
        let _ = std::fs::remove_file(log::path_of(&self.folder, id));
    }

    #[must_use]
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.lock().sessions.values().cloned().collect()
    }

    /// The newest sessions, newest first: as many as fit one frame, which is some thousands. With how many older ones do
    /// not.
    #[must_use]
    pub fn list(&self) -> (Vec<SessionSummary>, usize) {
        let mut all: Vec<_> = self
            .all()
            .into_iter()
            .filter_map(|session| {
                let summary = session.summary();
                summary.audience.map(|_| SessionSummary {
                    session: session.id.clone(),
                    started: summary.started,
                    source: summary.source,
                    turns: summary.turns,
                    last: summary.last,
                    label: summary.label,
                    purged: summary.purged,
                })
            })
            .collect();
        all.sort_by(|a, b| b.started.cmp(&a.started));
        let mut bytes = 0;
        let fitting = all.iter().take_while(|session| {
            // One that cannot be written could not be sent either.
            bytes += serde_json::to_vec(session).map_or(LIST_BYTES_MAX, |line| line.len() + 1);
            bytes <= LIST_BYTES_MAX
        });
        let fitting = fitting.count();
        let more = all.len() - fitting;
        all.truncate(fitting);
        (all, more)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn remember(&mut self, key: (String, String), id: SessionId) {
        if self.first_keys.insert(key.clone(), id).is_none() {
            self.key_order.push_back(key);
        }
        while self.key_order.len() > FIRST_KEYS_MAX {
            if let Some(oldest) = self.key_order.pop_front() {
                self.first_keys.remove(&oldest);
            }
        }
    }
}

/// Reads a log once, a line at a time. `None`: it holds no record.
fn summarise(path: &Path) -> Result<Option<Summary>, SessionsError> {
    let mut summary = Summary::default();
    let mut file = AppendFile::open(path, LOG_MODE, |_, line| {
        let record = log::parse(line, summary.records)?;
        summary.add(&record);
        Ok(())
    })?;
    if summary.records == 0 {
        return Ok(None);
    }
    if let Some(turn) = summary.open {
        let record = Record {
            seq: summary.records + 1,
            at: Millis::now().to_string(),
            body: log::interrupted(turn),
        };
        let line = serde_json::to_string(&record).map_err(|error| OpenError::Io {
            path: path.into(),
            source: error.into(),
        })?;
        match file.append(&line) {
            Ok(_) => {
                tracing::warn!(file = %path.display(), turn, "closed a turn that was interrupted");
                summary.add(&record);
            }
            Err(error @ AppendError::Lost { .. }) => bxcore::daemon::exit_lost(&error),
            // A full disk: the session's next turn closes it.
            Err(error) => tracing::warn!("{}", bxcore::report::actionable(&error)),
        }
    }
    Ok(Some(summary))
}

#[cfg(test)]
mod tests {
    use bxwire::{Audience, links::turns::TurnEvent, log::Body};

    use super::*;

    fn sessions() -> (tempfile::TempDir, Sessions) {
        let home = tempfile::tempdir().unwrap();
        let sessions = Sessions::open(&home.path().join("sessions")).unwrap();
        (home, sessions)
    }

    #[test]
    fn one_key_is_one_session() {
        let (_home, sessions) = sessions();
        let first = sessions.begin("k", "chat").unwrap();
        assert_eq!(sessions.begin("k", "chat").unwrap().id, first.id);
        assert_ne!(sessions.begin("k", "other").unwrap().id, first.id);
        sessions.forget(&first.id);
        assert_ne!(sessions.begin("k", "chat").unwrap().id, first.id);
    }

    #[test]
    fn remembered_keys_are_bounded() {
        let (_home, sessions) = sessions();
        let first = sessions.begin("0", "chat").unwrap();
        for number in 1..=FIRST_KEYS_MAX {
            sessions.begin(&number.to_string(), "chat").unwrap();
        }
        assert_ne!(sessions.begin("0", "chat").unwrap().id, first.id);
        assert_eq!(sessions.lock().first_keys.len(), FIRST_KEYS_MAX);
    }

    #[test]
    fn a_listing_is_as_long_as_a_frame() {
        for (source, count, whole) in [("chat", 3_003, true), ("\u{10ffff}\"\\", 4_000, false)] {
            let (_home, sessions) = sessions();
            for number in 0..count {
                let session = sessions.begin(&format!("{number}"), "x").unwrap();
                let body = Body::Session {
                    session: session.id.clone(),
                    source: source.repeat(if whole { 1 } else { 33 }),
                    audience: Audience::Owner {},
                };
                let at = format!("2026-01-31T10:00:00.{number:04}Z");
                session.update(&[Record { seq: 1, at, body }]);
            }
            let (listed, more) = sessions.list();
            assert_eq!(more == 0, whole, "{}", listed.len());
            assert_eq!(listed.len() + more, count);
            assert!(listed[0].started.ends_with(&format!("{:04}Z", count - 1)));
            let event = TurnEvent::Sessions {
                sessions: listed,
                more: Some(more as u64),
            };
            let mut wire = Vec::new();
            bxwire::write_frame(&mut wire, &event).unwrap();
            assert!(whole || wire.len() > FRAME_BYTES_MAX * 99 / 100);
        }
    }
}
