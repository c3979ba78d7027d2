//! A relay in front of the HTTP server, used only with test controls: it knows each client's socket, so
//! that a fault can close it or write to it. It never looks into the bytes it carries.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Clients connected at once, at four file descriptors each; a further one is closed at once.
const CONNECTIONS_MAX: usize = 200;
const COPY_BYTES: usize = 16 * 1024;

pub struct Front {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

/// By the address that the HTTP server sees: the client's socket, and ours to the server.
type Clients = HashMap<SocketAddr, (Arc<TcpStream>, Arc<TcpStream>)>;

struct Shared {
    upstream: SocketAddr,
    stopping: AtomicBool,
    clients: Mutex<Clients>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Front {
    /// # Errors
    /// The listener's address cannot be read, or a thread cannot be started.
    pub fn start(listener: TcpListener, upstream: SocketAddr) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            stopping: AtomicBool::new(false),
            clients: Mutex::default(),
            threads: Mutex::default(),
        });
        let accepting = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name(String::from("front"))
                .spawn(move || accept(&listener, &shared))?
        };
        Ok(Self {
            address,
            shared,
            accepting: Mutex::new(Some(accepting)),
        })
    }

    /// The client behind a request, named by the address that the HTTP server sees.
    pub fn client(&self, seen: SocketAddr) -> Option<Arc<TcpStream>> {
        self.shared
            .clients()
            .get(&seen)
            .map(|(client, _)| Arc::clone(client))
    }

    /// Closes every connection and ends every thread of it.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the blocked accept; the connection itself is dropped there.
        let _ = TcpStream::connect(self.address);
        let accepting = self
            .accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(accepting) = accepting {
            let _ = accepting.join();
        }
        for (client, upstream) in self.shared.clients().values() {
            let _ = client.shutdown(Shutdown::Both);
            let _ = upstream.shutdown(Shutdown::Both);
        }
        let threads: Vec<JoinHandle<()>> = self.shared.threads().drain(..).collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        if shared.clients().len() >= CONNECTIONS_MAX {
            continue;
        }
        if relay(client, shared).is_err() {
            tracing::warn!("a connection could not be relayed");
        }
    }
}

fn relay(client: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let upstream = TcpStream::connect(shared.upstream)?;
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let seen = upstream.local_addr()?;
    let (client, upstream) = (Arc::new(client), Arc::new(upstream));
    shared
        .clients()
        .insert(seen, (Arc::clone(&client), Arc::clone(&upstream)));
    let (client_in, upstream_in) = (Arc::clone(&client), Arc::clone(&upstream));
    let out = thread::Builder::new()
        .name(String::from("front-out"))
        .spawn({
            let shared = Arc::clone(shared);
            move || {
                copy(&upstream, &client);
                let _ = client.shutdown(Shutdown::Both);
                let _ = upstream.shutdown(Shutdown::Both);
                shared.clients().remove(&seen);
            }
        })?;
    let into = thread::Builder::new()
        .name(String::from("front-in"))
        .spawn(move || {
            copy(&client_in, &upstream_in);
            let _ = upstream_in.shutdown(Shutdown::Write);
        })?;
    let mut threads = shared.threads();
    threads.retain(|thread| !thread.is_finished());
    threads.extend([out, into]);
    Ok(())
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut buffer = [0; COPY_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                if to.write_all(&buffer[..length]).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
