//! The shell around every daemon: logging, panics, signals, the lock on its state, its last words.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ},
    iterator::Signals,
};
use tracing_subscriber::{
    filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{
    paths::{FolderError, make_private},
    plain,
    report::{self, Actionable},
    runbook::{self, Runbook},
};

/// How long a stop may take, from signal to exit.
pub const STOP_MS_MAX: Duration = Duration::from_secs(5);

/// Done, but something needs the owner.
pub const EXIT_ATTENTION: u8 = 1;
/// A daemon cannot be reached (`EX_UNAVAILABLE`).
pub const EXIT_UNREACHABLE: u8 = 69;
/// A panic (`EX_SOFTWARE`).
pub const EXIT_PANIC: i32 = 70;
/// The state cannot be used (`EX_IOERR`).
pub const EXIT_IO: u8 = 74;
/// Refused (`EX_NOPERM`).
pub const EXIT_REFUSED: u8 = 77;
/// The configuration is wrong (`EX_CONFIG`); systemd does not restart on it.
pub const EXIT_CONFIG: u8 = 78;

/// What the system asks of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Stop,
    Reload,
}

/// Starts logging to stderr, filtered by `$BOXMAKER_LOG` (for example `info,memoryd=debug`).
pub fn start_logging() {
    let wanted = std::env::var("BOXMAKER_LOG").unwrap_or_else(|_| "info".into());
    let (filter, bad) = match wanted.parse::<Targets>() {
        Ok(filter) => (filter, false),
        Err(_) => (Targets::new().with_default(tracing::Level::INFO), true),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false);
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .try_init();
    if bad {
        tracing::warn!("BOXMAKER_LOG is not a filter such as info,memoryd=debug; using info");
    }
}

/// Has a panic end the process, saying where and never with what: the message may hold text from outside. A
/// daemon with one dead thread is worse than a restart.
pub fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or_else(String::new, |at| format!("{}:{}", at.file(), at.line()));
        tracing::error!(%place, "ended by a bug; see {}", runbook::DAEMON_PANICKED);
        std::process::exit(EXIT_PANIC);
    }));
}

/// Ends the process after a failed sync: nobody knows what is on the disk.
pub fn exit_lost(error: &(impl Actionable + 'static)) -> ! {
    tracing::error!("{}", report::actionable(error));
    std::process::exit(i32::from(EXIT_IO));
}

/// Logs the last error of a daemon that cannot start and gives its exit code.
pub fn failed(error: &(impl Actionable + 'static)) -> ExitCode {
    tracing::error!("{}", report::actionable(error));
    let code = match error.runbook() {
        Some(
            runbook::CONFIG_INVALID
            | runbook::HONCHO_CONFIG_INVALID
            | runbook::SECRET_UNAVAILABLE
            | runbook::CERTIFICATES_UNREADABLE
            | runbook::ROOT_REFUSED,
        ) => EXIT_CONFIG,
        _ => EXIT_IO,
    };
    ExitCode::from(code)
}

/// Turns signals into values. A second stop ends the process at once. The signal that a file has reached its size
/// limit is taken and dropped: the write fails as on a full disk, rather than end the process without a word.
///
/// # Errors
/// When the system does not let us listen.
pub fn signals() -> io::Result<Receiver<Signal>> {
    let (sender, receiver) = sync_channel(8);
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGXFSZ])?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut stopping = false;
            for signal in signals.forever() {
                let signal = match signal {
                    SIGXFSZ => continue,
                    SIGHUP => Signal::Reload,
                    _ if stopping => std::process::exit(1),
                    _ => {
                        stopping = true;
                        Signal::Stop
                    }
                };
                // A full queue of reloads loses nothing: one of them is still to come.
                let _ = sender.try_send(signal);
            }
        })?;
    Ok(receiver)
}

/// The lock that keeps a second daemon off a state folder. Held as long as it lives.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
}

/// A state folder that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("another process uses {}", .0.display())]
    Held(PathBuf),
    #[error("cannot lock {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Actionable for LockError {
    fn runbook(&self) -> Option<Runbook> {
        Some(match self {
            Self::Held(_) => runbook::STATE_LOCKED,
            Self::Folder(_) | Self::Io { .. } => runbook::STATE_UNUSABLE,
        })
    }
}

impl StateLock {
    /// Makes the folder if need be and takes it.
    ///
    /// # Errors
    /// Every [`LockError`].
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        make_private(folder, 0o750)?;
        let path = folder.join("lock");
        let failed = |source| LockError::Io {
            path: path.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = plain::open(&path, &mut options).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held(folder.into())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}
