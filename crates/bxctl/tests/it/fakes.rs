//! Daemons with chosen answers on the real sockets, and bxctl run against them. Used by every test here.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bxcore::listen::{self, Connection, Limits, Server};
use bxtest::Home;
use bxwire::{
    Link,
    links::{
        control::{self, Control},
        turns::{self, TurnEvent, Turns},
    },
};

/// What a fake was asked, in order.
pub type Asked<R> = Arc<Mutex<Vec<R>>>;

/// A home with some daemons in it.
pub struct World {
    pub home: Home,
    servers: Vec<Server>,
}

/// How a bxctl ended.
#[derive(Debug)]
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub code: Option<i32>,
}

impl World {
    pub fn new() -> Self {
        Self {
            home: Home::new(),
            servers: Vec::new(),
        }
    }

    fn serve<L: Link>(
        &mut self,
        path: &Path,
        answer: impl Fn(Connection<L>) + Send + Sync + 'static,
    ) {
        let server = listen::serve::<L>(path, Limits::default(), answer).unwrap();
        self.servers.push(server);
    }

    /// Serves a daemon's control socket.
    pub fn control(
        &mut self,
        daemon: &str,
        answer: impl Fn(control::Request) -> control::Reply + Send + Sync + 'static,
    ) -> Asked<control::Request> {
        let asked = Asked::default();
        let kept = Arc::clone(&asked);
        let path = self.home.dirs.control_socket(daemon);
        self.serve::<Control>(&path, move |mut connection| {
            while let Some(request) = connection.recv() {
                keep(&kept, request.clone());
                let _ = connection.send(&answer(request));
            }
        });
        asked
    }

    /// Serves loopd's turns: each request gets its events; `None` among them hangs up.
    pub fn turns(
        &mut self,
        answer: impl Fn(usize, turns::Request) -> Vec<Option<TurnEvent>> + Send + Sync + 'static,
    ) -> Asked<turns::Request> {
        let asked = Asked::default();
        let kept = Arc::clone(&asked);
        let path = self.home.dirs.turns_socket();
        self.serve::<Turns>(&path, move |mut connection| {
            while let Some(request) = connection.recv() {
                let before = keep(&kept, request.clone());
                for event in answer(before, request) {
                    match event {
                        Some(event) => drop(connection.send(&event)),
                        None => return,
                    }
                }
            }
        });
        asked
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(bxtest::program("bxctl"));
        command
            .args(arguments)
            .arg("--home")
            .arg(self.home.path())
            .env_remove("BOXMAKER_HOME")
            .env("HOME", self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs bxctl to its end.
    pub fn bxctl(&self, arguments: &[&str]) -> Ran {
        self.ran(self.command(arguments).output().unwrap())
    }

    /// The same with something to read.
    pub fn bxctl_reading(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        self.ran(child.wait_with_output().unwrap())
    }

    /// What it wrote, with the test's own folder named `HOME`.
    fn ran(&self, output: Output) -> Ran {
        let home = self.home.path().display().to_string();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&home, "HOME");
        Ran {
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            code: output.status.code(),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for server in self.servers.drain(..) {
            server.stop(Duration::from_secs(1));
        }
    }
}

fn keep<R>(asked: &Asked<R>, request: R) -> usize {
    let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
    asked.push(request);
    asked.len() - 1
}

/// What a fake was asked so far.
pub fn asked<R: Clone>(asked: &Asked<R>) -> Vec<R> {
    asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub fn session() -> bxwire::SessionId {
    "20260131-abcdefghij12".parse().unwrap()
}

pub fn status(daemon: &str, facts: &[(&str, &str)]) -> control::Status {
    control::Status {
        daemon: daemon.into(),
        build: "0.1.0".into(),
        pid: 42,
        since: "2026-01-31T14:02:09.123Z".into(),
        notices: Vec::new(),
        facts: facts
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect(),
    }
}
