//! Writes one answer, piece by piece, and notices a client that leaves meanwhile. Called by `server`,
//! one thread a connection; never decides what is written.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::record::Outcome;
use crate::reply::{Gate, Hold};

/// An answer, ready for the socket.
#[derive(Debug, Default)]
pub struct Wire {
    pub pieces: Vec<Vec<u8>>,
    pub holds: Vec<Hold>,
    pub cut_after: Option<usize>,
}

/// Writes the answer and closes the connection. A client that closes only its sending side counts
/// as one that left.
pub fn write(stream: &TcpStream, wire: &Wire, stopping: &Arc<AtomicBool>) -> Outcome {
    let left = Arc::new(AtomicBool::new(false));
    let gates: Vec<Gate> = wire.holds.iter().map(|hold| hold.gate.clone()).collect();
    let watcher = stream.try_clone().and_then(|reading| {
        let left = left.clone();
        thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || watch(reading, &left, &gates))
    });
    let written = match &watcher {
        Ok(_) => write_pieces(stream, wire, &left, stopping),
        // Nobody would notice the client leave: better no answer.
        Err(_) => Err(io::ErrorKind::Other.into()),
    };
    // Wakes the watcher, and closes for good however many handles there are.
    let _ = stream.shutdown(Shutdown::Both);
    if let Ok(watcher) = watcher {
        let _ = watcher.join();
    }
    match written {
        Ok(()) => Outcome::Done,
        Err(_) => Outcome::Disconnected,
    }
}

fn write_pieces(
    mut stream: &TcpStream,
    wire: &Wire,
    left: &AtomicBool,
    stopping: &AtomicBool,
) -> io::Result<()> {
    let give_up = || left.load(Ordering::SeqCst) || stopping.load(Ordering::SeqCst);
    let hold = |at: usize| {
        for hold in wire.holds.iter().filter(|hold| hold.before == at) {
            hold.gate.pass(give_up);
        }
        if give_up() {
            Err(io::Error::from(io::ErrorKind::BrokenPipe))
        } else {
            Ok(())
        }
    };
    let mut budget = wire.cut_after.unwrap_or(usize::MAX);
    for (at, piece) in wire.pieces.iter().enumerate() {
        hold(at)?;
        let part = &piece[..piece.len().min(budget)];
        stream.write_all(part)?;
        budget -= part.len();
        if budget == 0 {
            return Ok(());
        }
    }
    // A client that leaves now has all it was promised, unless the script holds the close back.
    let end = wire.pieces.len();
    if wire.holds.iter().any(|hold| hold.before == end) {
        hold(end)
    } else {
        Ok(())
    }
}

/// Reads until the client's end closes. Bytes after the request are nobody's.
fn watch(mut stream: TcpStream, left: &AtomicBool, gates: &[Gate]) {
    let _ = stream.set_read_timeout(None);
    let mut rest = [0_u8; 1024];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    left.store(true, Ordering::SeqCst);
    for gate in gates {
        gate.nudge();
    }
}
