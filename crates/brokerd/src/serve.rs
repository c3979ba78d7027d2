//! brokerd's three sockets: what each request is answered with. One thread a connection, and one more while a
//! call runs on it, so that a peer that hangs up ends its call.

use std::{
    sync::{Arc, PoisonError, RwLock},
    thread,
};

use bxcore::{
    clock::Millis,
    listen::{Connection, Sender},
    paths::Dirs,
    reload::Reloads,
};
use bxwire::{
    Refused,
    links::{
        control::{self, Control},
        session_state::{self, State},
        tools::{Reply, Request, Tools},
    },
};

use crate::{
    call::{self, Call},
    config::{self, Config},
    memory::Memory,
    policy::{Approvals, Policy},
    running::Running,
    status,
    store::{Store, Unwritten},
    tools,
};

/// The daemon, shared by its threads.
#[derive(Debug)]
pub struct Broker {
    pub dirs: Dirs,
    pub store: Store,
    pub running: Running,
    pub approvals: Approvals,
    pub memory: Memory,
    pub since: Millis,
    pub reloads: Reloads,
    config: RwLock<Arc<Config>>,
}

impl Broker {
    #[must_use]
    pub fn new(dirs: Dirs, store: Store, config: Config) -> Self {
        Self {
            dirs,
            store,
            running: Running::default(),
            approvals: Approvals::default(),
            memory: Memory::default(),
            since: Millis::now(),
            config: RwLock::new(Arc::new(config)),
            reloads: Reloads::default(),
        }
    }

    /// The configuration as it is now; a call keeps the one it began with.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the configuration again; one with mistakes changes nothing.
    pub fn reload(&self) {
        self.reloads.ended(config::load(&self.dirs).map(|read| {
            *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
            "took the configuration over"
        }));
    }

    /// Serves loopd.
    pub fn tools(&self, connection: Connection<Tools>) {
        let (mut requests, mut answers) = connection.split();
        let mut next = requests.recv();
        while let Some(request) = next {
            next = match request {
                Request::CallTool {
                    session,
                    turn,
                    call,
                    tool,
                    arguments,
                    label,
                    audience,
                    speaker,
                    // No tool of today sends anything anywhere.
                    owner_hosts: _,
                } => {
                    let call = Call {
                        session,
                        turn,
                        call,
                        tool,
                        arguments,
                        label,
                        audience,
                        speaker,
                    };
                    self.call(&call, &mut requests, &mut answers)
                }
                other => match answers.send(&self.answer(other)) {
                    Ok(()) => requests.recv(),
                    Err(_) => None,
                },
            };
        }
    }

    /// Runs a call while watching for a hang-up, which a closed sending half is too; gives the request after it.
    fn call(
        &self,
        call: &Call,
        requests: &mut Connection<Tools>,
        answers: &mut Sender<Tools>,
    ) -> Option<Request> {
        let Some(entry) = self.running.enter(&call.session, &call.call) else {
            let refused = Refused::new("call-running", "a call of this name runs already");
            answers.send(&refused.into()).ok()?;
            return requests.recv();
        };
        let token = Arc::clone(&entry.token);
        thread::scope(|scope| {
            let run = || {
                let reply = call::run(self, call, &entry.token, &mut |event| {
                    answers.send(&event).is_ok()
                });
                // Its name is free again before anybody can know that it has ended.
                drop(entry);
                answers.send(&reply).is_ok()
            };
            let Ok(worker) = thread::Builder::new()
                .name("call".into())
                .spawn_scoped(scope, run)
            else {
                tracing::warn!("cannot start a thread for a call");
                return None;
            };
            let next = requests.recv();
            if next.is_none() {
                token.cancel();
            }
            let sent = worker.join().unwrap_or(false);
            next.filter(|_| sent)
        })
    }

    fn answer(&self, request: Request) -> Reply {
        let not_running = || Refused::new("unknown-call", "no such call runs, or it asks nothing");
        match request {
            Request::ListTools {} => {
                let config = self.config();
                let memory = self.memory.offers(&self.dirs.memory_tools_socket());
                let (tools, digest) = tools::list(|tool| {
                    let offered = !tool.is_memorys() || memory(tool.as_str());
                    config.policy(tool) != Policy::Deny && offered
                });
                Reply::Tools { tools, digest }
            }
            Request::CancelCall { session, call } => {
                if self.running.cancel(&session, &call) {
                    Reply::Done {}
                } else {
                    not_running().into()
                }
            }
            Request::ApproveCall {
                session,
                call,
                answer,
            } => {
                if self.running.answer(&session, &call, answer) {
                    Reply::Done {}
                } else {
                    not_running().into()
                }
            }
            Request::Raise {
                session,
                label,
                cause,
            } => match self.store.join(&session, label, &[cause]) {
                Ok(_) => Reply::Done {},
                Err(error) => Refused::new("state-unwritten", error.to_string())
                    .with_runbook(Unwritten::RUNBOOK.anchor())
                    .into(),
            },
            Request::SessionCauses { session } => {
                let (label, causes, more) = self.store.causes(&session);
                Reply::Causes {
                    label,
                    causes,
                    more,
                }
            }
            // Taken care of where its events can be sent.
            Request::CallTool { .. } => Refused::new("bad-request", "not here").into(),
        }
    }

    /// Serves memoryd. Never waits for the disk or a tool.
    pub fn state(&self, mut connection: Connection<State>) {
        while let Some(session_state::Request::SessionState { session }) = connection.recv() {
            let state = self.store.state(&session);
            let reply = session_state::Reply::SessionState(state);
            if connection.send(&reply).is_err() {
                return;
            }
        }
    }

    /// Serves bxctl.
    pub fn control(&self, mut connection: Connection<Control>) {
        while let Some(request) = connection.recv() {
            let reply = match request {
                control::Request::Status {} => control::Reply::Status(status::of(self)),
                _ => Refused::new("not-mine", "brokerd does not answer this").into(),
            };
            if connection.send(&reply).is_err() {
                return;
            }
        }
    }
}
