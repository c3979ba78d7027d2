//! What a session's label is, and which line must be on the disk before an answer about it leaves. Values
//! only: called by `store`, and by the simulation with a disk of its own. Never lowers a label.

use std::collections::BTreeMap;

use bxcore::{
    append::{self, BadLine},
    sealed,
};
use bxwire::{Cause, Label, SessionId, links::session_state::SessionState};
use serde::{Deserialize, Serialize};

/// Distinct causes kept for a session; later ones are counted, and still raise its label.
pub const CAUSES_MAX: usize = 64;

/// Longest words of a cause in characters.
pub const SOURCE_CHARS_MAX: usize = 200;

/// What a session starts from: the owner's own words are private, so nothing is ever below that.
pub const START: Label = Label::PRIVATE;

/// Version of a line of `broker/sessions.jsonl`.
pub const LINE_VERSION: u64 = 1;

/// One line of `broker/sessions.jsonl`, without its time. The label is the session's whole label, so that
/// any one line is enough to know that much. The causes are those that no line before it has; in lines of older
/// programs they are all there were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The first sight of a session.
    Seen {
        session: SessionId,
        label: Label,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        causes: Vec<Cause>,
        #[serde(default, skip_serializing_if = "is_zero")]
        more: u64,
    },
    /// A session's label went up, or something came in that would have raised it.
    Raised {
        session: SessionId,
        label: Label,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        causes: Vec<Cause>,
        /// How often, so far, something came in that there was no room for among the causes.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: u64,
    },
}

impl Record {
    const TYPES: [&'static str; 2] = ["seen", "raised"];

    fn parts(&self) -> (&SessionId, Label, &[Cause], u64) {
        match self {
            Self::Seen {
                session,
                label,
                causes,
                more,
            }
            | Self::Raised {
                session,
                label,
                causes,
                more,
            } => (session, *label, causes, *more),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form.
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A change that is thought out and not yet made. Its line, if it has one, is appended first; then
/// [`Labels::commit`], or [`Labels::failed`] when that did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Joined {
    pub session: SessionId,
    /// What must be durable before anything is said of the session.
    pub record: Option<Record>,
    /// The session's label with the change.
    pub label: Label,
    /// What came in with this change that would raise a session which has seen nothing.
    pub causes: Vec<Cause>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Session {
    label: Label,
    /// What the disk says; `None`: nothing of this session is there.
    durable: Option<Durable>,
    causes: Vec<Cause>,
    /// How often something came in that there was no room for among the causes.
    more: u64,
}

/// What the disk says of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Durable {
    label: Label,
    /// How many of the causes are there.
    causes: usize,
    more: u64,
}

impl Session {
    const NEW: Self = Self {
        label: START,
        durable: None,
        causes: Vec::new(),
        more: 0,
    };

    fn raise(&mut self, label: Label, causes: &[Cause]) {
        self.label = self.label.join(label);
        for cause in causes {
            if self.causes.contains(cause) {
                continue;
            }
            if self.causes.len() < CAUSES_MAX {
                self.causes.push(cause.clone());
            } else {
                self.more += 1;
            }
        }
    }

    /// Whether the disk has all of this.
    fn is_durable(&self) -> bool {
        self.durable.is_some_and(|durable| {
            durable.label.covers(self.label)
                && durable.causes == self.causes.len()
                && durable.more == self.more
        })
    }
}

/// How many sessions are what, for `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub seen: usize,
    pub untrusted: usize,
    pub secret: usize,
}

/// Every session brokerd knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    sessions: BTreeMap<SessionId, Session>,
}

impl Labels {
    /// Takes in a line that is on the disk.
    pub fn replay(&mut self, record: &Record) {
        let (session, label, causes, more) = record.parts();
        let known = self.sessions.entry(session.clone()).or_insert(Session::NEW);
        known.raise(label, causes);
        known.more = known.more.max(more);
        let before = known.durable.map_or(START, |durable| durable.label);
        // A line holds whatever was not on the disk before it.
        known.durable = Some(Durable {
            label: before.join(label),
            causes: known.causes.len(),
            more: known.more,
        });
    }

    /// What joining a label in changes. The label of each cause is joined too.
    pub fn join(&self, session: &SessionId, label: Label, causes: &[Cause]) -> Joined {
        let new = Session::NEW;
        let known = self.sessions.get(session).unwrap_or(&new);
        let joined = causes
            .iter()
            .fold(known.label.join(label), |sum, cause| sum.join(cause.label));
        let mut came: Vec<Cause> = Vec::new();
        for cause in causes {
            let cause = Cause {
                source: words(&cause.source),
                label: cause.label,
            };
            if !START.covers(cause.label) && !came.contains(&cause) {
                came.push(cause);
            }
        }
        let mut whole = known.clone();
        whole.raise(joined, &came);
        let record = (!whole.is_durable()).then(|| {
            let (session, label, more) = (session.clone(), joined, whole.more);
            let written = whole.durable.map_or(0, |durable| durable.causes);
            let causes = whole.causes.split_off(written);
            match whole.durable {
                None => Record::Seen {
                    session,
                    label,
                    causes,
                    more,
                },
                Some(_) => Record::Raised {
                    session,
                    label,
                    causes,
                    more,
                },
            }
        });
        Joined {
            session: session.clone(),
            record,
            label: joined,
            causes: came,
        }
    }

    /// What somebody's word on a session changes that repeats what it has seen: it is a cause only where nothing else
    /// was one.
    pub fn heard(&self, session: &SessionId, label: Label, source: &str) -> Joined {
        let cause = Cause {
            source: source.into(),
            label,
        };
        match self.durable(session).covers(label) {
            true => self.join(session, label, &[]),
            false => self.join(session, label, &[cause]),
        }
    }

    fn durable(&self, session: &SessionId) -> Label {
        let durable = self.sessions.get(session).and_then(|known| known.durable);
        durable.map_or(START, |durable| durable.label)
    }

    /// The line of a change is on the disk, or it has none.
    pub fn commit(&mut self, joined: &Joined) {
        if let Some(record) = &joined.record {
            self.replay(record);
        }
    }

    /// The line of a change could not be written. What it would have let out stays in; the label is raised
    /// here all the same, and the next change of this session tries the line again.
    pub fn failed(&mut self, joined: &Joined) {
        self.sessions
            .entry(joined.session.clone())
            .or_insert(Session::NEW)
            .raise(joined.label, &joined.causes);
    }

    /// What memoryd is told. Asking changes nothing; a session of which the disk says nothing is not seen.
    #[must_use]
    pub fn state(&self, session: &SessionId) -> SessionState {
        let known = self.sessions.get(session);
        let label = self.label(session);
        SessionState {
            class: label.class,
            untrusted: label.is_untrusted(),
            seen: known.is_some_and(|known| known.durable.is_some()),
        }
    }

    #[must_use]
    pub fn label(&self, session: &SessionId) -> Label {
        self.sessions
            .get(session)
            .map_or(START, |known| known.label)
    }

    /// What raised a session's label or would have, oldest first, and how often there was no room for another.
    #[must_use]
    pub fn causes(&self, session: &SessionId) -> (Vec<Cause>, u64) {
        let known = self.sessions.get(session);
        known.map_or_else(Default::default, |known| (known.causes.clone(), known.more))
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        let count = |wanted: fn(&Session) -> bool| {
            let matching = self.sessions.values().filter(|known| wanted(known));
            matching.count()
        };
        Counts {
            seen: count(|known| known.durable.is_some()),
            untrusted: count(|known| known.label.is_untrusted()),
            secret: count(|known| known.label.class == bxwire::Class::Secret),
        }
    }
}

/// Reads a line of `broker/sessions.jsonl`. Members a later program added are passed over; a kind of line
/// that this one does not know is not.
///
/// # Errors
/// [`BadLine::Newer`], [`BadLine::Corrupt`].
pub fn read_line(line: &str) -> Result<Record, BadLine> {
    // Lines of older programs have no checksum.
    if sealed::is_sealed(line) {
        sealed::check(line).map_err(|broken| BadLine::Corrupt(broken.to_string()))?;
    }
    read_typed(line, &Record::TYPES)
}

/// [`read_line`] for any tagged enum whose types are `known`.
pub(crate) fn read_typed<T: serde::de::DeserializeOwned>(
    line: &str,
    known: &[&str],
) -> Result<T, BadLine> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        v: Option<u64>,
    }
    let head = serde_json::from_str::<Head>(line);
    if head.is_ok_and(|head| head.v.is_some_and(|v| v > LINE_VERSION)) {
        return Err(BadLine::Newer);
    }
    append::typed(line, known)
}

/// A cause's words: one line of what can be seen, at most [`SOURCE_CHARS_MAX`] characters.
#[must_use]
pub fn words(text: &str) -> String {
    let flat = bxsanitize::neutralise(text, SOURCE_CHARS_MAX).replace('\n', " ");
    flat.trim().to_owned()
}

#[cfg(test)]
mod tests;
