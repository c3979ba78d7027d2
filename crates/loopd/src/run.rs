//! The daemon from its start to its end: files, sockets, signals. Called by `main`; decides nothing about
//! turns.

use std::{io, process::ExitCode, sync::Arc};

use bxcore::{
    daemon::{self, STOP_MS_MAX, Signal, StateLock},
    listen::{self, ListenError},
    notify::notify,
    paths::Dirs,
    report::Actionable,
    runbook::{self, Runbook},
};

use crate::{
    cancel::Reason,
    config::{Config, LoadError},
    control,
    daemon::Daemon,
    serve,
    sessions::SessionsError,
};

/// Why the daemon does not run.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Lock(#[from] daemon::LockError),
    #[error(transparent)]
    Sessions(#[from] SessionsError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot listen for signals")]
    Signals(#[from] io::Error),
}

impl Actionable for RunError {
    fn runbook(&self) -> Option<Runbook> {
        match self {
            Self::Load(error) => error.runbook(),
            Self::Lock(error) => error.runbook(),
            Self::Sessions(error) => error.runbook(),
            Self::Listen(error) => error.runbook(),
            Self::Signals(_) => Some(runbook::STATE_UNUSABLE),
        }
    }
}

/// Runs until a signal ends it.
#[must_use]
pub fn run(dirs: &Dirs) -> ExitCode {
    match start(dirs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => daemon::failed(&error),
    }
}

fn start(dirs: &Dirs) -> Result<(), RunError> {
    let signals = daemon::signals()?;
    let file = dirs.config_file("loopd");
    let config = Config::load(&file)?;
    let state = dirs.state_of("loopd");
    let _lock = StateLock::take(&state)?;
    let limits = config.listen;
    let daemon = Arc::new(Daemon::open(dirs, &state, config)?);
    let turns = {
        let daemon = Arc::clone(&daemon);
        listen::serve(&dirs.turns_socket(), limits, move |connection| {
            serve::serve(&daemon, connection);
        })?
    };
    let control = {
        let daemon = Arc::clone(&daemon);
        listen::serve(&dirs.control_socket("loopd"), limits, move |connection| {
            control::serve(&daemon, connection);
        })?
    };
    let sessions = daemon.sessions.all();
    if sessions.iter().any(|session| session.summary().purged) {
        daemon.memory.greet();
    }
    notify("READY=1");
    tracing::info!(sessions = daemon.sessions.all().len(), "ready");
    while let Ok(Signal::Reload) = signals.recv() {
        let read = Config::load(&file);
        daemon.reloads.ended(read.map(|config| {
            daemon.reload(config);
            "read the configuration again"
        }));
    }
    notify("STOPPING=1");
    daemon.stop();
    for session in daemon.sessions.all() {
        session.stop_all(Reason::Stopping);
    }
    let patience = STOP_MS_MAX.mul_f32(0.8);
    turns.stop(patience);
    control.stop(STOP_MS_MAX - patience);
    tracing::info!("stopped");
    Ok(())
}
