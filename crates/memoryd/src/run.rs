//! memoryd from start to stop: configuration, lock, store, index, sockets, threads. Called by `main` alone.

use std::{
    io,
    process::ExitCode,
    sync::{Arc, atomic::Ordering, mpsc::Receiver},
    thread,
    time::{Duration, Instant},
};

use bxcore::{
    config::ConfigError,
    daemon::{self, Signal, StateLock},
    http,
    listen::{self, ListenError, Server},
    notify,
    paths::{Dirs, make_private},
    report::{self, Actionable},
    runbook::{self, Runbook},
    secrets::SecretError,
};
use bxwire::links::{control::Control, memory::Memory, memory_tools::MemoryTools};

use crate::{
    config::{Config, Keys},
    fleet::service::{Fleet, ReadKeys},
    hooks::{NoHoncho, SyncHooks},
    index::Index,
    knowledge::{Knowledge, context::Context, tool::Facts},
    logs::Logs,
    service::Service,
    store::Store,
    sync::{
        config::Role,
        handle,
        hooks::WithHoncho,
        worker::{self, Parts},
    },
};

/// This daemon's name.
pub const NAME: &str = "memoryd";
/// How long a stop waits for requests in hand.
const DRAIN_MS_MAX: Duration = Duration::from_secs(2);

/// Why memoryd does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Roots(#[from] http::NoRoots),
    #[error(transparent)]
    Lock(#[from] daemon::LockError),
    #[error(transparent)]
    Folder(#[from] bxcore::paths::FolderError),
    #[error(transparent)]
    Journal(#[from] bxcore::append::OpenError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Sync(#[from] handle::StartError),
    #[error("cannot start a thread or listen for signals")]
    System(#[source] io::Error),
}

impl Actionable for StartError {
    fn runbook(&self) -> Option<Runbook> {
        match self {
            Self::Config(error) => error.runbook(),
            Self::Secret(error) => error.runbook(),
            Self::Roots(_) => Some(http::NoRoots::RUNBOOK),
            Self::Lock(error) => error.runbook(),
            Self::Folder(error) => error.runbook(),
            Self::Journal(error) => error.runbook(),
            Self::Listen(error) => error.runbook(),
            Self::Sync(error) => error.runbook(),
            Self::System(_) => Some(runbook::STATE_UNUSABLE),
        }
    }
}

/// Runs until a signal ends it.
#[must_use]
pub fn run(dirs: &Dirs) -> ExitCode {
    match start(dirs).and_then(|running| running.until_stopped(dirs)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => daemon::failed(&error),
    }
}

struct Running {
    service: Arc<Service>,
    servers: Vec<Server>,
    indexing: thread::JoinHandle<()>,
    signals: Receiver<Signal>,
    _lock: StateLock,
}

fn start(dirs: &Dirs) -> Result<Running, StartError> {
    let signals = daemon::signals().map_err(StartError::System)?;
    let config = Config::load(&dirs.config_file(NAME))?;
    let keys = keys(&config)?;
    let folder = dirs.state_of(NAME);
    if !folder.exists() {
        make_private(&folder, 0o700)?;
    }
    let lock = StateLock::take(&folder)?;
    let store = Arc::new(Store::open(&folder, config.rules.clone(), keys.refuser())?);
    let logs = Logs::new(dirs.state_of("loopd").join("sessions"));
    let (hooks, fleet, knowledge) = honcho(dirs, &config, keys, &store, &logs)?;
    let index = Index::at(&folder.join("index.sqlite"));
    let (service, woken) = Service::new(store, index, hooks, fleet, knowledge, logs, config.recall);
    let service = Arc::new(service);
    let indexing = {
        let service = Arc::clone(&service);
        thread::Builder::new()
            .name("index".into())
            .spawn(move || keep_up(&service, &woken))
            .map_err(StartError::System)?
    };
    service.wake();
    let servers = serve(dirs, config.listen, &service)?;
    notify::notify("READY=1");
    tracing::info!("ready");
    Ok(Running {
        service,
        servers,
        indexing,
        signals,
        _lock: lock,
    })
}

/// The Honcho half: with `[honcho]` the sync worker and those who read, else nothing.
fn honcho(
    dirs: &Dirs,
    config: &Config,
    keys: Keys,
    store: &Arc<Store>,
    logs: &Logs,
) -> Result<(Arc<dyn SyncHooks>, Fleet, Knowledge), StartError> {
    let Some(honcho) = config.honcho.clone() else {
        let hooks = NoHoncho {
            store: Arc::clone(store),
            logs: logs.clone(),
        };
        return Ok((Arc::new(hooks), Fleet::none(), Knowledge::none()));
    };
    http::ready(&honcho.url)?;
    let reading = honcho.clone();
    let read_keys = ReadKeys {
        own: keys.workspaces.clone(),
        readers: keys.readers.clone(),
    };
    let handle = worker::start(Parts {
        config: honcho,
        refuser: keys.refuser(),
        keys: keys.workspaces,
        store: Arc::clone(store),
        logs: logs.clone(),
        ledger: dirs.state_of(NAME).join("honcho.jsonl"),
        broker: dirs.state_socket(),
    })?;
    let key = read_keys.own.get(&Role::Trusted);
    let context = Context::start(
        &reading,
        key,
        Arc::clone(store),
        logs.clone(),
        dirs.state_socket(),
        handle.sessions(),
    );
    let knowledge = Knowledge {
        context: context.map_err(StartError::System)?,
        facts: Facts::new(&reading, key),
    };
    let fleet = Fleet::start(reading, &read_keys, handle.installation.clone())
        .map_err(StartError::System)?;
    let file = dirs.config_file(NAME);
    let read = move || {
        let config = Config::load(&file).map_err(StartError::from);
        let keys = config.and_then(|config| self::keys(&config));
        let keys = keys.map_err(|error| report::actionable(&error))?;
        let refuser = keys.refuser();
        Ok((keys.workspaces, refuser))
    };
    let hooks = WithHoncho {
        keys: Box::new(read),
        handle,
        ledger: dirs.state_of(NAME).join("honcho.jsonl"),
        store: Arc::clone(store),
        logs: logs.clone(),
    };
    Ok((Arc::new(hooks), fleet, knowledge))
}

/// The configured keys. None of them is ever kept as memory.
fn keys(config: &Config) -> Result<Keys, StartError> {
    let keys = config.load_keys()?;
    let skipped = keys.refuser().own_keys_skipped();
    if skipped > 0 {
        tracing::warn!(
            count = skipped,
            "configured keys are too short to be looked for in texts"
        );
    }
    Ok(keys)
}

/// The indexing thread: waits to be woken, brings the index up to date, ends with the service.
fn keep_up(service: &Service, woken: &Receiver<()>) {
    while woken.recv().is_ok() && !service.stopping.load(Ordering::SeqCst) {
        service.catch_up();
    }
}

fn serve(
    dirs: &Dirs,
    limits: listen::Limits,
    service: &Arc<Service>,
) -> Result<Vec<Server>, ListenError> {
    let mut servers = Vec::new();
    let ours = Arc::clone(service);
    servers.push(listen::serve::<Memory>(
        &dirs.memory_socket(),
        limits,
        move |mut connection| {
            ours.loopd_connected();
            while let Some(request) = connection.recv() {
                if connection.send(&ours.memory(request)).is_err() {
                    return;
                }
            }
        },
    )?);
    let ours = Arc::clone(service);
    servers.push(listen::serve::<MemoryTools>(
        &dirs.memory_tools_socket(),
        limits,
        move |mut connection| {
            while let Some(request) = connection.recv() {
                let reply = ours.tool(request, &mut |progress| connection.send(&progress).is_ok());
                if connection.send(&reply).is_err() {
                    return;
                }
            }
        },
    )?);
    let ours = Arc::clone(service);
    servers.push(listen::serve::<Control>(
        &dirs.control_socket(NAME),
        limits,
        move |mut connection| {
            while let Some(request) = connection.recv() {
                let reply = ours.control(request, &|| connection.is_there());
                if connection.send(&reply).is_err() {
                    return;
                }
            }
        },
    )?);
    Ok(servers)
}

impl Running {
    fn until_stopped(self, dirs: &Dirs) -> Result<(), StartError> {
        while let Ok(signal) = self.signals.recv() {
            match signal {
                Signal::Stop => break,
                Signal::Reload => reload(dirs, &self.service),
            }
        }
        notify::notify("STOPPING=1");
        self.service.stop_indexing();
        let deadline = Instant::now() + DRAIN_MS_MAX;
        for server in self.servers {
            server.stop(deadline.saturating_duration_since(Instant::now()));
        }
        self.service.hooks.stop();
        self.service.fleet.stop();
        // It ends between two sessions; a very long log is left where it is.
        while !self.indexing.is_finished() && Instant::now() < deadline {
            thread::park_timeout(Duration::from_millis(2));
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// SIGHUP: a wrong configuration changes nothing.
fn reload(dirs: &Dirs, service: &Service) {
    let read = Config::load(&dirs.config_file(NAME))
        .map_err(StartError::from)
        .and_then(|config| Ok((keys(&config)?, config)));
    service.reloads.ended(read.map(|(keys, config)| {
        service.configure(&config, &keys);
        "configuration read again"
    }));
}
