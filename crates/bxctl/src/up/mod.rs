//! `bxctl up`: the whole system in the foreground, ended together. Writes configuration where there is none,
//! starts the parts in the order of who needs whom, and hands the terminal to the chat.

pub mod files;
mod leftover;
mod parts;

use std::{
    ffi::OsStr,
    process::ExitStatus,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use bxcore::{
    daemon::{LockError, StateLock},
    paths::{Dirs, HomeArgs, make_private},
    url,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{
    chat::{
        self, SavedTerminal,
        interrupt::{Interrupts, Pressed},
    },
    commands,
    failure::{Exit, Failure},
    link::{self, DAEMONS},
    out::{self, Paint, one_line},
};

use files::{HONCHO, Kept, MODEL, Server};
use parts::{Parts, Says};

/// Events that may wait: each part has two in its life, and a stop may be asked for now and then.
const EVENTS_MAX: usize = 64;

/// Longest path of a socket in bytes (`sun_path` without its NUL); `run/memory-broker/state.sock` is the longest
/// of ours. Said before anything starts.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// What the supervisor waits for, all in one place.
#[derive(Debug)]
pub enum Event {
    Ready {
        part: &'static str,
        url: Option<String>,
    },
    Ended {
        part: &'static str,
        status: ExitStatus,
    },
    Stop,
    ChatEnded(Result<Exit, Failure>),
}

/// Runs until the chat, a signal or the death of a part ends it.
///
/// # Errors
/// What kept it from starting, or which part died.
pub fn run(home: &HomeArgs, dirs: &Dirs, arguments: &commands::Up) -> Result<Exit, Failure> {
    MODEL.check(arguments.model_url.as_deref())?;
    HONCHO.check(arguments.honcho_url.as_deref())?;
    let longest = dirs.state_socket();
    if longest.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(Failure::PathTooLong {
            path: longest,
            max: SOCKET_PATH_BYTES_MAX,
        });
    }
    let (events, inbox) = sync_channel(EVENTS_MAX);
    let interrupts = Interrupts::default();
    let terminal = SavedTerminal::save();
    watch_signals(dirs, &interrupts, &events)?;
    let _lock = StateLock::take(&dirs.state.join("up")).map_err(|error| match error {
        LockError::Folder(error) => Failure::Folder(error),
        held => Failure::AlreadyUp(held),
    })?;
    let left = leftover::end(dirs)?;
    if !left.is_empty() {
        let left = one_line(&left.join(", "));
        out::say(&format!(
            "ended what an earlier `bxctl up` left running: {left}"
        ));
    }
    for daemon in DAEMONS {
        if let Ok(status) = link::status(dirs, daemon) {
            let pid = status.pid;
            return Err(Failure::AlreadyRuns { daemon, pid });
        }
    }
    let mut parts = Parts::new(dirs, events.clone());
    let started = start_all(&mut parts, home, dirs, arguments, &inbox);
    let ended = started.and_then(|()| {
        if arguments.no_chat {
            out::say("everything is ready; Ctrl-C or SIGTERM ends it");
        } else {
            open_chat(dirs, &interrupts, &events)?;
        }
        wait(&mut parts, &inbox, &terminal)
    });
    parts.stop(&inbox);
    ended
}

fn start_all(
    parts: &mut Parts<'_>,
    home: &HomeArgs,
    dirs: &Dirs,
    arguments: &commands::Up,
    inbox: &Receiver<Event>,
) -> Result<(), Failure> {
    let model = MODEL.server(dirs, arguments.model_url.as_deref())?;
    let honcho = HONCHO.server(dirs, arguments.honcho_url.as_deref())?;
    files::write_missing(dirs)?;
    let any = OsStr::new("127.0.0.1:0");
    let listen = OsStr::new("--listen");
    server(
        parts,
        dirs,
        MODEL,
        "model-local",
        "model",
        &model,
        &[listen, any],
        inbox,
    )?;
    let folder = dirs.state.join("honcho-local");
    if honcho == Server::StandIn {
        make_private(&folder, 0o700)?;
    }
    let database = folder.join("honcho.sqlite");
    let honcho_arguments = [listen, any, OsStr::new("--db"), database.as_os_str()];
    server(
        parts,
        dirs,
        HONCHO,
        "honcho-local",
        "Honcho",
        &honcho,
        &honcho_arguments,
        inbox,
    )?;
    let absolute = home
        .home
        .as_ref()
        .and_then(|home| std::path::absolute(home).ok());
    let daemon_arguments: Vec<&OsStr> = absolute
        .iter()
        .flat_map(|home| [OsStr::new("--home"), home.as_os_str()])
        .collect();
    let daemons = [
        ("brokerd", vec![dirs.tools_socket(), dirs.state_socket()]),
        (
            "memoryd",
            vec![dirs.memory_socket(), dirs.memory_tools_socket()],
        ),
        ("loopd", vec![dirs.turns_socket()]),
        ("gatewayd", vec![dirs.control_socket("gatewayd")]),
    ];
    for (daemon, sockets) in daemons {
        parts.start(daemon, Says::Ready, &daemon_arguments, inbox)?;
        let shown: Vec<_> = sockets
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        line(daemon, &shown.join(", "));
    }
    line("logs", &dirs.state.join("log").display().to_string());
    Ok(())
}

/// Starts a stand-in where one is wanted, and has the daemon's file name the right url.
#[expect(clippy::too_many_arguments)]
fn server(
    parts: &mut Parts<'_>,
    dirs: &Dirs,
    kept: Kept,
    stand_in: &'static str,
    what: &str,
    server: &Server,
    arguments: &[&OsStr],
    inbox: &Receiver<Event>,
) -> Result<(), Failure> {
    match server {
        Server::StandIn => {
            let url = parts.start(stand_in, Says::Listening, arguments, inbox)?;
            let url = url.unwrap_or_default();
            kept.write(dirs, &url)?;
            line(stand_in, &url);
        }
        Server::Given(url) => {
            kept.write(dirs, url)?;
            line(what, url::shown(url));
        }
        Server::Theirs(url) => line(
            what,
            &format!("{} (from your configuration)", url::shown(url)),
        ),
        Server::Nowhere => line(what, "none in your configuration"),
    }
    Ok(())
}

fn line(name: &str, place: &str) {
    let paint = Paint::of(&std::io::stderr());
    let name = paint.bold(&format!("{name:<13}"));
    out::say(&format!("{name} {}", one_line(place)));
}

fn open_chat(
    dirs: &Dirs,
    interrupts: &Interrupts,
    events: &SyncSender<Event>,
) -> Result<(), Failure> {
    let (dirs, interrupts, events) = (dirs.clone(), interrupts.clone(), events.clone());
    let arguments = commands::Chat {
        session: None,
        once: None,
        untrusted: false,
        json: false,
    };
    thread::Builder::new()
        .name("chat".into())
        .spawn(move || {
            let ended = chat::run(&dirs, &arguments, &interrupts);
            let _ = events.send(Event::ChatEnded(ended));
        })
        .map(drop)
        .map_err(Failure::Terminal)
}

fn wait(
    parts: &mut Parts<'_>,
    inbox: &Receiver<Event>,
    terminal: &SavedTerminal,
) -> Result<Exit, Failure> {
    loop {
        match inbox.recv() {
            Ok(Event::ChatEnded(ended)) => return ended,
            Ok(Event::Ended { part, status }) => {
                terminal.restore();
                return Err(parts.died(part, status));
            }
            Ok(Event::Stop) | Err(_) => {
                terminal.restore();
                return Ok(Exit::Done);
            }
            Ok(Event::Ready { .. }) => {}
        }
    }
}

fn watch_signals(
    dirs: &Dirs,
    interrupts: &Interrupts,
    events: &SyncSender<Event>,
) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::Terminal)?;
    let (dirs, interrupts, events) = (dirs.clone(), interrupts.clone(), events.clone());
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                if signal != SIGINT || interrupts.press(&dirs) == Pressed::Leave {
                    // A full queue holds a stop already.
                    let _ = events.try_send(Event::Stop);
                }
            }
        })
        .map(drop)
        .map_err(Failure::Terminal)
}
