//! One HTTP/1.1 request in, one answer out, over a plain socket. Called by `server` and `replay`;
//! never keeps a connection for a second request.
//!
//! Not an HTTP library, on purpose: a script must put exact bytes on the wire, hold them back in
//! silence, see the client hang up meanwhile, and close the socket for good. Libraries hide all four.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// Longest request line plus headers.
pub const HEAD_BYTES_MAX: u64 = 64 * 1024;
/// Longest request body; a history with large tool results fits.
pub const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A request as it came, before anything is believed about its body.
#[derive(Debug)]
pub struct Request {
    pub method: String,
    /// Without the query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of that name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }
}

/// Why a request could not be read.
#[derive(Debug)]
pub enum ReadFailure {
    /// The client went away or was too slow: there is nobody to answer.
    Gone,
    /// The bytes are not a request this server takes: answer with that status.
    Refuse { status: u16, message: &'static str },
}

const MALFORMED: ReadFailure = ReadFailure::Refuse {
    status: 400,
    message: "the request is not HTTP/1.1",
};
const HEAD_TOO_LONG: ReadFailure = ReadFailure::Refuse {
    status: 431,
    message: "the request's headers are too long",
};
const BODY_TOO_LONG: ReadFailure = ReadFailure::Refuse {
    status: 413,
    message: "the request's body is too long",
};

impl From<io::Error> for ReadFailure {
    fn from(_: io::Error) -> ReadFailure {
        ReadFailure::Gone
    }
}

/// Reads one request. The socket's read timeout bounds each wait.
///
/// # Errors
/// [`ReadFailure`]: the caller answers `Refuse`, and closes after either.
pub fn read_request(stream: &TcpStream) -> Result<Request, ReadFailure> {
    let mut reader = BufReader::new(stream);
    let mut head = reader.by_ref().take(HEAD_BYTES_MAX);
    let first = read_line(&mut head)?;
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Err(MALFORMED);
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Err(MALFORMED);
    }
    let path = target.split('?').next().unwrap_or(target).to_owned();
    let method = method.to_owned();
    let mut headers = Vec::new();
    loop {
        let line = read_line(&mut head)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or(MALFORMED)?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    if find(&headers, "expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        (&mut &*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let chunked = find(&headers, "transfer-encoding")
        .is_some_and(|value| value.to_ascii_lowercase().contains("chunked"));
    let body = if chunked {
        read_chunked(&mut reader)?
    } else {
        match find(&headers, "content-length") {
            None => Vec::new(),
            Some(length) => read_exactly(&mut reader, length.parse().map_err(|_| MALFORMED)?)?,
        }
    };
    Ok(Request {
        method,
        path,
        headers,
        body,
    })
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

fn read_line(reader: &mut io::Take<impl BufRead>) -> Result<String, ReadFailure> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(if reader.limit() == 0 {
            HEAD_TOO_LONG
        } else {
            ReadFailure::Gone
        });
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map_err(|_| MALFORMED)
}

fn read_exactly(reader: &mut impl Read, length: usize) -> Result<Vec<u8>, ReadFailure> {
    if length > BODY_BYTES_MAX {
        return Err(BODY_TOO_LONG);
    }
    let mut body = Vec::new();
    reader.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        Err(ReadFailure::Gone)
    } else {
        Ok(body)
    }
}

fn read_chunked(reader: &mut impl BufRead) -> Result<Vec<u8>, ReadFailure> {
    let mut body = Vec::new();
    loop {
        let line = read_line(&mut reader.by_ref().take(HEAD_BYTES_MAX))?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| MALFORMED)?;
        if size == 0 {
            // Trailers end with an empty line.
            while !read_line(&mut reader.by_ref().take(HEAD_BYTES_MAX))?.is_empty() {}
            return Ok(body);
        }
        if size > BODY_BYTES_MAX - body.len() {
            return Err(BODY_TOO_LONG);
        }
        body.extend(read_exactly(reader, size)?);
        if !read_line(&mut reader.by_ref().take(HEAD_BYTES_MAX))?.is_empty() {
            return Err(MALFORMED);
        }
    }
}

/// The words that go with a status.
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}

/// A status line and headers, ended by the empty line.
pub fn head(status: u16, headers: &[(String, String)]) -> Vec<u8> {
    let mut text = format!(
        "HTTP/1.1 {status} {}\r\nServer: model-local\r\n",
        reason(status)
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("Connection: close\r\n\r\n");
    text.into_bytes()
}

/// The headers of every JSON answer.
pub fn json_headers() -> Vec<(String, String)> {
    vec![(
        "Content-Type".to_owned(),
        "application/json; charset=utf-8".to_owned(),
    )]
}

/// The head of an event stream.
pub fn stream_head() -> Vec<u8> {
    let headers = [
        ("Access-Control-Allow-Origin", ""),
        ("X-Accel-Buffering", "no"),
        ("Content-Type", "text/event-stream"),
        ("Transfer-Encoding", "chunked"),
    ];
    head(
        200,
        &headers.map(|(name, value)| (name.to_owned(), value.to_owned())),
    )
}

/// One chunk of a chunked body.
pub fn chunk(data: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{:x}\r\n", data.len()).into_bytes();
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// What ends a chunked body. A body that ends without it was cut.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
