//! One edit of memory, as the journal holds it. What it did is a list of changes, so that an undo is the
//! reversed list and Honcho's mirror needs no case for it. Values only.

use bxwire::{
    CallId, EditId, Label, SessionId, Speaker,
    links::memory_tools::{About, Caller},
};
use serde::{Deserialize, Serialize};

/// A journalled edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    pub id: EditId,
    /// RFC 3339, UTC, milliseconds.
    pub at: String,
    pub by: By,
    /// What was asked for, in a fixed word: `add`, `replace`, `remove`, `note`, `consolidate`, `conclude`,
    /// `forget`, `profile`, `promote`, `undo`, `accept`, `purge`.
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

impl Edit {
    /// One of the owner's: private and clean. The store fills in the files.
    #[must_use]
    pub fn of_owner(id: EditId, what: &str, changes: Vec<Change>, at: &str) -> Self {
        Self {
            id,
            at: at.into(),
            by: By::Owner {},
            what: what.into(),
            changes,
            undoes: None,
            label: Label::PRIVATE,
            kept_local: None,
            files: Vec::new(),
        }
    }

    /// One that a tool call in a session makes.
    #[must_use]
    pub fn of_caller(
        id: EditId,
        caller: &Caller,
        what: &str,
        changes: Vec<Change>,
        at: &str,
    ) -> Self {
        Self {
            by: By::Session {
                session: caller.session.clone(),
                turn: caller.turn,
                speaker: caller.speaker.clone(),
                call: Some(caller.call.clone()),
            },
            // What memory keeps is never public, whoever reads the session.
            label: caller.label.join(Label::PRIVATE),
            ..Self::of_owner(id, what, changes, at)
        }
    }
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
        /// The tool call; edits of older programs have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
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
    /// A fact that Honcho had concluded about the owner is to be deleted there. `id` is Honcho's; the text is empty
    /// when it was not to be kept.
    Forgot {
        fact: String,
        id: String,
        text: String,
        /// The session that Honcho concluded it from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<SessionId>,
    },
    /// The reverse of `Forgot`.
    Restored {
        fact: String,
        id: String,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<SessionId>,
    },
    /// The owner's peer card was replaced. `card` stays the same through undo and redo.
    Carded {
        card: String,
        before: Card,
        after: Card,
    },
    /// The session's texts were removed; the changes after it say what of them went and what stays. Changes
    /// nothing in memory by itself, and cannot be undone.
    Purged {
        session: SessionId,
    },
    /// Came from the session that is purged, and stays: Honcho gets it anew. Changes nothing in memory.
    Kept {
        about: About,
        entry: String,
        text: String,
    },
}

/// The owner's peer card, as it was or is to be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Card {
    pub lines: Vec<String>,
    /// The session that wrote it, if it was one of this agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SessionId>,
}

impl Card {
    /// A card that Honcho holds; the edits tell which of them wrote it, if one did. What none knows, since it was purged
    /// or Honcho has made something else of it, came from `last`, the session whose card was sent last.
    #[must_use]
    pub fn held(lines: Vec<String>, edits: &[Edit], last: Option<SessionId>) -> Self {
        let changes = edits.iter().rev().flat_map(|edit| &edit.changes);
        let mut cards = changes.filter_map(Change::card_after);
        let known = cards.find(|card| card.lines == lines);
        let from = known.map_or(last, |card| card.from.clone());
        Self { lines, from }
    }

    /// On one line, for a person.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.lines.as_slice() {
            [] => "(empty)".into(),
            lines => lines.join(" / "),
        }
    }
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
            Self::Forgot {
                fact,
                id,
                text,
                from,
            } => Self::Restored {
                fact,
                id,
                text,
                from,
            },
            Self::Restored {
                fact,
                id,
                text,
                from,
            } => Self::Forgot {
                fact,
                id,
                text,
                from,
            },
            Self::Carded {
                card,
                before,
                after,
            } => Self::Carded {
                card,
                before: after,
                after: before,
            },
            // An edit that has these is not undone.
            Self::Purged { .. } | Self::Kept { .. } => self.clone(),
        }
    }

    /// The card that it replaces.
    #[must_use]
    pub fn card_before(&self) -> Option<&Card> {
        match self {
            Self::Carded { before, .. } => Some(before),
            _ => None,
        }
    }

    /// The card that it leaves.
    #[must_use]
    pub fn card_after(&self) -> Option<&Card> {
        match self {
            Self::Carded { after, .. } => Some(after),
            _ => None,
        }
    }

    /// The session that it purges.
    #[must_use]
    pub fn purges(&self) -> Option<&SessionId> {
        match self {
            Self::Purged { session } => Some(session),
            _ => None,
        }
    }

    /// Whether all it does is put something in that was not there.
    #[must_use]
    pub fn puts_back(&self) -> bool {
        matches!(self, Self::Added { .. } | Self::Noted { .. })
    }

    /// The text that it puts into memory; `None` for one that puts in nothing new.
    #[must_use]
    pub fn new_text(&self) -> Option<&str> {
        match self {
            Self::Added { text, .. } | Self::Noted { text, .. } => Some(text),
            Self::Replaced { after, .. } => Some(after),
            Self::Dropped { .. }
            | Self::Moved { .. }
            | Self::MovedBack { .. }
            | Self::Unnoted { .. }
            | Self::Forgot { .. }
            | Self::Restored { .. }
            | Self::Carded { .. }
            | Self::Purged { .. }
            | Self::Kept { .. } => None,
        }
    }

    /// The entry, note, fact or card it is about; of a purge, the session.
    #[must_use]
    pub fn subject(&self) -> &str {
        match self {
            Self::Added { entry, .. }
            | Self::Replaced { entry, .. }
            | Self::Dropped { entry, .. }
            | Self::Moved { entry, .. }
            | Self::MovedBack { entry, .. }
            | Self::Kept { entry, .. } => entry,
            Self::Purged { session } => session.as_str(),
            Self::Noted { note, .. } | Self::Unnoted { note, .. } => note,
            Self::Forgot { fact, .. } | Self::Restored { fact, .. } => fact,
            Self::Carded { card, .. } => card,
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
            Change::Forgot {
                fact: "d1".into(),
                id: "x".into(),
                text: text(),
                from: None,
            },
            Change::Restored {
                fact: "d1".into(),
                id: "x".into(),
                text: text(),
                from: None,
            },
            Change::Carded {
                card: "c1".into(),
                before: Card::default(),
                after: Card {
                    lines: vec![text()],
                    from: None,
                },
            },
        ];
        for change in all {
            assert_ne!(change.reversed(), change);
            assert_eq!(change.reversed().reversed(), change);
        }
    }
}
