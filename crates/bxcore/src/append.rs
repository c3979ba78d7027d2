//! A file that only grows, a whole line at a time; a line counts once it is on the disk. Used for session
//! logs, broker state and audit, journal and ledger. Never guesses what a bad line meant.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read, Seek, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::{
    plain, replace,
    report::Actionable,
    runbook::{self, Runbook},
};

/// Longest line in bytes that is read back; what is written is far shorter.
pub const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Proof that lines are on the disk. Only this module makes one.
#[derive(Debug)]
pub struct Durable(());

/// What a reader says of a line it cannot take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadLine {
    /// In fixed words, without the line's text.
    Corrupt(String),
    /// Written by a newer program.
    Newer,
}

/// Why a file cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is in use by another process", path.display())]
    Locked { path: PathBuf },
    #[error("{} line {line}: {what}", path.display())]
    Corrupt {
        path: PathBuf,
        line: usize,
        what: String,
    },
    #[error("{} line {line} was written by a newer Boxmaker", path.display())]
    Newer { path: PathBuf, line: usize },
}

impl Actionable for OpenError {
    fn runbook(&self) -> Option<Runbook> {
        Some(match self {
            Self::Io { .. } => runbook::STATE_UNUSABLE,
            Self::Locked { .. } => runbook::STATE_LOCKED,
            Self::Corrupt { .. } => runbook::FILE_CORRUPT,
            Self::Newer { .. } => runbook::FILE_NEWER,
        })
    }
}

/// Why a line is not there.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Nothing was added; the next append may succeed.
    #[error("cannot append to {}", path.display())]
    Full { path: PathBuf, source: io::Error },
    /// Nobody knows what is on the disk: the process ends ([`crate::daemon::exit_lost`]).
    #[error("cannot make sure of {}", path.display())]
    Lost { path: PathBuf, source: io::Error },
}

impl Actionable for AppendError {
    fn runbook(&self) -> Option<Runbook> {
        Some(match self {
            Self::Full { .. } => runbook::APPEND_FAILED,
            Self::Lost { .. } => runbook::SYNC_FAILED,
        })
    }
}

/// An open append-only file, locked against a second writer.
#[derive(Debug)]
pub struct AppendFile {
    path: PathBuf,
    file: File,
    /// Bytes known to be whole lines.
    len: u64,
}

impl AppendFile {
    /// Opens or creates the file and hands each line to `each` with its number from 1. A torn last line is
    /// cut off and logged; a file that a failed sync left behind is written anew first.
    ///
    /// # Errors
    /// Every [`OpenError`]; nothing was changed then but a torn tail.
    pub fn open(
        path: &Path,
        mode: u32,
        each: impl FnMut(usize, &str) -> Result<(), BadLine>,
    ) -> Result<Self, OpenError> {
        let io_error = |source| OpenError::Io {
            path: path.into(),
            source,
        };
        if marker(path).exists() {
            rewrite(path, mode).map_err(io_error)?;
        }
        let existed = path.exists();
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(mode);
        let file = plain::open(path, &mut options).map_err(io_error)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::Locked { path: path.into() },
            TryLockError::Error(source) => io_error(source),
        })?;
        if !existed {
            replace::sync_directory(path).map_err(io_error)?;
        }
        let len = read_lines(path, &file, each)?;
        let found = file.metadata().map_err(io_error)?.len();
        if found > len {
            tracing::warn!(
                file = %path.display(),
                bytes = found - len,
                "cut off an unfinished last line"
            );
            file.set_len(len).map_err(io_error)?;
            file.sync_all().map_err(io_error)?;
        }
        Ok(Self {
            path: path.into(),
            file,
            len,
        })
    }

    /// Adds one line and returns once it is on the disk.
    ///
    /// # Errors
    /// See [`AppendFile::append_all`].
    pub fn append(&mut self, line: &str) -> Result<Durable, AppendError> {
        self.append_all(std::slice::from_ref(&line))
    }

    /// Adds lines in one write and one sync. A failed write is cut back, so the next append may succeed.
    ///
    /// # Errors
    /// [`AppendError::Full`]: nothing was added. [`AppendError::Lost`]: end the process.
    pub fn append_all(&mut self, lines: &[impl AsRef<str>]) -> Result<Durable, AppendError> {
        let mut bytes = Vec::new();
        for line in lines {
            debug_assert!(!line.as_ref().contains('\n'));
            bytes.extend_from_slice(line.as_ref().as_bytes());
            bytes.push(b'\n');
        }
        if let Err(source) = self.file.write_all(&bytes) {
            self.file
                .set_len(self.len)
                .map_err(|source| self.lost(source))?;
            return Err(AppendError::Full {
                path: self.path.clone(),
                source,
            });
        }
        self.file.sync_data().map_err(|source| self.lost(source))?;
        self.len += bytes.len() as u64;
        Ok(Durable(()))
    }

    /// Puts other lines in the place of all there are: a new file beside the old one, which a reader or a crash
    /// sees whole or not at all. It stays locked throughout.
    ///
    /// # Errors
    /// [`AppendError::Full`]: the old file is still there. [`AppendError::Lost`]: end the process.
    pub fn replace_all(&mut self, lines: &[impl AsRef<str>]) -> Result<Durable, AppendError> {
        let full = |source| AppendError::Full {
            path: self.path.clone(),
            source,
        };
        let mut bytes = Vec::new();
        for line in lines {
            debug_assert!(!line.as_ref().contains('\n'));
            bytes.extend_from_slice(line.as_ref().as_bytes());
            bytes.push(b'\n');
        }
        let mode = self.file.metadata().map_err(full)?.permissions().mode();
        let beside = replace::beside(&self.path);
        let file = replace::fresh(&beside, mode & 0o777).map_err(full)?;
        let written = (&file)
            .write_all(&bytes)
            .and_then(|()| file.sync_all())
            // Before it has the name, so that nobody comes between.
            .and_then(|()| file.try_lock().map_err(io::Error::from))
            .and_then(|()| fs::rename(&beside, &self.path));
        if let Err(source) = written {
            let _ = fs::remove_file(&beside);
            return Err(full(source));
        }
        self.file = file;
        self.len = bytes.len() as u64;
        replace::sync_directory(&self.path).map_err(|source| self.lost(source))?;
        Ok(Durable(()))
    }

    /// Bytes of whole lines.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the marker that has the next start write the file anew. Best effort: the disk is failing.
    fn lost(&self, source: io::Error) -> AppendError {
        let _ = File::create(marker(&self.path)).and_then(|file| file.sync_all());
        AppendError::Lost {
            path: self.path.clone(),
            source,
        }
    }
}

/// Reads whole lines and returns their bytes. An unfinished last line, or one with NUL bytes at the very end
/// (blocks that were never written), is not a line.
///
/// # Errors
/// [`OpenError::Io`], and what `each` says of a line.
pub fn read_lines(
    path: &Path,
    file: impl Read,
    mut each: impl FnMut(usize, &str) -> Result<(), BadLine>,
) -> Result<u64, OpenError> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut line = Vec::new();
    let mut whole = 0;
    let io_error = |source| OpenError::Io {
        path: path.into(),
        source,
    };
    for number in 1.. {
        line.clear();
        let read = (&mut reader)
            .take(LINE_BYTES_MAX as u64)
            .read_until(b'\n', &mut line)
            .map_err(io_error)?;
        let corrupt = |what: &str| OpenError::Corrupt {
            path: path.into(),
            line: number,
            what: what.into(),
        };
        if line.pop() != Some(b'\n') {
            if read == LINE_BYTES_MAX {
                return Err(corrupt("it is too long"));
            }
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|_| corrupt("it is not UTF-8"));
        if line.contains(&0) && reader.fill_buf().map_err(io_error)?.is_empty() {
            break;
        }
        each(number, text?).map_err(|bad| match bad {
            BadLine::Corrupt(what) => corrupt(&what),
            BadLine::Newer => OpenError::Newer {
                path: path.into(),
                line: number,
            },
        })?;
        whole += read as u64;
    }
    Ok(whole)
}

/// Reads a line that is a tagged JSON object; `types` are the tags this program knows.
///
/// # Errors
/// [`BadLine::Newer`]: another tag. [`BadLine::Corrupt`]: not such a line; its text is not repeated.
pub fn typed<T: serde::de::DeserializeOwned>(line: &str, types: &[&str]) -> Result<T, BadLine> {
    #[derive(serde::Deserialize)]
    struct Head {
        r#type: String,
    }
    serde_json::from_str(line).map_err(|_| match serde_json::from_str::<Head>(line) {
        Ok(head) if !types.contains(&head.r#type.as_str()) => BadLine::Newer,
        Ok(_) => BadLine::Corrupt("a member is missing or wrong".into()),
        Err(_) => BadLine::Corrupt("it is not a line of this file".into()),
    })
}

fn marker(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".unsynced");
    path.with_file_name(name)
}

/// After a failed sync the kernel may show lines that never reached the disk, so what it shows is written to
/// a new file before anybody believes it.
fn rewrite(path: &Path, mode: u32) -> io::Result<()> {
    if path.exists() {
        let mut bytes = Vec::new();
        let mut file = plain::open(path, OpenOptions::new().read(true))?;
        file.seek(io::SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        replace::replace(path, &bytes, mode)?;
    }
    fs::remove_file(marker(path))?;
    tracing::warn!(file = %path.display(), "written anew after a failed sync");
    replace::sync_directory(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> Result<(AppendFile, Vec<String>), OpenError> {
        let mut seen = Vec::new();
        let file = AppendFile::open(path, 0o600, |_, line| {
            if line.starts_with("bad") {
                return Err(BadLine::Corrupt("it is bad".into()));
            }
            if line.starts_with("new") {
                return Err(BadLine::Newer);
            }
            seen.push(line.to_owned());
            Ok(())
        })?;
        Ok((file, seen))
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        (folder, path)
    }

    #[test]
    fn lines_are_there_at_the_next_start() {
        let (_folder, path) = folder();
        let (mut file, seen) = lines(&path).unwrap();
        assert!(seen.is_empty());
        file.append("one").unwrap();
        file.append_all(&["two", "three"]).unwrap();
        drop(file);
        assert_eq!(lines(&path).unwrap().1, ["one", "two", "three"]);
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_the_next_line_is_whole() {
        for tail in [&b"thr"[..], b"\0\0\0\0", b"th\0\0\n"] {
            let (_folder, path) = folder();
            fs::write(&path, [&b"one\ntwo\n"[..], tail].concat()).unwrap();
            let (mut file, seen) = lines(&path).unwrap();
            assert_eq!(seen, ["one", "two"]);
            file.append("four").unwrap();
            drop(file);
            assert_eq!(lines(&path).unwrap().1, ["one", "two", "four"]);
        }
    }

    #[test]
    fn a_bad_line_stops_with_its_number_and_changes_nothing() {
        let (_folder, path) = folder();
        for (text, line) in [("one\nbad\ntwo\n", 2), ("one\nbad\n", 2)] {
            fs::write(&path, text).unwrap();
            let error = lines(&path).unwrap_err();
            assert!(matches!(&error, OpenError::Corrupt { line: at, .. } if *at == line));
            assert_eq!(error.runbook(), Some(runbook::FILE_CORRUPT));
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, "one\nnewer\n").unwrap();
        assert!(matches!(
            lines(&path),
            Err(OpenError::Newer { line: 2, .. })
        ));
    }

    #[test]
    fn a_typed_line_is_known_newer_or_corrupt() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Line {
            Seen { n: u8 },
        }
        let read = |line| typed::<Line>(line, &["seen"]);
        assert_eq!(
            read(r#"{"type":"seen","n":1,"later":2}"#),
            Ok(Line::Seen { n: 1 })
        );
        assert_eq!(read(r#"{"type":"heard"}"#), Err(BadLine::Newer));
        for bad in [r#"{"type":"seen"}"#, "{}", "nonsense", ""] {
            assert!(matches!(read(bad), Err(BadLine::Corrupt(_))), "{bad}");
        }
    }

    #[test]
    fn a_second_writer_is_refused() {
        let (_folder, path) = folder();
        let _first = lines(&path).unwrap();
        assert!(matches!(lines(&path), Err(OpenError::Locked { .. })));
    }

    #[test]
    fn a_file_left_by_a_failed_sync_is_written_anew() {
        let (_folder, path) = folder();
        fs::write(&path, "one\ntw").unwrap();
        let before = fs::metadata(&path).unwrap();
        fs::write(marker(&path), "").unwrap();
        let (_file, seen) = lines(&path).unwrap();
        assert_eq!(seen, ["one"]);
        assert!(!marker(&path).exists());
        let after = fs::metadata(&path).unwrap();
        assert_ne!(
            std::os::unix::fs::MetadataExt::ino(&before),
            std::os::unix::fs::MetadataExt::ino(&after)
        );
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let (folder, path) = folder();
        let victim = folder.path().join("victim");
        fs::write(&victim, "").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(matches!(lines(&path), Err(OpenError::Io { .. })));
    }

    #[test]
    fn all_lines_are_replaced_at_once_and_the_lock_holds() {
        let (_folder, path) = folder();
        let (mut file, _) = lines(&path).unwrap();
        file.append_all(&["one", "two"]).unwrap();
        file.replace_all(&["1", "2"]).unwrap();
        assert!(matches!(lines(&path), Err(OpenError::Locked { .. })));
        file.append("3").unwrap();
        assert_eq!(file.len(), 6);
        drop(file);
        assert_eq!(lines(&path).unwrap().1, ["1", "2", "3"]);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_replacement_that_cannot_be_made_leaves_the_old_lines() {
        let (_folder, path) = folder();
        let (mut file, _) = lines(&path).unwrap();
        file.append("one").unwrap();
        fs::create_dir(replace::beside(&path)).unwrap();
        assert!(matches!(
            file.replace_all(&["1"]),
            Err(AppendError::Full { .. })
        ));
        file.append("two").unwrap();
        drop(file);
        assert_eq!(lines(&path).unwrap().1, ["one", "two"]);
    }

    #[test]
    fn a_write_that_fails_is_cut_back() {
        let (_folder, path) = folder();
        let (mut file, _) = lines(&path).unwrap();
        file.append("one").unwrap();
        // A handle that cannot write stands in for a full disk.
        let good = std::mem::replace(&mut file.file, File::open("/dev/null").unwrap());
        assert!(matches!(
            file.append("two"),
            Err(AppendError::Full { .. } | AppendError::Lost { .. })
        ));
        file.file = good;
        file.append("three").unwrap();
        drop(file);
        assert_eq!(lines(&path).unwrap().1, ["one", "three"]);
    }
}
