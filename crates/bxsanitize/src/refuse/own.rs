//! Finds the daemon's own keys, plain or encoded. Called by `refuse`; the keys are inside the search
//! automaton only, and never in `Debug`.

use super::OWN_KEY_BYTES_MIN;
use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::collections::BTreeSet;
use std::fmt::Write as _;

pub(super) struct OwnKeys {
    /// `None`: no key is long enough.
    search: Option<AhoCorasick>,
    pub(super) skipped: usize,
}

impl OwnKeys {
    pub(super) fn new(keys: &[&str]) -> OwnKeys {
        let keys: Vec<&str> = keys
            .iter()
            .map(|key| key.trim())
            .filter(|key| !key.is_empty())
            .collect();
        let long: Vec<&str> = keys
            .iter()
            .copied()
            .filter(|key| key.len() >= OWN_KEY_BYTES_MIN)
            .collect();
        let mut needles = BTreeSet::new();
        for key in &long {
            add_forms(key, &mut needles);
        }
        // Building fails only past 2^31 states: far beyond any list of keys.
        let search = if needles.is_empty() {
            None
        } else {
            AhoCorasick::new(&needles).ok()
        };
        OwnKeys {
            search,
            skipped: keys.len() - long.len(),
        }
    }

    pub(super) fn found_in(&self, text: &str) -> bool {
        self.search
            .as_ref()
            .is_some_and(|search| search.is_match(text))
    }
}

fn add_forms(key: &str, needles: &mut BTreeSet<String>) {
    needles.insert(key.to_owned());
    for offset in 0..3 {
        // The first and the last characters also depend on the neighbours: leave them out.
        let mut bytes = vec![0; offset];
        bytes.extend_from_slice(key.as_bytes());
        let whole_bits = key.len() * 8;
        let skip = (offset * 8).div_ceil(6);
        let chars = (offset * 8 + whole_bits) / 6;
        for encoded in [
            STANDARD_NO_PAD.encode(&bytes),
            URL_SAFE_NO_PAD.encode(&bytes),
        ] {
            needles.extend(encoded.get(skip..chars).map(str::to_owned));
        }
    }
    let (mut upper, mut lower, mut hex) = (String::new(), String::new(), String::new());
    for byte in key.bytes() {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            upper.push(char::from(byte));
            lower.push(char::from(byte));
        } else {
            let _ = write!(upper, "%{byte:02X}");
            let _ = write!(lower, "%{byte:02x}");
        }
    }
    needles.extend([hex.to_ascii_uppercase(), hex, upper, lower]);
}
