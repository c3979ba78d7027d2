//! bxctl on a terminal: colour, the line editor, its history, and the terminal put back at the end.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    process::{Child, Command},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

use bxtest::wait_for;
use bxwire::{
    Label,
    links::{
        control::Reply,
        turns::{Request, TurnEvent},
    },
};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, tcgetattr},
};

use crate::fakes::{World, asked, session, status};

/// A terminal with bxctl on it.
struct Terminal {
    child: Child,
    keys: File,
    /// Our own end of what bxctl sits at; also keeps the terminal alive after its end.
    seat: OwnedFd,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn run(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let seat = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        let child = command
            .env("TERM", "xterm")
            .stdin(seat.try_clone().unwrap())
            .stdout(seat.try_clone().unwrap())
            .stderr(seat.try_clone().unwrap())
            .spawn()
            .unwrap();
        let keys = File::from(master);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut reading, seen) = (keys.try_clone().unwrap(), Arc::clone(&screen));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reading.read(&mut buffer) {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend_from_slice(&buffer[..read]);
            }
        });
        Self {
            child,
            keys,
            seat: seat.into(),
            screen,
        }
    }

    fn screen(&self) -> String {
        let seen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&seen).into_owned()
    }

    fn waits_for(&self, text: &str) {
        wait_for(text, || self.screen().contains(text).then_some(()));
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn ends(&mut self) -> Option<i32> {
        wait_for("bxctl to end", || self.child.try_wait().unwrap()).code()
    }

    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.seat).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_loopd() -> (World, crate::fakes::Asked<Request>) {
    let mut world = World::new();
    let log = world.turns(|_, request| match request {
        Request::Turn { text, .. } => vec![
            Some(TurnEvent::Accepted {
                session: session(),
                turn: 1,
            }),
            Some(TurnEvent::Reply {
                text: format!("heard {text}"),
                label: Label::PRIVATE,
            }),
        ],
        _ => Vec::new(),
    });
    (world, log)
}

#[test]
fn colour_only_on_a_terminal_and_never_with_no_color() {
    let mut world = World::new();
    world.control("loopd", |_| Reply::Status(status("loopd", &[])));
    let mut seen = Vec::new();
    for no_color in [None, Some("1")] {
        let mut command = world.command(&["status"]);
        command.env_remove("NO_COLOR");
        no_color.map(|value| command.env("NO_COLOR", value));
        let mut terminal = Terminal::run(command);
        assert_eq!(terminal.ends(), Some(69));
        wait_for("the last line", || {
            terminal
                .screen()
                .trim_end()
                .rsplit('\n')
                .next()?
                .contains("down")
                .then_some(())
        });
        seen.push(terminal.screen().contains("\u{1b}["));
    }
    let piped = world.bxctl(&["status"]).stdout.contains('\u{1b}');
    assert_eq!((seen, piped), (vec![true, false], false));
}

#[test]
fn what_was_typed_is_sent_and_comes_back_from_the_history_of_another_day() {
    let (world, log) = with_loopd();
    for (keys, reply) in [("hello\r", "heard hello"), ("\u{1b}[A!\r", "heard hello!")] {
        let mut terminal = Terminal::run(world.command(&["chat"]));
        terminal.waits_for("> ");
        terminal.types(keys);
        terminal.waits_for(reply);
        terminal.types("\u{4}");
        assert_eq!(terminal.ends(), Some(0));
        assert!(terminal.is_cooked());
    }
    assert_eq!(asked(&log).len(), 2);
    let history = world.home.dirs.state.join("bxctl/history");
    let mode = std::fs::metadata(history).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn one_ctrl_c_at_the_prompt_warns_and_the_second_leaves() {
    let (world, _log) = with_loopd();
    let mut terminal = Terminal::run(world.command(&["chat"]));
    terminal.waits_for("> ");
    terminal.types("\u{3}");
    terminal.waits_for("Ctrl-C again");
    terminal.types("\u{3}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_signal_at_the_prompt_puts_the_terminal_back() {
    let (world, _log) = with_loopd();
    let mut terminal = Terminal::run(world.command(&["chat"]));
    terminal.waits_for("> ");
    wait_for("the editor", || (!terminal.is_cooked()).then_some(()));
    let pid = terminal.child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(sent.success());
    assert_eq!(terminal.ends(), Some(143));
    assert!(terminal.is_cooked());
}

/// A loopd whose first turn lasts until the returned sender is used.
fn with_slow_loopd() -> (World, crate::fakes::Asked<Request>, mpsc::Sender<()>) {
    let mut world = World::new();
    let (goes_on, waits) = mpsc::channel();
    let waits = Mutex::new(waits);
    let log = world.turns(move |_, request| match request {
        Request::Turn { text, .. } => {
            if text == "slow" {
                let waits = waits.lock().unwrap();
                waits.recv_timeout(bxtest::WAIT).unwrap();
            }
            vec![
                Some(TurnEvent::Accepted {
                    session: session(),
                    turn: 1,
                }),
                Some(TurnEvent::Reply {
                    text: format!("heard {text}"),
                    label: Label::PRIVATE,
                }),
            ]
        }
        _ => Vec::new(),
    });
    (world, log, goes_on)
}

fn texts(log: &crate::fakes::Asked<Request>) -> Vec<String> {
    let turns = asked(log).into_iter().filter_map(|request| match request {
        Request::Turn { text, .. } => Some(text),
        _ => None,
    });
    turns.collect()
}

#[test]
fn lines_typed_while_a_turn_runs_are_sent_after_it_in_their_order() {
    let (world, log, goes_on) = with_slow_loopd();
    let mut terminal = Terminal::run(world.command(&["chat"]));
    terminal.waits_for("> ");
    terminal.types("slow\r");
    wait_for("the turn", || (!asked(&log).is_empty()).then_some(()));
    terminal.types("note one\r/bogus\rnote two\rnote thr");
    terminal.waits_for("note thr");
    goes_on.send(()).unwrap();
    terminal.waits_for("heard note two");
    terminal.types("ee\r");
    terminal.waits_for("heard note three");
    assert!(terminal.screen().contains("no such command"));
    assert_eq!(texts(&log), ["slow", "note one", "note two", "note three"]);
}

#[test]
fn many_lines_pasted_while_a_turn_runs_are_one_text_and_asked_about() {
    let (world, log, goes_on) = with_slow_loopd();
    let mut terminal = Terminal::run(world.command(&["chat"]));
    terminal.waits_for("> ");
    terminal.types("slow\r");
    wait_for("the turn", || (!asked(&log).is_empty()).then_some(()));
    terminal.types("/new\rb\rc\rd\re\rlast of it\r");
    terminal.waits_for("last of it");
    goes_on.send(()).unwrap();
    terminal.waits_for("[N]ot at all");
    terminal.types("u\r");
    terminal.waits_for("heard /new");
    assert_eq!(texts(&log), ["slow", "/new\nb\nc\nd\ne\nlast of it"]);
}

#[test]
fn lines_that_arrive_in_one_piece_are_all_sent() {
    let (world, log) = with_loopd();
    let mut terminal = Terminal::run(world.command(&["chat"]));
    terminal.waits_for("> ");
    wait_for("the editor", || (!terminal.is_cooked()).then_some(()));
    terminal.types("note one\rnote two\r/bogus\rnote three\r");
    terminal.waits_for("heard note three");
    assert!(terminal.screen().contains("no such command"));
    assert_eq!(texts(&log), ["note one", "note two", "note three"]);
}
