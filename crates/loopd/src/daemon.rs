//! What every thread of loopd shares. Made by `run`; decides nothing.

use std::{
    path::Path,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use bxcore::{append::AppendError, clock::Millis, paths::Dirs, reload::Reloads, report};

use crate::{
    broker::Broker,
    config::Config,
    memory::Memory,
    model::Model,
    sessions::{Sessions, SessionsError},
};

/// The parts.
#[derive(Debug)]
pub struct Daemon {
    settings: RwLock<Settings>,
    pub sessions: Sessions,
    pub broker: Broker,
    pub memory: Memory,
    pub since: Millis,
    pub reloads: Reloads,
    stopping: AtomicBool,
    cannot_append: AtomicBool,
}

/// What SIGHUP changes.
#[derive(Debug, Clone)]
struct Settings {
    config: Arc<Config>,
    model: Arc<Model>,
}

impl Settings {
    fn of(config: Config) -> Self {
        Self {
            model: Arc::new(Model::new(config.model.clone(), config.limits.clone())),
            config: Arc::new(config),
        }
    }
}

impl Daemon {
    /// Reads every session.
    ///
    /// # Errors
    /// [`SessionsError`].
    pub fn open(dirs: &Dirs, state: &Path, config: Config) -> Result<Self, SessionsError> {
        let limits = &config.limits;
        Ok(Self {
            sessions: Sessions::open(&state.join("sessions"))?,
            broker: Broker::new(
                dirs.tools_socket(),
                limits.broker_wait_ms,
                limits.tool_silence_ms_max,
                limits.ask_memory_ms_max,
            ),
            memory: Memory::new(dirs.memory_socket(), limits.memory_wait_ms),
            since: Millis::now(),
            reloads: Reloads::default(),
            stopping: AtomicBool::new(false),
            cannot_append: AtomicBool::new(false),
            settings: RwLock::new(Settings::of(config)),
        })
    }

    /// Takes over a new configuration; turns that run keep the old one. The waits for brokerd and memoryd, and
    /// the listener's bounds, stay as they were at the start.
    pub fn reload(&self, config: Config) {
        *self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Settings::of(config);
    }

    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&settings.config)
    }

    #[must_use]
    pub fn model(&self) -> Arc<Model> {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&settings.model)
    }

    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Notes how an append went, for status; logs when failures begin and end. Only lines that are on the disk end
    /// an outage: a file that could be opened proves nothing.
    pub fn appended(&self, result: &Result<(), AppendError>) {
        match result {
            Ok(()) => {
                if self.cannot_append.swap(false, Ordering::SeqCst) {
                    tracing::info!("session logs can be written again");
                }
            }
            Err(error) => self.append_failed(|| report::actionable(error)),
        }
    }

    /// Notes that a log could not be written; `why` is logged once an outage.
    pub fn append_failed(&self, why: impl FnOnce() -> String) {
        if !self.cannot_append.swap(true, Ordering::SeqCst) {
            tracing::error!("{}", why());
        }
    }

    #[must_use]
    pub fn cannot_append(&self) -> bool {
        self.cannot_append.load(Ordering::SeqCst)
    }
}
