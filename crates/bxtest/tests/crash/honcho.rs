//! The Honcho of a day: honcho-local in this process, whose answers a test can break, or the program, which can be
//! killed. It keeps its address and its file when it is stopped. Used by `world`.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use bxtest::program;
use honcho_local::{Options, Server};
use serde_json::Value;

use crate::shim::{self, Point};

pub struct Honcho {
    folder: tempfile::TempDir,
    running: Running,
    options: Options,
    is_program: bool,
    /// The next start of the program is with this.
    point: Option<Point>,
}

enum Running {
    No,
    Here(Box<Server>),
    Program(Child),
}

impl Honcho {
    /// In this process.
    pub fn here() -> Self {
        let mut honcho = Self::stopped();
        let server = Server::start(honcho.options.clone()).expect("a Honcho");
        honcho.options.listen = server.address();
        honcho.running = Running::Here(Box::new(server));
        honcho
    }

    /// The program; it starts again by itself when it was killed (see [`Honcho::revive`]).
    pub fn program(point: Option<Point>) -> Self {
        let mut honcho = Self::stopped();
        honcho.is_program = true;
        honcho.point = point;
        honcho.start_program();
        honcho
    }

    fn stopped() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            options: Options {
                listen: own_address(),
                drain_after: Duration::ZERO,
                ..Options::at(folder.path().join("honcho.sqlite"))
            },
            running: Running::No,
            is_program: false,
            point: None,
            folder,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.options.listen)
    }

    pub fn server(&self) -> Option<&Server> {
        match &self.running {
            Running::Here(server) => Some(server),
            Running::No | Running::Program(_) => None,
        }
    }

    pub fn is_up(&self) -> bool {
        !matches!(self.running, Running::No)
    }

    /// What the program did, over all its starts.
    pub fn calls(&self) -> Vec<shim::Call> {
        shim::calls(&self.log())
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("calls")
    }

    pub fn stop(&mut self) {
        match std::mem::replace(&mut self.running, Running::No) {
            Running::No => {}
            Running::Here(server) => self.options = server.stop(),
            Running::Program(mut child) => {
                let _ = child.kill();
                let _ = child.wait();
                self.running = Running::No;
            }
        }
    }

    /// Starts it again where it was.
    pub fn start(&mut self) {
        if self.is_program {
            self.start_program();
        } else {
            let server = Server::start(self.options.clone());
            self.running = Running::Here(Box::new(server.expect("Honcho at its old address")));
        }
    }

    /// Starts the program again if it was killed.
    pub fn revive(&mut self) {
        if let Running::Program(child) = &mut self.running
            && child.try_wait().expect("a child").is_some()
        {
            self.start_program();
        }
    }

    fn start_program(&mut self) {
        let db = self.folder.path().join("honcho.sqlite");
        // Killed while it starts, it is started again without a point.
        loop {
            let mut command = Command::new(program("honcho-local"));
            command
                .arg("--listen")
                .arg(self.options.listen.to_string())
                .arg("--db")
                .arg(&db)
                .args(["--drain-after", "0"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            let point = self.point.take();
            shim::preload(
                &mut command,
                self.folder.path(),
                &self.log(),
                point.as_ref(),
            );
            let mut child = command.spawn().expect("honcho-local");
            let address = child
                .stdout
                .take()
                .and_then(|out| listening(BufReader::new(out)));
            if let Some(address) = address {
                self.options.listen = address;
                self.running = Running::Program(child);
                return;
            }
            let status = child.wait().expect("a child");
            assert!(point.is_some(), "honcho-local does not start: {status}");
        }
    }

    /// Everything it holds.
    pub fn dump(&mut self) -> Value {
        if let Running::Here(server) = &self.running {
            return server.dump_all().expect("a dump");
        }
        self.stop();
        let options = Options {
            drain_after: Duration::ZERO,
            ..Options::at(self.db())
        };
        Server::start(options)
            .expect("a Honcho")
            .dump_all()
            .expect("a dump")
    }

    fn db(&self) -> &Path {
        self.options.db.as_deref().expect("a file")
    }
}

impl Drop for Honcho {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A loopback address that nobody else uses: while a Honcho is away, another on the same address could be given its
/// port, and would get what is meant for it.
fn own_address() -> SocketAddr {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let part = |n: u32| u8::try_from(n % 250 + 1).unwrap_or(1);
    let process = std::process::id();
    SocketAddr::from((
        [
            127,
            part(process),
            part(process / 250 * 17 + number / 250),
            part(number),
        ],
        0,
    ))
}

/// The address in its first line; `None`: it ended without one.
fn listening(mut out: impl BufRead) -> Option<SocketAddr> {
    let mut line = String::new();
    out.read_line(&mut line).ok()?;
    line.trim()
        .strip_prefix("listening on http://")?
        .parse()
        .ok()
}
