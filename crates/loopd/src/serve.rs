//! The turns link: each request to the part that answers it. One thread reads a connection and one runs its
//! turn, so that a hang-up is seen while the model speaks. It never waits for a turn to answer anything else.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use bxcore::{
    listen::{Connection, Ended, Sender},
    runbook::{self, Runbook},
};
use bxwire::{
    FrameError, Refused, SessionId, Trust,
    links::turns::{Request, TurnEvent, Turns},
    log::{Body, Record},
};

use crate::{
    cancel::{Cancel, Reason},
    commands,
    daemon::Daemon,
    log, purge,
    session::{Place, Session},
    turn::{self, Input},
};

/// Longest key in bytes.
const KEY_BYTES_MAX: usize = 200;
/// Longest name of a client or channel, in characters.
const SOURCE_CHARS_MAX: usize = 100;
/// Longest text of one turn in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Texts of a record that does not fit a frame are shown up to this many bytes each.
const SHOWN_BYTES_MAX: usize = 64 * 1024;

/// Serves one client. One turn at a time runs on a connection; everything else is answered meanwhile. A client
/// that closes its sending half has hung up, which stops its turn. A key that still runs, asked for over another
/// connection, waits in its session's queue and then gets the recorded outcome.
pub fn serve(daemon: &Arc<Daemon>, connection: Connection<Turns>) {
    let (mut reader, sender) = connection.split();
    let out = Arc::new(Out {
        sender: Mutex::new(sender),
    });
    let mut running: Option<Turn> = None;
    loop {
        let request = match reader.request() {
            Ok(request) => request,
            // Whoever is being answered is not idle, and has a whole wait again after the answer.
            Err(Ended::Idle) if running.is_some() => {
                if let Some(turn) = running.take_if(|turn| turn.ended.load(Ordering::SeqCst)) {
                    let _ = turn.thread.join();
                }
                continue;
            }
            Err(Ended::Idle | Ended::Gone | Ended::Refused) => break,
        };
        match request {
            Request::Turn { .. }
                if running
                    .as_ref()
                    .is_some_and(|turn| !turn.ended.load(Ordering::SeqCst)) =>
            {
                out.refuse(
                    "turn-running",
                    "this connection already runs a turn",
                    Some(runbook::SESSION_BUSY),
                );
            }
            Request::Turn {
                key,
                session,
                text,
                speaker,
                origin,
                untrusted,
                audience,
                source,
            } => {
                if let Some(turn) = running.take() {
                    let _ = turn.thread.join();
                }
                let trust = if untrusted {
                    Trust::Untrusted
                } else {
                    Trust::Trusted
                };
                let input = Input {
                    key,
                    text,
                    speaker,
                    origin,
                    trust,
                    audience,
                    source,
                };
                running = start(daemon, session.as_ref(), input, &out);
            }
            other => answer(daemon, other, &out),
        }
    }
    if let Some(turn) = running {
        let reason = if daemon.is_stopping() {
            Reason::Stopping
        } else {
            Reason::Client
        };
        turn.cancel.cancel(reason);
        let _ = turn.thread.join();
    }
}

/// The turn of a connection.
struct Turn {
    thread: JoinHandle<()>,
    cancel: Cancel,
    /// Its last event is about to leave.
    ended: Arc<AtomicBool>,
}

/// The sending half, shared by the two threads.
struct Out {
    sender: Mutex<Sender<Turns>>,
}

impl Out {
    fn send(&self, event: &TurnEvent) -> Result<(), FrameError> {
        self.sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(event)
    }

    /// A peer that is gone is noticed where it is read.
    fn say(&self, event: &TurnEvent) {
        let _ = self.send(event);
    }

    fn refuse(&self, kind: &str, message: &str, entry: Option<Runbook>) {
        let refused = Refused::new(kind, message);
        self.say(&TurnEvent::Refused(match entry {
            Some(entry) => refused.with_runbook(entry.anchor()),
            None => refused,
        }));
    }
}

fn start(
    daemon: &Arc<Daemon>,
    session: Option<&SessionId>,
    input: Input,
    out: &Arc<Out>,
) -> Option<Turn> {
    let (session, cancel, place) = match admit(daemon, session, &input) {
        Ok(admitted) => admitted,
        Err(refused) => {
            out.say(&TurnEvent::Refused(refused));
            return None;
        }
    };
    let ended = Arc::new(AtomicBool::new(false));
    let spawned = thread::Builder::new().name("turn".into()).spawn({
        let (daemon, out, cancel, ended) = (
            Arc::clone(daemon),
            Arc::clone(out),
            cancel.clone(),
            Arc::clone(&ended),
        );
        move || {
            let mut say = |event| match out.send(&event) {
                Ok(()) | Err(FrameError::TooLong) => {}
                // Nobody listens any more.
                Err(_) => cancel.cancel(Reason::Client),
            };
            let last = turn::run(&daemon, &session, place, &input, &cancel, &mut say);
            ended.store(true, Ordering::SeqCst);
            out.say(&last);
        }
    });
    match spawned {
        Ok(thread) => Some(Turn {
            thread,
            cancel,
            ended,
        }),
        Err(error) => {
            tracing::warn!(%error, "cannot start a thread");
            out.refuse(
                "busy",
                "loopd has no thread left; try again",
                Some(runbook::SESSION_BUSY),
            );
            None
        }
    }
}

type Admitted = (Arc<Session>, Cancel, Place);

fn admit(daemon: &Daemon, session: Option<&SessionId>, input: &Input) -> Result<Admitted, Refused> {
    if daemon.is_stopping() {
        return Err(Refused::new("stopping", "loopd is stopping; try again")
            .with_runbook(runbook::DAEMON_DOWN.anchor()));
    }
    if !(1..=KEY_BYTES_MAX).contains(&input.key.len()) {
        return Err(Refused::new(
            "bad-turn",
            format!("a key is not empty and at most {KEY_BYTES_MAX} bytes"),
        ));
    }
    if !is_source(&input.source) {
        return Err(Refused::new(
            "bad-turn",
            format!("a source is 1 to {SOURCE_CHARS_MAX} characters that can be seen"),
        ));
    }
    // Both are shown in terminals and stand in what memory writes.
    if input
        .speaker
        .as_ref()
        .is_some_and(|speaker| !speaker.is_plain())
    {
        return Err(Refused::new(
            "bad-turn",
            "a speaker's realm and name are letters, digits, `-`, `_` and `.`",
        ));
    }
    if input.text.trim().is_empty() || input.text.len() > TEXT_BYTES_MAX {
        return Err(Refused::new(
            "bad-turn",
            format!("a text is not empty and at most {TEXT_BYTES_MAX} bytes"),
        ));
    }
    let session = match session {
        Some(id) => find(daemon, id)?,
        None => daemon
            .sessions
            .begin(&input.key, &input.source)
            .map_err(|error| Refused::new("unavailable", error.to_string()))?,
    };
    if session.summary().purged {
        return Err(purge::purged());
    }
    let cancel = Cancel::default();
    let place = session
        .enter(&cancel, daemon.config().limits.queue_turns_max)
        .map_err(|_| {
            Refused::new(
                "busy",
                "too many turns wait in this session; try again when one has ended",
            )
            .with_runbook(runbook::SESSION_BUSY.anchor())
        })?;
    Ok((session, cancel, place))
}

/// Whether this can be a client's or a channel's name.
fn is_source(source: &str) -> bool {
    let chars = source.chars().count();
    (1..=SOURCE_CHARS_MAX).contains(&chars)
        && !source.trim().is_empty()
        && !source.chars().any(char::is_control)
}

/// A session by its id.
///
/// # Errors
/// The refusal of an id that is not one of ours.
pub fn find(daemon: &Daemon, id: &SessionId) -> Result<Arc<Session>, Refused> {
    daemon.sessions.get(id).ok_or_else(|| {
        Refused::new("unknown-session", "there is no session of that id")
            .with_runbook(runbook::SESSION_UNKNOWN.anchor())
    })
}

fn answer(daemon: &Daemon, request: Request, out: &Out) {
    let answered = match request {
        Request::ShowSession { session } => return show(daemon, &session, out),
        Request::Cancel { session } => commands::cancel(daemon, &session),
        Request::Approve {
            session,
            call,
            answer,
        } => commands::approve(daemon, &session, &call, answer),
        Request::Command {
            session,
            speaker,
            name,
            arguments,
        } => commands::command(daemon, &session, speaker, &name, arguments),
        Request::ListSessions {} => {
            let (sessions, more) = daemon.sessions.list();
            let more = (more > 0).then_some(more as u64);
            Ok(TurnEvent::Sessions { sessions, more })
        }
        Request::SessionLabel { session } => commands::label(daemon, &session),
        Request::PurgeSession { session } => purge::purge(daemon, &session),
        Request::Turn { .. } => return,
    };
    out.say(&answered.unwrap_or_else(TurnEvent::Refused));
}

fn show(daemon: &Daemon, id: &SessionId, out: &Out) {
    if let Err(refused) = find(daemon, id) {
        return out.say(&TurnEvent::Refused(refused));
    }
    let mut gone = false;
    let read = log::read(&log::path_of(daemon.sessions.folder(), id), |record| {
        if gone {
            return;
        }
        gone = match out.send(&TurnEvent::Record {
            record: record.clone(),
        }) {
            Ok(()) => false,
            Err(FrameError::TooLong) => out
                .send(&TurnEvent::Record {
                    record: shortened(record),
                })
                .is_err(),
            Err(_) => true,
        };
    });
    match read {
        Ok(()) => out.say(&TurnEvent::End {}),
        Err(error) => {
            let line = bxcore::report::actionable(&error);
            tracing::error!("{line}");
            out.refuse(
                "unreadable",
                "the session's log cannot be read",
                Some(runbook::FILE_CORRUPT),
            );
        }
    }
}

fn shortened(mut record: Record) -> Record {
    let cut = |text: &mut String| {
        if text.len() > SHOWN_BYTES_MAX {
            text.truncate(text.floor_char_boundary(SHOWN_BYTES_MAX));
            text.push_str("\n[too long to show]");
        }
    };
    match &mut record.body {
        Body::User { text, .. }
        | Body::Context { text, .. }
        | Body::ToolResult { text, .. }
        | Body::Summary { text, .. } => cut(text),
        Body::Assistant {
            text,
            reasoning,
            calls,
            ..
        } => {
            cut(text);
            reasoning.iter_mut().for_each(cut);
            calls.iter_mut().for_each(|call| {
                call.arguments
                    .truncate(call.arguments.floor_char_boundary(8 * 1024))
            });
        }
        Body::Epoch { system, tools, .. } => {
            cut(system);
            *tools = serde_json::Value::Null;
        }
        Body::Session { .. } | Body::TurnEnd { .. } | Body::Purged {} => {}
    }
    record
}
