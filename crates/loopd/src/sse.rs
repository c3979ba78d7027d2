//! Cuts the bytes of a server-sent event stream into events, wherever reads end. Called by `model`; never
//! looks inside an event.

/// Longest event in bytes.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// An event that is longer than any should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {EVENT_BYTES_MAX} bytes")]
pub struct EventTooLong;

/// The reader's place in a stream.
#[derive(Debug, Default)]
pub struct Sse {
    line: Vec<u8>,
    data: String,
    has_data: bool,
}

impl Sse {
    /// Takes the next bytes; `each` gets the data of every event that they complete.
    ///
    /// # Errors
    /// [`EventTooLong`]: give the stream up.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) -> Result<(), EventTooLong> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (piece, after) = rest.split_at(end);
            self.line.extend_from_slice(piece);
            rest = &after[1..];
            self.take_line(&mut each);
        }
        self.line.extend_from_slice(rest);
        if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
            return Err(EventTooLong);
        }
        Ok(())
    }

    /// The body has ended: an event whose last line is whole counts though no empty line follows.
    pub fn end(&mut self, mut each: impl FnMut(&str)) {
        self.line.clear();
        self.dispatch(&mut each);
    }

    fn take_line(&mut self, each: &mut impl FnMut(&str)) {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if line.is_empty() {
            self.dispatch(each);
        } else if let Some(data) = line.strip_prefix(b"data:") {
            if self.has_data {
                self.data.push('\n');
            }
            self.has_data = true;
            let data = data.strip_prefix(b" ").unwrap_or(data);
            self.data.push_str(&String::from_utf8_lossy(data));
        }
        // Comments and other fields say only that the server is alive.
    }

    fn dispatch(&mut self, each: &mut impl FnMut(&str)) {
        if std::mem::take(&mut self.has_data) {
            each(&std::mem::take(&mut self.data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let (mut sse, mut found) = (Sse::default(), Vec::new());
        for piece in pieces {
            sse.push(piece, |event| found.push(event.to_owned()))
                .unwrap();
        }
        sse.end(|event| found.push(event.to_owned()));
        found
    }

    #[test]
    fn events_are_the_same_wherever_reads_end() {
        let stream = ": hello\r\n\r\ndata:one\r\n: x\r\ndata: two č\r\n\r\nevent: z\ndata: three\n\ndata: [DONE]\n";
        let want = ["one\ntwo č", "three", "[DONE]"];
        assert_eq!(events(&[stream.as_bytes()]), want);
        let single: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(events(&single), want);
    }

    #[test]
    fn an_unfinished_line_is_no_event() {
        assert_eq!(events(&[b"data: {\"a\""]), Vec::<String>::new());
    }

    #[test]
    fn an_endless_event_is_given_up() {
        let mut sse = Sse::default();
        let piece = vec![b'x'; EVENT_BYTES_MAX / 2 + 1];
        assert!(sse.push(&piece, |_| {}).is_ok());
        assert_eq!(sse.push(&piece, |_| {}), Err(EventTooLong));
    }
}
