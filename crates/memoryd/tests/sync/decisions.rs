//! The table of where a turn goes, row for row, as Honcho sees it.

use bxwire::{
    Class, Label, Origin, Trust,
    links::{
        control::{OwnerDecision, Reply, Request},
        session_state::SessionState,
    },
    log::Outcome,
};

use crate::world::{CLEAN, SECRET, Said, UNTRUSTED, World, session, speaker};

const TRUSTED: &str = "b-trusted";

#[test]
fn a_clean_turn_is_two_messages_in_the_trusted_workspace() {
    let world = World::new();
    world.turn(&session(1), 1);
    let sync = world.settle();
    assert_eq!(sync.workspaces[0].sent, 1);
    let id = session(1);
    let want = [
        format!("{id} owner: words 1"),
        format!("{id} boxmaker: reply 1"),
    ];
    assert_eq!(world.messages(TRUSTED), want);
    assert!(world.messages("b-untrusted").is_empty() && world.messages("fleet").is_empty());
    let dump = world.dump(TRUSTED).to_string();
    assert!(
        dump.contains(&format!("{id}/1")),
        "metadata names the turn: {dump}"
    );
}

#[test]
fn an_untrusted_turn_goes_to_the_untrusted_workspace_whoever_says_so() {
    let world = World::new();
    world.broker_says(&session(1), UNTRUSTED);
    world.turn(&session(1), 1);
    let by_log = Said {
        result: Some(Label::UNLABELLED),
        ..Said::default()
    };
    world.turn_of(&session(2), 1, &by_log);
    world.settle();
    assert!(world.messages(TRUSTED).is_empty());
    assert_eq!(world.messages("b-untrusted").len(), 4);
}

#[test]
fn what_goes_nowhere_goes_nowhere() {
    let key = format!("my key is {}_{}", "ghp", "a1B2c3".repeat(6));
    let cases = [
        ("secret by brokerd", SECRET, Said::default()),
        (
            "secret by the log",
            CLEAN,
            Said {
                result: Some(Label::new(Class::Secret, Trust::Trusted)),
                ..Said::default()
            },
        ),
        (
            "no speaker",
            CLEAN,
            Said {
                speaker: None,
                ..Said::default()
            },
        ),
        (
            "a key in the text",
            CLEAN,
            Said {
                text: Some(key.clone()),
                ..Said::default()
            },
        ),
        (
            "a key in the reply",
            CLEAN,
            Said {
                reply: Some(key.clone()),
                ..Said::default()
            },
        ),
        (
            "scheduled",
            CLEAN,
            Said {
                origin: Origin::Scheduled,
                ..Said::default()
            },
        ),
        (
            "synthetic",
            CLEAN,
            Said {
                origin: Origin::Synthetic,
                ..Said::default()
            },
        ),
        (
            "empty",
            CLEAN,
            Said {
                text: Some("  ".into()),
                ..Said::default()
            },
        ),
        (
            "failed",
            CLEAN,
            Said {
                outcome: Outcome::Failed,
                ..Said::default()
            },
        ),
        (
            "cancelled",
            CLEAN,
            Said {
                outcome: Outcome::Cancelled,
                ..Said::default()
            },
        ),
        (
            "interrupted",
            CLEAN,
            Said {
                outcome: Outcome::Interrupted,
                ..Said::default()
            },
        ),
        (
            "an excluded speaker",
            CLEAN,
            Said {
                speaker: Some(speaker("home", "noisy")),
                ..Said::default()
            },
        ),
        (
            "an excluded source",
            CLEAN,
            Said {
                source: "home:loud",
                ..Said::default()
            },
        ),
    ];
    let extra = "exclude_speakers = [\"home/noisy\"]\nexclude_sources = [\"home:loud\"]\n";
    let world = World::with(extra);
    for (n, (name, state, said)) in cases.iter().enumerate() {
        let id = session(u8::try_from(n).unwrap());
        world.broker_says(&id, *state);
        world.turn_of(&id, 1, said);
        let why = world.until(name, |sync| {
            sync.skipped.iter().map(|(_, count)| count).sum::<u64>() == n as u64 + 1
        });
        assert!(why.undecided.is_empty(), "{name}");
        let shown = world.why(&format!("{id}/1"));
        let decision = shown.facts.iter().find(|(fact, _)| fact == "decision");
        assert!(
            decision.is_some_and(|(_, value)| value.starts_with("nowhere: ")),
            "{name}: {shown:?}"
        );
    }
    for workspace in [TRUSTED, "b-untrusted", "fleet"] {
        assert!(world.messages(workspace).is_empty());
    }
    assert!(
        world.written().is_empty(),
        "Honcho was asked nothing at all"
    );
}

#[test]
fn an_edit_is_excluded_by_where_its_own_turn_came_from() {
    let world = World::with("exclude_sources = [\"home:loud\"]\n");
    let loud = Said {
        source: "home:loud",
        ..Said::default()
    };
    // Each session goes on where the other began.
    world.turn(&session(1), 1);
    world.log(&session(1), 2, &loud);
    world.log(&session(2), 1, &loud);
    world.turn(&session(2), 2);
    let note = |text: &str| format!(r#"{{"op":"note","text":"{text}"}}"#);
    world.tool_in(&session(1), 2, Label::PRIVATE, &note("the boat is loud"));
    world.tool_in(&session(2), 2, Label::PRIVATE, &note("the boat is quiet"));
    world.settle();
    assert_eq!(
        world.conclusions(TRUSTED),
        ["boxmaker: the boat is quiet"],
        "the loud one stays here"
    );
}

#[test]
fn brokerd_down_leaves_a_turn_undecided_and_a_late_decision_is_from_the_later_state() {
    let mut world = World::new();
    world.stop_broker();
    world.turn(&session(1), 1);
    world.until("an undecided turn", |sync| sync.undecided.len() == 1);
    assert!(world.written().is_empty());
    world.broker_says(&session(1), UNTRUSTED);
    world.start_broker();
    world.settle();
    assert!(world.messages(TRUSTED).is_empty());
    assert_eq!(world.messages("b-untrusted").len(), 2);
}

#[test]
fn a_broker_that_forgot_a_session_decides_nothing_until_the_owner_does() {
    let mut world = World::new();
    let forgot = SessionState {
        seen: false,
        ..CLEAN
    };
    let read = Said {
        result: Some(Label::PRIVATE),
        ..Said::default()
    };
    world.broker_says(&session(1), forgot);
    world.turn_of(&session(1), 1, &read);
    // A session in which nothing was called needs no word of brokerd's.
    world.broker_says(&session(2), forgot);
    world.turn(&session(2), 1);
    let sync = world.until("one decided, one not", |sync| {
        sync.undecided.len() == 1 && sync.workspaces[0].sent == 1
    });
    assert_eq!(sync.undecided[0].runbook, "session-not-seen");
    // Seen anew at its next tool call, it is still one that brokerd cannot vouch for, whoever was started since.
    world.broker_says(&session(1), CLEAN);
    world.kill();
    world.start();
    world.turn_of(&session(1), 2, &read);
    world.turn(&session(2), 2);
    let sync = world.until("the other session's turn", |sync| {
        sync.workspaces[0].sent == 2
    });
    assert_eq!(sync.undecided.len(), 2, "{sync:?}");
    assert!(
        sync.undecided
            .iter()
            .all(|turn| turn.runbook == "session-not-seen"),
        "{sync:?}"
    );
    let decide = Request::SessionDecide {
        session: session(1),
        decision: OwnerDecision::Untrusted,
    };
    assert!(matches!(world.control(&decide), Reply::Done {}));
    world.settle();
    assert_eq!(world.messages("b-untrusted").len(), 4);
    assert_eq!(world.messages(TRUSTED).len(), 4);
    // The owner's word was on those; brokerd's counts again for what comes.
    world.turn_of(&session(1), 3, &read);
    world.settle();
    assert_eq!(world.messages(TRUSTED).len(), 6);
}

#[test]
fn a_session_that_became_secret_takes_its_waiting_turns_back() {
    let mut world = World::new();
    let options = world.stop_honcho();
    world.turn(&session(1), 1);
    world.until("a waiting turn", |sync| sync.workspaces[0].waiting == 1);
    world.broker_says(&session(1), SECRET);
    world.start_honcho(options);
    world.until("a withdrawn turn", |sync| sync.workspaces[0].withdrawn == 1);
    assert!(world.messages(TRUSTED).is_empty());
}

#[test]
fn each_new_speaker_starts_the_next_session_also_across_a_restart() {
    let mut world = World::new();
    let id = session(1);
    let by = |name: &str| Said {
        speaker: Some(speaker("home", name)),
        ..Said::default()
    };
    world.turn(&id, 1);
    world.turn_of(&id, 2, &by("some.one"));
    world.settle();
    world.stop();
    world.start();
    world.turn(&id, 3);
    world.turn_of(&id, 4, &by("owner"));
    world.settle();
    let want = [
        format!("{id} owner: words 1"),
        format!("{id} boxmaker: reply 1"),
        format!("{id}-2 home-some_one: words 2"),
        format!("{id}-2 boxmaker: reply 2"),
        format!("{id}-2 owner: words 3"),
        format!("{id}-2 boxmaker: reply 3"),
        format!("{id}-3 home-owner: words 4"),
        format!("{id}-3 boxmaker: reply 4"),
    ];
    assert_eq!(world.messages(TRUSTED), want);
    // The agent is never observed, people are.
    let dump = world.dump(TRUSTED).to_string();
    assert!(dump.contains("observe_me"), "{dump}");
}

#[test]
fn a_long_text_goes_as_several_messages_in_order() {
    let world = World::new();
    let said = Said {
        text: Some("one two three. ".repeat(4_000)),
        ..Said::default()
    };
    world.turn_of(&session(1), 1, &said);
    world.settle();
    let found = world.messages(TRUSTED);
    assert_eq!(found.len(), 4);
    assert!(
        found[..3]
            .iter()
            .all(|message| message.contains(" owner: "))
    );
}

#[test]
fn turns_from_before_honcho_was_set_up_stay_here() {
    let mut world = World::stopped("");
    world.log(&session(1), 1, &Said::default());
    // The ledger opens later than that.
    bxtest::wait_for("the clock to move on", || {
        let now = bxcore::clock::Millis::now();
        let log = world
            .home
            .dirs
            .state_of("loopd")
            .join(format!("sessions/{}.jsonl", session(1)));
        let written = std::fs::metadata(log).unwrap().modified().unwrap();
        let written = written
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_millis();
        (now.0 > i64::try_from(written).unwrap() + 2).then_some(())
    });
    world.start();
    world.turn(&session(1), 2);
    world.settle();
    assert_eq!(world.messages(TRUSTED).len(), 2);
}
