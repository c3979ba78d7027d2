//! The serving end of a link: a socket in a folder of its own, peers checked by uid, one thread a
//! connection up to a bound, and nothing a peer sends can block or end the daemon.

use std::{
    io::{self, BufReader, Read},
    marker::PhantomData,
    net::Shutdown,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use bxwire::{FrameError, Hello, Link, Refused, read_frame, write_frame};

use crate::{
    config::Section,
    paths::{FolderError, make_private},
    report::Actionable,
    runbook::{self, Runbook},
};

mod refusals;
use refusals::Refusals;

/// Longest path of a socket in bytes (`sun_path` without its NUL).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The bounds of a listener; keys under `[limits]`.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once.
    pub connections_max: usize,
    /// From a frame's first byte to its last, and for one write.
    pub frame_ms_max: Duration,
    /// A connection without a frame for this long is closed; clients connect again.
    pub idle_ms_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 64,
            frame_ms_max: Duration::from_secs(10),
            idle_ms_max: Duration::from_secs(600),
        }
    }
}

impl Limits {
    /// Reads `connections_max`, `frame_ms_max` and `idle_ms_max`.
    #[must_use]
    pub fn of(section: &mut Section<'_>) -> Self {
        let usual = Self::default();
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        Self {
            connections_max: usize::try_from(section.number(
                "connections_max",
                usual.connections_max as u64,
                1..=4096,
            ))
            .unwrap_or(usual.connections_max),
            frame_ms_max: section.millis("frame_ms_max", ms(usual.frame_ms_max)),
            idle_ms_max: section.millis("idle_ms_max", ms(usual.idle_ms_max)),
        }
    }
}

/// Why a socket cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("{} is served by another process", .0.display())]
    InUse(PathBuf),
    #[error("{} is there and is not a socket", .0.display())]
    NotASocket(PathBuf),
    #[error("the path of {} is longer than {SOCKET_PATH_BYTES_MAX} bytes; use a shorter --home", .0.display())]
    PathTooLong(PathBuf),
    #[error("cannot listen on {}", path.display())]
    Bind { path: PathBuf, source: io::Error },
}

impl Actionable for ListenError {
    fn runbook(&self) -> Option<Runbook> {
        Some(match self {
            Self::InUse(_) => runbook::SOCKET_IN_USE,
            Self::Folder(_) | Self::NotASocket(_) | Self::PathTooLong(_) | Self::Bind { .. } => {
                runbook::SOCKET_UNUSABLE
            }
        })
    }
}

/// A served socket. [`Server::stop`] ends it.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
    stopping: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
    open: Arc<Mutex<Vec<Open>>>,
    refusals: Arc<Refusals>,
}

#[derive(Debug)]
struct Open {
    stream: UnixStream,
    thread: JoinHandle<()>,
}

/// Serves a link: `handle` runs on a thread of its own for each connection, and may keep it as long as it
/// reads. Only this process's own user may connect.
///
/// # Errors
/// Every [`ListenError`]; a socket nobody answers on is removed first.
pub fn serve<L: Link>(
    path: &Path,
    limits: Limits,
    handle: impl Fn(Connection<L>) + Send + Sync + 'static,
) -> Result<Server, ListenError> {
    serve_users(
        path,
        limits,
        vec![rustix::process::geteuid().as_raw()],
        handle,
    )
}

/// [`serve`] for named users.
///
/// # Errors
/// Every [`ListenError`].
pub fn serve_users<L: Link>(
    path: &Path,
    limits: Limits,
    users: Vec<u32>,
    handle: impl Fn(Connection<L>) + Send + Sync + 'static,
) -> Result<Server, ListenError> {
    let listener = bind(path)?;
    let bind_error = |source| ListenError::Bind {
        path: path.into(),
        source,
    };
    let stopping = Arc::new(AtomicBool::new(false));
    let open = Arc::new(Mutex::new(Vec::new()));
    let refusals = Arc::new(Refusals::of(L::NAME));
    let acceptor = Acceptor {
        listener: listener.try_clone().map_err(bind_error)?,
        limits,
        users,
        stopping: Arc::clone(&stopping),
        open: Arc::clone(&open),
        refusals: Arc::clone(&refusals),
        handle: Arc::new(handle),
        link: PhantomData::<fn() -> L>,
    };
    let accepting = thread::Builder::new()
        .name(format!("accept-{}", L::NAME))
        .spawn(move || acceptor.run())
        .map_err(bind_error)?;
    Ok(Server {
        path: path.into(),
        listener,
        stopping,
        accepting: Some(accepting),
        open,
        refusals,
    })
}

fn bind(path: &Path) -> Result<UnixListener, ListenError> {
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(ListenError::PathTooLong(path.into()));
    }
    if let Some(folder) = path.parent() {
        make_private(folder, 0o700)?;
    }
    let bind_error = |source| ListenError::Bind {
        path: path.into(),
        source,
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(bind_error(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ListenError::NotASocket(path.into()));
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => return Err(ListenError::InUse(path.into())),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(bind_error)?;
            }
            Err(error) => return Err(bind_error(error)),
        },
    }
    let listener = UnixListener::bind(path).map_err(bind_error)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(bind_error)?;
    Ok(listener)
}

struct Acceptor<L, F> {
    listener: UnixListener,
    limits: Limits,
    users: Vec<u32>,
    stopping: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<Open>>>,
    refusals: Arc<Refusals>,
    handle: Arc<F>,
    link: PhantomData<fn() -> L>,
}

impl<L: Link, F: Fn(Connection<L>) + Send + Sync + 'static> Acceptor<L, F> {
    fn run(self) {
        loop {
            let accepted = self.listener.accept();
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            match accepted {
                Ok((stream, _)) => self.admit(stream),
                // Out of descriptors or the like: give the others time to end.
                Err(error) => {
                    tracing::warn!(link = L::NAME, %error, "cannot accept a connection");
                    thread::park_timeout(Duration::from_millis(100));
                }
            }
        }
    }

    fn admit(&self, stream: UnixStream) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|open| !open.thread.is_finished());
        let refused = if !self.allows(&stream) {
            self.refusals.strangers.happened("not-allowed");
            Some(Refused::new(
                "not-allowed",
                "this user may not use this link",
            ))
        } else if open.len() >= self.limits.connections_max {
            Some(Refused::new("busy", "too many connections; try again"))
        } else {
            None
        };
        if let Some(refused) = refused {
            let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
            let _ = write_frame(&mut &stream, &L::Reply::from(refused));
            return;
        }
        let (Ok(ours), Ok(closing)) = (stream.try_clone(), stream.try_clone()) else {
            return;
        };
        let handle = Arc::clone(&self.handle);
        let limits = self.limits;
        let refusals = Arc::clone(&self.refusals);
        let spawned = thread::Builder::new().name(L::NAME.into()).spawn(move || {
            if let Some(connection) = Connection::greet(stream, limits, refusals) {
                handle(connection);
            }
            // Our own copy of the stream is still open: the peer is told here.
            let _ = closing.shutdown(Shutdown::Both);
        });
        match spawned {
            Ok(thread) => open.push(Open {
                stream: ours,
                thread,
            }),
            Err(error) => tracing::warn!(link = L::NAME, %error, "cannot start a thread"),
        }
    }

    fn allows(&self, stream: &UnixStream) -> bool {
        rustix::net::sockopt::socket_peercred(stream)
            .is_ok_and(|peer| self.users.contains(&peer.uid.as_raw()))
    }
}

impl Server {
    /// Takes no more, lets requests already read be answered, and waits for the threads up to `patience`.
    pub fn stop(mut self, patience: Duration) {
        self.end(patience);
    }

    fn end(&mut self, patience: Duration) {
        let Some(accepting) = self.accepting.take() else {
            return;
        };
        let deadline = Instant::now() + patience;
        self.stopping.store(true, Ordering::SeqCst);
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let _ = std::fs::remove_file(&self.path);
        let _ = accepting.join();
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for open in &open {
            let _ = open.stream.shutdown(Shutdown::Read);
        }
        for open in open {
            while !open.thread.is_finished() && Instant::now() < deadline {
                thread::park_timeout(Duration::from_millis(2));
            }
            if open.thread.is_finished() {
                let _ = open.thread.join();
            } else {
                tracing::warn!("left a connection that did not end in time");
                let _ = open.stream.shutdown(Shutdown::Both);
            }
        }
        self.refusals.ended();
    }
}

/// Whoever lets go of it without a word waits for nobody, and leaves no thread behind that accepts.
impl Drop for Server {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Why there is no next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The peer hung up, or the connection broke.
    Gone,
    /// No frame began within `idle_ms_max`. The connection is whole: whoever is still answering reads on.
    Idle,
    /// What came was no frame; the peer was told.
    Refused,
}

/// One peer, after the hellos.
#[derive(Debug)]
pub struct Connection<L> {
    reader: BufReader<TimedStream>,
    writer: UnixStream,
    refusals: Arc<Refusals>,
    link: PhantomData<fn() -> L>,
}

impl<L: Link> Connection<L> {
    fn greet(stream: UnixStream, limits: Limits, refusals: Arc<Refusals>) -> Option<Self> {
        stream.set_write_timeout(Some(limits.frame_ms_max)).ok()?;
        let mut connection = Self {
            writer: stream.try_clone().ok()?,
            reader: BufReader::new(TimedStream {
                stream,
                idle: limits.frame_ms_max,
                frame: limits.frame_ms_max,
                deadline: None,
            }),
            refusals,
            link: PhantomData,
        };
        let hello: Hello = connection.read().ok()?;
        let ours = Hello::of::<L>();
        if !hello.matches(&ours) {
            // Our hello tells the peer what we are; it sees the difference itself.
            let _ = write_frame(&mut connection.writer, &ours);
            return None;
        }
        write_frame(&mut connection.writer, &ours).ok()?;
        connection.reader.get_mut().idle = limits.idle_ms_max;
        Some(connection)
    }

    /// The next request. `None`: the peer is gone, idle for too long, or sent what is no frame (it was told).
    pub fn recv(&mut self) -> Option<L::Request> {
        self.request().ok()
    }

    /// [`Connection::recv`] for a handler that has to know why there is none.
    ///
    /// # Errors
    /// [`Ended`]; only after `Idle` may it be called again.
    pub fn request(&mut self) -> Result<L::Request, Ended> {
        self.read()
    }

    fn read<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, Ended> {
        let begun = !self.reader.buffer().is_empty();
        self.reader.get_mut().start(begun);
        let error = match read_frame(&mut self.reader) {
            Ok(Some(frame)) => {
                self.refusals.frames.passed();
                return Ok(frame);
            }
            Ok(None) => return Err(Ended::Gone),
            Err(error) => error,
        };
        let begun = self.reader.get_ref().deadline.is_some();
        let told = || crate::report::line(&error, None);
        let (kind, message) = match &error {
            FrameError::Malformed(_) => ("bad-frame", told()),
            FrameError::TooLong => ("too-long", told()),
            FrameError::Truncated => ("truncated", told()),
            FrameError::Io(_) if error.is_timeout() && begun => {
                let most = self.reader.get_ref().frame;
                ("too-slow", format!("a frame took longer than {most:?}"))
            }
            FrameError::Io(_) if error.is_timeout() => return Err(Ended::Idle),
            FrameError::Io(_) => return Err(Ended::Gone),
        };
        self.refusals.frames.happened(kind);
        let refused = Refused::new(kind, message).with_runbook(runbook::WIRE_REFUSED.anchor());
        let _ = self.send(&refused.into());
        Err(Ended::Refused)
    }

    /// Sends an answer.
    ///
    /// # Errors
    /// [`FrameError`]: the peer is gone or too slow; stop serving it.
    pub fn send(&mut self, reply: &L::Reply) -> Result<(), FrameError> {
        write_frame(&mut self.writer, reply)
    }

    /// Whether the peer still holds its end, for a handler that answers for long. What the peer sent meanwhile stays to
    /// be read.
    #[must_use]
    pub fn is_there(&self) -> bool {
        use rustix::{io::Errno, net::RecvFlags};
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.writer, &mut [0_u8; 1], peek) {
            Ok((_, bytes)) => bytes > 0 || !self.reader.buffer().is_empty(),
            Err(error) => error == Errno::WOULDBLOCK || error == Errno::INTR,
        }
    }

    /// Splits reading from writing, for a handler that watches for a hang-up while it answers.
    #[must_use]
    pub fn split(self) -> (Self, Sender<L>)
    where
        Self: Sized,
    {
        let sender = Sender {
            writer: self.writer.try_clone().ok(),
            link: PhantomData,
        };
        (self, sender)
    }
}

/// The writing half of a [`Connection`].
#[derive(Debug)]
pub struct Sender<L> {
    writer: Option<UnixStream>,
    link: PhantomData<fn() -> L>,
}

impl<L: Link> Sender<L> {
    /// Sends an answer.
    ///
    /// # Errors
    /// [`FrameError`]: the peer is gone or too slow.
    pub fn send(&mut self, reply: &L::Reply) -> Result<(), FrameError> {
        match &mut self.writer {
            Some(writer) => write_frame(writer, reply),
            None => Err(FrameError::Io(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Closes both directions, so that a reader blocked on this connection wakes.
    pub fn close(&self) {
        if let Some(writer) = &self.writer {
            let _ = writer.shutdown(Shutdown::Both);
        }
    }
}

/// A stream whose reads are bounded: by the idle time before a frame's first byte, by a deadline after it.
#[derive(Debug)]
pub(crate) struct TimedStream {
    pub(crate) stream: UnixStream,
    pub(crate) idle: Duration,
    pub(crate) frame: Duration,
    pub(crate) deadline: Option<Instant>,
}

impl TimedStream {
    /// A new frame begins; `begun`: some of it is already here.
    pub(crate) fn start(&mut self, begun: bool) {
        self.deadline = begun.then(|| Instant::now() + self.frame);
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wait = match self.deadline {
            None => self.idle,
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
        };
        if wait.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(wait))?;
        let read = self.stream.read(buffer)?;
        if read > 0 && self.deadline.is_none() {
            self.deadline = Some(Instant::now() + self.frame);
        }
        Ok(read)
    }
}
