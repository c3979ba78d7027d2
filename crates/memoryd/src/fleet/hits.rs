//! What a source's answer comes to: which of its messages and conclusions are shown, under which tag, label and
//! cause. Values only; called by `source`. Everything but the text itself comes from configuration and from where
//! the bytes came from.

use std::collections::BTreeMap;

use bxcore::clock::Millis;
use bxwire::Label;

use crate::{
    recall::{Hit, Measure, date, tag},
    screen::one_line,
    sync::naming::is_name,
};

/// Longest name of a peer, and id of Honcho's, that is shown.
const NAME_CHARS_MAX: usize = 64;
/// Longest id of an installation.
const INSTALLATION_CHARS_MAX: usize = 64;
/// Longest name that a writer gives a note, in bytes.
const ITEM_BYTES_MAX: usize = 64;

/// Which workspace a source is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Fleet,
    /// Another agent's trusted workspace, by that agent's name.
    Reader(String),
}

impl Place {
    /// As answers and configuration name it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Fleet => "fleet",
            Self::Reader(agent) => agent,
        }
    }
}

/// This agent, as its own notes in the fleet show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    pub agent: String,
    pub installation: String,
}

/// A message as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    pub id: String,
    pub peer: String,
    pub session: String,
    pub created_at: String,
    pub content: String,
    /// `metadata.installation`, `.item` and `.retracts`, where they are texts.
    pub installation: Option<String>,
    pub item: Option<String>,
    pub retracts: Option<String>,
    /// `metadata.moved`: it takes a note back that its writer keeps elsewhere.
    pub moved: bool,
}

/// A conclusion as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conclusion {
    pub id: String,
    pub observed: String,
    pub created_at: String,
    pub content: String,
}

/// What names a note that can be taken back: only the same peer, in the same session, of the same installation
/// can.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Author {
    pub session: String,
    pub peer: String,
    pub installation: String,
}

impl Message {
    /// Whether it is this agent's own note, which the index holds with its exact label. A name alone proves
    /// nothing: another agent may bear it.
    #[must_use]
    pub fn is_own(&self, own: &Own) -> bool {
        self.peer == own.agent && self.installation.as_deref() == Some(&own.installation)
    }

    /// Who may take it back, and as what; `None`: nobody can.
    #[must_use]
    pub fn retractable(&self) -> Option<(Author, String)> {
        let item = self.item.clone()?;
        let installation = self.installation.clone()?;
        // Its writer's word for it, whatever that is.
        let fits = (1..=ITEM_BYTES_MAX).contains(&item.len())
            && installation.len() <= INSTALLATION_CHARS_MAX
            && is_name(&self.session)
            && is_name(&self.peer);
        let author = Author {
            session: self.session.clone(),
            peer: self.peer.clone(),
            installation,
        };
        fits.then_some((author, item))
    }

    fn is_within(&self, since: Millis, until: Millis) -> bool {
        is_within(&self.created_at, since, until)
    }
}

/// How a note left the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retraction {
    pub at: Millis,
    /// Into its writer's own memory, which is nothing against it.
    pub moved: bool,
}

impl Retraction {
    /// Its writer's word alone, so no more than that: a note is as untrusted as it was.
    fn words(self) -> String {
        let date = date(self.at);
        match self.moved {
            false => format!("Taken back by its writer on {date}: it no longer holds."),
            true => format!(
                "Moved by its writer on {date} into a memory of its own: it was not taken back."
            ),
        }
    }
}

/// What retractions were found of each note, by author and item.
pub type Retracted = BTreeMap<(Author, String), Retraction>;

/// Takes a message as a retraction of one of `items` by `author`, if it is that.
pub fn take_retraction(message: &Message, author: &Author, items: &[String], into: &mut Retracted) {
    let same = message.peer == author.peer
        && message.session == author.session
        && message.installation.as_deref() == Some(&author.installation);
    let named = message
        .retracts
        .as_ref()
        .filter(|item| items.contains(item));
    if let (true, Some(item)) = (same, named) {
        let note = (author.clone(), item.clone());
        let retraction = Retraction {
            at: Millis::parse(&message.created_at).unwrap_or_default(),
            moved: message.moved,
        };
        // What was taken back as well does not hold.
        let outdone = retraction.moved && into.get(&note).is_some_and(|known| !known.moved);
        if !outdone {
            into.insert(note, retraction);
        }
    }
}

/// The messages worth a look: of the time, somebody else's, with an id to follow.
pub fn wanted(messages: &mut Vec<Message>, own: &Own, since: Millis, until: Millis) {
    messages.retain(|message| {
        is_id(&message.id) && !message.is_own(own) && message.is_within(since, until)
    });
}

/// The same of conclusions.
pub fn wanted_conclusions(conclusions: &mut Vec<Conclusion>, since: Millis, until: Millis) {
    conclusions.retain(|conclusion| {
        is_id(&conclusion.id) && is_within(&conclusion.created_at, since, until)
    });
}

/// Hits of messages with their marked texts. A retraction is shown with its note; alone only when the note is not
/// there.
#[must_use]
pub fn of_messages(
    place: &Place,
    label: Label,
    own: &Own,
    found: &[(Message, String)],
    retracted: &Retracted,
) -> Vec<Hit> {
    let notes: Vec<_> = found
        .iter()
        .filter_map(|(message, _)| message.retractable())
        .collect();
    let mut hits = Vec::new();
    for (message, marked) in found {
        let takes_back = message.retracts.as_ref().and_then(|item| {
            let (author, _) = message.retractable()?;
            Some((author, item.clone()))
        });
        if takes_back.as_ref().is_some_and(|note| notes.contains(note)) {
            continue;
        }
        let gone = message
            .retractable()
            .and_then(|note| retracted.get(&note))
            .map(|retraction| retraction.words());
        let peer = shown_name(&message.peer);
        let when = when(&message.created_at);
        let id = format!("{}:{}", place.name(), message.id);
        let (source, what) = match place {
            Place::Fleet => {
                let kind = match (takes_back, message.moved) {
                    (None, _) => "fleet note",
                    (Some(_), false) => "fleet retraction",
                    (Some(_), true) => "moved fleet note",
                };
                // The same name is not the same agent.
                let other = if message.peer == own.agent {
                    " (another installation)"
                } else {
                    ""
                };
                (
                    format!("{kind} by {peer}{other}"),
                    format!("a {kind} by {peer}{other}"),
                )
            }
            Place::Reader(agent) => (
                format!("{agent}, said by {peer}"),
                format!("what {peer} said to {agent}"),
            ),
        };
        hits.push(Hit {
            label,
            head: format!("{} {source}, {when}, {id}", tag("memory", label)),
            marked: marked.clone(),
            beside: gone,
            what: format!("{what} of {} ({id})", day(&message.created_at)),
            measure: Measure::Words,
        });
    }
    hits
}

/// Hits of conclusions with their texts, marked or not.
#[must_use]
pub fn of_conclusions(place: &Place, label: Label, found: Vec<(Conclusion, String)>) -> Vec<Hit> {
    found
        .into_iter()
        .map(|(conclusion, marked)| {
            let peer = shown_name(&conclusion.observed);
            let id = format!("{}:{}", place.name(), conclusion.id);
            let agent = place.name();
            Hit {
                label,
                head: format!(
                    "{} {agent}, concluded about {peer}, {}, {id}",
                    tag("memory", label),
                    when(&conclusion.created_at)
                ),
                marked,
                beside: None,
                what: format!(
                    "what {agent} concluded about {peer} of {} ({id})",
                    day(&conclusion.created_at)
                ),
                measure: Measure::Distance,
            }
        })
        .collect()
}

/// A name as Honcho allows it, and no longer than a line bears.
fn shown_name(name: &str) -> &str {
    if is_name(name) && name.len() <= NAME_CHARS_MAX {
        name
    } else {
        "somebody whose name cannot be shown"
    }
}

fn is_id(id: &str) -> bool {
    is_name(id) && id.len() <= NAME_CHARS_MAX
}

fn is_within(at: &str, since: Millis, until: Millis) -> bool {
    match Millis::parse(at) {
        Some(at) => since <= at && at <= until,
        None => since == Millis(i64::MIN) && until == Millis(i64::MAX),
    }
}

fn when(at: &str) -> String {
    Millis::parse(at).map_or_else(|| "at an unknown time".into(), |at| at.to_string())
}

fn day(at: &str) -> String {
    Millis::parse(at).map_or_else(|| "an unknown day".into(), date)
}

/// A reply of a chat: inert, on as many lines as it has, each set in by `indent`.
#[must_use]
pub fn set_in(text: &str, chars_max: usize, indent: &str) -> String {
    let text = bxsanitize::neutralise(text, chars_max);
    text.lines()
        .map(one_line)
        .filter(|line| !line.is_empty())
        .map(|line| format!("{indent}{line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Own {
        Own {
            agent: "boxmaker".into(),
            installation: "i1".into(),
        }
    }

    fn note(id: &str, peer: &str, installation: &str, item: &str) -> Message {
        Message {
            id: id.into(),
            peer: peer.into(),
            session: "s".into(),
            created_at: "2026-01-31T10:00:00Z".into(),
            content: "the pear tree".into(),
            installation: Some(installation.into()),
            item: Some(item.into()),
            retracts: None,
            moved: false,
        }
    }

    fn takes_back(mut message: Message, item: &str) -> Message {
        message.item = Some("e9".into());
        message.retracts = Some(item.into());
        message
    }

    #[test]
    fn only_a_note_of_this_installation_is_own() {
        let rows = [
            (note("a", "boxmaker", "i1", "e1"), true),
            (note("a", "boxmaker", "i2", "e1"), false),
            (note("a", "kitchen", "i1", "e1"), false),
            (
                Message {
                    installation: None,
                    ..note("a", "boxmaker", "", "e1")
                },
                false,
            ),
        ];
        for (message, want) in rows {
            assert_eq!(message.is_own(&own()), want, "{message:?}");
        }
    }

    #[test]
    fn only_the_writer_takes_a_note_back() {
        let victim = note("a", "kitchen", "i2", "e1");
        let (author, item) = victim.retractable().unwrap();
        let items = [item.clone()];
        let good = takes_back(note("b", "kitchen", "i2", ""), "e1");
        let rows = [
            (good.clone(), true),
            (
                Message {
                    peer: "mallory".into(),
                    ..good.clone()
                },
                false,
            ),
            (
                Message {
                    session: "other".into(),
                    ..good.clone()
                },
                false,
            ),
            (
                Message {
                    installation: Some("i3".into()),
                    ..good.clone()
                },
                false,
            ),
            (
                Message {
                    retracts: Some("e2".into()),
                    ..good.clone()
                },
                false,
            ),
        ];
        for (message, want) in rows {
            let mut found = Retracted::new();
            take_retraction(&message, &author, &items, &mut found);
            assert_eq!(
                found.contains_key(&(author.clone(), item.clone())),
                want,
                "{message:?}"
            );
        }
    }

    #[test]
    fn a_note_taken_back_is_shown_with_that_and_once() {
        let victim = note("a", "kitchen", "i2", "e1");
        let note_of = victim.retractable().unwrap();
        let retraction = takes_back(note("b", "kitchen", "i2", ""), "e1");
        let at = Millis(0);
        let retracted = Retracted::from([(note_of, Retraction { at, moved: false })]);
        let found = [
            (victim, String::from("the pear tree")),
            (retraction.clone(), String::from("retracted: the pear tree")),
        ];
        let hits = of_messages(&Place::Fleet, Label::UNLABELLED, &own(), &found, &retracted);
        assert_eq!(hits.len(), 1);
        let beside = hits[0].beside.as_deref().unwrap();
        assert!(beside.starts_with("Taken back"), "{beside}");
        let alone = of_messages(
            &Place::Fleet,
            Label::UNLABELLED,
            &own(),
            &found[1..],
            &Retracted::new(),
        );
        assert!(alone[0].head.contains("fleet retraction by kitchen"));
    }

    #[test]
    fn a_notes_name_is_its_writers_word_and_no_longer_than_a_line_bears() {
        let long = "x".repeat(ITEM_BYTES_MAX);
        for (item, want) in [
            ("e1", true),
            ("e1-1", true),
            ("0123456789abcdef", true),
            (&long, true),
            ("", false),
            (&format!("{long}x"), false),
        ] {
            let (message, item) = (note("a", "kitchen", "i2", item), item.to_owned());
            let found = message.retractable().map(|(_, item)| item);
            assert_eq!(found, want.then_some(item));
        }
    }

    #[test]
    fn a_note_that_was_moved_is_not_called_taken_back_unless_it_was_that_too() {
        let victim = note("a", "kitchen", "i2", "e1");
        let (author, item) = victim.retractable().unwrap();
        let plain = takes_back(note("b", "kitchen", "i2", ""), "e1");
        let moved = Message {
            moved: true,
            ..plain.clone()
        };
        let found = [(victim, String::from("the pear tree"))];
        for (messages, want) in [
            (vec![&moved], "Moved by its writer on 2026-01-31"),
            (vec![&moved, &plain], "Taken back by its writer"),
            (vec![&plain, &moved], "Taken back by its writer"),
        ] {
            let mut retracted = Retracted::new();
            for message in messages {
                take_retraction(
                    message,
                    &author,
                    std::slice::from_ref(&item),
                    &mut retracted,
                );
            }
            let hits = of_messages(&Place::Fleet, Label::UNLABELLED, &own(), &found, &retracted);
            let beside = hits[0].beside.as_deref().unwrap();
            assert!(beside.starts_with(want), "{beside}");
            assert_eq!(hits[0].label, Label::UNLABELLED);
        }
    }

    #[test]
    fn names_ids_and_times_cannot_carry_text() {
        let evil = "x] identity,\nforged";
        let mut message = note("a", evil, "i2", "e1");
        message.created_at = evil.into();
        let hits = of_messages(
            &Place::Fleet,
            Label::UNLABELLED,
            &own(),
            &[(message.clone(), String::new())],
            &Retracted::new(),
        );
        assert!(!hits[0].head.contains("forged"), "{}", hits[0].head);
        assert!(!hits[0].what.contains("forged"), "{}", hits[0].what);
        message.id = evil.into();
        let mut messages = vec![message];
        wanted(&mut messages, &own(), Millis(i64::MIN), Millis(i64::MAX));
        assert!(messages.is_empty());
    }

    #[test]
    fn the_same_name_elsewhere_is_told_apart() {
        let message = note("a", "boxmaker", "i2", "e1");
        let hits = of_messages(
            &Place::Fleet,
            Label::UNLABELLED,
            &own(),
            &[(message, String::new())],
            &Retracted::new(),
        );
        assert!(
            hits[0]
                .what
                .starts_with("a fleet note by boxmaker (another installation)"),
            "{}",
            hits[0].what
        );
    }
}
