//! Decides whether a text holds a secret. Called before anything is stored or sent; says which rule
//! matched, never what matched, and keeps no text.
//!
//! A text is read in three forms: as it came, neutralised, and that with compatibility characters
//! replaced. A key broken by an invisible character or a colour code is whole again in the second.

pub mod entropy;
mod own;
mod scan;
mod special;

use crate::neutralise::neutralise_cow;
use crate::unicode::decompose;
use std::borrow::Cow;

/// What a text may be used for. Ordered: the later outcome wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Nothing found.
    Clear,
    /// A long run that looks random, of no known format: kept local.
    MaybeSecret,
    /// Refused, with the name of the rule.
    Secret(&'static str),
}

/// The rule named when a text holds a key this daemon is configured with.
pub const OWN_KEY_RULE: &str = "own-key";
/// The shortest configured key that is searched for, in bytes. A shorter one would be found in
/// ordinary words.
pub const OWN_KEY_BYTES_MIN: usize = 8;

/// The known formats and this daemon's own keys.
pub struct Refuser {
    own: own::OwnKeys,
}

impl Refuser {
    /// `own_keys`: every secret the daemon is configured with. They are found as they are, in base64
    /// (at any of its three offsets, both alphabets), percent-encoded and in hexadecimal.
    #[must_use]
    pub fn new(own_keys: &[&str]) -> Refuser {
        Refuser {
            own: own::OwnKeys::new(own_keys),
        }
    }

    /// How many own keys were too short to search for (`OWN_KEY_BYTES_MIN`): worth a warning.
    #[must_use]
    pub fn own_keys_skipped(&self) -> usize {
        self.own.skipped
    }

    /// Checks one text in all its forms. Takes time linear in the text.
    #[must_use]
    pub fn check(&self, text: &str) -> Outcome {
        let raw = self.check_form(text);
        if matches!(raw, Outcome::Secret(_)) {
            return raw;
        }
        let neutral = neutralise_cow(text, usize::MAX);
        let cleaned = match neutral {
            Cow::Borrowed(_) => raw,
            Cow::Owned(_) => self.check_form(&neutral),
        };
        if matches!(cleaned, Outcome::Secret(_)) || neutral.is_ascii() {
            return raw.max(cleaned);
        }
        // All the ASCII that NFKC would give, and a little more: it binds accents to their letters.
        let mut compatible = String::with_capacity(neutral.len());
        for c in neutral.chars() {
            decompose(c, |part| compatible.push(part));
        }
        raw.max(cleaned).max(self.check_form(&compatible))
    }

    /// Checks the messages of a turn together: one after the other, and run on into each other, for a
    /// secret may be split between them.
    #[must_use]
    pub fn check_joined(&self, texts: &[&str]) -> Outcome {
        match texts {
            [] => Outcome::Clear,
            [one] => self.check(one),
            _ => self
                .check(&texts.join("\n"))
                .max(self.check(&texts.concat())),
        }
    }

    fn check_form(&self, text: &str) -> Outcome {
        if self.own.found_in(text) {
            return Outcome::Secret(OWN_KEY_RULE);
        }
        if let Some(name) = scan::first_rule(text) {
            return Outcome::Secret(name);
        }
        if entropy::looks_random(text) {
            Outcome::MaybeSecret
        } else {
            Outcome::Clear
        }
    }
}

impl std::fmt::Debug for Refuser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Refuser")
    }
}
