//! Ids for tool calls, given once and logged. Called by `turn`; never gives one twice in a session.

use std::{collections::BTreeSet, io};

use bxcore::random;
use bxwire::{
    CallId,
    log::{Body, Record},
};

/// Ids for calls: nine letters and digits, as the strictest template wants, each once in its session.
pub struct Ids {
    state: u64,
    used: BTreeSet<CallId>,
}

impl Ids {
    /// # Errors
    /// When the system has no random bytes.
    pub fn new(records: &[Record]) -> io::Result<Self> {
        let seed = random::bytes()?;
        let used = records
            .iter()
            .filter_map(|record| match &record.body {
                Body::Assistant { calls, .. } => Some(calls.iter().map(|call| call.id.clone())),
                _ => None,
            })
            .flatten()
            .collect();
        Ok(Self {
            state: u64::from_le_bytes(seed),
            used,
        })
    }

    pub fn next(&mut self) -> CallId {
        const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        loop {
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let mut rest = self.state >> 8;
            let text: String = (0..9)
                .map(|_| {
                    let at = usize::try_from(rest % 36).unwrap_or(0);
                    rest /= 36;
                    char::from(ALPHABET[at])
                })
                .collect();
            if let Ok(id) = text.parse::<CallId>()
                && self.used.insert(id.clone())
            {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_nine_letters_and_digits_and_differ() {
        let mut ids = Ids::new(&[]).unwrap();
        let made: BTreeSet<String> = (0..1_000).map(|_| ids.next().to_string()).collect();
        assert_eq!(made.len(), 1_000);
        assert!(
            made.iter()
                .all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()))
        );
    }
}
