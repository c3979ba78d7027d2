//! One session's log while a turn writes it: its records in memory and on the disk, in that order of belief.
//! Used by `turn` and at start; what is not durable is in neither.

use std::{
    fs::OpenOptions,
    path::{Path, PathBuf},
};

use bxcore::{
    append::{self, AppendError, AppendFile, BadLine, OpenError, read_lines},
    clock::Millis,
    daemon, plain,
};
use bxwire::{
    Label, SessionId,
    log::{self, Body, Outcome, Record, session_label},
};

/// Mode of a log: a group with memoryd in it may read.
pub const LOG_MODE: u32 = 0o640;

/// A log open for writing.
#[derive(Debug)]
pub struct SessionLog {
    file: AppendFile,
    records: Vec<Record>,
}

/// Where a session's log lies.
#[must_use]
pub fn path_of(folder: &Path, session: &SessionId) -> PathBuf {
    folder.join(format!("{session}.jsonl"))
}

/// Reads a line of a log that must follow `before` records.
///
/// # Errors
/// What is wrong with it, without its text.
pub fn parse(line: &str, before: u64) -> Result<Record, BadLine> {
    let record: Record = append::typed(line, &log::TYPES)?;
    if record.seq != before + 1 {
        return Err(BadLine::Corrupt(format!(
            "its number should be {}",
            before + 1
        )));
    }
    Ok(record)
}

/// Hands each record of a log to `each`, without opening it for writing.
///
/// # Errors
/// [`OpenError`].
pub fn read(path: &Path, mut each: impl FnMut(Record)) -> Result<(), OpenError> {
    let file =
        plain::open(path, OpenOptions::new().read(true)).map_err(|source| OpenError::Io {
            path: path.into(),
            source,
        })?;
    let mut before = 0;
    read_lines(path, file, |_, line| {
        let record = parse(line, before)?;
        before = record.seq;
        each(record);
        Ok(())
    })?;
    Ok(())
}

impl SessionLog {
    /// Opens or creates a log and reads all of it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(folder: &Path, session: &SessionId) -> Result<Self, OpenError> {
        let mut records = Vec::<Record>::new();
        let file = AppendFile::open(&path_of(folder, session), LOG_MODE, |_, line| {
            records.push(parse(line, records.len() as u64)?);
            Ok(())
        })?;
        Ok(Self { file, records })
    }

    /// Adds records, all or none, and returns once they are on the disk.
    ///
    /// # Errors
    /// [`AppendError::Full`]; after a failed sync the process ends here.
    pub fn append(&mut self, bodies: Vec<Body>) -> Result<(), AppendError> {
        let at = Millis::now().to_string();
        let mut lines = Vec::new();
        let mut added = Vec::new();
        for (seq, body) in (self.records.len() as u64 + 1..).zip(bodies) {
            let record = Record {
                seq,
                at: at.clone(),
                body,
            };
            lines.push(
                serde_json::to_string(&record).map_err(|error| AppendError::Full {
                    path: self.file.path().into(),
                    source: error.into(),
                })?,
            );
            added.push(record);
        }
        match self.file.append_all(&lines) {
            Ok(_) => {}
            Err(error @ AppendError::Lost { .. }) => daemon::exit_lost(&error),
            Err(full) => return Err(full),
        }
        self.records.extend(added);
        Ok(())
    }

    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    #[must_use]
    pub fn label(&self) -> Label {
        session_label(&self.records)
    }

    /// Whether its texts were removed.
    #[must_use]
    pub fn is_purged(&self) -> bool {
        matches!(
            self.records.last().map(|record| &record.body),
            Some(Body::Purged {})
        )
    }

    /// Takes every text out of the log and says so in a last record: all at once, or not at all.
    ///
    /// # Errors
    /// [`AppendError::Full`]: the log is as it was.
    pub fn purge(&mut self) -> Result<(), AppendError> {
        let mut records = self.records.clone();
        records.iter_mut().for_each(|record| record.body.blank());
        records.push(Record {
            seq: records.len() as u64 + 1,
            at: Millis::now().to_string(),
            body: Body::Purged {},
        });
        let lines = records
            .iter()
            .map(serde_json::to_string)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| AppendError::Full {
                path: self.file.path().into(),
                source: error.into(),
            })?;
        match self.file.replace_all(&lines) {
            Ok(_) => {}
            Err(error @ AppendError::Lost { .. }) => daemon::exit_lost(&error),
            Err(full) => return Err(full),
        }
        self.records = records;
        Ok(())
    }

    /// The turn that began and has no end.
    #[must_use]
    pub fn open_turn(&self) -> Option<u64> {
        open_turn(&self.records)
    }

    /// Closes a turn that a crash or a full disk left open.
    ///
    /// # Errors
    /// [`AppendError::Full`].
    pub fn close_open_turn(&mut self) -> Result<(), AppendError> {
        match self.open_turn() {
            None => Ok(()),
            Some(turn) => self.append(vec![interrupted(turn)]),
        }
    }
}

/// The end of a turn that nobody else ended.
#[must_use]
pub fn interrupted(turn: u64) -> Body {
    Body::TurnEnd {
        turn,
        outcome: Outcome::Interrupted,
        usage: None,
        reason: Some("the daemon ended during the turn".into()),
        runbook: Some(bxcore::runbook::TURN_INTERRUPTED.anchor().into()),
    }
}

fn open_turn(records: &[Record]) -> Option<u64> {
    let mut open = None;
    for record in records {
        match &record.body {
            Body::User { turn, .. } => open = Some(*turn),
            Body::TurnEnd { .. } => open = None,
            _ => {}
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"seq":1,"at":"2026-01-31T10:00:00.000Z","type":"turn_end","turn":1,"outcome":"replied"}"#;

    #[test]
    fn a_record_of_another_program_is_newer_and_a_broken_one_corrupt() {
        assert!(parse(LINE, 0).is_ok());
        let newer = LINE.replace("turn_end", "dream");
        assert_eq!(parse(&newer, 0).unwrap_err(), BadLine::Newer);
        for broken in [
            "{",
            "{}",
            &LINE.replace("replied", "odd"),
            &LINE.replace("\"turn\":1,", ""),
        ] {
            assert!(
                matches!(parse(broken, 0), Err(BadLine::Corrupt(_))),
                "{broken}"
            );
        }
        assert!(matches!(parse(LINE, 1), Err(BadLine::Corrupt(_))), "a gap");
    }

    #[test]
    fn what_was_appended_is_there_and_an_open_turn_is_closed_once() {
        let folder = tempfile::tempdir().unwrap();
        let session = SessionId::new("20260131", [1; 12]).unwrap();
        let mut log = SessionLog::open(folder.path(), &session).unwrap();
        log.append(vec![Body::User {
            turn: 1,
            key: "k".into(),
            text: "hi".into(),
            speaker: None,
            origin: bxwire::Origin::Interactive,
            label: Label::PRIVATE,
            source: None,
        }])
        .unwrap();
        drop(log);
        let mut log = SessionLog::open(folder.path(), &session).unwrap();
        assert_eq!(log.open_turn(), Some(1));
        assert_eq!(log.label(), Label::PRIVATE);
        log.close_open_turn().unwrap();
        log.close_open_turn().unwrap();
        assert_eq!(log.records().len(), 2);
    }
}
