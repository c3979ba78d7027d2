//! From the start to the stop: lock, control socket, signals. Called by `main`; opens no network connection.

use std::sync::Arc;

use bxcore::{
    clock::Millis,
    config::ConfigError,
    daemon::{self, LockError, STOP_MS_MAX, Signal, StateLock},
    listen::{self, Connection, ListenError},
    notify::notify,
    paths::Dirs,
    reload::Reloads,
    report::Actionable,
    runbook::{self, Runbook},
};
use bxwire::{
    Refused,
    links::control::{Control, Reply, Request, Status},
};

use crate::config;

/// The daemon's name, as its files and sockets have it.
pub const NAME: &str = "gatewayd";

/// Why it cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
}

impl Actionable for StartError {
    fn runbook(&self) -> Option<Runbook> {
        match self {
            Self::Config(error) => error.runbook(),
            Self::Lock(error) => error.runbook(),
            Self::Listen(error) => error.runbook(),
            Self::Signals(_) => Some(runbook::STATE_UNUSABLE),
        }
    }
}

/// Runs until a signal ends it.
///
/// # Errors
/// [`StartError`]; nothing was served.
pub fn run(dirs: &Dirs) -> Result<(), StartError> {
    let file = dirs.config_file(NAME);
    let config = config::load(&file)?;
    let signals = daemon::signals().map_err(StartError::Signals)?;
    let _lock = StateLock::take(&dirs.state_of(NAME))?;
    let since = Millis::now();
    let control = dirs.control_socket(NAME);
    let reloads = Arc::new(Reloads::default());
    let ours = Arc::clone(&reloads);
    let server = listen::serve::<Control>(&control, config.limits, move |connection| {
        answer(connection, since, &ours);
    })?;
    notify("READY=1");
    tracing::info!("ready; no chat server can be configured in this version");
    while let Ok(Signal::Reload) = signals.recv() {
        // The bounds are fixed once the socket is served, so this only says whether the file would be taken.
        let said = "the configuration is right; its limits count from the next start";
        reloads.ended(config::load(&file).map(|_| said));
    }
    notify("STOPPING=1");
    server.stop(STOP_MS_MAX / 2);
    tracing::info!("stopped");
    Ok(())
}

fn answer(mut connection: Connection<Control>, since: Millis, reloads: &Reloads) {
    while let Some(request) = connection.recv() {
        let reply = match request {
            Request::Status {} => Reply::Status(status(since, reloads)),
            _ => Refused::new("not-mine", "gatewayd answers only for its own status").into(),
        };
        if connection.send(&reply).is_err() {
            return;
        }
    }
}

fn status(since: Millis, reloads: &Reloads) -> Status {
    Status {
        daemon: NAME.into(),
        build: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        since: since.to_string(),
        notices: reloads.notice().into_iter().collect(),
        facts: vec![("chat servers".into(), "none configured".into())],
    }
}
