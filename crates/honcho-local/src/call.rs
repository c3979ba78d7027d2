//! One HTTP call as the handlers see it, and the answer they give back. Holds the reading of bodies,
//! queries and pages; knows nothing of sockets.

use serde_json::{Map, Value, json};

use crate::errors::Refusal;
use crate::validate::{Problems, truth};

/// Bytes of one request body.
pub const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Items of one page.
pub const PAGE_SIZE_MAX: usize = 100;
const PAGE_SIZE_DEFAULT: usize = 50;

#[derive(Debug, Clone)]
pub struct Call {
    pub method: String,
    /// Path without the query, still percent-encoded.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub content_type: Option<String>,
    pub authorization: Option<String>,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Json(u16, Value),
    /// No body, yet typed JSON, as Honcho does it.
    Empty(u16),
    /// Server-sent events, each one JSON.
    Events(Vec<Value>),
    Redirect(String),
}

pub type Reply = Result<Answer, Refusal>;

impl Call {
    /// The path's segments, decoded.
    pub fn segments(&self) -> Vec<String> {
        self.path
            .split('/')
            .skip(1)
            .map(|segment| decode(segment, false))
            .collect()
    }

    pub fn param(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as an object; an absent body is an empty one.
    ///
    /// # Errors
    /// What Honcho answers to a body it cannot read.
    pub fn optional_object(&self) -> Result<Map<String, Value>, Refusal> {
        if self.body.is_empty() {
            Ok(Map::new())
        } else {
            self.object()
        }
    }

    /// # Errors
    /// What Honcho answers to a body it cannot read, or to none.
    pub fn object(&self) -> Result<Map<String, Value>, Refusal> {
        match self.json()? {
            Value::Object(map) => Ok(map),
            other => Err(not_an_object(&other)),
        }
    }

    /// # Errors
    /// As for [`Call::object`].
    pub fn json(&self) -> Result<Value, Refusal> {
        let mut problems = Problems::default();
        if self.body.is_empty() {
            problems.push(
                "missing",
                vec![json!("body")],
                String::from("Field required"),
                &Value::Null,
                None,
            );
            problems.done()?;
        }
        let Ok(text) = std::str::from_utf8(&self.body) else {
            return Err(Refusal::new(400, "There was an error parsing the body"));
        };
        let typed = self.content_type.as_deref().is_some_and(|kind| {
            let kind = kind
                .split(';')
                .next()
                .unwrap_or("")
                .trim()
                .to_ascii_lowercase();
            kind == "application/json"
                || (kind.starts_with("application/") && kind.ends_with("+json"))
        });
        if !typed {
            return Err(not_an_object(&Value::from(text)));
        }
        serde_json::from_str(text).map_err(|error| unreadable(text, &error))
    }
}

fn not_an_object(input: &Value) -> Refusal {
    let mut problems = Problems::default();
    let msg = "Input should be a valid dictionary or object to extract fields from";
    problems.push(
        "model_attributes_type",
        vec![json!("body")],
        String::from(msg),
        input,
        None,
    );
    match problems.done() {
        Err(refusal) => refusal,
        Ok(()) => Refusal::unexpected(),
    }
}

fn unreadable(text: &str, error: &serde_json::Error) -> Refusal {
    let reason = error.to_string();
    if reason.contains("hex escape") {
        // Half a surrogate pair: Honcho takes the JSON and fails later, at the database.
        return Refusal::unexpected();
    }
    let before: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let bytes = (before + error.column()).min(text.len());
    let mut position = text
        .char_indices()
        .take_while(|(index, _)| *index < bytes)
        .count();
    if !error.is_eof() {
        position = position.saturating_sub(1);
    }
    let expected = if reason.contains("string") {
        "Unterminated string starting at"
    } else if reason.contains("key must be a string") {
        "Expecting property name enclosed in double quotes"
    } else if reason.contains("expected `:`") {
        "Expecting ':' delimiter"
    } else if reason.contains("expected `,`") || reason.contains("EOF while parsing a list") {
        "Expecting ',' delimiter"
    } else if reason.contains("trailing characters") {
        "Extra data"
    } else {
        "Expecting value"
    };
    Refusal::unprocessable(json!([{
        "type": "json_invalid",
        "loc": ["body", position],
        "msg": "JSON decode error",
        "input": {},
        "ctx": { "error": expected },
    }]))
}

/// Decodes `%41`, and `+` as a blank in queries. A broken escape stays as it is.
pub fn decode(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        let hex = text
            .get(index + 1..index + 3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, hex) {
            (b'%', Some(decoded)) => {
                out.push(decoded);
                index += 3;
                continue;
            }
            (b'+', _) if plus => out.push(b' '),
            _ => out.push(byte),
        }
        index += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub fn decode_query(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        })
        .collect()
}

/// Which part of a list was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub page: usize,
    pub size: usize,
    pub reverse: bool,
}

impl Page {
    /// # Errors
    /// 422 for a page or size outside its range.
    pub fn of(call: &Call) -> Result<Self, Refusal> {
        let mut problems = Problems::default();
        let page = query_integer(&mut problems, call, "page", 1, i64::from(i32::MAX)).unwrap_or(1);
        let size = query_integer(&mut problems, call, "size", 1, PAGE_SIZE_MAX as i64)
            .unwrap_or(PAGE_SIZE_DEFAULT as i64);
        let reverse = query_boolean(&mut problems, call, "reverse").unwrap_or(false);
        problems.done()?;
        Ok(Self {
            page: page as usize,
            size: size as usize,
            reverse,
        })
    }

    pub fn skip(&self) -> usize {
        (self.page - 1).saturating_mul(self.size)
    }

    pub fn answer(&self, items: Vec<Value>, total: usize) -> Answer {
        let pages = total.div_ceil(self.size);
        Answer::Json(
            200,
            json!({ "items": items, "total": total, "page": self.page, "size": self.size, "pages": pages }),
        )
    }
}

pub fn query_integer(
    problems: &mut Problems,
    call: &Call,
    key: &str,
    min: i64,
    max: i64,
) -> Option<i64> {
    let text = call.param(key)?;
    let loc = vec![json!("query"), json!(key)];
    let input = Value::from(text);
    match text.parse::<i64>() {
        Ok(number) => problems
            .within(loc, &input, number as f64, min as f64, max as f64)
            .then_some(number),
        Err(_) => {
            let msg = "Input should be a valid integer, unable to parse string as an integer";
            problems.push("int_parsing", loc, String::from(msg), &input, None);
            None
        }
    }
}

pub fn query_boolean(problems: &mut Problems, call: &Call, key: &str) -> Option<bool> {
    let input = Value::from(call.param(key)?);
    let found = truth(&input);
    if found.is_none() {
        let msg = "Input should be a valid boolean, unable to interpret input";
        problems.push(
            "bool_parsing",
            vec![json!("query"), json!(key)],
            String::from(msg),
            &input,
            None,
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_paths_and_queries() {
        assert_eq!(decode("a%20b%2", false), "a b%2");
        assert_eq!(decode("%é", false), "%é");
        assert_eq!(
            decode_query("a=1+2&b"),
            vec![("a".into(), "1 2".into()), ("b".into(), String::new())]
        );
    }
}
