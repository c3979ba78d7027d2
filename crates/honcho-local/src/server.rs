//! Starting and stopping: the database, the listener, a bounded pool of worker threads over tiny_http
//! and, with test controls, the relay in front. Used by the program and by tests.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bxcore::http;
use serde_json::Value;

use crate::api::Api;
use crate::auth::{Claims, Keys};
use crate::errors::{Refusal, StartError};
use crate::faults::Controls;
use crate::front::Front;
use crate::model::Model;
use crate::serve::{Shared, discard, lock, work};
use crate::store::Store;

/// Threads that answer calls.
const WORKERS: usize = 8;
/// How long a start waits for an address that is still being let go.
const LISTEN_RETRY_MAX: Duration = Duration::from_secs(3);
/// How long a stop waits for calls that are being answered.
const DRAIN_MAX: Duration = Duration::from_secs(3);
/// How long a stop waits in all: what is left is for deletions that were accepted. The next start does the rest.
const STOP_MAX: Duration = Duration::from_secs(4);
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
    /// How long a deletion takes to go through; a stop does not wait for it.
    pub drain_after: Duration,
    /// Turns keys on.
    pub key_secret: Option<String>,
    pub model: Option<ModelOptions>,
    /// Whether faults and the record of requests are on.
    pub test_controls: bool,
    pub controls: Controls,
    /// Called once if the server can take no more connections, of which it does not recover.
    pub on_deaf: Option<Arc<dyn Fn() + Send + Sync>>,
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
            on_deaf: None,
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
    /// Carries deletions out.
    drain: Option<JoinHandle<()>>,
}

impl Server {
    /// # Errors
    /// The database cannot be opened, the address cannot be listened on, or the model's not be called.
    pub fn start(options: Options) -> Result<Self, StartError> {
        if let Some(model) = &options.model {
            http::ready(&model.url)?;
        }
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
            on_deaf: options.on_deaf.clone(),
            test_controls: options.test_controls,
            front,
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
            drain: None,
        };
        let shared = Arc::clone(&server.shared);
        let drain = thread::Builder::new()
            .name(String::from("drain"))
            .spawn(move || shared.api.store.drain_until_stopped())
            .map_err(StartError::Thread)?;
        server.drain = Some(drain);
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

    /// Puts what a model would have written up of a session, in place of what was there. `false`: there is no such
    /// session.
    ///
    /// # Errors
    /// The database refused.
    pub fn summarise(&self, workspace: &str, session: &str, text: &str) -> Result<bool, Refusal> {
        self.shared.api.store.summarise(workspace, session, text)
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
        if let Some(front) = &self.shared.front {
            front.stop();
        }
        lock(&self.shared.held).drain(..).for_each(discard);
        for _ in &self.workers {
            http.unblock();
        }
        let mut threads: Vec<JoinHandle<()>> = self.workers.drain(..).collect();
        threads.append(&mut lock(&self.shared.late));
        let begun = Instant::now();
        join(threads, begun + DRAIN_MAX);
        // Only now: one of those calls may have been a deletion.
        self.shared.api.store.stop_draining();
        join(self.drain.take(), begun + STOP_MAX);
    }
}

/// Waits until then for threads that are about to end; one that does not is left behind.
fn join(threads: impl IntoIterator<Item = JoinHandle<()>>, deadline: Instant) {
    for thread in threads {
        while !thread.is_finished() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut_down();
    }
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
