//! The control link: loopd's status for `bxctl`. Called by `run`; changes nothing.

use bxcore::{
    listen::Connection,
    runbook::{self, Runbook},
};
use bxwire::{
    Refused,
    links::control::{Control, Notice, Reply, Request, Status},
};

use crate::daemon::Daemon;

/// Answers one client.
pub fn serve(daemon: &Daemon, mut connection: Connection<Control>) {
    while let Some(request) = connection.recv() {
        let reply = match request {
            Request::Status {} => Reply::Status(status(daemon)),
            _ => Reply::Refused(Refused::new("not-mine", "loopd answers for status only")),
        };
        if connection.send(&reply).is_err() {
            return;
        }
    }
}

fn status(daemon: &Daemon) -> Status {
    let mut notices = Vec::new();
    let mut notice = |text: &str, entry: Runbook| {
        notices.push(Notice {
            text: text.into(),
            runbook: Some(entry.anchor().into()),
        });
    };
    if daemon.cannot_append() {
        notice("session logs cannot be written", runbook::APPEND_FAILED);
    }
    let model = daemon.model();
    if let Some((words, entry)) = model.outage() {
        notice(words, entry);
    }
    if daemon.broker.is_down() {
        notice("tools are unavailable", runbook::TOOLS_UNAVAILABLE);
    }
    if daemon.memory.is_down() {
        notice("memory is unavailable", runbook::MEMORY_UNAVAILABLE);
    }
    notices.extend(daemon.reloads.notice());
    let sessions = daemon.sessions.all();
    let running = sessions
        .iter()
        .filter(|session| session.is_running())
        .count();
    Status {
        daemon: "loopd".into(),
        build: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        since: daemon.since.to_string(),
        notices,
        facts: vec![
            ("sessions".into(), sessions.len().to_string()),
            ("turns running".into(), running.to_string()),
            ("model".into(), model.url().into()),
        ],
    }
}
