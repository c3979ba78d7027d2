//! Turns of a speaker or a channel that the owner excluded: what is asked in them stays on this machine.

use bxwire::{
    Audience, Label,
    links::memory_tools::{AskMemory, Caller, FactsOp, Request},
};

use crate::world::{Answer, PATIENT, READERS, World, ask, caller};

const STAYS: &str = "Not asked: Honcho, since the owner excluded this turn's speaker or channel and nothing of it leaves this machine.";

fn world(keys: &str) -> World {
    let world = World::with(keys, READERS, PATIENT);
    world.local_note(Label::PRIVATE, "the boat is green");
    world.note("boxmaker1", "e1", "the boat is gone");
    world.conclude("b-trusted", "owner", "owner has a boat");
    world.honcho().controls().forget_requests();
    world
}

/// Each of the three tools, asked by this caller.
fn answers(world: &World, caller: &Caller) -> [Answer; 3] {
    let caller = || caller.clone();
    let requests = [
        Request::Recall {
            caller: caller(),
            arguments: ask("boat"),
        },
        Request::AskMemory {
            caller: caller(),
            arguments: AskMemory {
                question: "which boat?".into(),
                workspaces: Vec::new(),
                reasoning: None,
            },
        },
        Request::Facts {
            caller: caller(),
            arguments: FactsOp::Search {
                query: "boat".into(),
                k: None,
            },
        },
    ];
    requests.map(|request| world.tool(&request).expect("an answer"))
}

fn stays_here(world: &World, caller: &Caller) {
    let answers = answers(world, caller);
    for answer in &answers {
        assert!(answer.text.contains(STAYS), "{}", answer.text);
        assert!(!answer.label.is_untrusted(), "{answer:?}");
    }
    let found = &answers[0].text;
    assert!(found.contains("  the boat is green"), "{found}");
    assert!(!found.contains("boxmaker1"), "{found}");
    assert_eq!(world.asked(), Vec::new());
}

fn leaves(world: &World, caller: &Caller) {
    for answer in answers(world, caller) {
        assert!(!answer.text.contains("Not asked"), "{}", answer.text);
    }
    for end in ["/fleet/search", "/b-trusted/chat", "/conclusions/query"] {
        let asked = world.asked();
        assert!(
            asked.iter().any(|record| record.path.ends_with(end)),
            "{end}: {asked:?}"
        );
    }
}

#[test]
fn nothing_is_asked_in_the_turn_of_an_excluded_speaker() {
    let world = world("exclude_speakers = [\"home/guest\"]");
    let guest = Caller {
        speaker: "home/guest".parse().ok(),
        ..caller(Label::PRIVATE, Audience::Owner {})
    };
    stays_here(&world, &guest);
    leaves(&world, &caller(Label::PRIVATE, Audience::Owner {}));
}

#[test]
fn nothing_is_asked_in_a_turn_from_an_excluded_channel() {
    let world = world("exclude_sources = [\"home:kitchen\"]");
    let caller = caller(Label::PRIVATE, Audience::Owner {});
    // As long as nobody knows where a turn came from, it may have come from there.
    stays_here(&world, &caller);
    world.begins("home:kitchen", None);
    stays_here(&world, &caller);
    // A session goes on elsewhere: what counts is where the turn came from.
    world.begins("home:kitchen", Some("terminal"));
    leaves(&world, &caller);
    world.honcho().controls().forget_requests();
    world.begins("terminal", Some("home:kitchen"));
    stays_here(&world, &caller);
}
