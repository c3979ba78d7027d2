//! Labels: how confidential a text is, and whether it came from outside. Used everywhere; joining only
//! ever moves up.

use serde::{Deserialize, Serialize};

use crate::ParseIdError;

/// Confidentiality. Joined with `max`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    #[default]
    Public,
    Private,
    Secret,
}

impl Class {
    pub const ALL: [Self; 3] = [Self::Public, Self::Private, Self::Secret];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Secret => "secret",
        }
    }
}

/// Integrity. `Untrusted` wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Trust {
    #[default]
    Trusted,
    Untrusted,
}

impl Trust {
    pub const ALL: [Self; 2] = [Self::Trusted, Self::Untrusted];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Untrusted => "untrusted",
        }
    }
}

/// Class and trust together; on the wire `{"class":"private","untrusted":false}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Label {
    pub class: Class,
    pub trust: Trust,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    class: Class,
    untrusted: bool,
}

impl From<Form> for Label {
    fn from(form: Form) -> Self {
        let trust = if form.untrusted {
            Trust::Untrusted
        } else {
            Trust::Trusted
        };
        Self {
            class: form.class,
            trust,
        }
    }
}

impl From<Label> for Form {
    fn from(label: Label) -> Self {
        Self {
            class: label.class,
            untrusted: label.is_untrusted(),
        }
    }
}

impl Label {
    /// What the owner says and what the agent knows: private and clean.
    pub const PRIVATE: Self = Self::new(Class::Private, Trust::Trusted);

    /// How a result without a label reads: from outside, and not to be shown widely.
    pub const UNLABELLED: Self = Self::new(Class::Private, Trust::Untrusted);

    #[must_use]
    pub const fn new(class: Class, trust: Trust) -> Self {
        Self { class, trust }
    }

    /// The higher class, and untrusted if either is.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            class: self.class.max(other.class),
            trust: self.trust.max(other.trust),
        }
    }

    #[must_use]
    pub fn is_untrusted(self) -> bool {
        self.trust == Trust::Untrusted
    }

    /// Whether this label is at or above the other in both parts.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.join(other) == self
    }

    /// All six labels.
    pub fn all() -> impl Iterator<Item = Self> {
        Class::ALL
            .into_iter()
            .flat_map(|class| Trust::ALL.map(|trust| Self::new(class, trust)))
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let trust = if self.is_untrusted() {
            "untrusted"
        } else {
            "clean"
        };
        write!(f, "{}, {trust}", self.class.name())
    }
}

/// What raised a session's label, in words that name the source and never quote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// For example `read_file inbox/letter.txt`.
    pub source: String,
    pub label: Label,
}

/// Who reads a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "readers", rename_all = "snake_case", deny_unknown_fields)]
pub enum Audience {
    /// The owner alone.
    Owner {},
    /// Others too, who may see at most this class.
    Others { class_max: Class },
}

impl Audience {
    /// The highest class this audience may be shown.
    #[must_use]
    pub fn class_max(self) -> Class {
        match self {
            Self::Owner {} => Class::Secret,
            Self::Others { class_max } => class_max,
        }
    }
}

/// The person whose words a turn is. A realm is a configured chat server, or `local`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speaker {
    pub realm: String,
    pub name: String,
}

/// Longest realm, and longest name, in characters.
const SPEAKER_PART_CHARS_MAX: usize = 64;

impl Speaker {
    /// Whether both parts are what a chat server calls a person: letters, digits, `-`, `_` and `.`.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let plain = |part: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            (1..=SPEAKER_PART_CHARS_MAX).contains(&part.len()) && part.chars().all(allowed)
        };
        plain(&self.realm) && plain(&self.name)
    }
}

impl std::str::FromStr for Speaker {
    type Err = ParseIdError;
    /// Reads `realm/name`.
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let bad = ParseIdError("a speaker (realm/name)");
        let (realm, name) = text.split_once('/').ok_or(bad)?;
        let speaker = Self {
            realm: realm.into(),
            name: name.into(),
        };
        speaker.is_plain().then_some(speaker).ok_or(bad)
    }
}

impl std::fmt::Display for Speaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.realm, self.name)
    }
}

/// Where a turn came from. Only interactive turns are ever synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Interactive,
    Scheduled,
    Synthetic,
}

impl Origin {
    pub const ALL: [Self; 3] = [Self::Interactive, Self::Scheduled, Self::Synthetic];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_never_lowers_and_order_does_not_matter() {
        for a in Label::all() {
            for b in Label::all() {
                let joined = a.join(b);
                assert!(joined.covers(a) && joined.covers(b));
                assert_eq!(joined, b.join(a));
                assert_eq!(joined.join(a), joined);
            }
        }
    }

    #[test]
    fn a_speaker_reads_back_as_it_is_shown_and_nothing_else_does() {
        let speaker: Speaker = "home/some.one".parse().unwrap();
        assert_eq!(speaker.to_string().parse(), Ok(speaker));
        let long = format!("home/{}", "x".repeat(65));
        for text in [
            "",
            "home",
            "home/",
            "/x",
            "home/a/b",
            "ho me/x",
            "home/a\n",
            long.as_str(),
        ] {
            assert!(text.parse::<Speaker>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_wire_form_names_class_and_untrusted() {
        let json = serde_json::to_string(&Label::UNLABELLED).unwrap();
        assert_eq!(json, r#"{"class":"private","untrusted":true}"#);
        assert_eq!(
            serde_json::from_str::<Label>(&json).unwrap(),
            Label::UNLABELLED
        );
    }
}
