//! What happens on a day, as data: turns with the edits made in them, the owner's undos, outages. `world` carries
//! it out; `long` is what `make crash` runs.

use bxwire::{Class, Label, Speaker, Trust, links::session_state::SessionState};

pub const CLEAN: Label = Label::PRIVATE;
pub const TAINTED: Label = Label::UNLABELLED;

const SEEN: SessionState = SessionState {
    class: Class::Private,
    untrusted: false,
    seen: true,
};

/// One thing that happens. Each is settled before the next: decided and, while Honcho is there, sent.
#[derive(Debug, Clone)]
pub enum Event {
    /// A turn of a session: somebody speaks, the agent makes these edits and replies.
    Turn {
        session: u8,
        speaker: Speaker,
        edits: Vec<Edit>,
    },
    /// `bxctl memory undo`, by the number of the edit.
    Undo(u64),
    /// `bxctl memory purge` of a session: loopd has emptied its log. No turn follows in it.
    Purge(u8),
    BrokerSays(u8, SessionState),
    BrokerStops,
    BrokerStarts,
    HonchoStops,
    HonchoStarts,
    /// The next such request is carried out, and its answer is lost.
    AnswerLost(&'static str),
}

/// A call of the memory tool.
#[derive(Debug, Clone)]
pub struct Edit {
    pub json: String,
    pub label: Label,
}

pub fn owner() -> Speaker {
    speaker("local", "owner")
}

fn speaker(realm: &str, name: &str) -> Speaker {
    Speaker {
        realm: realm.into(),
        name: name.into(),
    }
}

fn turn(session: u8, edits: Vec<Edit>) -> Event {
    turn_of(session, owner(), edits)
}

fn turn_of(session: u8, speaker: Speaker, edits: Vec<Edit>) -> Event {
    Event::Turn {
        session,
        speaker,
        edits,
    }
}

fn edit(json: String) -> Edit {
    Edit { json, label: CLEAN }
}

/// Each text has a canary in it, which no log and no ledger may hold.
fn add(text: &str) -> Edit {
    edit(format!(
        r#"{{"op":"add","about":"user","text":"canary: {text}"}}"#
    ))
}

fn add_agent(text: &str) -> Edit {
    edit(format!(
        r#"{{"op":"add","about":"agent","text":"canary: {text}"}}"#
    ))
}

fn replace(about: &str, with: &str) -> Edit {
    edit(format!(
        r#"{{"op":"replace","about":"user","match":"{about}","text":"canary: {with}"}}"#
    ))
}

fn remove(about: &str) -> Edit {
    edit(format!(
        r#"{{"op":"remove","about":"user","match":"{about}"}}"#
    ))
}

fn note(text: &str) -> Edit {
    edit(format!(r#"{{"op":"note","text":"canary: {text}"}}"#))
}

fn tainted_note(text: &str) -> Edit {
    Edit {
        label: TAINTED,
        ..note(text)
    }
}

fn secret_note(text: &str) -> Edit {
    Edit {
        label: Label::new(Class::Secret, Trust::Trusted),
        ..note(text)
    }
}

/// Something of everything.
pub fn short() -> Vec<Event> {
    let untrusted = SessionState {
        untrusted: true,
        ..SEEN
    };
    vec![
        turn(1, vec![add("The bike is blue.")]),
        Event::BrokerSays(2, untrusted),
        turn(2, vec![tainted_note("The letter says hello.")]),
        Event::HonchoStops,
        turn(1, vec![]),
        turn(1, vec![add("The shed is green.")]),
        Event::Undo(3),
        Event::HonchoStarts,
        Event::Undo(1),
        Event::AnswerLost("*/messages"),
        turn_of(1, speaker("chat", "mary"), vec![note("Mary likes tea.")]),
        Event::Purge(2),
    ]
}

/// Twenty turns, fifteen edits, four undos, two purges, three outages of Honcho and one of brokerd.
pub fn long() -> Vec<Event> {
    let untrusted = SessionState {
        untrusted: true,
        ..SEEN
    };
    let secret = SessionState {
        class: Class::Secret,
        ..SEEN
    };
    let mary = || speaker("chat", "mary");
    vec![
        turn(1, vec![add("The bike is blue."), note("Rain is expected.")]), // e1 e2
        turn(1, vec![add_agent("I water the plants.")]),                    // e3
        turn(1, vec![replace("bike", "The bike is red.")]),                 // e4
        Event::BrokerSays(2, untrusted),
        turn(2, vec![tainted_note("The letter says hello.")]), // e5
        turn(2, vec![tainted_note("The letter says goodbye.")]), // e6
        Event::Undo(4),                                        // e7
        turn_of(3, mary(), vec![note("Mary likes tea.")]),     // e8
        turn(3, vec![]),
        Event::HonchoStops,
        turn(1, vec![]),
        turn(1, vec![add("The shed is green.")]), // e9
        Event::Undo(9),                           // e10
        turn(2, vec![tainted_note("A second letter came.")]), // e11
        turn_of(3, mary(), vec![add("Mary has a key to the shed door.")]), // e12
        turn(3, vec![]),
        Event::HonchoStarts,
        Event::Undo(5), // e13
        Event::BrokerSays(4, secret),
        turn(4, vec![secret_note("The safe is behind the picture.")]), // e14
        turn(4, vec![]),
        Event::AnswerLost("*/conclusions"),
        turn(1, vec![add("The boat is white.")]), // e15
        Event::AnswerLost("*/messages"),
        turn(1, vec![remove("boat")]), // e16
        Event::BrokerStops,
        turn(5, vec![]),
        turn(5, vec![add("The cat is old.")]), // e17
        Event::BrokerStarts,
        Event::HonchoStops,
        turn(5, vec![note("The vet comes on Monday.")]), // e18
        turn(2, vec![]),
        turn(1, vec![]),
        Event::HonchoStarts,
        Event::Undo(7),  // e19
        Event::Purge(5), // e20
        Event::HonchoStops,
        Event::Purge(2), // e21
        Event::HonchoStarts,
        turn(1, vec![]),
    ]
}
