//! What a session's label is, and which line must be on the disk before an answer about it leaves. Values
//! only: called by `store`, and by the simulation with a disk of its own. Never lowers a label.

use std::collections::BTreeMap;

use bxcore::append::{self, BadLine};
use bxwire::{Cause, Label, SessionId, links::session_state::SessionState};
use serde::{Deserialize, Serialize};

/// Distinct causes kept for a session; later ones still raise its label.
pub const CAUSES_MAX: usize = 16;

/// Longest words of a cause in characters.
pub const SOURCE_CHARS_MAX: usize = 200;

/// What a session starts from: the owner's own words are private, so nothing is ever below that.
pub const START: Label = Label::PRIVATE;

/// Version of a line of `broker/sessions.jsonl`.
pub const LINE_VERSION: u64 = 1;

/// One line of `broker/sessions.jsonl`, without its time. The label is the session's whole label, so that
/// any one line is enough to know that much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The first sight of a session.
    Seen {
        session: SessionId,
        label: Label,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        causes: Vec<Cause>,
    },
    /// A session's label went up.
    Raised {
        session: SessionId,
        label: Label,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        causes: Vec<Cause>,
    },
}

impl Record {
    const TYPES: [&'static str; 2] = ["seen", "raised"];

    fn parts(&self) -> (&SessionId, Label, &[Cause]) {
        match self {
            Self::Seen {
                session,
                label,
                causes,
            }
            | Self::Raised {
                session,
                label,
                causes,
            } => (session, *label, causes),
        }
    }
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
    /// What raised it with this change.
    pub causes: Vec<Cause>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Session {
    label: Label,
    /// What the disk says; `None`: nothing of this session is there.
    durable: Option<Label>,
    causes: Vec<Cause>,
}

impl Session {
    const NEW: Self = Self {
        label: START,
        durable: None,
        causes: Vec::new(),
    };

    fn raise(&mut self, label: Label, causes: &[Cause]) {
        self.label = self.label.join(label);
        for cause in causes {
            if self.causes.len() < CAUSES_MAX && !self.causes.contains(cause) {
                self.causes.push(cause.clone());
            }
        }
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
        let (session, label, causes) = record.parts();
        let known = self.sessions.entry(session.clone()).or_insert(Session::NEW);
        known.raise(label, causes);
        known.durable = Some(known.durable.unwrap_or(START).join(label));
    }

    /// What joining a label in changes. The label of each cause is joined too.
    pub fn join(&self, session: &SessionId, label: Label, causes: &[Cause]) -> Joined {
        let new = Session::NEW;
        let known = self.sessions.get(session).unwrap_or(&new);
        let before = known.durable.unwrap_or(START);
        let joined = causes
            .iter()
            .fold(known.label.join(label), |sum, cause| sum.join(cause.label));
        let raising: Vec<_> = causes
            .iter()
            .filter(|cause| !before.covers(cause.label))
            .map(|cause| Cause {
                source: words(&cause.source),
                label: cause.label,
            })
            .take(CAUSES_MAX)
            .collect();
        let record = match known.durable {
            Some(durable) if durable.covers(joined) => None,
            durable => {
                let mut whole = known.clone();
                whole.raise(joined, &raising);
                let (session, label, causes) = (session.clone(), joined, whole.causes);
                Some(match durable {
                    None => Record::Seen {
                        session,
                        label,
                        causes,
                    },
                    Some(_) => Record::Raised {
                        session,
                        label,
                        causes,
                    },
                })
            }
        };
        Joined {
            session: session.clone(),
            record,
            label: joined,
            causes: raising,
        }
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

    /// What raised a session's label, oldest first.
    #[must_use]
    pub fn causes(&self, session: &SessionId) -> Vec<Cause> {
        self.sessions
            .get(session)
            .map_or_else(Vec::new, |known| known.causes.clone())
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
mod tests {
    use bxwire::{Class, Trust};

    use super::*;

    const SECRET: Label = Label::new(Class::Secret, Trust::Trusted);

    fn session(n: u8) -> SessionId {
        SessionId::new("20260131", [n; 12]).unwrap()
    }

    fn cause(source: &str, label: Label) -> Cause {
        Cause {
            source: source.into(),
            label,
        }
    }

    /// Every run of `steps` changes over all labels, each written or not.
    fn runs(steps: usize) -> Vec<Vec<(Label, bool)>> {
        let mut runs = vec![Vec::new()];
        for _ in 0..steps {
            runs = runs
                .iter()
                .flat_map(|run| {
                    Label::all().flat_map(move |label| {
                        [true, false].map(|written| [&run[..], &[(label, written)]].concat())
                    })
                })
                .collect();
        }
        runs
    }

    #[test]
    fn a_session_nobody_saw_is_private_clean_and_not_seen() {
        let labels = Labels::default();
        let state = labels.state(&session(1));
        assert_eq!(
            (state.class, state.untrusted, state.seen),
            (Class::Private, false, false)
        );
        assert_eq!(labels, Labels::default());
    }

    #[test]
    fn first_sight_has_a_line_even_when_nothing_is_raised() {
        let mut labels = Labels::default();
        let joined = labels.join(&session(1), Label::default(), &[]);
        assert!(matches!(&joined.record, Some(Record::Seen { label, .. }) if *label == START));
        assert!(!labels.state(&session(1)).seen, "not before it is durable");
        labels.commit(&joined);
        assert!(labels.state(&session(1)).seen);
        assert_eq!(labels.join(&session(1), Label::PRIVATE, &[]).record, None);
    }

    #[test]
    fn over_every_short_run_no_label_falls_and_the_disk_is_enough() {
        for run in runs(3) {
            let (mut live, mut disk) = (Labels::default(), Labels::default());
            for (label, written) in &run {
                let before = live.label(&session(1));
                let joined = live.join(&session(1), *label, &[cause("x", *label)]);
                let released = match (&joined.record, written) {
                    (Some(record), true) => {
                        disk.replay(record);
                        live.commit(&joined);
                        true
                    }
                    (Some(_), false) => {
                        live.failed(&joined);
                        false
                    }
                    (None, _) => {
                        live.commit(&joined);
                        true
                    }
                };
                let after = live.label(&session(1));
                assert!(after.covers(before) && after.covers(*label), "{run:?}");
                if released {
                    assert!(disk.state(&session(1)).seen, "{run:?}");
                    assert_eq!(disk.label(&session(1)), after, "{run:?}");
                }
            }
            if run.iter().all(|(_, written)| *written) {
                assert_eq!(live, disk, "{run:?}");
            }
        }
    }

    #[test]
    fn a_failed_line_comes_again_with_its_causes() {
        let mut labels = Labels::default();
        let first = labels.join(&session(1), Label::PRIVATE, &[]);
        labels.commit(&first);
        let letter = cause("read_file inbox/letter.txt", Label::UNLABELLED);
        let lost = labels.join(
            &session(1),
            Label::UNLABELLED,
            std::slice::from_ref(&letter),
        );
        labels.failed(&lost);
        assert!(labels.state(&session(1)).untrusted);
        let again = labels.join(&session(1), Label::PRIVATE, &[]);
        assert!(
            matches!(&again.record, Some(Record::Raised { label, causes, .. })
                if *label == Label::UNLABELLED && *causes == [letter]),
            "{again:?}"
        );
    }

    #[test]
    fn a_cause_with_a_higher_label_than_the_result_counts() {
        let labels = Labels::default();
        let joined = labels.join(&session(1), Label::PRIVATE, &[cause("x", SECRET)]);
        assert_eq!(joined.label, SECRET);
    }

    #[test]
    fn causes_are_bounded_distinct_and_one_plain_line_each() {
        let mut labels = Labels::default();
        let many: Vec<_> = (0..40)
            .map(|n| {
                cause(
                    &format!("file {n}\u{1b}[31m\nred {}", "x".repeat(300)),
                    SECRET,
                )
            })
            .collect();
        let joined = labels.join(&session(1), SECRET, &many);
        labels.commit(&joined);
        let causes = labels.causes(&session(1));
        assert_eq!(causes.len(), CAUSES_MAX);
        for cause in causes {
            assert!(cause.source.chars().count() <= SOURCE_CHARS_MAX);
            assert!(!cause.source.contains(['\u{1b}', '\n']));
        }
        assert_eq!(labels.join(&session(1), SECRET, &many).record, None);
    }

    #[test]
    fn sessions_are_counted() {
        let mut labels = Labels::default();
        for (n, label) in [(1, Label::PRIVATE), (2, Label::UNLABELLED), (3, SECRET)] {
            let joined = labels.join(&session(n), label, &[]);
            labels.commit(&joined);
        }
        let counts = labels.counts();
        assert_eq!((counts.seen, counts.untrusted, counts.secret), (3, 1, 1));
    }

    #[test]
    fn lines_of_today_and_tomorrow() {
        let record = Record::Raised {
            session: session(1),
            label: Label::UNLABELLED,
            causes: vec![cause("x", Label::UNLABELLED)],
        };
        let line = serde_json::to_string(&record).unwrap();
        assert_eq!(read_line(&line), Ok(record));
        let newer = |line: &str| read_line(line) == Err(BadLine::Newer);
        assert!(newer(r#"{"type":"lowered"}"#));
        assert!(newer(&line.replacen('{', r#"{"v":2,"#, 1)));
        assert!(read_line(&line.replacen('{', r#"{"v":1,"later":7,"#, 1)).is_ok());
        for bad in ["", "{}", "[]", r#"{"type":"seen"}"#, "not json"] {
            assert!(matches!(read_line(bad), Err(BadLine::Corrupt(_))), "{bad}");
        }
    }
}
