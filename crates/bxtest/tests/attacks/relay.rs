//! Stands between memoryd and brokerd on the link of session states, and loses, delays or repeats answers.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// Longer than memoryd waits in a test that has answers late.
const LATE: Duration = Duration::from_millis(600);

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// It comes when nobody waits any more.
    Late,
    /// The connection is closed instead.
    Lost,
    Twice,
}

pub struct Relay {
    fault: Arc<Mutex<Fault>>,
    answered: Arc<AtomicUsize>,
}

impl Relay {
    /// Takes the socket's place; the daemon's own goes beside it. It ends with the test's process.
    pub fn before(socket: &Path) -> Self {
        let real = socket.with_file_name("real.sock");
        fs::rename(socket, &real).expect("a socket");
        let listener = UnixListener::bind(socket).expect("a socket");
        let relay = Self {
            fault: Arc::new(Mutex::new(Fault::None)),
            answered: Arc::default(),
        };
        let (fault, answered) = (Arc::clone(&relay.fault), Arc::clone(&relay.answered));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (fault, answered) = (Arc::clone(&fault), Arc::clone(&answered));
                let Ok(server) = UnixStream::connect(&real) else {
                    continue;
                };
                thread::spawn(move || pass(&client, &server, &fault, &answered));
            }
        });
        relay
    }

    pub fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// How many answers have gone through its hands.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }
}

/// Both hellos, then a request and its answer at a time, until somebody leaves.
fn pass(
    client: &UnixStream,
    server: &UnixStream,
    fault: &Mutex<Fault>,
    answered: &AtomicUsize,
) -> Option<()> {
    let (mut asks, mut answers) = (BufReader::new(client), BufReader::new(server));
    let (mut to_server, mut to_client) = (server, client);
    for number in 0.. {
        to_server.write_all(line(&mut asks)?.as_bytes()).ok()?;
        let answer = line(&mut answers)?;
        let fault = match number {
            0 => Fault::None,
            _ => *fault.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let sent = match fault {
            Fault::None => answer,
            Fault::Late => {
                thread::park_timeout(LATE);
                answer
            }
            Fault::Lost => {
                answered.fetch_add(1, Ordering::SeqCst);
                return None;
            }
            Fault::Twice => answer.repeat(2),
        };
        answered.fetch_add(usize::from(number > 0), Ordering::SeqCst);
        to_client.write_all(sent.as_bytes()).ok()?;
    }
    None
}

fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let read = reader.read_line(&mut line).ok()?;
    (read > 0).then_some(line)
}
