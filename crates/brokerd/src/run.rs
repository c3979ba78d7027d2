//! Starts brokerd, waits for signals, and stops it within [`daemon::STOP_MS_MAX`].

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use bxcore::{
    daemon::{self, EXIT_IO, STOP_MS_MAX, Signal, StateLock},
    listen, notify,
    paths::{DaemonArgs, Dirs},
    report::Actionable,
};

use crate::{config, serve::Broker, store::Store};

/// What is left of a stop for the last lines and the exit.
const STOP_RESERVE_MS: Duration = Duration::from_millis(500);

/// Runs the daemon to its end.
#[must_use]
pub fn run(arguments: &DaemonArgs) -> ExitCode {
    daemon::start_logging();
    daemon::end_on_panic();
    match serve(Dirs::of_daemon(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

fn failed<E: Actionable + 'static>(error: E) -> ExitCode {
    daemon::failed(&error)
}

fn serve(dirs: Dirs) -> Result<(), ExitCode> {
    let signals = daemon::signals().map_err(|error| {
        tracing::error!(%error, "cannot listen for signals");
        ExitCode::from(EXIT_IO)
    })?;
    let config = config::load(&dirs).map_err(failed)?;
    let limits = config.limits.listen;
    let folder = dirs.state_of("brokerd");
    let _lock = StateLock::take(&folder).map_err(failed)?;
    let store = Store::open(&folder).map_err(failed)?;
    let broker = Arc::new(Broker::new(dirs, store, config));

    let (tools, state, control) = (broker.clone(), broker.clone(), broker.clone());
    let dirs = &broker.dirs;
    let servers = [
        listen::serve(&dirs.tools_socket(), limits, move |peer| tools.tools(peer)),
        listen::serve(&dirs.state_socket(), limits, move |peer| state.state(peer)),
        listen::serve(&dirs.control_socket("brokerd"), limits, move |peer| {
            control.control(peer);
        }),
    ];
    let (servers, errors): (Vec<_>, Vec<_>) = servers.into_iter().partition(Result::is_ok);
    let servers = servers.into_iter().flatten();
    if let Some(Err(error)) = errors.into_iter().next() {
        servers.for_each(|server| server.stop(Duration::ZERO));
        return Err(failed(error));
    }
    notify::notify("READY=1");
    tracing::info!(sessions = broker.store.counts().seen, "ready");

    while let Ok(Signal::Reload) = signals.recv() {
        broker.reload();
    }
    notify::notify("STOPPING=1");
    let end = Instant::now() + STOP_MS_MAX.saturating_sub(STOP_RESERVE_MS);
    broker.running.stop();
    for server in servers {
        server.stop(end.saturating_duration_since(Instant::now()));
    }
    tracing::info!("stopped");
    Ok(())
}
