//! The harness of the tests: real programs in a folder of their own, started and waited for without
//! sleeping. Development only.
#![forbid(unsafe_code)]

use std::{
    ffi::OsStr,
    io::{Read, Write},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

pub mod end_state;
pub mod fleet;
pub mod kept;
pub mod look;
pub mod recalls;
pub mod scenario;
pub mod tls;
pub mod world;

pub use bxcore::paths::Dirs;

/// How long a test waits for anything before it says what did not happen.
pub const WAIT: Duration = Duration::from_secs(30);

/// Polls until `check` gives a value.
///
/// # Panics
/// When it does not within [`WAIT`]; `what` says what was waited for.
pub fn wait_for<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT;
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Another agent of the fleet, as far as a Honcho sees one: a client of a workspace that is there.
///
/// # Panics
/// When that Honcho does not answer.
#[must_use]
pub fn other_agent(url: &str, workspace: &str) -> roncho::blocking::Client {
    let client = roncho::blocking::Client::builder()
        .without_config_file()
        .base_url(url)
        .workspace_id(workspace)
        .build()
        .expect("a client");
    client
        .get_or_create_workspace(&roncho::WorkspaceCreate::new(workspace))
        .expect("a workspace");
    client
}

/// A folder with `config/`, `state/` and `run/`, gone at the end of the test.
#[derive(Debug)]
pub struct Home {
    folder: tempfile::TempDir,
    pub dirs: Dirs,
}

impl Home {
    /// A new, empty home with a path short enough for sockets.
    ///
    /// # Panics
    /// When there is no room for it.
    #[must_use]
    pub fn new() -> Self {
        // brokerd takes no root behind a link, and where temporary folders are may be behind one.
        let place = std::env::temp_dir().canonicalize().expect("a folder");
        let folder = tempfile::Builder::new()
            .prefix("bx")
            .tempdir_in(place)
            .expect("a folder");
        let dirs = Dirs::under(folder.path());
        std::fs::create_dir_all(&dirs.config).expect("a folder");
        Self { folder, dirs }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes `config/<daemon>.toml`.
    ///
    /// # Panics
    /// When it cannot.
    pub fn configure(&self, daemon: &str, text: &str) {
        std::fs::write(self.dirs.config_file(daemon), text).expect("a configuration");
    }

    /// Starts a daemon and waits until it says that it is ready.
    ///
    /// # Panics
    /// When it ends instead; its last words are in the message.
    #[must_use]
    pub fn start(&self, daemon: &str) -> Daemon {
        self.try_start(daemon, |_| {})
            .unwrap_or_else(|ended| panic!("{daemon} did not start: {ended:?}"))
    }

    /// Starts a daemon with `change`s to its command; an early end comes back with what it wrote.
    ///
    /// # Errors
    /// How it ended, and its stderr.
    ///
    /// # Panics
    /// When it is neither ready nor at an end in time.
    pub fn try_start(
        &self,
        daemon: &str,
        change: impl FnOnce(&mut Command),
    ) -> Result<Daemon, Ended> {
        static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = self.path().join(format!("notify{number}"));
        let socket = UnixDatagram::bind(&path).expect("a notify socket");
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a timeout");
        let mut command = Command::new(program(daemon));
        command
            .arg("--home")
            .arg(self.path())
            .env("NOTIFY_SOCKET", &path)
            .env("HOME", self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        change(&mut command);
        let mut started = Daemon::watch(daemon, command.spawn().expect("a program to start"));
        let deadline = Instant::now() + WAIT;
        let mut buffer = [0; 256];
        loop {
            if let Ok(read) = socket.recv(&mut buffer)
                && buffer[..read].starts_with(b"READY=1")
            {
                return Ok(started);
            }
            if let Some(status) = started.child.try_wait().expect("a child") {
                return Err(Ended {
                    status,
                    stderr: started.stderr(),
                });
            }
            assert!(Instant::now() < deadline, "{daemon} is not ready");
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        kept::files(self.path());
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

/// How a program ended that should have run.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
}

/// A running daemon; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    pub name: String,
    child: Child,
    log: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Daemon {
    fn watch(name: &str, mut child: Child) -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let reader = child.stderr.take().map(|mut stderr| {
            let log = Arc::clone(&log);
            let mut kept = kept::log(name, child.id());
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                    if let Some(kept) = &mut kept {
                        kept.write_all(&buffer[..read]).expect("a log in BX_KEEP");
                    }
                    log.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .extend_from_slice(&buffer[..read]);
                }
            })
        });
        Self {
            name: name.into(),
            child,
            log,
            reader,
        }
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has; what it wrote is whole then.
    ///
    /// # Panics
    /// When the system does not say.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a child")?;
        self.stderr();
        Some(status)
    }

    /// What it has written to stderr so far.
    #[must_use]
    pub fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&log).into_owned()
    }

    /// kill -9, and gone.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal by name, for example `TERM`.
    ///
    /// # Panics
    /// When there is no `kill` to run.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.pid().to_string()])
            .status()
            .expect("kill");
        assert!(sent.success());
    }

    /// SIGTERM, then its exit and everything it wrote.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn stop(mut self) -> Ended {
        self.signal("TERM");
        let status = wait_for("a daemon to stop", || {
            self.child.try_wait().expect("a child")
        });
        Ended {
            status,
            stderr: self.stderr(),
        }
    }

    fn stderr(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.log()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program of this workspace, beside the test's own.
///
/// # Panics
/// When it was not built; says how to build it.
#[must_use]
pub fn program(name: impl AsRef<OsStr>) -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let path = test
        .ancestors()
        .skip(1)
        .map(|folder| folder.join(name.as_ref()))
        .find(|path| path.is_file());
    path.unwrap_or_else(|| {
        panic!(
            "{} is not built; run `cargo build --workspace` first",
            name.as_ref().display()
        )
    })
}
