//! Stand-ins for brokerd and memoryd that note every request. Used by `world`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bxcore::listen::Connection;
use bxwire::{
    Audience, Cause, Class, Label, SessionId, Trust,
    links::{
        memory::{self, Memory},
        tools::{self, CallOutcome, Tool, Tools},
    },
};
use model_local::Gate;

/// What the fake brokerd was asked and answers.
#[derive(Default)]
pub struct Broker {
    state: Mutex<BrokerState>,
}

#[derive(Default)]
pub struct BrokerState {
    pub tools: Vec<Tool>,
    pub calls: Vec<tools::Request>,
    pub raises: Vec<(SessionId, Label, Cause)>,
    pub approvals: Vec<tools::Request>,
    pub cancels: usize,
    pub label: Label,
    pub causes: Vec<Cause>,
    pub behaviour: Behave,
}

/// What a call gets.
#[derive(Clone, Default)]
pub enum Behave {
    #[default]
    Echo,
    Result(CallOutcome, String, Label),
    /// Closes the connection instead of answering.
    Vanish,
    /// Waits until it is cancelled.
    Hang(Gate),
    /// Asks for approval, and waits for it.
    Ask,
    /// Says how it goes for as long as somebody listens.
    Chatter,
}

/// What the fake memoryd was asked and answers.
#[derive(Default)]
pub struct Mem {
    state: Mutex<MemState>,
}

#[derive(Default)]
pub struct MemState {
    pub identity: String,
    pub owner_changes: u64,
    pub context: Option<(String, Label)>,
    /// What was asked before each turn.
    pub before: Vec<memory::Before>,
    pub notices: Vec<String>,
    pub updates: Vec<u64>,
    pub audiences: Vec<Audience>,
    pub commands: Vec<memory::Request>,
}

impl Broker {
    pub fn lock(&self) -> MutexGuard<'_, BrokerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn serve(&self, mut connection: Connection<Tools>) {
        while let Some(request) = connection.recv() {
            let reply = match request {
                tools::Request::ListTools {} => tools::Reply::Tools {
                    tools: self.lock().tools.clone(),
                    digest: "d".into(),
                },
                tools::Request::Raise {
                    session,
                    label,
                    cause,
                } => {
                    self.lock().raises.push((session, label, cause));
                    tools::Reply::Done {}
                }
                tools::Request::CancelCall { .. } => {
                    self.lock().cancels += 1;
                    tools::Reply::Done {}
                }
                request @ tools::Request::ApproveCall { .. } => {
                    self.lock().approvals.push(request);
                    tools::Reply::Done {}
                }
                tools::Request::SessionCauses { .. } => {
                    let state = self.lock();
                    tools::Reply::Causes {
                        label: state.label,
                        causes: state.causes.clone(),
                        more: 0,
                    }
                }
                request @ tools::Request::CallTool { .. } => {
                    match self.call(request, &mut connection) {
                        Some(reply) => reply,
                        None => return,
                    }
                }
            };
            if connection.send(&reply).is_err() {
                return;
            }
        }
    }

    fn call(
        &self,
        request: tools::Request,
        connection: &mut Connection<Tools>,
    ) -> Option<tools::Reply> {
        let tools::Request::CallTool {
            call,
            tool,
            arguments,
            ..
        } = request.clone()
        else {
            return None;
        };
        let behaviour = {
            let mut state = self.lock();
            state.calls.push(request);
            state.behaviour.clone()
        };
        let result = |outcome, text: String, label: Label| {
            Some(tools::Reply::Result {
                outcome,
                text,
                label,
                session_label: label,
                causes: Vec::new(),
            })
        };
        match behaviour {
            Behave::Echo => result(
                CallOutcome::Done,
                format!("{tool} {arguments}"),
                Label::PRIVATE,
            ),
            Behave::Result(outcome, text, label) => Some(tools::Reply::Result {
                outcome,
                text,
                label,
                session_label: label,
                causes: self.lock().causes.clone(),
            }),
            Behave::Vanish => None,
            Behave::Hang(gate) => {
                gate.open();
                bxtest::wait_for("a cancellation", || (self.lock().cancels > 0).then_some(()));
                result(CallOutcome::Cancelled, "cancelled".into(), Label::default())
            }
            Behave::Chatter => {
                let text = "still asking".to_owned();
                let progress = tools::Reply::Progress { text };
                while connection.send(&progress).is_ok() {
                    std::thread::park_timeout(std::time::Duration::from_millis(2));
                }
                None
            }
            Behave::Ask => {
                let what = "run it?".into();
                connection
                    .send(&tools::Reply::Approval { call, what })
                    .ok()?;
                bxtest::wait_for("an approval", || {
                    (!self.lock().approvals.is_empty()).then_some(())
                });
                result(CallOutcome::Done, "approved".into(), Label::PRIVATE)
            }
        }
    }
}

impl Mem {
    pub fn lock(&self) -> MutexGuard<'_, MemState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn serve(&self, mut connection: Connection<Memory>) {
        while let Some(request) = connection.recv() {
            let mut state = self.lock();
            let reply = match request {
                memory::Request::Identity { audience } => {
                    state.audiences.push(audience);
                    memory::Reply::Identity {
                        text: state.identity.clone(),
                        label: Label::new(Class::Private.min(audience.class_max()), Trust::Trusted),
                        digest: "d".into(),
                        owner_changes: state.owner_changes,
                    }
                }
                memory::Request::Context(before) => {
                    state.before.push(before);
                    let (text, label) = state.context.clone().unwrap_or_default();
                    memory::Reply::Context { text, label }
                }
                memory::Request::SessionUpdated { turn, .. } => {
                    state.updates.push(turn);
                    memory::Reply::Updated {
                        notices: state.notices.clone(),
                    }
                }
                request @ memory::Request::OwnerCommand { .. } => {
                    state.commands.push(request);
                    memory::Reply::Answer {
                        text: "undone".into(),
                    }
                }
            };
            drop(state);
            if connection.send(&reply).is_err() {
                return;
            }
        }
    }
}
