//! The sources of `recall`, row for row: what is searched, how it is tagged, what it does to the session.

use bxwire::{
    Audience, Class, Label, Trust,
    links::{
        control,
        memory_tools::{FactsOp, Request},
    },
};
use serde_json::json;

use crate::world::{PATIENT, READERS, World, ask, caller, none};

const SECRET: Label = Label::new(Class::Secret, Trust::Trusted);

#[test]
fn a_fleet_note_of_a_peer_nobody_named_is_found_and_marks() {
    let world = World::new();
    world.note("boxmaker1", "e4", "the quince tree is in bloom");
    let answer = world.recall("quince tree");
    let heads = answer.heads();
    assert_eq!(heads.len(), 1, "{}", answer.text);
    let want = "[memory-tainted] fleet note by boxmaker1, 2026-01-31T10:00:00.000Z, fleet:";
    assert!(heads[0].starts_with(want), "{}", answer.text);
    assert_eq!(answer.lines()[1], "  the quince tree is in bloom");
    assert_eq!(answer.label, Label::UNLABELLED);
    let cause = "recall read a fleet note by boxmaker1 of 2026-01-31 (fleet:";
    assert!(answer.causes[0].source.starts_with(cause), "{answer:?}");
    assert_eq!(answer.causes[0].label, Label::UNLABELLED);
}

#[test]
fn another_agents_workspace_is_untrusted_unless_written_out() {
    let world = World::new();
    world.message("k-trusted", "owner", "my boat is green", none());
    world.conclude("k-trusted", "kitchen", "the boat lies at the quay");
    world.conclude("k-trusted", "owner", "owner has a boat");
    world.conclude("k-trusted", "somebody", "somebody sank a boat");
    world.message("g-trusted", "garden", "a boat needs a shed", none());
    let answer = world.recall("boat");
    let starts = |head: &str| answer.heads().iter().any(|line| line.starts_with(head));
    for head in [
        "[memory-tainted] kitchen, said by owner, ",
        "[memory-tainted] kitchen, concluded about kitchen, ",
        "[memory-tainted] kitchen, concluded about owner, ",
        "[memory] garden, said by garden, ",
    ] {
        assert!(starts(head), "{head}: {}", answer.text);
    }
    assert!(!answer.text.contains("sank"), "{}", answer.text);
    assert_eq!(answer.label, Label::UNLABELLED);
    let sources: Vec<_> = answer.causes.iter().map(|cause| &cause.source).collect();
    assert!(
        sources.iter().all(|source| source.contains("kitchen")),
        "what garden says marks nothing: {sources:?}"
    );
    // Trusted alone: the session stays as it is.
    let shed = world.recall("shed");
    assert_eq!(shed.label, Label::PRIVATE, "{}", shed.text);
    assert!(shed.causes.is_empty());
}

#[test]
fn the_agents_own_workspaces_are_not_searched() {
    let world = World::new();
    for workspace in ["b-trusted", "b-untrusted"] {
        world.message(workspace, "owner", "a heron in the pond", none());
    }
    world.honcho().controls().forget_requests();
    let answer = world.recall("heron pond");
    assert!(answer.text.starts_with("Nothing found."), "{}", answer.text);
    let asked = world.asked();
    // Messages of each source; conclusions of two peers of each reader.
    assert_eq!(asked.len(), 3 + 2 * 2, "{asked:?}");
    assert!(asked.iter().all(|record| !record.path.contains("/b-")));
    assert!(
        asked
            .iter()
            .all(|record| record.path.ends_with("/search") || record.path.ends_with("/query"))
    );
}

#[test]
fn what_does_not_match_by_our_own_measure_is_dropped_and_marks_nothing() {
    let world = World::new();
    world.note("boxmaker1", "e1", "the weather was fine");
    // Honcho gives it all the same.
    let found = world.recall("bicycle pump");
    assert!(found.text.starts_with("Nothing found."), "{}", found.text);
    assert_eq!((found.label, found.causes.len()), (Label::default(), 0));
    // One word of five that is everywhere here does not count either.
    for n in 0..60 {
        world.local_note(Label::PRIVATE, &format!("weather report {n}"));
    }
    let common = world.recall("weather bicycle pump valve spoke");
    assert!(!common.label.is_untrusted(), "{}", common.text);
    // Half of the words do, stemmed as the index does it.
    let half = world.recall("weathers fine pump valve");
    assert!(half.label.is_untrusted(), "{}", half.text);
}

#[test]
fn diacritics_count_for_nothing_in_our_own_measure() {
    let world = World::new();
    world.note("boxmaker1", "e1", "une ecole, un eleve");
    // All of it is common here, so that half of the words are needed.
    for n in 0..3 {
        world.local_note(Label::PRIVATE, &format!("école élève pompe vélo {n}"));
    }
    for query in [
        "vélo pompe École élève",
        "ve\u{301}lo pompe e\u{301}cole e\u{301}le\u{300}ve",
    ] {
        let mut arguments = ask(query);
        arguments.k = Some(20);
        let answer = world.recall_in(Label::PRIVATE, &arguments);
        assert!(
            answer.text.contains("une ecole, un eleve"),
            "{query}: {}",
            answer.text
        );
    }
}

#[test]
fn the_index_comes_first_and_sources_take_turns() {
    let world = World::new();
    for n in 0..4 {
        world.local_note(Label::PRIVATE, &format!("kettle number {n}"));
        world.note(
            "boxmaker1",
            &format!("e{n}"),
            &format!("kettle of steel {n}"),
        );
        world.message("g-trusted", "owner", &format!("kettle of tin {n}"), none());
    }
    let mut arguments = ask("kettle");
    arguments.k = Some(5);
    let answer = world.recall_in(Label::PRIVATE, &arguments);
    let heads = answer.heads();
    assert_eq!(heads.len(), 5, "{}", answer.text);
    for (at, want) in [
        "[memory] note",
        "[memory] garden",
        "[memory-tainted] fleet",
        "[memory] note",
        "[memory] garden",
    ]
    .iter()
    .enumerate()
    {
        assert!(heads[at].starts_with(want), "{at}: {}", answer.text);
    }
}

#[test]
fn what_is_concluded_about_the_owner_takes_turns_with_what_is_about_the_agent() {
    let world = World::new();
    for n in 0..4 {
        let text = format!("garden has kettle number {n}");
        world.conclude("g-trusted", "garden", &text);
        let text = format!("owner has kettle number {n}");
        world.conclude("g-trusted", "owner", &text);
    }
    let mut arguments = ask("kettle");
    arguments.k = Some(4);
    let answer = world.recall_in(Label::PRIVATE, &arguments);
    let heads = answer.heads();
    assert_eq!(heads.len(), 4, "{}", answer.text);
    for (at, about) in ["garden", "owner", "garden", "owner"].iter().enumerate() {
        let want = format!("[memory] garden, concluded about {about}, ");
        assert!(heads[at].starts_with(&want), "{at}: {}", answer.text);
    }
}

#[test]
fn times_hold_for_every_source() {
    let world = World::new();
    world.note("boxmaker1", "e1", "the lantern is out");
    world.conclude("g-trusted", "owner", "owner has a lantern");
    let mut arguments = ask("lantern");
    arguments.until = Some("2026-01-30".into());
    let early = world.recall_in(Label::PRIVATE, &arguments);
    assert!(early.text.starts_with("Nothing found."), "{}", early.text);
    arguments.since = Some("2026-01-31".into());
    arguments.until = Some("2026-01-31".into());
    let day = world.recall_in(Label::PRIVATE, &arguments);
    assert_eq!(day.heads().len(), 1, "{}", day.text);
}

#[test]
fn a_class_above_the_session_is_asked_only_when_named_and_that_is_said() {
    let readers = "[[honcho.read]]\nagent = \"vault\"\nworkspace = \"v-trusted\"\ntrust = \"trusted\"\n\
        class = \"secret\"\n";
    let world = World::with("", readers, PATIENT);
    world.message("v-trusted", "owner", "the safe is behind the stove", none());
    let answer = world.recall("safe stove");
    assert_eq!(answer.heads().len(), 0, "{}", answer.text);
    let line = "Not asked: vault, whose memory is above private.";
    assert!(answer.text.contains(line), "{}", answer.text);
    let mut named = ask("safe stove");
    named.class = Some(Class::Secret);
    let answer = world.recall_in(Label::PRIVATE, &named);
    assert!(
        answer
            .text
            .contains("[memory, secret] vault, said by owner"),
        "{}",
        answer.text
    );
    assert_eq!(answer.label, SECRET);
    assert_eq!(answer.causes[0].label, SECRET);
    // Others who read along decide too.
    let public = Audience::Others {
        class_max: Class::Public,
    };
    let answer = world.recall_before(Label::default(), public, &named);
    let line = "Not asked: vault, fleet, whose memory is above public.";
    assert!(answer.text.contains(line), "{}", answer.text);
}

#[test]
fn a_class_below_the_session_is_the_highest_that_is_searched() {
    let readers = "[[honcho.read]]\nagent = \"board\"\nworkspace = \"o-trusted\"\ntrust = \"trusted\"\n\
        class = \"public\"\n[[honcho.read]]\nagent = \"garden\"\nworkspace = \"g-trusted\"\n";
    let world = World::with("", readers, PATIENT);
    world.local_note(Label::PRIVATE, "the ferry ticket is in the drawer");
    world.note("boxmaker1", "e1", "the ferry is late");
    world.message("g-trusted", "owner", "the ferry is mine", none());
    world.message("o-trusted", "owner", "the ferry leaves at nine", none());
    world.honcho().controls().forget_requests();
    let mut named = ask("ferry");
    named.class = Some(Class::Public);
    let answer = world.recall_in(Label::PRIVATE, &named);
    assert_eq!(answer.heads().len(), 1, "{}", answer.text);
    assert!(
        answer.text.contains("the ferry leaves at nine"),
        "{}",
        answer.text
    );
    for line in [
        "Not searched: memory above public, as the call asked.",
        "Not asked: garden, fleet, whose memory is above public.",
    ] {
        assert!(answer.lines().contains(&line), "{}", answer.text);
    }
    assert_eq!(answer.label, Label::new(Class::Public, Trust::Trusted));
    let elsewhere = |record: &honcho_local::Record| !record.path.contains("/o-trusted/");
    assert!(!world.asked().iter().any(elsewhere));
}

#[test]
fn with_ask_untrusted_sources_are_searched_only_when_the_call_says_so() {
    let world = World::with("recall_untrusted = \"ask\"", READERS, PATIENT);
    world.note("boxmaker1", "e1", "the ferry is late");
    world.local_note(Label::UNLABELLED, "a ferry sign");
    world.message("g-trusted", "owner", "the ferry leaves at nine", none());
    let answer = world.recall("ferry");
    assert_eq!(answer.heads().len(), 1, "{}", answer.text);
    assert_eq!(answer.label, Label::PRIVATE);
    for line in [
        "Not searched: untrusted memory. A call with `untrusted` searches it",
        "Not asked: kitchen, fleet, whose memory is untrusted.",
    ] {
        assert!(answer.text.contains(line), "{}", answer.text);
    }
    let mut arguments = ask("ferry");
    arguments.untrusted = Some(true);
    let answer = world.recall_in(Label::PRIVATE, &arguments);
    assert_eq!(answer.heads().len(), 3, "{}", answer.text);
    assert!(answer.label.is_untrusted());
}

#[test]
fn a_call_may_leave_untrusted_sources_out_where_they_are_usually_searched() {
    let world = World::new();
    world.note("boxmaker1", "e1", "the ferry is late");
    world.local_note(Label::UNLABELLED, "a ferry sign");
    world.message("g-trusted", "owner", "the ferry leaves at nine", none());
    world.honcho().controls().forget_requests();
    let mut arguments = ask("ferry");
    arguments.untrusted = Some(false);
    let answer = world.recall_in(Label::PRIVATE, &arguments);
    assert_eq!(answer.heads().len(), 1, "{}", answer.text);
    assert!(answer.text.contains("leaves at nine"), "{}", answer.text);
    for line in [
        "Not searched: untrusted memory, as the call asked.",
        "Not asked: kitchen, fleet, whose memory is untrusted.",
    ] {
        assert!(answer.lines().contains(&line), "{}", answer.text);
    }
    assert_eq!((answer.label, answer.causes.len()), (Label::PRIVATE, 0));
    let elsewhere = |record: &honcho_local::Record| !record.path.contains("/g-trusted/");
    assert!(!world.asked().iter().any(elsewhere));
    // Without that word both are.
    assert_eq!(world.recall("ferry").heads().len(), 3);
}

#[test]
fn nothing_is_asked_from_a_secret_session_or_about_a_key() {
    let world = World::new();
    world.local_note(Label::PRIVATE, "the boat is green");
    world.note("boxmaker1", "e1", "the boat is gone");
    world.honcho().controls().forget_requests();
    let answer = world.recall_in(SECRET, &ask("boat"));
    assert_eq!(answer.heads().len(), 1, "{}", answer.text);
    assert!(
        answer
            .text
            .contains("Not asked: Honcho, since this session is secret"),
        "{}",
        answer.text
    );
    let with_key = format!("boat AKIA{}", "Z7Q2M4X6W3B5N7K5");
    let facts = |arguments| {
        let caller = caller(Label::PRIVATE, Audience::Owner {});
        let answer = world.tool(&Request::Facts { caller, arguments });
        answer.expect("an answer")
    };
    for answer in [
        world.recall(&with_key),
        world.ask_memory(&with_key, &["own", "fleet"]),
        facts(FactsOp::Search {
            query: with_key.clone(),
            k: None,
        }),
        facts(FactsOp::Snapshot {
            query: Some(with_key.clone()),
        }),
    ] {
        let line = "Not asked: Honcho, since what was asked looks as if it held a key.";
        assert!(answer.lines().contains(&line), "{}", answer.text);
    }
    assert_eq!(world.asked(), Vec::new());
    // The owner at the terminal is no session.
    let mut arguments = ask("boat");
    arguments.class = Some(Class::Secret);
    let reply = world.control(&control::Request::MemoryRecall { arguments });
    let control::Reply::Recalled { text, .. } = reply else {
        panic!("{reply:?}");
    };
    assert!(text.contains("fleet note by boxmaker1"), "{text}");
}

#[test]
fn reading_creates_nothing_and_each_workspace_has_its_own_key() {
    let mut world = World::stopped("", READERS, PATIENT);
    let keys = ["honcho_fleet", "honcho_read_kitchen"]
        .map(|name| world.key_file(name, &format!("canary-key-of-{name}")));
    world.configure(&keys.concat());
    world.start();
    let answer = world.recall("something in particular");
    assert!(answer.text.starts_with("Nothing found."), "{}", answer.text);
    for record in world.asked() {
        let want = match record.path.as_str() {
            path if path.contains("/fleet/") => Some("Bearer canary-key-of-honcho_fleet"),
            path if path.contains("/k-trusted/") => {
                Some("Bearer canary-key-of-honcho_read_kitchen")
            }
            _ => None,
        };
        assert_eq!(record.authorization.as_deref(), want, "{}", record.path);
    }
    for workspace in ["k-trusted", "g-trusted", "fleet"] {
        let dump = world.honcho().dump(workspace).unwrap();
        assert!(dump.is_null(), "{workspace} was made: {dump}");
    }
    let log = world.log();
    assert!(
        !log.contains("canary") && !log.contains("particular"),
        "{log}"
    );
}

#[test]
fn fifty_readers_are_read_and_one_more_is_a_mistake() {
    let many = |count: usize| -> String {
        (0..count)
            .map(|n| format!("[[honcho.read]]\nagent = \"agent{n}\"\nworkspace = \"w{n}\"\n"))
            .collect()
    };
    let world = World::with("", &many(50), "recall_source_ms_max = 15000\n");
    world.message("w49", "owner", "the drum is loud", none());
    world.note("boxmaker1", "e1", "a drum was heard");
    let answer = world.recall("drum");
    assert_eq!(answer.heads().len(), 2, "{}", answer.text);
    assert!(!answer.text.contains("unavailable"), "{}", answer.text);
    let world = World::stopped("", &many(51), PATIENT);
    let ended = world
        .home
        .try_start("memoryd", |_| {})
        .expect_err("it does not start");
    assert_eq!(ended.status.code(), Some(78));
    assert!(
        ended.stderr.contains("50 times at most"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_reader_that_cannot_be_is_a_mistake() {
    let reader = |agent: &str, workspace: &str| {
        format!("[[honcho.read]]\nagent = \"{agent}\"\nworkspace = \"{workspace}\"\n")
    };
    let rows = [
        (reader("boxmaker", "x"), "is this agent itself"),
        (
            reader("kitchen", "b-trusted"),
            "must differ from this agent's own",
        ),
        (
            reader("kitchen", "fleet"),
            "must differ from this agent's own",
        ),
        (reader("kit.chen", "x"), "must be 1 to 512"),
        (reader("own", "x"), "ask_memory has these names"),
        (reader("owner", "x"), "the owner's peer"),
        (
            reader("a", "x") + &reader("a", "y"),
            "another reader's name",
        ),
        (reader("a", "x") + &reader("b", "x"), "every other reader's"),
        (
            reader("a", "x") + "trust = \"yes\"\n",
            "`honcho.read.trust` must be one of",
        ),
        (
            reader("a", "x") + "[secrets.honcho_read_b]\nfile = \"/x\"\n",
            "has a key for reading `b`",
        ),
    ];
    for (rest, want) in rows {
        let world = World::stopped("", &rest, PATIENT);
        let ended = world
            .home
            .try_start("memoryd", |_| {})
            .err()
            .unwrap_or_else(|| panic!("it starts with {rest}"));
        assert!(ended.stderr.contains(want), "{want}: {}", ended.stderr);
        assert!(ended.stderr.contains("honcho-config-invalid"), "{want}");
    }
}

#[test]
fn a_note_that_was_taken_back_is_shown_with_that() {
    let world = World::new();
    world.note("boxmaker1", "e4", "the quince tree is in bloom");
    let retraction =
        json!({"installation": "of-boxmaker1", "item": "e5", "part": 0, "retracts": "e4"});
    world.message(
        "fleet",
        "boxmaker1",
        "retracted: the quince tree is in bloom",
        retraction,
    );
    let answer = world.recall("quince tree");
    assert_eq!(answer.heads().len(), 1, "{}", answer.text);
    let beside = answer.after("fleet note by boxmaker1");
    assert!(
        beside.starts_with("Taken back by its writer"),
        "{}",
        answer.text
    );
    // Where the best hit alone is shown, it still comes with it.
    let mut one = ask("quince tree bloom");
    one.k = Some(1);
    let answer = world.recall_in(Label::PRIVATE, &one);
    assert!(answer.text.contains("Taken back"), "{}", answer.text);
}

#[test]
fn a_note_that_its_owner_promoted_is_not_called_wrong_and_still_marks() {
    let world = World::new();
    world.note("boxmaker1", "e4", "the quince tree is in bloom");
    let moved = json!({
        "installation": "of-boxmaker1", "item": "e5", "part": 0, "retracts": "e4", "moved": true,
    });
    world.message(
        "fleet",
        "boxmaker1",
        "moved: the quince tree is in bloom",
        moved,
    );
    let answer = world.recall("quince tree");
    assert_eq!(answer.heads().len(), 1, "{}", answer.text);
    let beside = answer.after("fleet note by boxmaker1");
    let want = "Moved by its writer on 2026-01-31 into a memory of its own: it was not taken back.";
    assert_eq!(beside, want, "{}", answer.text);
    assert_eq!(answer.label, Label::UNLABELLED);
}
