//! brokerd's two files and the labels they hold. Called by every connection's thread; a label is on the disk
//! before it is said to be joined. Never keeps a lock while a tool runs.

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bxcore::{
    append::{AppendError, AppendFile, BadLine, OpenError},
    clock::Millis,
    daemon, report,
    runbook::{self, Runbook},
    sealed,
};
use bxwire::{Cause, Label, SessionId, links::session_state::SessionState};
use serde::Serialize;

use crate::{
    audit,
    labels::{self, Counts, Joined, LINE_VERSION, Labels, Record},
};

/// A label that could not be made durable. The label was raised in memory all the same.
#[derive(Debug, thiserror::Error)]
#[error("state cannot be written")]
pub struct Unwritten {
    /// The session's label now.
    pub label: Label,
}

impl Unwritten {
    pub const RUNBOOK: Runbook = runbook::APPEND_FAILED;
}

/// A line as it lies on the disk.
#[derive(Serialize)]
struct Stamped<'a> {
    v: u64,
    at: String,
    #[serde(flatten)]
    record: &'a Record,
}

/// A file of lines, and whether it takes them now.
#[derive(Debug)]
struct Lines {
    file: Mutex<AppendFile>,
    /// Why appends fail; a lock of its own, so that `status` never waits for the disk.
    outage: Mutex<Option<String>>,
}

impl Lines {
    fn new(file: AppendFile) -> Self {
        Self {
            file: Mutex::new(file),
            outage: Mutex::new(None),
        }
    }

    /// Appends, and logs when an outage starts and ends. A failed sync ends the process.
    fn append(&self, file: &mut AppendFile, line: &str) -> bool {
        let appended = file.append(line);
        let mut outage = lock(&self.outage);
        match appended {
            Ok(_) => {
                if outage.take().is_some() {
                    tracing::info!(file = %file.path().display(), "appends work again");
                }
                true
            }
            Err(error @ AppendError::Lost { .. }) => daemon::exit_lost(&error),
            Err(error @ AppendError::Full { .. }) => {
                if outage.is_none() {
                    tracing::error!("{}", report::actionable(&error));
                    *outage = Some(report::line(&error, None));
                }
                false
            }
        }
    }
}

/// Labels, their file, the audit file.
#[derive(Debug)]
pub struct Store {
    /// Its file is taken first and kept over prepare, append and commit: one change at a time.
    sessions: Lines,
    /// Taken for moments only, so that `SessionState` never waits for the disk.
    labels: Mutex<Labels>,
    audit: Lines,
}

/// Why appends fail, file by file.
#[derive(Debug, Default)]
pub struct Outage {
    pub sessions: Option<String>,
    pub audit: Option<String>,
}

impl Store {
    /// Opens both files under `folder` and takes in what they hold.
    ///
    /// # Errors
    /// Every [`OpenError`].
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        let mut labels = Labels::default();
        let mut sealed_before = false;
        let sessions = AppendFile::open(&folder.join("sessions.jsonl"), 0o600, |_, line| {
            let is_sealed = sealed::is_sealed(line);
            if sealed_before && !is_sealed {
                // Lines of an older program come first; later, somebody took the checksum away.
                return Err(BadLine::Corrupt("it has no checksum".into()));
            }
            sealed_before = is_sealed;
            labels.replay(&labels::read_line(line)?);
            Ok(())
        })?;
        let audit = AppendFile::open(&folder.join("audit.jsonl"), 0o600, |_, line| {
            audit::read_line(line).map(drop)
        })?;
        Ok(Self {
            sessions: Lines::new(sessions),
            labels: Mutex::new(labels),
            audit: Lines::new(audit),
        })
    }

    /// Joins a label into a session's and returns once that is durable.
    ///
    /// # Errors
    /// [`Unwritten`]: let nothing out that brought this label.
    pub fn join(
        &self,
        session: &SessionId,
        label: Label,
        causes: &[Cause],
    ) -> Result<Joined, Unwritten> {
        self.change(|labels| labels.join(session, label, causes))
    }

    /// Joins what somebody says of a session, which repeats what it has seen, and returns once that is durable.
    ///
    /// # Errors
    /// As [`Store::join`].
    pub fn heard(
        &self,
        session: &SessionId,
        label: Label,
        source: &str,
    ) -> Result<Joined, Unwritten> {
        self.change(|labels| labels.heard(session, label, source))
    }

    fn change(&self, change: impl FnOnce(&Labels) -> Joined) -> Result<Joined, Unwritten> {
        let mut file = lock(&self.sessions.file);
        let joined = change(&lock(&self.labels));
        if let Some(record) = &joined.record {
            let line = to_line(&Stamped {
                v: LINE_VERSION,
                at: Millis::now().to_string(),
                record,
            });
            let line = line.map(|line| sealed::seal(&line));
            if !line.is_some_and(|line| self.sessions.append(&mut file, &line)) {
                lock(&self.labels).failed(&joined);
                return Err(Unwritten {
                    label: joined.label,
                });
            }
        }
        lock(&self.labels).commit(&joined);
        Ok(joined)
    }

    /// Adds a line to the audit. `false`: it is not there; the call it is about has run already and its label
    /// is durable, so its result may leave, with a word about this.
    #[must_use]
    pub fn audit(&self, line: &audit::Line) -> bool {
        let mut file = lock(&self.audit.file);
        to_line(line).is_some_and(|line| self.audit.append(&mut file, &line))
    }

    #[must_use]
    pub fn state(&self, session: &SessionId) -> SessionState {
        lock(&self.labels).state(session)
    }

    #[must_use]
    pub fn label(&self, session: &SessionId) -> Label {
        lock(&self.labels).label(session)
    }

    /// A session's label, what raised it or would have, and how often there was no room for another.
    #[must_use]
    pub fn causes(&self, session: &SessionId) -> (Label, Vec<Cause>, u64) {
        let labels = lock(&self.labels);
        let (causes, more) = labels.causes(session);
        (labels.label(session), causes, more)
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        lock(&self.labels).counts()
    }

    #[must_use]
    pub fn outage(&self) -> Outage {
        Outage {
            sessions: lock(&self.sessions.outage).clone(),
            audit: lock(&self.audit.outage).clone(),
        }
    }
}

/// `None` cannot happen for these types; it counts as not written.
fn to_line(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_joined_is_there_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let session = SessionId::new("20260131", [3; 12]).unwrap();
        let cause = Cause {
            source: "read_file inbox/letter.txt".into(),
            label: Label::UNLABELLED,
        };
        let store = Store::open(folder.path()).unwrap();
        let _ = store.join(&session, Label::PRIVATE, &[]).unwrap();
        let causes = std::slice::from_ref(&cause);
        let joined = store.join(&session, Label::UNLABELLED, causes).unwrap();
        assert_eq!(joined.causes, causes);
        let live = lock(&store.labels).clone();
        drop(store);
        let again = Store::open(folder.path()).unwrap();
        assert_eq!(*lock(&again.labels), live);
        assert_eq!(again.causes(&session), (Label::UNLABELLED, vec![cause], 0));
    }

    #[test]
    fn nothing_is_written_when_nothing_changes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let session = SessionId::new("20260131", [3; 12]).unwrap();
        for _ in 0..3 {
            let joined = store.join(&session, Label::UNLABELLED, &[]).unwrap();
            assert_eq!(joined.label, Label::UNLABELLED);
        }
        let other = SessionId::new("20260131", [4; 12]).unwrap();
        assert!(!store.state(&other).seen);
        let text = std::fs::read_to_string(folder.path().join("sessions.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
