//! The processes of `bxctl up`: started, waited for until they say that they are ready, ended together. A child
//! has a process group of its own, so that a Ctrl-C at the terminal reaches bxctl alone.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    os::{
        fd::OwnedFd,
        unix::{fs::OpenOptionsExt, net::UnixDatagram, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender},
    thread,
    time::{Duration, Instant},
};

use bxcore::{
    daemon::{EXIT_CONFIG, EXIT_PANIC, EXIT_UNREACHABLE, STOP_MS_MAX},
    paths::{Dirs, make_private},
    runbook::{self, Runbook},
};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::{failure::Failure, out};

use super::{Event, leftover};

/// How long a part may take until it is ready: a large index is rebuilt before.
const READY_MS_MAX: Duration = Duration::from_secs(60);
/// Two signals within this are one wish to end: a terminal or a wrapper often sends both.
const SAME_WISH_MS_MAX: Duration = Duration::from_millis(500);
/// Lines of a log shown when its part has died, and bytes looked at for them.
const TAIL_LINES_MAX: usize = 15;
const TAIL_BYTES_MAX: u64 = 16 * 1024;
/// Longest line in which a stand-in says where it listens.
const LISTENING_BYTES_MAX: u64 = 1024;

/// How a part says that it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// `READY=1` on its notify socket.
    Ready,
    /// `listening on URL` on its stdout.
    Listening,
}

/// One running process.
#[derive(Debug)]
struct Part {
    name: &'static str,
    pid: u32,
    handle: OwnedFd,
    log: PathBuf,
    /// Where this run's lines begin.
    log_from: u64,
    ended: Option<ExitStatus>,
}

/// All of them, in the order of their start.
#[derive(Debug)]
pub struct Parts<'a> {
    dirs: &'a Dirs,
    events: SyncSender<Event>,
    parts: Vec<Part>,
}

impl<'a> Parts<'a> {
    pub fn new(dirs: &'a Dirs, events: SyncSender<Event>) -> Self {
        Self {
            dirs,
            events,
            parts: Vec::new(),
        }
    }

    /// Where a part's log is.
    pub fn log(&self, name: &str) -> PathBuf {
        self.dirs.state.join("log").join(format!("{name}.log"))
    }

    /// Starts a program that lies beside this one and waits until it is ready; gives its url, when it says one.
    ///
    /// # Errors
    /// When it cannot start, ends instead, or is not ready in time; or a stop was asked for.
    pub fn start(
        &mut self,
        name: &'static str,
        says: Says,
        arguments: &[&std::ffi::OsStr],
        inbox: &Receiver<Event>,
    ) -> Result<Option<String>, Failure> {
        self.spawn(name, says, arguments)
            .map_err(|source| Failure::Start { part: name, source })?;
        let deadline = Instant::now() + READY_MS_MAX;
        loop {
            match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Ready { part, url }) if part == name => return Ok(url),
                Ok(Event::Ended { part, status }) => return Err(self.died(part, status)),
                Ok(Event::Stop) => return Err(Failure::Quiet),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let how = format!("was not ready within {} s", READY_MS_MAX.as_secs());
                    return Err(self.failed(name, how, EXIT_UNREACHABLE));
                }
            }
        }
    }

    fn spawn(
        &mut self,
        name: &'static str,
        says: Says,
        arguments: &[&std::ffi::OsStr],
    ) -> io::Result<()> {
        let program = beside(name)?;
        let path = self.log(name);
        let log = open_log(&path)?;
        let log_from = log.metadata()?.len();
        let socket_path = leftover::notify_path(self.dirs, name);
        if let Some(folder) = socket_path.parent() {
            make_private(folder, 0o700).map_err(io::Error::other)?;
        }
        match std::fs::remove_file(&socket_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixDatagram::bind(&socket_path)?;
        let stdout = match says {
            Says::Ready => Stdio::from(log.try_clone()?),
            Says::Listening => Stdio::piped(),
        };
        let mut child = Command::new(program)
            .args(arguments)
            .env("NOTIFY_SOCKET", &socket_path)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(log.try_clone()?)
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // Opened before anybody waits for it, so that it can mean no other process.
        let handle = match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Some(Ok(handle)) => handle,
            other => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(match other {
                    Some(Err(error)) => error.into(),
                    _ => io::Error::other("the process has no number"),
                });
            }
        };
        self.parts.push(Part {
            name,
            pid: child.id(),
            handle,
            log: path,
            log_from,
            ended: None,
        });
        self.watch(name, child, socket, &socket_path, log)?;
        leftover::remember(
            self.dirs,
            self.parts.iter().map(|part| (part.name, part.pid)),
        )
    }

    /// The threads of a part: one waits for its word, one for its end. Both end with it.
    fn watch(
        &self,
        name: &'static str,
        mut child: Child,
        socket: UnixDatagram,
        socket_path: &Path,
        log: File,
    ) -> io::Result<()> {
        let events = self.events.clone();
        let named = |what: &str| thread::Builder::new().name(format!("{what}-{name}"));
        if let Some(stdout) = child.stdout.take() {
            named("listen")
                .spawn(move || {
                    let (mut stdout, mut log) = (BufReader::new(stdout), log);
                    if let Some(url) = listening(&mut stdout) {
                        let _ = events.send(Event::Ready {
                            part: name,
                            url: Some(url),
                        });
                    }
                    let _ = io::copy(&mut stdout, &mut log);
                })
                .map(drop)?;
        } else {
            named("notify")
                .spawn(move || {
                    let mut buffer = [0; 256];
                    while let Ok(read) = socket.recv(&mut buffer) {
                        if buffer[..read].starts_with(b"READY=1") {
                            let ready = Event::Ready {
                                part: name,
                                url: None,
                            };
                            let _ = events.send(ready);
                            return;
                        }
                        if buffer[..read].starts_with(b"ENDED") {
                            return;
                        }
                    }
                })
                .map(drop)?;
        }
        let events = self.events.clone();
        let socket_path = socket_path.to_owned();
        named("wait")
            .spawn(move || {
                let status = child.wait();
                // Wakes the thread that still waits for its word, if there is one.
                let _ = UnixDatagram::unbound()
                    .and_then(|socket| socket.send_to(b"ENDED", &socket_path));
                let _ = std::fs::remove_file(&socket_path);
                if let Ok(status) = status {
                    let _ = events.send(Event::Ended { part: name, status });
                }
            })
            .map(drop)
    }

    /// A part has ended by itself: shows its last lines and says which page to open.
    pub fn died(&mut self, name: &'static str, status: ExitStatus) -> Failure {
        if let Some(part) = self.parts.iter_mut().find(|part| part.name == name) {
            part.ended = Some(status);
        }
        let how = match status.code() {
            Some(code) => format!("ended with exit code {code}"),
            None => format!("was ended ({status})"),
        };
        let code = match status.code() {
            Some(code) if code == i32::from(EXIT_CONFIG) => EXIT_CONFIG,
            _ => EXIT_UNREACHABLE,
        };
        let failure = self.failed(name, how, code);
        match (failure, status.code()) {
            (
                Failure::Died {
                    part, how, code, ..
                },
                Some(EXIT_PANIC),
            ) => Failure::Died {
                part,
                how,
                code,
                entry: runbook::DAEMON_PANICKED,
            },
            (failure, _) => failure,
        }
    }

    fn failed(&self, name: &'static str, how: String, code: u8) -> Failure {
        let mut entry = runbook::DAEMON_DOWN;
        if let Some(part) = self.parts.iter().find(|part| part.name == name) {
            let lines = tail(&part.log, part.log_from).unwrap_or_default();
            if !lines.is_empty() {
                out::say(&format!("the last lines of {}:", part.log.display()));
            }
            for line in &lines {
                out::say(&format!("  {}", out::one_line(line)));
            }
            if let Some(named) = named_entry(&lines) {
                entry = named;
            }
        }
        Failure::Died {
            part: name,
            how,
            code,
            entry,
        }
    }

    /// Ends all parts: the daemons first, so that what they still send is taken, then the stand-ins.
    pub fn stop(mut self, inbox: &Receiver<Event>) {
        let stand_in = |part: &Part| part.name.ends_with("-local");
        let asked = Instant::now();
        self.stop_those(inbox, asked, |part| !stand_in(part));
        self.stop_those(inbox, asked, stand_in);
        leftover::forget(self.dirs);
    }

    fn stop_those(
        &mut self,
        inbox: &Receiver<Event>,
        asked: Instant,
        which: impl Fn(&Part) -> bool,
    ) {
        let running = |part: &&Part| part.ended.is_none() && which(part);
        let signal = |parts: &[Part], signal| {
            for part in parts.iter().filter(running) {
                let _ = pidfd_send_signal(&part.handle, signal);
            }
        };
        signal(&self.parts, Signal::TERM);
        let mut deadline = Instant::now() + STOP_MS_MAX;
        let mut killed = false;
        while self.parts.iter().any(|part| running(&part)) {
            match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Ended { part, status }) => {
                    if let Some(part) = self.parts.iter_mut().find(|p| p.name == part) {
                        part.ended = Some(status);
                    }
                }
                Ok(Event::Stop) if asked.elapsed() < SAME_WISH_MS_MAX => {}
                // Asked again, or out of patience: at once.
                end @ (Ok(Event::Stop) | Err(RecvTimeoutError::Timeout)) if !killed => {
                    let why = match end {
                        Ok(_) => "killed, as you asked again",
                        Err(_) => "did not end in time and was killed",
                    };
                    for part in self.parts.iter().filter(running) {
                        out::say(&format!("{} {why}", part.name));
                    }
                    signal(&self.parts, Signal::KILL);
                    killed = true;
                    deadline = Instant::now() + STOP_MS_MAX;
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// A program in this one's own folder.
fn beside(name: &str) -> io::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.is_file() {
        return Ok(path);
    }
    let what = format!("there is no {}", path.display());
    Err(io::Error::new(io::ErrorKind::NotFound, what))
}

fn open_log(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        make_private(folder, 0o700).map_err(io::Error::other)?;
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Reads the line that says where a stand-in listens.
fn listening(stdout: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    stdout.take(LISTENING_BYTES_MAX).read_line(&mut line).ok()?;
    line.trim().strip_prefix("listening on ").map(str::to_owned)
}

/// The last lines of a log, of this run.
fn tail(path: &Path, from: u64) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = from.max(length.saturating_sub(TAIL_BYTES_MAX));
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    Ok(lines[lines.len().saturating_sub(TAIL_LINES_MAX)..].to_vec())
}

/// The entry that a log's last lines name.
fn named_entry(lines: &[String]) -> Option<Runbook> {
    let anchor = lines.iter().rev().find_map(|line| {
        let (_, rest) = line.rsplit_once("docs/runbook.md#")?;
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '-'));
        Some(&rest[..end.unwrap_or(rest.len())])
    })?;
    let named = |entry: &&Runbook| entry.anchor() == anchor;
    runbook::ALL.iter().find(named).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_is_the_last_one_a_log_names() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let log =
            "see docs/runbook.md#state-locked\nno; see docs/runbook.md#config-invalid, or not\nend";
        assert_eq!(named_entry(&lines(log)), Some(runbook::CONFIG_INVALID));
        assert_eq!(named_entry(&lines("docs/runbook.md#nothing-such")), None);
    }

    #[test]
    fn a_tail_begins_where_this_run_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        std::fs::write(&path, "old\nnew\n").unwrap();
        assert_eq!(tail(&path, 4).unwrap(), ["new"]);
        std::fs::write(&path, "a line of some length\n".repeat(5_000)).unwrap();
        assert_eq!(tail(&path, 0).unwrap().len(), TAIL_LINES_MAX);
    }
}
