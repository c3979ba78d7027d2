//! Context before a turn: what it says, when it says nothing, what it never asks, and that no turn waits for Honcho.

use std::time::{Duration, Instant};

use bxtest::wait_for;
use bxwire::{
    Audience, Class, Label, Trust,
    links::memory::{Before, Reply, Request},
};
use honcho_local::{Fault, Rule};
use roncho::{ConclusionCreate, PeerCreate, models::ConclusionBatchCreate};
use serde_json::json;

use crate::world::{CLEAN, SECRET, Said, UNTRUSTED, World, owner, session, speaker};

/// An answer that takes longer than this is no answer here; Honcho's own are at once.
const PATIENT: &str = "\n[honcho.context]\nanswer_ms_max = 8000\n";
/// A turn's wait in the tests where Honcho hangs.
const SHORT: &str = "\n[honcho.context]\nanswer_ms_max = 300\n";
const WITHIN: Duration = Duration::from_secs(10);
/// What memoryd gives a call there, and what lies far below that and far above a turn's wait.
const PATIENT_CALL: &str = "recall_source_ms_max = 120000\n";
const HELD_UP: Duration = Duration::from_secs(15);

/// A fact as Honcho may have derived it.
pub fn conclude(world: &World, peer: &str, text: &str) {
    let client = bxtest::other_agent(&world.honcho().url(), "b-trusted");
    client.peer(&PeerCreate::new(peer)).expect("a peer");
    let create = ConclusionCreate::new(text, peer, peer);
    client
        .create_conclusions(&ConclusionBatchCreate::new(vec![create]))
        .expect("it is stored");
}

fn world(extra: &str) -> World {
    let world = World::with(extra);
    conclude(&world, "owner", "owner rows a green boat");
    conclude(&world, "owner", "owner collects stamps");
    conclude(&world, "boxmaker", "the boat needs paint");
    world.honcho().controls().forget_requests();
    world
}

fn before(text: &str) -> Before {
    Before {
        session: session(1),
        text: text.into(),
        label: Label::PRIVATE,
        audience: Audience::Owner {},
        speaker: Some(owner()),
        source: "chat".into(),
    }
}

fn asked(world: &World, before: &Before) -> (String, Label) {
    match world.memory(&Request::Context(before.clone())) {
        Reply::Context { text, label } => (text, label),
        other => panic!("{other:?}"),
    }
}

/// Questions that hold what a turn says.
fn queries(world: &World) -> usize {
    let all = world.honcho().controls().requests();
    let is = |path: &str| path.ends_with("/query") || path.ends_with("/context");
    all.iter().filter(|request| is(&request.path)).count()
}

#[test]
fn what_is_known_of_the_owner_and_near_the_words_is_said_in_a_fence() {
    let world = world(PATIENT);
    let (text, label) = asked(&world, &before("my green boat?"));
    assert_eq!(label, Label::PRIVATE);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("⟦memory "), "{text}");
    assert_eq!(lines[1], "Concluded about the owner:", "{text}");
    assert_eq!(lines[2], "- owner rows a green boat", "{text}");
    assert!(lines.last().unwrap().starts_with("⟦/memory "), "{text}");
    assert!(!text.contains("paint"), "the agent's own: {text}");
    assert!(!text.contains("stamps"), "not near: {text}");
    // Another fence each time.
    let again = asked(&world, &before("my green boat?")).0;
    assert_ne!(text.lines().next(), again.lines().next());
    let nothing = asked(&world, &before("zebra crossing"));
    assert_eq!(nothing, (String::new(), Label::default()));
    // Nothing but the owner's own, by distance.
    let requests = world.honcho().controls().requests();
    let query = requests
        .iter()
        .find(|request| request.path.ends_with("/query"))
        .expect("a query");
    assert_eq!(query.path, "/v3/workspaces/b-trusted/conclusions/query");
    assert_eq!(query.body["distance"], 0.5);
    let filters = json!({"observer_id": "owner", "observed_id": "owner"});
    assert_eq!(query.body["filters"], filters);
}

#[test]
fn what_identity_says_already_is_left_out() {
    let world = world(PATIENT);
    world.tool(
        &session(1),
        Label::PRIVATE,
        r#"{"op":"add","about":"user","text":"I row a boat; my owner rows a green boat."}"#,
    );
    let (text, _) = asked(&world, &before("my green boat?"));
    assert_eq!(text, "");
}

#[test]
fn nothing_is_said_and_nothing_asked_where_a_label_a_reader_or_the_words_forbid_it() {
    let extra =
        format!("exclude_speakers = [\"chat/noisy\"]\nexclude_sources = [\"town\"]\n{PATIENT}");
    let world = world(&extra);
    let ask = |change: &dyn Fn(&mut Before)| {
        let mut before = before("my green boat?");
        change(&mut before);
        asked(&world, &before).0
    };
    assert!(ask(&|_| {}).contains("green boat"));
    let queried = queries(&world);
    let label = |class, trust| Label::new(class, trust);
    type Change<'a> = &'a dyn Fn(&mut Before);
    let rows: [(&str, Change<'_>); 7] = [
        ("untrusted", &|before| {
            before.label = label(Class::Private, Trust::Untrusted);
        }),
        ("secret", &|before| {
            before.label = label(Class::Secret, Trust::Trusted);
        }),
        ("readers", &|before| {
            before.audience = Audience::Others {
                class_max: Class::Public,
            };
        }),
        ("speaker", &|before| {
            before.speaker = Some(speaker("chat", "noisy"));
        }),
        ("source", &|before| before.source = "town".into()),
        ("key", &|before| {
            before.text = format!("my green boat AKIA{}", "Z7Q2M4X6W3B5N7K5");
        }),
        ("empty", &|before| before.text = " ".into()),
    ];
    for (name, change) in rows {
        assert_eq!(ask(change), "", "{name}");
    }
    for state in [UNTRUSTED, SECRET] {
        world.broker_says(&session(1), state);
        assert_eq!(ask(&|_| {}), "", "{state:?}");
    }
    assert_eq!(queries(&world), queried, "no words have left");
    world.broker_says(&session(1), CLEAN);
    assert!(ask(&|_| {}).contains("green boat"));
}

#[test]
fn without_brokerds_word_nothing_is_asked() {
    let mut world = world(PATIENT);
    world.stop_broker();
    assert_eq!(asked(&world, &before("my green boat")).0, "");
    assert_eq!(queries(&world), 0);
    world.start_broker();
    assert!(asked(&world, &before("my green boat")).0.contains("boat"));
}

#[test]
fn a_honcho_that_hangs_is_not_waited_for() {
    let mut world = World::stopped(SHORT);
    world.limits = PATIENT_CALL;
    world.configure();
    world.start();
    let controls = world.honcho().controls();
    controls.add(Rule::new(Fault::NeverAnswer { commit: false }).on("POST", "*/query"));
    let began = Instant::now();
    assert_eq!(asked(&world, &before("my green boat")).0, "");
    let took = began.elapsed();
    assert!(took < HELD_UP, "waited for {took:?}");
    // It was asked, and has not answered to this moment.
    let hangs = |requests: &[honcho_local::Record]| {
        requests
            .iter()
            .any(|request| request.path.ends_with("/query") && !request.answered)
    };
    assert!(controls.wait_for(WITHIN, hangs));
    assert!(hangs(&controls.requests()));
    // A turn that ends is not held up either.
    world.turn(&session(1), 1);
    controls.clear();
}

#[test]
fn with_honcho_down_there_is_none_until_it_is_back() {
    let mut world = world(PATIENT);
    assert!(asked(&world, &before("my green boat")).0.contains("boat"));
    let parked = world.stop_honcho();
    for _ in 0..3 {
        assert_eq!(asked(&world, &before("my green boat")).0, "");
    }
    let log = world.daemon().log();
    assert_eq!(log.matches("no context before turns").count(), 1, "{log}");
    world.start_honcho(parked);
    wait_for("context again", || {
        let text = asked(&world, &before("my green boat")).0;
        text.contains("green boat").then_some(())
    });
}

#[test]
fn what_was_fetched_when_a_turn_ended_is_said_when_honcho_is_slow() {
    let world = world(SHORT);
    let controls = world.honcho().controls();
    let body = json!({"id": "x", "messages": [], "peer_representation": null, "peer_card": null,
        "summary": {"content": "They spoke of\nboats. <|im_end|>"}});
    let body = body.to_string();
    controls.add(Rule::new(Fault::Says { body }).on("GET", "*/context"));
    let said = Said {
        text: Some("my green boat".into()),
        ..Said::default()
    };
    world.turn_of(&session(1), 1, &said);
    let fetched = |requests: &[honcho_local::Record]| {
        requests
            .iter()
            .any(|request| request.path.ends_with("/context") && request.answered)
    };
    assert!(controls.wait_for(WITHIN, fetched));
    controls.clear();
    controls.add(Rule::new(Fault::NeverAnswer { commit: false }).on("POST", "*/query"));
    let text = asked(&world, &before("what colour is the boat?")).0;
    assert!(text.contains("- owner rows a green boat"), "{text}");
    assert!(
        text.contains("\nThis conversation so far:\nThey spoke of boats."),
        "{text}"
    );
    assert!(!text.contains("<|"), "{text}");
    // It is nobody else's.
    let other = Before {
        session: session(2),
        ..before("what colour is the boat?")
    };
    assert_eq!(asked(&world, &other).0, "");
    controls.clear();
}

/// Honcho has written up everything that this session was sent as.
fn summarise(world: &World, honchos: &str, text: &str) {
    let there = world.honcho().summarise("b-trusted", honchos, text);
    assert!(there.expect("a summary"), "no session {honchos}");
}

fn next(turn: u8) -> Before {
    Before {
        session: session(turn),
        ..before("what colour is it?")
    }
}

#[test]
fn the_summary_is_that_of_the_honcho_session_in_which_the_conversation_goes_on() {
    let world = world(PATIENT);
    let id = session(1);
    world.turn(&id, 1);
    world.settle();
    summarise(&world, id.as_str(), "They spoke of boats.");
    let guest = Said {
        speaker: Some(speaker("chat", "guest")),
        ..Said::default()
    };
    world.turn_of(&id, 2, &guest);
    world.settle();
    let second = format!("{id}-2");
    summarise(&world, &second, "They spoke of\ntrains. <|im_end|>");
    world.turn(&id, 3);
    let want = "\nThis conversation so far:\nThey spoke of trains.";
    let text = wait_for("the summary", || {
        let text = asked(&world, &next(1)).0;
        text.contains(want).then_some(text)
    });
    assert!(!text.contains("<|") && !text.contains("boats."), "{text}");
    // It is nobody else's.
    assert_eq!(asked(&world, &next(2)).0, "");
}

#[test]
fn after_a_restart_the_first_turn_of_a_session_has_its_summary() {
    let mut world = world(PATIENT);
    let id = session(1);
    world.turn(&id, 1);
    world.settle();
    world.stop();
    summarise(&world, id.as_str(), "They spoke of boats.");
    world.start();
    let text = asked(&world, &next(1)).0;
    assert!(text.contains("\nThey spoke of boats."), "{text}");
    let summaries = || {
        let all = world.honcho().controls().requests();
        let of_it = format!("/sessions/{id}/context");
        all.iter().filter(|r| r.path.ends_with(&of_it)).count()
    };
    let asked_so_far = summaries();
    assert!(asked(&world, &next(1)).0.contains("boats"));
    assert_eq!(summaries(), asked_so_far, "once is enough");
    // Of a session that Honcho was sent nothing of there is nothing to ask.
    assert_eq!(asked(&world, &next(2)).0, "");
    let all = world.honcho().controls().requests();
    let new = session(2).to_string();
    assert!(!all.iter().any(|request| request.path.contains(&new)));
}

#[test]
fn a_summary_is_held_from_whom_and_where_it_must_not_be_said_and_never_too_long() {
    let world = world(PATIENT);
    let id = session(1);
    world.turn(&id, 1);
    world.settle();
    summarise(&world, id.as_str(), &"They spoke of boats. ".repeat(1_000));
    // Too long for what was asked for, it is Honcho's to leave out; this long it still says it.
    summarise(&world, id.as_str(), &"boats 日 ".repeat(390));
    world.turn(&id, 2);
    let text = wait_for("the summary", || {
        let text = asked(&world, &next(1)).0;
        text.contains("This conversation so far").then_some(text)
    });
    assert!(text.len() <= 6_000, "{}", text.len());
    let forbidden = [
        Before {
            label: Label::UNLABELLED,
            ..next(1)
        },
        Before {
            label: Label::new(Class::Secret, Trust::Trusted),
            ..next(1)
        },
        Before {
            audience: Audience::Others {
                class_max: Class::Public,
            },
            ..next(1)
        },
    ];
    for before in forbidden {
        assert_eq!(asked(&world, &before).0, "", "{before:?}");
    }
    // A key that Honcho quotes is not said either.
    let key = format!("the key is AKIA{}", "Z7Q2M4X6W3B5N7K5");
    summarise(&world, id.as_str(), &key);
    assert_eq!(asked(&world, &next(1)).0, "");
    // Elsewhere than in its own trusted workspace nothing was asked.
    let all = world.honcho().controls().requests();
    let contexts = all
        .iter()
        .filter(|request| request.path.ends_with("/context"));
    for request in contexts {
        assert!(
            request.path.starts_with("/v3/workspaces/b-trusted/"),
            "{request:?}"
        );
    }
}

#[test]
fn a_turn_that_ended_untrusted_or_secret_is_not_asked_with() {
    let world = world(PATIENT);
    let ended = |number, said: &Said| world.turn_of(&session(number), 1, said);
    ended(
        1,
        &Said {
            result: Some(Label::UNLABELLED),
            ..Said::default()
        },
    );
    world.broker_says(&session(2), SECRET);
    ended(2, &Said::default());
    // One thread, one after the other: when this one was asked with, those before were looked at.
    ended(
        3,
        &Said {
            text: Some("stamps".into()),
            ..Said::default()
        },
    );
    let controls = world.honcho().controls();
    let third = format!("/v3/workspaces/b-trusted/sessions/{}/context", session(3));
    assert!(controls.wait_for(WITHIN, |all| all.iter().any(|r| r.path == third)));
    let texts: Vec<_> = controls
        .requests()
        .iter()
        .filter_map(|request| request.body["query"].as_str().map(str::to_owned))
        .filter(|text| text.starts_with("words"))
        .collect();
    assert!(texts.is_empty(), "{texts:?}");
}

#[test]
fn switched_off_nothing_is_asked() {
    let world = world("\n[honcho.context]\nenabled = false\n");
    assert_eq!(asked(&world, &before("my green boat")).0, "");
    world.turn(&session(1), 1);
    world.settle();
    assert_eq!(queries(&world), 0);
}
