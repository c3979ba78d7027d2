//! A client that sees every byte. Used by all files here; never hides what the server did wrong.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// No wait in these tests is longer.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Answer {
    pub status: u16,
    pub head: String,
    /// Without chunk framing.
    pub body: Vec<u8>,
    /// The sizes of the chunks, if it was chunked and ended as it should.
    pub chunks: Option<Vec<usize>>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Sends a request and leaves the socket open.
pub fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream
}

/// Everything until the server closes, which it must.
pub fn read_all(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads until `enough` bytes came.
pub fn read_some(stream: &mut TcpStream, enough: usize) -> Vec<u8> {
    let mut bytes = vec![0; enough];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

pub fn parse(bytes: &[u8]) -> Answer {
    let at = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head");
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let rest = &bytes[at + 4..];
    if !head.contains("Transfer-Encoding: chunked") {
        return Answer {
            status,
            head,
            body: rest.to_vec(),
            chunks: None,
        };
    }
    let (body, chunks) = unchunk(rest);
    Answer {
        status,
        head,
        body,
        chunks,
    }
}

fn unchunk(mut rest: &[u8]) -> (Vec<u8>, Option<Vec<usize>>) {
    let (mut body, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let Some(at) = rest.windows(2).position(|two| two == b"\r\n") else {
            return (body, None);
        };
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
        rest = &rest[at + 2..];
        if size == 0 {
            assert_eq!(rest, b"\r\n", "nothing after the last chunk");
            return (body, Some(sizes));
        }
        if rest.len() < size + 2 {
            body.extend_from_slice(&rest[..size.min(rest.len())]);
            return (body, None);
        }
        body.extend_from_slice(&rest[..size]);
        sizes.push(size);
        rest = &rest[size + 2..];
    }
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Answer {
    parse(&read_all(send(
        address,
        "POST",
        path,
        "",
        body.to_string().as_bytes(),
    )))
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    parse(&read_all(send(address, "GET", path, "", b"")))
}

pub fn chat(address: SocketAddr, body: &Value) -> Answer {
    post(address, "/v1/chat/completions", body)
}

pub fn chat_open(address: SocketAddr, body: &Value) -> TcpStream {
    send(
        address,
        "POST",
        "/v1/chat/completions",
        "",
        body.to_string().as_bytes(),
    )
}

/// A user message and all the tools that the rules know.
pub fn request(text: &str) -> Value {
    let names = [
        "memory",
        "recall",
        "ask_memory",
        "read_file",
        "list_files",
        "fetch_page",
    ];
    let tools =
        names.map(|name| serde_json::json!({"type": "function", "function": {"name": name}}));
    serde_json::json!({"model": "m", "max_tokens": 500, "tools": tools,
        "messages": [{"role": "user", "content": text}]})
}
