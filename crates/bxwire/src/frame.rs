//! One frame: a JSON object on a line of its own. Used by `bxcore`'s client and server; never blocks
//! beyond the timeouts of the stream it is given.

use std::io::{self, BufRead, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

/// Longest frame in bytes, without its newline.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// Why a frame could not be read or written. Carries no bytes of the peer's.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("cannot use the socket")]
    Io(#[source] io::Error),
    #[error("the frame is not a message of this link")]
    Malformed(#[source] MalformedFrame),
    #[error("the frame is longer than {FRAME_BYTES_MAX} bytes")]
    TooLong,
    #[error("the peer stopped in the middle of a frame")]
    Truncated,
}

/// Where a frame stops being a message. Says the kind of mistake and its place, if it has one, never the text.
#[derive(Debug, thiserror::Error)]
#[error("{kind}{}", place(*.column))]
pub struct MalformedFrame {
    kind: &'static str,
    column: usize,
}

/// A mistake without a place, such as a missing member, is at column 0.
fn place(column: usize) -> String {
    match column {
        0 => String::new(),
        column => format!(" at byte {column}"),
    }
}

impl MalformedFrame {
    fn new(error: &serde_json::Error) -> Self {
        let kind = match error.classify() {
            serde_json::error::Category::Data => data_kind(&error.to_string()),
            serde_json::error::Category::Eof => "unfinished JSON",
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => "bad JSON",
        };
        Self {
            kind,
            column: error.column(),
        }
    }
}

/// Serde tells these apart only by how its message begins; none of the rest, which may quote the peer, is kept.
fn data_kind(message: &str) -> &'static str {
    const KINDS: [(&str, &str); 6] = [
        ("missing field", "a member is missing"),
        ("unknown field", "a member is unknown"),
        ("duplicate field", "a member is there twice"),
        (
            "unknown variant",
            "the type, or a word of a fixed set, is unknown",
        ),
        ("invalid type", "a member has the wrong type"),
        ("invalid value", "a member has a wrong value"),
    ];
    let found = KINDS
        .iter()
        .find(|(opening, _)| message.starts_with(opening));
    found.map_or("a member is wrong", |(_, kind)| kind)
}

impl FrameError {
    /// Whether a read or write timeout of the stream ended it.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Io(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }
}

/// Reads the next frame. `None`: the peer closed between two frames.
///
/// # Errors
/// Every [`FrameError`]; after any of them the stream's position is unknown, so close it.
pub fn read_frame<T: DeserializeOwned>(reader: &mut impl BufRead) -> Result<Option<T>, FrameError> {
    let mut line = Vec::new();
    let limit = FRAME_BYTES_MAX as u64 + 1; // The newline.
    reader
        .take(limit)
        .read_until(b'\n', &mut line)
        .map_err(FrameError::Io)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => serde_json::from_slice(&line)
            .map(Some)
            .map_err(|error| FrameError::Malformed(MalformedFrame::new(&error))),
        Some(_) if line.len() == FRAME_BYTES_MAX => Err(FrameError::TooLong),
        Some(_) => Err(FrameError::Truncated),
    }
}

/// Writes one frame in one write.
///
/// # Errors
/// [`FrameError::TooLong`] when the message does not fit (nothing is written), [`FrameError::Io`].
pub fn write_frame<T: Serialize>(writer: &mut impl Write, message: &T) -> Result<(), FrameError> {
    let mut line = serde_json::to_vec(message)
        .map_err(|error| FrameError::Malformed(MalformedFrame::new(&error)))?;
    if line.len() > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong);
    }
    line.push(b'\n');
    writer.write_all(&line).map_err(FrameError::Io)?;
    writer.flush().map_err(FrameError::Io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Message {
        text: String,
    }

    fn read(bytes: &[u8]) -> Result<Option<Message>, FrameError> {
        read_frame(&mut io::BufReader::new(bytes))
    }

    #[test]
    fn a_frame_survives_the_trip() {
        let mut wire = Vec::new();
        let message = Message {
            text: "two\nlines".into(),
        };
        write_frame(&mut wire, &message).unwrap();
        assert_eq!(wire.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(read(&wire).unwrap(), Some(message));
    }

    #[test]
    fn each_bad_frame_has_its_error() {
        assert!(read(b"").unwrap().is_none());
        assert!(matches!(read(b"{\"te"), Err(FrameError::Truncated)));
        assert!(matches!(read(b"nonsense\n"), Err(FrameError::Malformed(_))));
        assert!(matches!(
            read(&vec![b'x'; FRAME_BYTES_MAX + 9]),
            Err(FrameError::TooLong)
        ));
    }

    #[test]
    fn the_longest_frame_fits_and_one_byte_more_does_not() {
        let fits = Message {
            text: "x".repeat(FRAME_BYTES_MAX - r#"{"text":""}"#.len()),
        };
        let mut wire = Vec::new();
        write_frame(&mut wire, &fits).unwrap();
        assert!(read(&wire).unwrap().is_some());
        let over = Message {
            text: format!("{}x", fits.text),
        };
        assert!(matches!(
            write_frame(&mut wire, &over),
            Err(FrameError::TooLong)
        ));
    }

    #[test]
    fn a_malformed_frame_does_not_show_what_was_sent() {
        let error = read(b"{\"canary\":1}\n").unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn what_is_wrong_with_a_frame_is_said_without_its_words() {
        for (frame, kind) in [
            ("{}", "a member is missing"),
            (r#"{"text":"a","canary":1}"#, "a member is unknown"),
            (r#"{"text":"canary","text":"b"}"#, "a member is there twice"),
            (r#"{"text":7}"#, "a member has the wrong type"),
            (r#"{"text":"canary"#, "unfinished JSON"),
            ("canary", "bad JSON"),
        ] {
            let error = read(format!("{frame}\n").as_bytes()).unwrap_err();
            let why = std::error::Error::source(&error).unwrap().to_string();
            assert!(why.starts_with(kind), "{frame}: {why}");
            assert!(!why.contains("canary") && !why.contains("byte 0"), "{why}");
        }
    }
}
