//! One edit of memory, as the journal holds it. What it did is a list of changes, so that an undo is the
//! reversed list and Honcho's mirror needs no case for it. Values only.

use bxwire::{EditId, Label, SessionId, Speaker, links::memory_tools::About};
use serde::{Deserialize, Serialize};

/// A journalled edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    pub id: EditId,
    /// RFC 3339, UTC, milliseconds.
    pub at: String,
    pub by: By,
    /// What was asked for, in a fixed word: `add`, `replace`, `remove`, `note`, `consolidate`, `conclude`,
    /// `promote`, `undo`, `accept`.
    pub what: String,
    pub changes: Vec<Change>,
    /// The edit this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<EditId>,
    /// The session's label when it was made, brokerd's and loopd's joined; the owner's own are private and
    /// clean.
    pub label: Label,
    /// Why Honcho does not get it although its label would allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_local: Option<KeptLocal>,
    /// Each file it changes, with its hash before and after, so that a crash between this line and the file is
    /// told from a hand edit.
    pub files: Vec<FileChange>,
}

/// Who made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum By {
    Owner {},
    Session {
        session: SessionId,
        turn: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaker: Option<Speaker>,
    },
}

impl By {
    /// The session it was made in, if any.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Owner {} => None,
            Self::Session { session, .. } => Some(session),
        }
    }
}

/// Why an edit stays on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeptLocal {
    /// It reads like instructions to a model, or hides text.
    Flagged,
    /// A long run that may be a key.
    MaybeSecret,
}

/// One thing an edit did. An entry's or a note's id is never used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// The entry is now in identity.
    Added {
        about: About,
        entry: String,
        text: String,
    },
    Replaced {
        about: About,
        entry: String,
        before: String,
        after: String,
    },
    /// The entry is gone from identity and from memory.
    Dropped {
        about: About,
        entry: String,
        text: String,
    },
    /// The entry went from identity to the notes; memory still holds it.
    Moved {
        about: About,
        entry: String,
        text: String,
    },
    /// The reverse of `Moved`.
    MovedBack {
        about: About,
        entry: String,
        text: String,
    },
    Noted {
        note: String,
        text: String,
    },
    /// The reverse of `Noted`.
    Unnoted {
        note: String,
        text: String,
    },
}

impl Change {
    /// The change that takes this one back.
    #[must_use]
    pub fn reversed(&self) -> Self {
        match self.clone() {
            Self::Added { about, entry, text } => Self::Dropped { about, entry, text },
            Self::Dropped { about, entry, text } => Self::Added { about, entry, text },
            Self::Replaced {
                about,
                entry,
                before,
                after,
            } => Self::Replaced {
                about,
                entry,
                before: after,
                after: before,
            },
            Self::Moved { about, entry, text } => Self::MovedBack { about, entry, text },
            Self::MovedBack { about, entry, text } => Self::Moved { about, entry, text },
            Self::Noted { note, text } => Self::Unnoted { note, text },
            Self::Unnoted { note, text } => Self::Noted { note, text },
        }
    }

    /// The entry or note it is about.
    #[must_use]
    pub fn subject(&self) -> &str {
        match self {
            Self::Added { entry, .. }
            | Self::Replaced { entry, .. }
            | Self::Dropped { entry, .. }
            | Self::Moved { entry, .. }
            | Self::MovedBack { entry, .. } => entry,
            Self::Noted { note, .. } | Self::Unnoted { note, .. } => note,
        }
    }
}

/// A file's SHA-256 before and after an edit, in hex; empty when there was no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Relative to `memory/`, for example `user.md`.
    pub file: String,
    pub before: String,
    pub after: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reversing_twice_is_where_one_began() {
        let text = || "t".to_owned();
        let about = About::User;
        let entry = || "u1".to_owned();
        let all = [
            Change::Added {
                about,
                entry: entry(),
                text: text(),
            },
            Change::Replaced {
                about,
                entry: entry(),
                before: "a".into(),
                after: "b".into(),
            },
            Change::Dropped {
                about,
                entry: entry(),
                text: text(),
            },
            Change::Moved {
                about,
                entry: entry(),
                text: text(),
            },
            Change::MovedBack {
                about,
                entry: entry(),
                text: text(),
            },
            Change::Noted {
                note: "n1".into(),
                text: text(),
            },
            Change::Unnoted {
                note: "n1".into(),
                text: text(),
            },
        ];
        for change in all {
            assert_ne!(change.reversed(), change);
            assert_eq!(change.reversed().reversed(), change);
        }
    }
}
