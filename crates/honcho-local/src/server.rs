//! The HTTP side: a bounded pool of worker threads over tiny_http, each reading a call, having it
//! answered and sending the answer, unless a fault says otherwise. Decides nothing about Honcho.

use std::io::{Cursor, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tiny_http::{Header, Request, Response, StatusCode};

use crate::api::Api;
use crate::auth::{Claims, Keys};
use crate::call::{Answer, BODY_BYTES_MAX, Call, decode_query};
use crate::errors::{Refusal, StartError};
use crate::faults::{Controls, Fault, Rule};
use crate::front::Front;
use crate::model::Model;
use crate::store::Store;

/// Threads that answer calls.
const WORKERS: usize = 8;
/// Requests held without an answer by a fault; the oldest is closed for a further one.
const HELD_MAX: usize = 256;
/// Answers that a fault delays at once.
const LATE_MAX: usize = 256;
/// How long a start waits for an address that is still being let go.
const LISTEN_RETRY_MAX: Duration = Duration::from_secs(3);
/// How long a stop waits for calls that are being answered.
const DRAIN_MAX: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);

/// A language model to chat with.
#[derive(Debug, Clone)]
pub struct ModelOptions {
    pub url: String,
    pub name: String,
    pub key: Option<String>,
}

#[derive(Clone)]
pub struct Options {
    pub listen: SocketAddr,
    /// `None`: in memory, gone with the server.
    pub db: Option<PathBuf>,
    /// How long a deletion takes to go through.
    pub drain_after: Duration,
    /// Turns keys on.
    pub key_secret: Option<String>,
    pub model: Option<ModelOptions>,
    /// Whether faults and the record of requests are on.
    pub test_controls: bool,
    pub controls: Controls,
}

impl Default for Options {
    /// For tests: a free port of the loopback, data in memory, faults and record on.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            db: None,
            drain_after: Duration::from_secs(1),
            key_secret: None,
            model: None,
            test_controls: true,
            controls: Controls::default(),
        }
    }
}

impl Options {
    /// For tests that restart: as the default, with the data in a file.
    pub fn at(db: impl Into<PathBuf>) -> Self {
        Self {
            db: Some(db.into()),
            ..Self::default()
        }
    }
}

/// A running server. Dropping it stops it and closes every connection.
pub struct Server {
    options: Options,
    address: SocketAddr,
    shared: Arc<Shared>,
    http: Option<Arc<tiny_http::Server>>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    api: Api,
    controls: Controls,
    test_controls: bool,
    front: Mutex<Option<Front>>,
    stopping: (Mutex<bool>, Condvar),
    held: Mutex<Vec<Request>>,
    late: Mutex<Vec<JoinHandle<()>>>,
}

impl Server {
    /// # Errors
    /// The database cannot be opened, or the address cannot be listened on.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let api = Api {
            store: Store::open(options.db.as_deref(), options.drain_after)?,
            keys: options.key_secret.as_deref().map(Keys::new),
            model: options
                .model
                .as_ref()
                .map(|model| Model::new(&model.url, &model.name, model.key.clone())),
        };
        let listener = listen(options.listen)?;
        let unusable = |source| StartError::Listen {
            address: options.listen.to_string(),
            source,
        };
        let address = listener.local_addr().map_err(unusable)?;
        let (front, listener) = if options.test_controls {
            let inner = listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
            let upstream = inner.local_addr().map_err(unusable)?;
            (
                Some(Front::start(listener, upstream).map_err(StartError::Thread)?),
                inner,
            )
        } else {
            (None, listener)
        };
        let http = tiny_http::Server::from_listener(listener, None).map_err(|source| {
            StartError::Serve {
                address: address.to_string(),
                source,
            }
        })?;
        let http = Arc::new(http);
        let shared = Arc::new(Shared {
            api,
            controls: options.controls.clone(),
            test_controls: options.test_controls,
            front: Mutex::new(front),
            stopping: (Mutex::new(false), Condvar::new()),
            held: Mutex::default(),
            late: Mutex::default(),
        });
        let mut server = Self {
            options,
            address,
            shared,
            http: Some(Arc::clone(&http)),
            workers: Vec::new(),
        };
        for number in 0..WORKERS {
            let (http, shared) = (Arc::clone(&http), Arc::clone(&server.shared));
            let worker = thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || work(&http, &shared))
                .map_err(StartError::Thread)?;
            server.workers.push(worker);
        }
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn controls(&self) -> &Controls {
        &self.shared.controls
    }

    /// A key for these claims; `None` when keys are off.
    pub fn key(&self, claims: &Claims) -> Option<String> {
        self.shared.api.mint(claims)
    }

    /// One workspace's contents in a stable order; `null` when there is none.
    ///
    /// # Errors
    /// The database refused.
    pub fn dump(&self, workspace: &str) -> Result<Value, Refusal> {
        self.shared.api.store.dump(workspace)
    }

    /// Every workspace's contents, by name.
    ///
    /// # Errors
    /// The database refused.
    pub fn dump_all(&self) -> Result<Value, Refusal> {
        self.shared.api.store.dump_all()
    }

    /// Stops, and gives back options that start it again on the same address with the same controls
    /// (and, with a file, the same data).
    pub fn stop(mut self) -> Options {
        self.shut_down();
        Options {
            listen: self.address,
            ..self.options.clone()
        }
    }

    fn shut_down(&mut self) {
        let Some(http) = self.http.take() else { return };
        self.shared.begin_stop();
        if let Some(front) = lock(&self.shared.front).as_mut() {
            front.stop();
        }
        lock(&self.shared.held).drain(..).for_each(discard);
        for _ in &self.workers {
            http.unblock();
        }
        let mut threads: Vec<JoinHandle<()>> = self.workers.drain(..).collect();
        threads.append(&mut lock(&self.shared.late));
        let deadline = Instant::now() + DRAIN_MAX;
        for thread in threads {
            while !thread.is_finished() && Instant::now() < deadline {
                thread::sleep(POLL);
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    let deadline = Instant::now() + LISTEN_RETRY_MAX;
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => {
                // Accepted sockets inherit it; an answer in two writes would wait for the peer otherwise.
                let _ = rustix::net::sockopt::set_tcp_nodelay(&listener, true);
                return Ok(listener);
            }
            // A server that was just stopped lets go of its port a moment later.
            Err(error)
                if error.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < deadline =>
            {
                thread::sleep(POLL);
            }
            Err(source) => {
                return Err(StartError::Listen {
                    address: address.to_string(),
                    source,
                });
            }
        }
    }
}

fn work(http: &tiny_http::Server, shared: &Arc<Shared>) {
    while !shared.is_stopping() {
        match http.recv() {
            Ok(request) if shared.is_stopping() => discard(request),
            Ok(request) => serve(shared, request),
            Err(_) => {}
        }
    }
}

/// Lets a request go without the 500 that tiny_http would send for it.
fn discard(request: Request) {
    drop(request.into_writer());
}

fn serve(shared: &Arc<Shared>, mut request: Request) {
    let call = match read(&mut request) {
        Ok(call) => call,
        Err(ReadError::TooLarge) => {
            let refusal = Refusal::new(413, "The body is too large");
            return send(request, &Answer::Json(413, refusal.body()), None);
        }
        Err(ReadError::Broken) => return discard(request),
    };
    if !shared.test_controls {
        let answer = shared.api.answer(&call);
        return send(request, &answer, None);
    }
    if call.path.starts_with("/local/") {
        let answer = control(shared, &call);
        return send(request, &answer, None);
    }
    let (number, fault) = shared.controls.begin(&call);
    match fault {
        None => shared.carry_out(&call, number, request),
        Some(fault) => misbehave(shared, call, number, fault, request),
    }
}

enum ReadError {
    TooLarge,
    Broken,
}

fn read(request: &mut Request) -> Result<Call, ReadError> {
    let header = |name: &'static str| {
        request
            .headers()
            .iter()
            .find(|header| header.field.equiv(name))
            .map(|header| header.value.as_str().to_owned())
    };
    let (content_type, authorization) = (header("Content-Type"), header("Authorization"));
    let url = request.url().to_owned();
    let (path, query) = url.split_once('?').unwrap_or((&url, ""));
    if request
        .body_length()
        .is_some_and(|length| length > BODY_BYTES_MAX)
    {
        return Err(ReadError::TooLarge);
    }
    let mut body = Vec::new();
    let limit = BODY_BYTES_MAX as u64 + 1;
    request
        .as_reader()
        .take(limit)
        .read_to_end(&mut body)
        .map_err(|_| ReadError::Broken)?;
    if body.len() > BODY_BYTES_MAX {
        return Err(ReadError::TooLarge);
    }
    if request
        .body_length()
        .is_some_and(|length| length != body.len())
    {
        return Err(ReadError::Broken);
    }
    Ok(Call {
        method: request.method().to_string(),
        path: path.to_owned(),
        query: decode_query(query),
        content_type,
        authorization,
        body,
    })
}

fn send(request: Request, answer: &Answer, retry_after: Option<u64>) {
    let (status, kind, body) = encoded(answer);
    let mut headers = vec![("content-type", kind.to_owned())];
    headers.extend(retry_after.map(|seconds| ("retry-after", seconds.to_string())));
    if let Answer::Redirect(location) = answer {
        headers.push(("location", location.clone()));
    }
    let headers = headers
        .into_iter()
        .filter_map(|(name, value)| Header::from_bytes(name.as_bytes(), value.as_bytes()).ok())
        .collect();
    // Events have no length, which makes tiny_http send them in chunks.
    let length = if matches!(answer, Answer::Events(_)) {
        None
    } else {
        Some(body.len())
    };
    let response = Response::new(StatusCode(status), headers, Cursor::new(body), length, None)
        .with_chunked_threshold(usize::MAX);
    if request.respond(response).is_err() {
        tracing::debug!("the client was gone before its answer");
    }
}

fn encoded(answer: &Answer) -> (u16, &'static str, Vec<u8>) {
    match answer {
        Answer::Json(status, value) => {
            (*status, "application/json", value.to_string().into_bytes())
        }
        Answer::Empty(status) => (*status, "application/json", Vec::new()),
        Answer::Redirect(_) => (307, "application/json", Vec::new()),
        Answer::Events(events) => {
            let text: String = events
                .iter()
                .map(|event| format!("data: {event}\n\n"))
                .collect();
            (200, "text/event-stream; charset=utf-8", text.into_bytes())
        }
    }
}

/// The controls over HTTP, for tests of the program itself.
fn control(shared: &Shared, call: &Call) -> Answer {
    let done = Ok(Answer::Empty(204));
    let reply = match (call.method.as_str(), call.path.as_str()) {
        ("GET", "/local/requests") => Ok(Answer::Json(200, json!(shared.controls.requests()))),
        ("DELETE", "/local/requests") => {
            shared.controls.forget_requests();
            done
        }
        ("POST", "/local/faults") => match serde_json::from_slice::<Rule>(&call.body) {
            Ok(rule) => {
                shared.controls.add(rule);
                done
            }
            Err(error) => Err(Refusal::unprocessable(error.to_string())),
        },
        ("DELETE", "/local/faults") => {
            shared.controls.clear();
            done
        }
        ("GET", "/local/dump") => match call.param("workspace") {
            Some(workspace) => shared.api.store.dump(workspace),
            None => shared.api.store.dump_all(),
        }
        .map(|dump| Answer::Json(200, dump)),
        _ => Err(Refusal::not_found("Not Found")),
    };
    reply.unwrap_or_else(|refusal| Answer::Json(refusal.status, refusal.body()))
}

impl Shared {
    fn begin_stop(&self) {
        *lock(&self.stopping.0) = true;
        self.stopping.1.notify_all();
    }

    fn is_stopping(&self) -> bool {
        *lock(&self.stopping.0)
    }

    /// False: the server is stopping, and the wait was cut short.
    fn wait(&self, wait: Duration) -> bool {
        let stopping = lock(&self.stopping.0);
        let waited = self
            .stopping
            .1
            .wait_timeout_while(stopping, wait, |stopping| !*stopping);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn carry_out(&self, call: &Call, number: u64, request: Request) {
        let answer = self.api.answer(call);
        self.controls.end(number, Some(encoded(&answer).0), true);
        send(request, &answer, None);
    }

    fn client(&self, request: &Request) -> Option<TcpStream> {
        let seen = *request.remote_addr()?;
        lock(&self.front).as_ref()?.client(seen)
    }

    /// Closes the client's connection, so that nothing more reaches it.
    fn close(&self, request: Request) {
        if let Some(client) = self.client(&request) {
            let _ = client.shutdown(Shutdown::Both);
        }
        discard(request);
    }

    /// Writes to the client itself, past tiny_http, then closes.
    fn write_and_close(&self, request: Request, bytes: &[u8]) {
        if let Some(mut client) = self.client(&request) {
            let _ = client.write_all(bytes);
        }
        self.close(request);
    }

    fn hold(&self, request: Request) {
        let mut held = lock(&self.held);
        if held.len() >= HELD_MAX {
            let oldest = held.remove(0);
            self.close(oldest);
        }
        held.push(request);
    }

    /// Runs what a fault does later on a thread of its own.
    fn later(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) {
        let mut late = lock(&self.late);
        late.retain(|thread| !thread.is_finished());
        if late.len() >= LATE_MAX {
            tracing::warn!("too many delayed answers; one is dropped");
            return;
        }
        let shared = Arc::clone(self);
        match thread::Builder::new()
            .name(String::from("late"))
            .spawn(move || work(&shared))
        {
            Ok(thread) => late.push(thread),
            Err(_) => tracing::warn!("no thread for a delayed answer"),
        }
    }
}

fn head(status: u16, kind: &str, length: usize) -> String {
    let reason = StatusCode(status).default_reason_phrase();
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    )
}

fn misbehave(shared: &Arc<Shared>, call: Call, number: u64, fault: Fault, request: Request) {
    let controls = &shared.controls;
    // What the faults below that carry the request out have in common.
    let commit = |shared: &Shared, answered: bool| {
        let answer = shared.api.answer(&call);
        controls.end(number, Some(encoded(&answer).0), answered);
        answer
    };
    match fault {
        Fault::Status {
            status,
            retry_after,
            commit: done,
        } => {
            if done {
                commit(shared, false);
            }
            controls.end(number, Some(status), true);
            let refusal = match status {
                500 => Refusal::unexpected(),
                _ => Refusal::new(status, "A fault that was asked for"),
            };
            send(request, &Answer::Json(status, refusal.body()), retry_after);
        }
        Fault::RefuseKey => {
            controls.end(number, Some(401), true);
            send(
                request,
                &Answer::Json(401, Refusal::new(401, "Invalid JWT").body()),
                None,
            );
        }
        Fault::Forget => {
            if shared.api.store.forget().is_err() {
                tracing::warn!("could not forget");
            }
            shared.carry_out(&call, number, request);
        }
        Fault::HandleLate { ms } => shared.later(move |shared| {
            if shared.wait(Duration::from_millis(ms)) {
                shared.carry_out(&call, number, request);
            } else {
                shared.close(request);
            }
        }),
        Fault::AnswerLate { ms } => {
            let answer = commit(shared, true);
            shared.later(move |shared| {
                if shared.wait(Duration::from_millis(ms)) {
                    send(request, &answer, None)
                } else {
                    shared.close(request)
                }
            });
        }
        Fault::NeverAnswer { commit: done } => {
            if done {
                commit(shared, false);
            }
            shared.hold(request);
        }
        Fault::DropBefore => shared.close(request),
        Fault::CommitAndDrop => {
            commit(shared, false);
            shared.close(request);
        }
        Fault::CutBody => {
            let (status, kind, body) = encoded(&commit(shared, false));
            let mut bytes = head(status, kind, body.len().max(2)).into_bytes();
            bytes.extend_from_slice(&body[..body.len() / 2]);
            shared.write_and_close(request, &bytes);
        }
        Fault::Drip { every_ms } => {
            let (status, kind, body) = encoded(&commit(shared, false));
            let mut bytes = head(status, kind, body.len()).into_bytes();
            bytes.extend_from_slice(&body);
            shared.later(move |shared| {
                if let Some(mut client) = shared.client(&request) {
                    for byte in bytes {
                        let sent = client.write_all(&[byte]);
                        if sent.is_err() || !shared.wait(Duration::from_millis(every_ms)) {
                            break;
                        }
                    }
                }
                shared.close(request);
            });
        }
        Fault::Garbage => {
            let (status, kind, _) = encoded(&commit(shared, true));
            let body = b"<<< \xff\xfe not JSON at all >>>";
            let mut bytes = head(status, kind, body.len()).into_bytes();
            bytes.extend_from_slice(body);
            shared.write_and_close(request, &bytes);
        }
        Fault::Huge { bytes: size } => {
            let (status, kind, _) = encoded(&commit(shared, true));
            let mut bytes = head(status, kind, size.max(2)).into_bytes();
            bytes.push(b'"');
            bytes.resize(bytes.len() + size.saturating_sub(2), b'x');
            bytes.push(b'"');
            shared.write_and_close(request, &bytes);
        }
    }
}
