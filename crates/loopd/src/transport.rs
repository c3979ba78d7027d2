//! One HTTP exchange over a connection of its own, which another thread can end. Called by `server` and
//! `model`; never pools, follows no redirect, asks no proxy.

use std::{
    io::{self, Read},
    time::Duration,
};

use bxcore::{http, secrets::Secret};
use ureq::{
    Agent,
    http::{Request, Response, header},
    unversioned::{
        resolver::DefaultResolver,
        transport::{
            Buffers, ConnectionDetails, Connector, NextTimeout, RustlsConnector, TcpConnector,
            Transport,
        },
    },
};

use crate::cancel::{Cancel, Hooked};

/// Until a connection stands.
const CONNECT_MS_MAX: Duration = Duration::from_secs(3);
/// Until a host's address is known.
const RESOLVE_MS_MAX: Duration = Duration::from_secs(3);
/// Longest body that is read whole.
const BODY_BYTES_MAX: u64 = 1024 * 1024;

/// The two waits of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Waits {
    pub first_byte: Duration,
    pub silence: Duration,
}

/// Why there is no whole answer. Says nothing of what came.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("cannot connect")]
    Connect(#[source] Quiet),
    #[error("the connection broke before an answer came")]
    NoAnswer(#[source] Quiet),
    #[error("the connection broke")]
    Broken,
    #[error("it was silent for too long")]
    Silent,
    #[error("cancelled")]
    Cancelled,
}

/// What kind of failure the system or the HTTP library saw, in a word.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Quiet(String);

/// An answer whose body is still to come.
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<Duration>,
    pub is_stream: bool,
    response: Response<ureq::Body>,
    cancel: Cancel,
    _hook: Hooked,
}

/// Sends a request; `body` makes it a POST.
///
/// # Errors
/// [`HttpError`].
pub fn send(
    url: &str,
    key: Option<&Secret>,
    body: Option<&[u8]>,
    waits: Waits,
    cancel: &Cancel,
) -> Result<Answer, HttpError> {
    let config = http::config(url)
        .timeout_resolve(Some(RESOLVE_MS_MAX))
        .timeout_connect(Some(CONNECT_MS_MAX))
        .user_agent("boxmaker")
        .build();
    let connector =
        ().chain(TcpConnector::default())
            .chain(RustlsConnector::default())
            .chain(Watch(waits));
    let agent = Agent::with_parts(config, connector, DefaultResolver::default());
    let stopper = agent.clone();
    let hook = cancel.hook(move || stopper.shutdown());
    let mut request = Request::builder()
        .uri(url)
        .header(header::CONNECTION, "close");
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {}", key.expose()));
    }
    let sent = match body {
        Some(body) => request
            .method("POST")
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(ureq::Error::from)
            .and_then(|request| agent.run(request)),
        None => request
            .body(())
            .map_err(ureq::Error::from)
            .and_then(|request| agent.run(request)),
    };
    let response = sent.map_err(|error| match cancel.reason() {
        Some(_) => HttpError::Cancelled,
        None => sort(&error),
    })?;
    let text = |name| {
        let value = response.headers().get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    Ok(Answer {
        status: response.status().as_u16(),
        retry_after: text(header::RETRY_AFTER)
            .parse()
            .ok()
            .map(Duration::from_secs),
        is_stream: text(header::CONTENT_TYPE).starts_with("text/event-stream"),
        response,
        cancel: cancel.clone(),
        _hook: hook,
    })
}

impl Answer {
    /// Reads the body piece by piece; `each` says whether to go on.
    ///
    /// # Errors
    /// [`HttpError::Broken`], [`HttpError::Silent`], [`HttpError::Cancelled`].
    pub fn pieces(mut self, mut each: impl FnMut(&[u8]) -> bool) -> Result<(), HttpError> {
        let mut reader = self.response.body_mut().as_reader();
        let mut buffer = [0; 16 * 1024];
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) if self.cancel.reason().is_some() => return Err(HttpError::Cancelled),
                Err(error) if is_timeout(&error) => return Err(HttpError::Silent),
                Err(_) => return Err(HttpError::Broken),
            };
            if self.cancel.reason().is_some() {
                return Err(HttpError::Cancelled);
            }
            if read == 0 || !each(&buffer[..read]) {
                return Ok(());
            }
        }
    }

    /// Reads the body whole, up to a bound.
    ///
    /// # Errors
    /// As [`Answer::pieces`].
    pub fn whole(self) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        self.pieces(|piece| {
            body.extend_from_slice(piece);
            (body.len() as u64) < BODY_BYTES_MAX
        })?;
        Ok(body)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
        || error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<ureq::Error>())
            .is_some_and(|inner| matches!(inner, ureq::Error::Timeout(_)))
}

fn sort(error: &ureq::Error) -> HttpError {
    use ureq::Timeout;
    match error {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            HttpError::Connect(Quiet("nobody answers in time".into()))
        }
        ureq::Error::Timeout(_) => HttpError::Silent,
        ureq::Error::HostNotFound => HttpError::Connect(Quiet("no such host".into())),
        ureq::Error::Io(error) => match error.kind() {
            io::ErrorKind::TimedOut => HttpError::Silent,
            kind @ (io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof) => HttpError::NoAnswer(Quiet(kind.to_string())),
            kind => HttpError::Connect(Quiet(kind.to_string())),
        },
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => {
            HttpError::Connect(Quiet("TLS failed".into()))
        }
        _ => HttpError::NoAnswer(Quiet("the answer is not HTTP".into())),
    }
}

/// Gives each read of a connection its limit: a long one for the first byte, a shorter one after it.
#[derive(Debug)]
struct Watch(Waits);

impl<In: Transport> Connector<In> for Watch {
    type Out = Watched<In>;

    fn connect(
        &self,
        _: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        Ok(chained.map(|inner| Watched {
            inner,
            waits: self.0,
            begun: false,
        }))
    }
}

#[derive(Debug)]
struct Watched<In> {
    inner: In,
    waits: Waits,
    begun: bool,
}

impl<In: Transport> Transport for Watched<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(
        &mut self,
        amount: usize,
        mut timeout: NextTimeout,
    ) -> Result<(), ureq::Error> {
        timeout.per_write = Some(self.waits.silence.into());
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, mut timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let wait = if self.begun {
            self.waits.silence
        } else {
            self.waits.first_byte
        };
        timeout.per_read = Some(wait.into());
        let progress = self.inner.await_input(timeout)?;
        self.begun = true;
        Ok(progress)
    }

    fn is_open(&mut self) -> bool {
        false
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
