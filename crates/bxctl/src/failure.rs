//! How a command ends: its exit code and, when it could not be done, what it says. Every command returns
//! these; `main` alone turns them into words and a code.

use std::{io, path::PathBuf};

use bxcore::{
    config::ConfigError,
    connect::ClientError,
    daemon::{EXIT_ATTENTION, EXIT_CONFIG, EXIT_IO, EXIT_REFUSED, EXIT_UNREACHABLE, LockError},
    paths::FolderError,
    report::Actionable,
    runbook::{self, Runbook},
};

/// Wrong usage, as clap has it.
const EXIT_USAGE: u8 = 2;

/// A command that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Exit {
    Done,
    /// Done, and something needs the owner.
    Attention,
    /// Shown, and a daemon is down.
    Unreachable,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Attention => EXIT_ATTENTION,
            Self::Unreachable => EXIT_UNREACHABLE,
        }
    }

    /// `Attention` if `needed`.
    pub fn attention(needed: bool) -> Self {
        if needed { Self::Attention } else { Self::Done }
    }
}

/// A command that was not.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{daemon} cannot be reached")]
    Unreachable {
        daemon: &'static str,
        source: ClientError,
    },
    #[error("{daemon} refused")]
    Refused {
        daemon: &'static str,
        source: ClientError,
    },
    #[error("{daemon} gave an answer that does not belong to the question")]
    Answer { daemon: &'static str },
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{what}")]
    Contradiction { what: String },
    #[error("another `bxctl up` runs on this home")]
    AlreadyUp(#[source] LockError),
    #[error("{daemon} already runs on this home (pid {pid}); stop it first")]
    AlreadyRuns { daemon: &'static str, pid: u32 },
    #[error("the path of {} would be longer than {max} bytes; use a shorter --home", path.display())]
    PathTooLong { path: PathBuf, max: usize },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot start {part}")]
    Start {
        part: &'static str,
        source: io::Error,
    },
    #[error("{part} {how}")]
    Died {
        part: &'static str,
        how: String,
        code: u8,
        entry: Runbook,
    },
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
    #[error("cannot write the output")]
    Output(#[source] io::Error),
    /// Whoever read our output has gone: nothing to say, nobody to say it to.
    #[error("the reader of the output has gone")]
    Quiet,
}

impl Failure {
    pub fn of(daemon: &'static str, source: ClientError) -> Self {
        match source {
            ClientError::Refused(_) => Self::Refused { daemon, source },
            _ => Self::Unreachable { daemon, source },
        }
    }

    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    pub fn code(&self) -> u8 {
        match self {
            Self::Quiet => 0,
            Self::Usage(_) => EXIT_USAGE,
            Self::Unreachable { .. } | Self::Answer { .. } => EXIT_UNREACHABLE,
            Self::Died { code, .. } => *code,
            Self::Refused { .. } | Self::AlreadyUp(_) | Self::AlreadyRuns { .. } => EXIT_REFUSED,
            Self::Config(_) | Self::Contradiction { .. } => EXIT_CONFIG,
            Self::PathTooLong { .. }
            | Self::Folder(_)
            | Self::File { .. }
            | Self::Start { .. }
            | Self::Terminal(_)
            | Self::Output(_) => EXIT_IO,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Quiet,
            _ => Self::Output(error),
        }
    }
}

impl Actionable for Failure {
    fn runbook(&self) -> Option<Runbook> {
        match self {
            Self::Unreachable { source, .. } | Self::Refused { source, .. } => source.runbook(),
            Self::Answer { .. } => Some(runbook::WIRE_VERSION_MISMATCH),
            Self::Config(error) => error.runbook(),
            Self::Contradiction { .. } => Some(runbook::CONFIG_INVALID),
            Self::AlreadyUp(_) | Self::AlreadyRuns { .. } => Some(runbook::STATE_LOCKED),
            Self::PathTooLong { .. } => Some(runbook::SOCKET_UNUSABLE),
            Self::Folder(_) | Self::File { .. } => Some(runbook::STATE_UNUSABLE),
            Self::Start { .. } => Some(runbook::DAEMON_DOWN),
            Self::Died { entry, .. } => Some(*entry),
            Self::Usage(_) | Self::Terminal(_) | Self::Output(_) | Self::Quiet => None,
        }
    }
}
