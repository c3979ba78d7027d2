//! Names of sessions, tool calls, edits and items, checked where they enter. Used everywhere.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Random characters at the end of a session id.
const SESSION_RANDOM_CHARS: usize = 12;
/// Longest tool-call id.
const CALL_ID_CHARS_MAX: usize = 64;

/// A name that is not of its form. Does not repeat the name: it may come from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not {0}")]
pub struct ParseIdError(pub(crate) &'static str);

/// A session: `20260131-k3v9…`, a date and 12 random characters of `[a-z0-9]`. Only loopd makes one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

impl SessionId {
    /// Makes an id from a date (`YYYYMMDD`) and random bytes; each byte picks one character.
    ///
    /// # Errors
    /// When the date is not eight digits.
    pub fn new(date: &str, random: [u8; SESSION_RANDOM_CHARS]) -> Result<Self, ParseIdError> {
        const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let tail = random.map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
        format!("{date}-{}", tail.iter().collect::<String>()).parse()
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let bad = ParseIdError("a session id (eight digits, a dash, 12 of a-z and 0-9)");
        let (date, tail) = text.split_once('-').ok_or(bad)?;
        let dated = date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
        let random = tail.len() == SESSION_RANDOM_CHARS
            && tail
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        (dated && random).then(|| Self(text.into())).ok_or(bad)
    }
}

/// A tool call inside a turn: letters and digits, chosen by loopd (9 of them, as the strictest chat
/// template wants).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CallId(String);

impl CallId {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CallId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let fits = (1..=CALL_ID_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        fits.then(|| Self(text.into()))
            .ok_or(ParseIdError("a call id (letters and digits)"))
    }
}

/// One journalled change of memory: `e1`, `e2`, …
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EditId(pub u64);

impl FromStr for EditId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let bad = ParseIdError("an edit id (e1, e2, …)");
        let digits = text.strip_prefix('e').ok_or(bad)?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
        if !plain {
            return Err(bad);
        }
        digits.parse().map(Self).map_err(|_| bad)
    }
}

/// What can be sent to Honcho: a turn (`<session>/<turn>`) or an edit (`e7`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ItemId {
    Turn { session: SessionId, turn: u64 },
    Edit(EditId),
}

impl FromStr for ItemId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let bad = ParseIdError("an item (a turn as SESSION/NUMBER, or an edit as e7)");
        match text.split_once('/') {
            None => text.parse().map(Self::Edit).map_err(|_| bad),
            Some((session, turn)) => Ok(Self::Turn {
                session: session.parse().map_err(|_| bad)?,
                turn: turn.parse().ok().filter(|turn| *turn > 0).ok_or(bad)?,
            }),
        }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for EditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn { session, turn } => write!(f, "{session}/{turn}"),
            Self::Edit(edit) => edit.fmt(f),
        }
    }
}

/// Serde by way of the text form, for each id.
macro_rules! by_text {
    ($($id:ty),*) => {$(
        impl TryFrom<String> for $id {
            type Error = ParseIdError;
            fn try_from(text: String) -> Result<Self, ParseIdError> {
                text.parse()
            }
        }
        impl From<$id> for String {
            fn from(id: $id) -> Self {
                id.to_string()
            }
        }
    )*};
}
by_text!(SessionId, CallId, EditId, ItemId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_as_they_are_shown() {
        let session = SessionId::new("20260131", [7; 12]).unwrap();
        for text in [format!("{session}/3"), "e12".into()] {
            assert_eq!(text.parse::<ItemId>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_not_an_id_is_refused() {
        for text in ["", "e", "e0", "e01", "e-1", "x/1", "e1/2", "../e1"] {
            assert!(text.parse::<ItemId>().is_err(), "{text}");
        }
        for text in [
            "",
            "2026-abc",
            "20260131-ABCDEFGHIJKL",
            "20260131-abcdefghijk/",
        ] {
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
    }
}
