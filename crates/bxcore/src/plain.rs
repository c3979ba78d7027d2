//! Opens a file of the state, and nothing that only has its name: a link is not followed, a file that has another
//! name too is not touched, and a FIFO or a device neither holds up a start nor is written to. Used by `append`, `daemon`,
//! and whoever reads a session's log.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

/// Opens as `options` say.
///
/// # Errors
/// Any I/O error, and what is there being no plain file, or one that is somewhere else as well.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Without NONBLOCK, opening a FIFO waits until somebody opens its other end. A plain file knows no waiting.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let not_plain = || Err(io::Error::other("it is not a plain file"));
    match options.custom_flags(flags).open(path) {
        Ok(file) => match file.metadata()? {
            found if !found.is_file() => not_plain(),
            // Its unfinished last line would be cut off, and lines added, there too.
            found if found.nlink() > 1 => Err(io::Error::other("it has another name too")),
            _ => Ok(file),
        },
        // A socket, or a FIFO that nobody reads.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => not_plain(),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt, sync::mpsc};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::{
        append::{AppendFile, OpenError},
        daemon::{LockError, StateLock},
        report::{Actionable, actionable},
        runbook,
    };

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        folder
    }

    /// What `open` comes to at a FIFO nobody else has opened; it may not wait.
    fn at_fifo<T: Send + 'static>(name: &str, open: impl FnOnce(&Path) -> T + Send + 'static) -> T {
        let folder = folder();
        let path = folder.path().join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (sender, opened) = mpsc::channel();
        std::thread::spawn(move || sender.send(open(&path)));
        opened
            .recv_timeout(std::time::Duration::from_secs(10))
            .expect("the start hangs")
    }

    #[test]
    fn a_fifo_is_no_file_to_append_to() {
        let error = at_fifo("lines.jsonl", |path| {
            AppendFile::open(path, 0o600, |_, _| Ok(())).unwrap_err()
        });
        assert!(matches!(error, OpenError::Io { .. }));
        assert!(actionable(&error).contains("not a plain file"));
        assert_eq!(error.runbook(), Some(runbook::STATE_UNUSABLE));
    }

    #[test]
    fn a_fifo_left_by_a_failed_sync_is_not_read() {
        let error = at_fifo("lines.jsonl", |path| {
            std::fs::write(path.with_file_name("lines.jsonl.unsynced"), "").unwrap();
            AppendFile::open(path, 0o600, |_, _| Ok(())).unwrap_err()
        });
        assert!(actionable(&error).contains("not a plain file"));
    }

    #[test]
    fn a_file_with_another_name_is_left_as_it_is() {
        let folder = folder();
        let (victim, path) = (folder.path().join("victim"), folder.path().join("lines"));
        std::fs::write(&victim, "without an end").unwrap();
        std::fs::hard_link(&victim, &path).unwrap();
        let error = AppendFile::open(&path, 0o600, |_, _| Ok(())).unwrap_err();
        assert!(actionable(&error).contains("another name"), "{error:?}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "without an end");
    }

    #[test]
    fn a_fifo_or_a_link_is_no_lock() {
        let error = at_fifo("lock", |path| {
            StateLock::take(path.parent().unwrap()).unwrap_err()
        });
        assert!(matches!(error, LockError::Io { .. }), "{error:?}");
        assert!(actionable(&error).contains("not a plain file"));
        assert_eq!(error.runbook(), Some(runbook::STATE_UNUSABLE));

        let folder = folder();
        let victim = folder.path().join("victim");
        std::os::unix::fs::symlink(&victim, folder.path().join("lock")).unwrap();
        assert!(StateLock::take(folder.path()).is_err());
        assert!(!victim.exists());
    }
}
