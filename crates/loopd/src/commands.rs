//! What a client may ask for besides turns: stop one, answer an approval, an owner's command, a label. Called
//! by `serve`; commands are for the owner alone.

use bxcore::{
    connect::ClientError,
    report::Actionable,
    runbook::{self, Runbook},
};
use bxwire::{
    CallId, Cause, Refused, SessionId, Speaker,
    links::{
        memory,
        turns::{Answer, TurnEvent},
    },
};

use crate::{cancel::Reason, daemon::Daemon, serve::find};

type Answered = Result<TurnEvent, Refused>;

/// Stops the turn that runs; nothing happens when none does.
///
/// # Errors
/// The refusal to send.
pub fn cancel(daemon: &Daemon, session: &SessionId) -> Answered {
    find(daemon, session)?.stop(Reason::Client);
    Ok(TurnEvent::Done {})
}

/// Passes the owner's answer on to brokerd.
///
/// # Errors
/// The refusal to send.
pub fn approve(daemon: &Daemon, session: &SessionId, call: &CallId, answer: Answer) -> Answered {
    find(daemon, session)?;
    let approved = daemon.broker.approve(session, call, answer);
    approved
        .map(|()| TurnEvent::Done {})
        .map_err(|error| refusal(error, runbook::TOOLS_UNAVAILABLE))
}

/// Carries out an owner's command.
///
/// # Errors
/// The refusal to send.
pub fn command(
    daemon: &Daemon,
    session: &SessionId,
    speaker: Option<Speaker>,
    name: &str,
    arguments: Vec<String>,
) -> Answered {
    if !daemon.config().is_owner(speaker.as_ref()) {
        return Err(Refused::new("not-owner", "only the owner gives commands"));
    }
    let found = find(daemon, session)?;
    let text = match name {
        "new" => "The next message starts a new session.".into(),
        "stop" if found.stop(Reason::Client) => "Stopped.".into(),
        "stop" => "Nothing runs in this session.".into(),
        "status" => status(daemon, session)?,
        "approve" => {
            let (call, answer) = approval(&arguments)?;
            approve(daemon, session, &call, answer)?;
            "Done.".into()
        }
        "why" | "undo" | "forget" => {
            let request = memory::Request::OwnerCommand {
                session: session.clone(),
                speaker,
                name: name.into(),
                arguments,
            };
            match daemon.memory.command(&request) {
                Ok(memory::Reply::Answer { text }) => text,
                Ok(_) => {
                    return Err(Refused::new(
                        "bad-answer",
                        "memoryd gave an answer to another question",
                    ));
                }
                Err(error) => return Err(refusal(error, runbook::MEMORY_UNAVAILABLE)),
            }
        }
        _ => {
            return Err(Refused::new(
                "unknown-command",
                "the commands are new, stop, status, why, undo, forget and approve",
            ));
        }
    };
    Ok(TurnEvent::Answer { text })
}

/// loopd's and brokerd's word on a session, joined.
///
/// # Errors
/// The refusal to send: half of the answer would look like a lower label.
pub fn label(daemon: &Daemon, session: &SessionId) -> Answered {
    let ours = find(daemon, session)?.summary().label;
    let (theirs, mut causes, more) = match daemon.broker.causes(session) {
        Ok(said) => said,
        // It answered, and has never heard of the session.
        Err(ClientError::Refused(refused)) if refused.kind == "unknown-session" => {
            (ours, Vec::new(), 0)
        }
        Err(error) => return Err(refusal(error, runbook::TOOLS_UNAVAILABLE)),
    };
    if !theirs.covers(ours) {
        causes.push(Cause {
            source: "the session's log".into(),
            label: ours,
        });
    }
    Ok(TurnEvent::SessionLabel {
        session: session.clone(),
        label: ours.join(theirs),
        causes,
        more,
    })
}

fn status(daemon: &Daemon, session: &SessionId) -> Result<String, Refused> {
    let found = find(daemon, session)?;
    let summary = found.summary();
    let mut lines = vec![format!(
        "Session {session}: {} turns, {}{}.",
        summary.turns,
        summary.label,
        if found.is_running() {
            ", a turn runs"
        } else {
            ""
        }
    )];
    if let Some((words, entry)) = daemon.model().outage() {
        lines.push(format!("Model: {words}; see {entry}."));
    }
    if daemon.broker.is_down() {
        lines.push(format!(
            "Tools are unavailable; see {}.",
            runbook::TOOLS_UNAVAILABLE
        ));
    }
    if daemon.memory.is_down() {
        lines.push(format!(
            "Memory is unavailable; see {}.",
            runbook::MEMORY_UNAVAILABLE
        ));
    }
    Ok(lines.join("\n"))
}

fn approval(arguments: &[String]) -> Result<(CallId, Answer), Refused> {
    let bad = || {
        Refused::new(
            "bad-arguments",
            "say: approve CALL once, approve CALL session, or approve CALL deny",
        )
    };
    let (call, answer) = match arguments {
        [call] => (call, "once"),
        [call, answer] => (call, answer.as_str()),
        _ => return Err(bad()),
    };
    let answer = match answer {
        "once" => Answer::Once,
        "session" => Answer::Session,
        "deny" => Answer::Deny,
        _ => return Err(bad()),
    };
    Ok((call.parse().map_err(|_| bad())?, answer))
}

/// A refusal of another daemon is passed on; that it is away is said.
fn refusal(error: ClientError, away: Runbook) -> Refused {
    match error {
        ClientError::Refused(refused) => refused,
        error => {
            let entry = match error {
                ClientError::Version { .. } => error.runbook().unwrap_or(away),
                _ => away,
            };
            Refused::new("unavailable", error.to_string()).with_runbook(entry.anchor())
        }
    }
}
