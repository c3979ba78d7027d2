//! The turns and control links: who may ask what, and in which order turns run.

use bxcore::connect::{Client, ClientError};
use bxtest::WAIT;
use bxwire::{
    CallId, Cause, Class, Label, SessionId, Speaker, Trust,
    links::{
        control::{self, Control},
        memory,
        turns::{Request, TurnEvent},
    },
    log::{Body, Outcome},
};
use model_local::{Behaviour, Gate, Options, Reply};

use crate::world::*;

fn refused(world: &World, request: &Request) -> (String, Option<String>) {
    match world.client().call(request) {
        Err(ClientError::Refused(refused)) => (refused.kind, refused.runbook),
        other => panic!("{other:?}"),
    }
}

fn command(session: &SessionId, name: &str, speaker: Option<Speaker>) -> Request {
    Request::Command {
        session: session.clone(),
        speaker,
        name: name.into(),
        arguments: Vec::new(),
    }
}

fn stranger() -> SessionId {
    SessionId::new("20200101", [9; 12]).unwrap()
}

#[test]
fn an_unknown_session_is_refused_whatever_is_asked() {
    let world = world(vec![]);
    let session = stranger();
    let call: CallId = "call00001".parse().unwrap();
    for request in [
        turn("k", Some(&session), "Hi"),
        Request::Cancel {
            session: session.clone(),
        },
        Request::ShowSession {
            session: session.clone(),
        },
        Request::SessionLabel {
            session: session.clone(),
        },
        Request::Approve {
            session: session.clone(),
            call,
            answer: bxwire::links::turns::Answer::Deny,
        },
        command(&session, "status", Some(owner())),
    ] {
        let (kind, runbook) = refused(&world, &request);
        assert_eq!(
            (kind.as_str(), runbook.as_deref()),
            ("unknown-session", Some("session-unknown"))
        );
    }
    assert!(world.logs().is_empty());
}

#[test]
fn a_turn_out_of_bounds_is_refused() {
    let world = world(vec![]);
    for request in [
        turn("", None, "Hi"),
        turn(&"k".repeat(201), None, "Hi"),
        turn("k", None, "  "),
        turn("k", None, &"x".repeat(300_000)),
    ] {
        assert_eq!(refused(&world, &request).0, "bad-turn");
    }
    assert!(world.logs().is_empty());
}

#[test]
fn a_speaker_or_a_source_that_is_no_name_is_refused() {
    let world = world(vec![Reply::text("Hello.")]);
    let said = |realm: &str, name: &str, from: &str| {
        let mut request = turn("k", None, "Hi");
        if let Request::Turn {
            speaker, source, ..
        } = &mut request
        {
            *speaker = Some(Speaker {
                realm: realm.into(),
                name: name.into(),
            });
            *source = from.into();
        }
        request
    };
    let long = "č".repeat(101);
    for (realm, name, source) in [
        ("A B/..", "ada", "test"),
        ("home", "\n⟦x⟧\u{1b}[31m", "test"),
        ("home", "", "test"),
        ("home", "ada", ""),
        ("home", "ada", "  "),
        ("home", "ada", "a\u{1b}[31m"),
        ("home", "ada", long.as_str()),
    ] {
        assert_eq!(refused(&world, &said(realm, name, source)).0, "bad-turn");
    }
    assert!(world.logs().is_empty());
    let fine = said("home", "ada", &"č".repeat(100));
    assert_eq!(reply(&world.run(&fine)), "Hello.");
}

#[test]
fn commands_are_the_owners_alone() {
    let world = world(vec![Reply::text("Hello.")]);
    let (session, _) = world.say("one");
    let other = Speaker {
        realm: "home".into(),
        name: "eve".into(),
    };
    for speaker in [None, Some(other)] {
        assert_eq!(
            refused(&world, &command(&session, "undo", speaker)).0,
            "not-owner"
        );
    }
    assert!(world.memory.lock().commands.is_empty());
    let mut client = world.client();
    for (name, words) in [
        ("new", "new session"),
        ("stop", "Nothing runs"),
        ("status", "1 turns"),
        ("undo", "undone"),
    ] {
        match client
            .call(&command(&session, name, Some(owner())))
            .unwrap()
        {
            TurnEvent::Answer { text } => assert!(text.contains(words), "{name}: {text}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(&world.memory.lock().commands[..],
        [memory::Request::OwnerCommand { name, .. }] if name == "undo"));
    assert_eq!(
        refused(&world, &command(&session, "dance", Some(owner()))).0,
        "unknown-command"
    );
    assert_eq!(
        refused(&world, &command(&session, "approve", Some(owner()))).0,
        "bad-arguments"
    );
}

#[test]
fn sessions_are_listed_and_shown() {
    let world = world(vec![Reply::text("Hello.")]);
    let (session, _) = world.say("one");
    let mut client = world.client();
    let TurnEvent::Sessions { sessions, .. } = client.call(&Request::ListSessions {}).unwrap()
    else {
        panic!("no list")
    };
    assert_eq!(sessions.len(), 1);
    assert_eq!((&sessions[0].session, sessions[0].turns), (&session, 1));
    assert_eq!(
        (sessions[0].last, sessions[0].label),
        (Some(Outcome::Replied), Label::PRIVATE)
    );
    client
        .send(&Request::ShowSession {
            session: session.clone(),
        })
        .unwrap();
    let mut shown = Vec::new();
    while let TurnEvent::Record { record } = client.recv().unwrap() {
        shown.push(record);
    }
    assert_eq!(shown, world.log(&session));
}

#[test]
fn a_label_is_the_join_of_two_words() {
    let mut world = world(vec![Reply::text("Hello.")]);
    let (session, _) = world.say("one");
    let public = Label::new(Class::Public, Trust::Untrusted);
    let cause = Cause {
        source: "fetch_page".into(),
        label: public,
    };
    world.broker.lock().label = public;
    world.broker.lock().causes = vec![cause.clone()];
    let request = Request::SessionLabel {
        session: session.clone(),
    };
    let TurnEvent::SessionLabel { label, causes, .. } = world.client().call(&request).unwrap()
    else {
        panic!("no label")
    };
    assert_eq!(label, Label::UNLABELLED);
    assert_eq!((&causes[0], causes.len()), (&cause, 2));
    // Half of the answer would look like a lower label.
    world.stop_links();
    assert_eq!(
        refused(&world, &request).1.as_deref(),
        Some("tools-unavailable")
    );
}

#[test]
fn turns_of_a_session_run_in_order_and_one_too_many_is_told() {
    let gate = Gate::new();
    let script = vec![
        Reply::text("1").hold_before(0, &gate),
        Reply::text("2"),
        Reply::text("3"),
        Reply::text("other"),
    ];
    let world = with(
        Behaviour::Script(script),
        Options::default(),
        "[limits]\nqueue_turns_max = 2\n",
    );
    let mut first = world.client();
    first.send(&turn("k1", None, "one")).unwrap();
    let TurnEvent::Accepted { session, .. } = first.recv().unwrap() else {
        panic!("not accepted")
    };
    assert!(gate.wait_held(SOON));
    let mut waiting = Vec::new();
    for key in ["k2", "k3"] {
        let mut client = world.client();
        client.send(&turn(key, Some(&session), key)).unwrap();
        // The same connection answers other questions while its turn waits, so the turn is in the queue then.
        client.send(&Request::ListSessions {}).unwrap();
        assert!(matches!(client.recv().unwrap(), TurnEvent::Sessions { .. }));
        waiting.push(client);
    }
    let (kind, runbook) = refused(&world, &turn("k4", Some(&session), "four"));
    assert_eq!(
        (kind.as_str(), runbook.as_deref()),
        ("busy", Some("session-busy"))
    );
    gate.open();
    assert_eq!(reply(&events(&mut first)), "1");
    for (client, want) in waiting.iter_mut().zip([2, 3]) {
        let events = events(client);
        assert_eq!(accepted(&events), (session.clone(), want));
        assert_eq!(reply(&events), want.to_string());
    }
}

#[test]
fn sessions_run_side_by_side() {
    let gate = Gate::new();
    let world = world(vec![
        Reply::text("slow").hold_before(0, &gate),
        Reply::text("quick"),
    ]);
    let mut slow = world.client();
    slow.send(&turn("k1", None, "one")).unwrap();
    assert!(gate.wait_held(SOON));
    assert_eq!(world.say("two").1, "quick");
    gate.open();
    assert_eq!(reply(&events(&mut slow)), "slow");
}

#[test]
fn a_key_that_runs_is_waited_for() {
    let gate = Gate::new();
    let world = world(vec![Reply::text("Once.").hold_before(0, &gate)]);
    let mut first = world.client();
    first.send(&turn("k1", None, "one")).unwrap();
    assert!(gate.wait_held(SOON));
    let mut second = world.client();
    second.send(&turn("k1", None, "one")).unwrap();
    second.send(&Request::ListSessions {}).unwrap();
    assert!(matches!(second.recv().unwrap(), TurnEvent::Sessions { .. }));
    gate.open();
    let first = events(&mut first);
    let second = events(&mut second);
    assert_eq!(accepted(&first), accepted(&second));
    assert_eq!(first.last(), second.last());
    assert_eq!(world.model.chats().len(), 1);
}

#[test]
fn one_connection_runs_one_turn_at_a_time() {
    let gate = Gate::new();
    let world = world(vec![
        Reply::text("1").hold_before(0, &gate),
        Reply::text("2"),
    ]);
    let mut client = world.client();
    client.send(&turn("k1", None, "one")).unwrap();
    let TurnEvent::Accepted { session, .. } = client.recv().unwrap() else {
        panic!("not accepted")
    };
    client.send(&turn("k2", Some(&session), "two")).unwrap();
    assert!(
        matches!(client.recv(), Err(ClientError::Refused(refused)) if refused.kind == "turn-running")
    );
    gate.open();
    assert_eq!(reply(&events(&mut client)), "1");
    client.send(&turn("k2", Some(&session), "two")).unwrap();
    assert_eq!(reply(&events(&mut client)), "2");
}

#[test]
fn a_turn_stopped_in_the_queue_leaves_no_trace() {
    let gate = Gate::new();
    let world = world(vec![
        Reply::text("1").hold_before(0, &gate),
        Reply::text("3"),
    ]);
    let mut first = world.client();
    first.send(&turn("k1", None, "one")).unwrap();
    let TurnEvent::Accepted { session, .. } = first.recv().unwrap() else {
        panic!("not accepted")
    };
    assert!(gate.wait_held(SOON));
    let mut second = world.client();
    second.send(&turn("k2", Some(&session), "two")).unwrap();
    second.send(&Request::ListSessions {}).unwrap();
    assert!(matches!(second.recv().unwrap(), TurnEvent::Sessions { .. }));
    drop(second);
    gate.open();
    assert_eq!(reply(&events(&mut first)), "1");
    let events = world.run(&turn("k3", Some(&session), "three"));
    assert_eq!(accepted(&events).1, 2);
    let users = world
        .log(&session)
        .iter()
        .filter(|r| matches!(r.body, Body::User { .. }))
        .count();
    assert_eq!(users, 2);
}

#[test]
fn status_tells_what_is_wrong_and_nothing_else_is_answered() {
    let mut world = world(vec![Reply::error(401, "authentication_error", "no")]);
    world.stop_links();
    world.run(&turn("k1", None, "one"));
    let mut client =
        Client::<Control>::connect(&world.home.dirs.control_socket("loopd"), WAIT).unwrap();
    let status = world.status();
    assert_eq!(status.pid, world.daemon().pid());
    let entries = |status: control::Status| {
        let notices = status.notices.into_iter();
        let entries = notices.filter_map(|notice| notice.runbook);
        entries.collect::<Vec<_>>()
    };
    assert_eq!(
        entries(status),
        ["model-refused", "tools-unavailable", "memory-unavailable"]
    );
    // Those that are back need no turn to be seen.
    world.serve_broker();
    assert_eq!(
        entries(world.status()),
        ["model-refused", "memory-unavailable"]
    );
    world.serve_memory();
    assert_eq!(entries(world.status()), ["model-refused"]);
    assert!(matches!(client.call(&control::Request::MemoryShow {}),
        Err(ClientError::Refused(refused)) if refused.kind == "not-mine"));
}

#[test]
fn a_client_that_is_being_answered_is_never_idle_and_one_that_waits_for_nothing_is() {
    const IDLE: std::time::Duration = std::time::Duration::from_millis(300);
    let gate = Gate::new();
    let script = vec![Reply::text("At last.").hold_before(0, &gate)];
    let limits = format!("[limits]\nidle_ms_max = {}\n", IDLE.as_millis());
    let world = with(Behaviour::Script(script), Options::default(), &limits);
    let mut client = world.client();
    client.send(&turn("k1", None, "one")).unwrap();
    assert!(gate.wait_held(SOON));
    let held = std::time::Instant::now();
    bxtest::wait_for("two idle limits", || {
        (held.elapsed() > 2 * IDLE).then_some(())
    });
    gate.open();
    assert_eq!(reply(&events(&mut client)), "At last.");
    assert!(client.recv().is_err(), "it was closed");
}
