//! Handler of file uploads: a multipart form with a text file, which becomes messages. Other kinds of
//! file are refused.

use serde_json::{Map, Value, json};

use super::Api;
use super::messages::{MESSAGE_CHARS_MAX, Sent, store};
use crate::call::{Call, Reply};
use crate::clock;
use crate::errors::Refusal;
use crate::validate::Problems;

/// Bytes of one uploaded file.
pub const FILE_BYTES_MAX: usize = 5 * 1024 * 1024;

struct Part<'a> {
    name: String,
    kind: String,
    bytes: &'a [u8],
}

pub fn create(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    let boundary = boundary(call).ok_or_else(|| missing("file"))?;
    let parts = parts(&call.body, &boundary);
    let field = |name: &str| parts.iter().find(|part| part.name == name);
    let text =
        |name: &str| field(name).map(|part| String::from_utf8_lossy(part.bytes).into_owned());
    let file = field("file").ok_or_else(|| missing("file"))?;
    let peer = text("peer_id").ok_or_else(|| missing("peer_id"))?;
    if file.bytes.len() > FILE_BYTES_MAX {
        return Err(Refusal::new(
            413,
            format!("File size exceeds the maximum of {FILE_BYTES_MAX} bytes"),
        ));
    }
    let kind = file.kind.split(';').next().unwrap_or("").trim();
    if !(kind.starts_with("text/") || kind == "application/json") {
        return Err(Refusal::new(
            415,
            "Unsupported file type; this server reads text and JSON",
        ));
    }
    let Ok(content) = std::str::from_utf8(file.bytes) else {
        return Err(Refusal::unprocessable("The file is not UTF-8 text"));
    };
    let metadata = object(text("metadata"))?;
    let configuration = object(text("configuration"))?;
    let created_at = match text("created_at") {
        None => None,
        Some(text) => {
            let parsed = clock::parse(&Value::from(text));
            Some(parsed.ok_or_else(|| Refusal::unprocessable("created_at is not a datetime"))?)
        }
    };
    let content = content.replace('\0', "");
    let batch: Vec<Sent> = split(&content)
        .into_iter()
        .map(|piece| Sent {
            content: piece,
            peer: peer.clone(),
            metadata: metadata.clone(),
            configuration: configuration.clone(),
            created_at: created_at.clone(),
        })
        .collect();
    store(api, w, s, &batch)
}

fn missing(field: &str) -> Refusal {
    let mut problems = Problems::default();
    let loc = vec![json!("body"), json!(field)];
    problems.push(
        "missing",
        loc,
        String::from("Field required"),
        &Value::Null,
        None,
    );
    problems.done().err().unwrap_or_else(Refusal::unexpected)
}

fn object(text: Option<String>) -> Result<Map<String, Value>, Refusal> {
    match text {
        None => Ok(Map::new()),
        Some(text) => serde_json::from_str(&text)
            .map_err(|_| Refusal::unprocessable("metadata and configuration must be JSON objects")),
    }
}

/// Pieces of at most a message's length.
fn split(content: &str) -> Vec<String> {
    let chars: Vec<char> = content.chars().collect();
    chars
        .chunks(MESSAGE_CHARS_MAX)
        .map(|piece| piece.iter().collect())
        .collect()
}

fn boundary(call: &Call) -> Option<String> {
    let kind = call.content_type.as_deref()?;
    let (base, rest) = kind.split_once(';')?;
    if !base.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = rest
        .split(';')
        .find_map(|part| part.trim().strip_prefix("boundary="))?;
    Some(value.trim_matches('"').to_owned()).filter(|value| !value.is_empty())
}

fn parts<'a>(body: &'a [u8], boundary: &str) -> Vec<Part<'a>> {
    let mark = format!("--{boundary}");
    let mut found = Vec::new();
    let mut rest = match find(body, mark.as_bytes()) {
        Some(at) => &body[at + mark.len()..],
        None => return found,
    };
    let next = format!("\r\n{mark}");
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let Some(end) = find(part, next.as_bytes()) else {
            break;
        };
        if let Some(head_end) = find(&part[..end], b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&part[..head_end]).into_owned();
            let header = |name: &str| {
                head.split("\r\n").find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.trim()
                        .eq_ignore_ascii_case(name)
                        .then(|| value.trim().to_owned())
                })
            };
            let disposition = header("content-disposition").unwrap_or_default();
            let name = disposition
                .split(';')
                .find_map(|item| item.trim().strip_prefix("name="))
                .map(|name| name.trim_matches('"').to_owned());
            found.push(Part {
                name: name.unwrap_or_default(),
                kind: header("content-type").unwrap_or_default(),
                bytes: &part[head_end + 4..end],
            });
        }
        rest = &part[end + next.len()..];
    }
    found
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_form() {
        let body = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"n\"\r\n\
            Content-Type: text/plain\r\n\r\nhello\r\nthere\r\n--b\r\n\
            Content-Disposition: form-data; name=\"peer_id\"\r\n\r\nowner\r\n--b--\r\n";
        let parts = parts(body, "b");
        assert_eq!(parts.len(), 2);
        assert_eq!(
            (parts[0].name.as_str(), parts[0].bytes),
            ("file", b"hello\r\nthere".as_slice())
        );
        assert_eq!(
            (parts[1].name.as_str(), parts[1].bytes),
            ("peer_id", b"owner".as_slice())
        );
    }

    #[test]
    fn a_broken_form_is_no_parts() {
        for body in [&b""[..], b"--b", b"--b\r\n", b"--b\r\nx\r\n--b", b"junk"] {
            assert!(parts(body, "b").iter().all(|part| part.name.is_empty()));
        }
    }
}
