//! A server in Honcho's place that gives every request the same answer, whatever it asks.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

pub struct Hostile {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// The head of each request.
    heads: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Hostile {
    /// `answer` makes the status line, the headers and the body of a request's number.
    pub fn start(answer: impl Fn(usize) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, heads) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (stopping, seen) = (Arc::clone(&stop), Arc::clone(&heads));
        let thread = thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(stream) = stream {
                    let _ = take(&stream, &seen, &answer(number));
                }
            }
        });
        Self {
            address,
            stop,
            heads,
            thread: Some(thread),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn heads(&self) -> Vec<String> {
        let heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        heads.clone()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn take(mut stream: &TcpStream, heads: &Mutex<Vec<String>>, answer: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        head += &line;
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    heads
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(head);
    stream.write_all(answer.as_bytes())
}
