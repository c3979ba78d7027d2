//! The listener, its threads and the routes. Started by `main` or by a test; dropping it stops it.
//! Never runs more than a fixed number of connections at once.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::chat::{self, Chats};
use crate::check::{Refusal, Template};
use crate::endpoints;
use crate::http::{self, ReadFailure, Request};
use crate::record::{Outcome, Record, Recorded};
use crate::replay::{self, Wire};
use crate::reply::{Behaviour, Reply};

/// Connections served at once; the one too many is closed unanswered.
pub const CONNECTIONS_MAX: usize = 64;
/// Longest wait for the next bytes of a request.
const READ_WAIT_MAX: Duration = Duration::from_secs(30);
/// Pause after a connection could not be taken.
const ACCEPT_RETRY_WAIT: Duration = Duration::from_millis(10);
/// Bytes of a refused request that are read away, so that its client can read the refusal.
const REFUSED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What the pretended model server is like.
#[derive(Debug, Clone)]
pub struct Options {
    pub listen: SocketAddr,
    /// The context of one slot, in tokens.
    pub n_ctx: usize,
    pub total_slots: usize,
    pub model: String,
    /// Asked for on every path but `/health`.
    pub api_key: Option<String>,
    /// Whether the template knows tools; if not, they are dropped in silence.
    pub supports_tools: bool,
    pub template: Template,
    /// So many requests, on any path, are told that the model loads.
    pub loading_requests: usize,
    /// Whether requests are kept for [`Server::requests`].
    pub record: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            n_ctx: 32_768,
            total_slots: 4,
            model: "model-local".to_owned(),
            api_key: None,
            supports_tools: true,
            template: Template::Lenient,
            loading_requests: 0,
            record: true,
        }
    }
}

/// The server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another program has the address, or it is not this machine's: choose another one.
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    /// The system has no thread left.
    #[error("cannot start the listening thread")]
    Thread(#[source] io::Error),
}

/// A running server. Dropping it ends every connection and joins every thread.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    options: Options,
    chats: Chats,
    record: Record,
    loading: AtomicUsize,
    stopping: Arc<AtomicBool>,
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl Server {
    /// Starts on a free port of 127.0.0.1, for a test.
    ///
    /// # Panics
    /// When the machine has no port or thread left; a program uses [`Server::start_with`].
    pub fn start(behaviour: Behaviour) -> Server {
        match Server::start_with(behaviour, Options::default()) {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts as the options say.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start_with(behaviour: Behaviour, options: Options) -> Result<Server, StartError> {
        let listen = |source| StartError::Listen {
            address: options.listen,
            source,
        };
        let listener = TcpListener::bind(options.listen).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let shared = Arc::new(Shared {
            chats: Chats::new(behaviour),
            record: Record::default(),
            loading: AtomicUsize::new(options.loading_requests),
            stopping: Arc::default(),
            open: Mutex::default(),
            options,
        });
        let accepting = {
            let shared = shared.clone();
            thread::Builder::new()
                .name("accept".to_owned())
                .spawn(move || accept(&listener, &shared))
                .map_err(StartError::Thread)?
        };
        Ok(Server {
            address,
            shared,
            accepting: Some(accepting),
        })
    }

    /// `http://127.0.0.1:PORT`, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far, on any path.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.record.all()
    }

    /// Every chat request so far.
    pub fn chats(&self) -> Vec<Recorded> {
        self.requests()
            .into_iter()
            .filter(Recorded::is_chat)
            .collect()
    }

    /// Waits until that many chat requests came; false if they did not in that time.
    pub fn wait_for_chats(&self, count: usize, time: Duration) -> bool {
        self.shared.record.wait(time, |all| {
            all.iter().filter(|one| one.is_chat()).count() >= count
        })
    }

    /// Waits until the chat request with that place in [`Server::chats`] has that outcome.
    pub fn wait_for_outcome(&self, chat: usize, outcome: Outcome, time: Duration) -> bool {
        self.shared.record.wait(time, |all| {
            all.iter()
                .filter(|one| one.is_chat())
                .nth(chat)
                .is_some_and(|one| one.outcome == outcome)
        })
    }

    /// Adds a reply at the end of a running script.
    pub fn push(&self, reply: Reply) {
        self.shared.chats.push(reply);
    }

    /// Chat calls that found the script at its end.
    pub fn calls_beyond_script(&self) -> u64 {
        self.shared.chats.beyond_script()
    }

    /// Answers the next requests, on any path, as while the model loads.
    pub fn load_for(&self, requests: usize) {
        self.shared.loading.store(requests, Ordering::SeqCst);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the blocked accept. The wildcard address is reached through loopback.
        let mut wake = self.address;
        if wake.ip().is_unspecified() {
            wake.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let _ = TcpStream::connect_timeout(&wake, Duration::from_secs(1));
        for stream in lock(&self.shared.open).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// Takes connections until the server stops, then joins them all.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for number in 0_u64.. {
        let accepted = listener.accept();
        if shared.stopping.load(Ordering::SeqCst) {
            break;
        }
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or a client that left at once; neither ends the server.
            thread::sleep(ACCEPT_RETRY_WAIT);
            continue;
        };
        threads.retain(|thread| !thread.is_finished());
        let Ok(handle) = stream.try_clone() else {
            continue;
        };
        if threads.len() >= CONNECTIONS_MAX {
            continue;
        }
        lock(&shared.open).insert(number, handle);
        let connection = {
            let shared = shared.clone();
            thread::Builder::new()
                .name("connection".to_owned())
                .spawn(move || {
                    serve(&stream, &shared);
                    lock(&shared.open).remove(&number);
                })
        };
        match connection {
            Ok(thread) => threads.push(thread),
            Err(_) => drop(lock(&shared.open).remove(&number)),
        }
    }
    // One that came in just before the stop may have missed the first round.
    for stream in lock(&shared.open).values() {
        let _ = stream.shutdown(Shutdown::Both);
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn serve(stream: &TcpStream, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    let _ = stream.set_read_timeout(Some(READ_WAIT_MAX));
    let request = match http::read_request(stream) {
        Ok(request) => request,
        Err(ReadFailure::Gone) => return,
        Err(ReadFailure::Refuse { status, message }) => {
            let refusal = Refusal::new(status, "invalid_request_error", message);
            return refuse(stream, &chat::refusal_wire(&refusal));
        }
    };
    let number = shared.options.record.then(|| shared.record.add(&request));
    let outcome = replay::write(stream, &route(shared, &request), &shared.stopping);
    if let Some(number) = number {
        shared.record.end(number, outcome);
    }
}

/// Answers a request that was not read to its end.
fn refuse(stream: &TcpStream, wire: &Wire) {
    let bytes = wire.pieces.concat();
    let written = io::Write::write_all(&mut &*stream, &bytes);
    let _ = stream.shutdown(Shutdown::Write);
    if written.is_ok() {
        let _ = io::copy(&mut stream.take(REFUSED_BYTES_MAX), &mut io::sink());
    }
}

fn route(shared: &Shared, request: &Request) -> Wire {
    let options = &shared.options;
    let one_less = |left: usize| left.checked_sub(1);
    if shared
        .loading
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
        .is_ok()
    {
        return chat::refusal_wire(&Refusal::loading());
    }
    let path = request.path.strip_prefix("/v1").unwrap_or(&request.path);
    let method = request.method.as_str();
    if (method, path) == ("GET", "/health") {
        return chat::json_wire(200, &endpoints::health());
    }
    if let Some(key) = &options.api_key {
        let bearer = request
            .header("authorization")
            .and_then(|value| value.strip_prefix("Bearer "));
        if bearer.or(request.header("x-api-key")) != Some(key) {
            return chat::refusal_wire(&Refusal::new(
                401,
                "authentication_error",
                "Invalid API Key",
            ));
        }
    }
    let answer = match (method, path) {
        ("POST", "/chat/completions") => {
            return chat::answer(&shared.chats, options, &request.body);
        }
        ("GET", "/models") => Ok(endpoints::models(options)),
        ("GET", "/props") => Ok(endpoints::props(options)),
        ("POST", "/tokenize") => {
            crate::check::parse(&request.body).map(|body| endpoints::tokenize(&body))
        }
        ("POST", "/chat/completions/input_tokens") => chat::read(options, &request.body)
            .map(|(_, prompt)| endpoints::input_tokens(prompt.len())),
        ("POST", "/apply-template") => chat::read(options, &request.body)
            .map(|(_, prompt)| serde_json::json!({"prompt": prompt.text()})),
        _ => Err(Refusal::new(404, "not_found_error", "File Not Found")),
    };
    match answer {
        Ok(body) => chat::json_wire(200, &body),
        Err(refusal) => chat::refusal_wire(&refusal),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
