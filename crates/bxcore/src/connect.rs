//! The connecting end of a link.

use std::{
    io::{self, BufReader},
    marker::PhantomData,
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bxwire::{FrameError, Hello, Link, Refused, read_frame, write_frame};

use crate::{
    listen::TimedStream,
    report::Actionable,
    runbook::{self, Runbook},
};

/// How long a hello may take.
const HELLO_MS_MAX: Duration = Duration::from_secs(5);

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("nobody answers on {}", path.display())]
    Down { path: PathBuf, source: io::Error },
    #[error("{} is served by another version of Boxmaker (build {build})", path.display())]
    Version { path: PathBuf, build: String },
    #[error("{}", .0.message)]
    Refused(Refused),
    #[error("no answer on {} in time", .0.display())]
    Timeout(PathBuf),
    #[error("the connection to {} broke", path.display())]
    Broken {
        path: PathBuf,
        #[source]
        source: Option<FrameError>,
    },
}

impl Actionable for ClientError {
    fn runbook(&self) -> Option<Runbook> {
        match self {
            Self::Down { .. } | Self::Timeout(_) | Self::Broken { .. } => {
                Some(runbook::DAEMON_DOWN)
            }
            Self::Version { .. } => Some(runbook::WIRE_VERSION_MISMATCH),
            Self::Refused(refused) => runbook::ALL
                .iter()
                .find(|entry| Some(entry.anchor()) == refused.runbook.as_deref())
                .copied(),
        }
    }
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client<L> {
    path: PathBuf,
    reader: BufReader<TimedStream>,
    writer: UnixStream,
    link: PhantomData<fn() -> L>,
}

impl<L: Link> Client<L> {
    /// Connects and exchanges hellos. `answer_ms_max` bounds the wait for each frame.
    ///
    /// # Errors
    /// [`ClientError::Down`], [`ClientError::Version`], or a refusal (busy, another user).
    pub fn connect(path: &Path, answer_ms_max: Duration) -> Result<Self, ClientError> {
        let down = |source| ClientError::Down {
            path: path.into(),
            source,
        };
        let stream = UnixStream::connect(path).map_err(down)?;
        stream
            .set_write_timeout(Some(answer_ms_max))
            .map_err(down)?;
        let mut client = Self {
            path: path.into(),
            writer: stream.try_clone().map_err(down)?,
            reader: BufReader::new(TimedStream {
                stream,
                idle: HELLO_MS_MAX,
                frame: HELLO_MS_MAX,
                deadline: None,
            }),
            link: PhantomData,
        };
        let ours = Hello::of::<L>();
        // A server that refuses us may close before it reads; its refusal is what matters.
        let greeted = write_frame(&mut client.writer, &ours);
        let theirs = match client.read::<First>() {
            Ok(First::Hello(hello)) => hello,
            Ok(First::Refused(refused)) => return Err(ClientError::Refused(refused)),
            Err(error) => {
                return Err(match greeted {
                    Err(FrameError::Io(source)) => down(source),
                    _ => error,
                });
            }
        };
        if !theirs.matches(&ours) {
            return Err(ClientError::Version {
                path: path.into(),
                build: theirs
                    .build
                    .chars()
                    .filter(char::is_ascii_graphic)
                    .take(40)
                    .collect(),
            });
        }
        let timed = client.reader.get_mut();
        timed.idle = answer_ms_max;
        timed.frame = answer_ms_max;
        Ok(client)
    }

    /// Sends a request and reads one answer. A refusal is an error.
    ///
    /// # Errors
    /// Every [`ClientError`].
    pub fn call(&mut self, request: &L::Request) -> Result<L::Reply, ClientError> {
        self.send(request)?;
        self.recv()
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`ClientError::Broken`].
    pub fn send(&mut self, request: &L::Request) -> Result<(), ClientError> {
        write_frame(&mut self.writer, request).map_err(|error| self.broken(error))
    }

    /// Reads the next answer. A refusal is an error.
    ///
    /// # Errors
    /// Every [`ClientError`].
    pub fn recv(&mut self) -> Result<L::Reply, ClientError> {
        let reply = self.read()?;
        match L::refused(&reply) {
            Some(refused) => Err(ClientError::Refused(refused.clone())),
            None => Ok(reply),
        }
    }

    /// Changes how long the next answers may take.
    pub fn set_answer_ms_max(&mut self, wait: Duration) {
        let timed = self.reader.get_mut();
        timed.idle = wait;
        timed.frame = wait;
    }

    /// Something with which another thread ends this connection, waking its reader.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn closer(&self) -> io::Result<Closer> {
        self.writer.try_clone().map(Closer)
    }

    /// Whether nothing has come that nobody asked for: it would be taken for the next answer. A peer that closed
    /// is out of step too.
    fn is_in_step(&self) -> bool {
        use rustix::{io::Errno, net::RecvFlags};
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        self.reader.buffer().is_empty()
            && rustix::net::recv(&self.writer, &mut [0_u8; 1], peek)
                .is_err_and(|error| error == Errno::WOULDBLOCK)
    }

    fn read<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, ClientError> {
        let begun = !self.reader.buffer().is_empty();
        self.reader.get_mut().start(begun);
        match read_frame(&mut self.reader) {
            Ok(Some(frame)) => Ok(frame),
            Ok(None) => Err(ClientError::Broken {
                path: self.path.clone(),
                source: None,
            }),
            Err(error) if error.is_timeout() => Err(ClientError::Timeout(self.path.clone())),
            Err(error) => Err(self.broken(error)),
        }
    }

    fn broken(&self, source: FrameError) -> ClientError {
        ClientError::Broken {
            path: self.path.clone(),
            source: Some(source),
        }
    }
}

/// Ends a connection from another thread.
#[derive(Debug)]
pub struct Closer(UnixStream);

impl Closer {
    pub fn close(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum First {
    Hello(Hello),
    Refused(#[serde(deserialize_with = "refused")] Refused),
}

/// A refusal comes with the `type` of its link's reply enum.
fn refused<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Refused, D::Error> {
    use serde::Deserialize;
    #[derive(Deserialize)]
    struct Tagged {
        kind: String,
        message: String,
        #[serde(default)]
        runbook: Option<String>,
    }
    Tagged::deserialize(input).map(|tagged| Refused {
        kind: tagged.kind,
        message: tagged.message,
        runbook: tagged.runbook,
    })
}

/// A connection that is kept and made anew when it breaks, for calls that may be repeated safely.
#[derive(Debug)]
pub struct Kept<L> {
    path: PathBuf,
    answer_ms_max: Duration,
    client: Mutex<Option<Client<L>>>,
}

impl<L: Link> Kept<L> {
    #[must_use]
    pub fn new(path: PathBuf, answer_ms_max: Duration) -> Self {
        Self {
            path,
            answer_ms_max,
            client: Mutex::new(None),
        }
    }

    /// Calls over the kept connection; when that one turns out broken, or holds an answer too many, over a new one.
    ///
    /// # Errors
    /// Every [`ClientError`], of the last try.
    pub fn call(&self, request: &L::Request) -> Result<L::Reply, ClientError> {
        let mut kept = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = kept.take().filter(Client::is_in_step);
        if let Some(client) = kept.as_mut() {
            match client.call(request) {
                Err(ClientError::Broken { .. }) => *kept = None,
                Err(error @ ClientError::Timeout(_)) => {
                    *kept = None;
                    return Err(error);
                }
                answered => return answered,
            }
        }
        let mut client = Client::connect(&self.path, self.answer_ms_max)?;
        let answered = client.call(request);
        if !matches!(
            answered,
            Err(ClientError::Broken { .. } | ClientError::Timeout(_))
        ) {
            *kept = Some(client);
        }
        answered
    }
}
