//! Tool calls: what brokerd is told, what its absence does, approvals and cancellations.

use bxwire::{
    Audience, Cause, Class, Label, Trust,
    links::{
        tools::{CallOutcome, Request as BrokerRequest},
        turns::{Answer, Request, TurnEvent},
    },
    log::{Body, Outcome, Record},
};
use model_local::{Behaviour, Gate, Options, Reply};
use serde_json::json;

use crate::world::*;

fn call() -> Reply {
    Reply::call("read_file", &json!({"path": "a"}))
}

fn results(log: &[Record]) -> Vec<(String, Option<Label>, bool)> {
    let result = |record: &Record| match &record.body {
        Body::ToolResult {
            text,
            label,
            from_broker,
            ..
        } => Some((text.clone(), *label, *from_broker)),
        _ => None,
    };
    log.iter().filter_map(result).collect()
}

#[test]
fn a_result_carries_brokerds_label_into_the_log_and_the_next_call() {
    let world = world(vec![
        call(),
        Reply::call("write_file", &json!({})),
        Reply::text("Done."),
    ]);
    let secret = Label::new(Class::Secret, Trust::Untrusted);
    world.broker.lock().behaviour = Behave::Result(CallOutcome::Done, "the text".into(), secret);
    let events = world.run(&turn("k1", None, "one"));
    let (session, _) = accepted(&events);
    assert!(matches!(events.last(), Some(TurnEvent::Reply { label, .. }) if *label == secret));
    let finished = events
        .iter()
        .filter(|event| matches!(event, TurnEvent::ToolFinished { label, .. } if *label == secret));
    assert_eq!(finished.count(), 2);
    assert_eq!(
        results(&world.log(&session))[0],
        ("the text".into(), Some(secret), true)
    );
    let calls = world.broker.lock().calls.clone();
    let labels: Vec<Label> = calls
        .iter()
        .map(|call| match call {
            BrokerRequest::CallTool {
                label,
                speaker,
                turn,
                ..
            } => {
                assert_eq!((speaker.as_ref(), *turn), (Some(&owner()), 1));
                *label
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(labels, [Label::PRIVATE, secret]);
}

#[test]
fn a_result_is_durable_before_the_model_reads_it() {
    let gate = Gate::new();
    let world = world(vec![call(), Reply::text("Done.").hold_before(0, &gate)]);
    let mut client = world.client();
    client.send(&turn("k1", None, "one")).unwrap();
    let TurnEvent::Accepted { session, .. } = client.recv().unwrap() else {
        panic!("not accepted")
    };
    assert!(world.model.wait_for_chats(2, SOON));
    assert_eq!(
        kinds(&world.log(&session)),
        ["session", "user", "epoch", "assistant", "result"]
    );
    gate.open();
    assert_eq!(reply(&events(&mut client)), "Done.");
}

#[test]
fn without_brokerd_the_turn_goes_on_and_says_so() {
    let mut world = world(vec![Reply::text("No tools."), Reply::text("Tools again.")]);
    world.stop_links();
    let events = world.run(&turn("k1", None, "one"));
    assert_eq!(reply(&events), "No tools.");
    assert!(notices(&events).contains("tools-unavailable"), "{events:?}");
    assert!(world.model.chats()[0].body["tools"].is_null());
    world.serve_broker();
    world.serve_memory();
    let (session, _) = accepted(&events);
    let events = world.run(&turn("k2", Some(&session), "two"));
    assert_eq!(notices(&events), "");
    assert!(
        world.messages(1)[0]["content"]
            .as_str()
            .unwrap()
            .contains("likes tea")
    );
    assert_eq!(
        world.model.chats()[1].body["tools"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_call_that_finds_no_brokerd_is_answered_cleanly() {
    let gate = Gate::new();
    let mut world = world(vec![call().hold_before(1, &gate), Reply::text("Sorry.")]);
    let mut client = world.client();
    client.send(&turn("k1", None, "one")).unwrap();
    assert!(gate.wait_held(SOON));
    world.stop_links();
    gate.open();
    let events = events(&mut client);
    assert_eq!(reply(&events), "Sorry.");
    let result = results(&world.log(&accepted(&events).0)).remove(0);
    assert!(result.0.contains("unavailable"));
    assert_eq!((result.1, result.2), (Some(Label::default()), false));
}

#[test]
fn an_answer_that_is_lost_brings_nothing_in() {
    let world = world(vec![call(), Reply::text("Sorry.")]);
    world.broker.lock().behaviour = Behave::Vanish;
    let events = world.run(&turn("k1", None, "one"));
    assert!(
        matches!(events.last(), Some(TurnEvent::Reply { label, .. }) if *label == Label::PRIVATE)
    );
    let result = results(&world.log(&accepted(&events).0)).remove(0);
    assert!(result.0.contains("its answer was lost"), "{result:?}");
    // Not brokerd's word: whether brokerd knows the session is not told by it.
    assert_eq!((result.1, result.2), (Some(Label::default()), false));
}

#[test]
fn a_result_above_its_readers_class_is_withheld() {
    let world = world(vec![call(), Reply::text("I cannot say.")]);
    let private = Label::new(Class::Private, Trust::Trusted);
    world.broker.lock().behaviour = Behave::Result(CallOutcome::Done, "the secret".into(), private);
    let mut request = turn("k1", None, "one");
    if let Request::Turn { audience, .. } = &mut request {
        *audience = Audience::Others {
            class_max: Class::Public,
        };
    }
    let events = world.run(&request);
    assert_eq!(reply(&events), "I cannot say.");
    assert!(
        !world
            .messages(1)
            .last()
            .unwrap()
            .to_string()
            .contains("the secret")
    );
    let result = results(&world.log(&accepted(&events).0)).remove(0);
    assert_eq!((result.1, result.2), (Some(private), true));
}

#[test]
fn wrong_arguments_by_the_schema_are_told_twice() {
    let different = |n: u32| Reply::call("read_file", &json!({"path": n}));
    let world = world(vec![different(1), different(2), different(3)]);
    world.broker.lock().behaviour = Behave::Result(
        CallOutcome::BadArguments,
        "path: a string".into(),
        Label::default(),
    );
    let events = world.run(&turn("k1", None, "one"));
    assert!(failure(&events).0.contains("wrongly"));
    assert_eq!(world.model.chats().len(), 3);
}

#[test]
fn an_approval_reaches_the_client_and_its_answer_brokerd() {
    let world = world(vec![call(), Reply::text("Done.")]);
    world.broker.lock().behaviour = Behave::Ask;
    let mut client = world.client();
    client.send(&turn("k1", None, "one")).unwrap();
    let mut seen = Vec::new();
    let call = loop {
        match client.recv().unwrap() {
            TurnEvent::Approval { call, what } => {
                assert_eq!(what, "run it?");
                break call;
            }
            event => seen.push(event),
        }
    };
    let (session, _) = accepted(&seen);
    let approve = Request::Approve {
        session,
        call: call.clone(),
        answer: Answer::Once,
    };
    assert_eq!(world.client().call(&approve).unwrap(), TurnEvent::Done {});
    assert_eq!(reply(&events(&mut client)), "Done.");
    assert!(matches!(&world.broker.lock().approvals[..],
        [BrokerRequest::ApproveCall { call: approved, answer: Answer::Once, .. }] if *approved == call));
}

#[test]
fn a_cancel_ends_the_running_tool() {
    let world = world(vec![call()]);
    let hanging = Gate::new();
    world.broker.lock().behaviour = Behave::Hang(hanging);
    let mut client = world.client();
    client.send(&turn("k1", None, "one")).unwrap();
    let TurnEvent::Accepted { session, .. } = client.recv().unwrap() else {
        panic!("not accepted")
    };
    bxtest::wait_for("the call", || {
        (!world.broker.lock().calls.is_empty()).then_some(())
    });
    let cancel = Request::Cancel {
        session: session.clone(),
    };
    assert_eq!(world.client().call(&cancel).unwrap(), TurnEvent::Done {});
    let events = events(&mut client);
    assert!(failure(&events).0.contains("stopped"));
    assert_eq!(world.broker.lock().cancels, 1);
    let log = world.log(&session);
    assert_eq!(
        kinds(&log),
        ["session", "user", "epoch", "assistant", "result", "end"]
    );
    assert!(matches!(
        log[5].body,
        Body::TurnEnd {
            outcome: Outcome::Cancelled,
            ..
        }
    ));
}

#[test]
fn several_calls_are_answered_in_their_order() {
    let both = model_local::Completion {
        text: "Reading both. ".into(),
        calls: ["a", "b"]
            .map(|path| model_local::Call {
                name: "read_file".into(),
                arguments: json!({"path": path}).to_string(),
                id: Some("same".into()),
            })
            .into(),
        ..Default::default()
    };
    let world = world(vec![Reply::completion(both), Reply::text("Done.")]);
    world.say("one");
    let messages = world.messages(1);
    let ids: Vec<_> = messages[2]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["id"].clone())
        .collect();
    assert_ne!(ids[0], ids[1]);
    assert!(ids.iter().all(|id| id.as_str().unwrap().len() == 9));
    assert_eq!(
        [&messages[3]["tool_call_id"], &messages[4]["tool_call_id"]],
        [&ids[0], &ids[1]]
    );
    assert!(messages[4]["content"].as_str().unwrap().contains("\"b\""));
}

#[test]
fn the_user_is_told_once_why_the_session_is_not_clean_any_more() {
    let world = world(vec![
        call(),
        Reply::text("One."),
        call(),
        Reply::text("Two."),
    ]);
    {
        let mut broker = world.broker.lock();
        broker.behaviour = Behave::Result(CallOutcome::Done, "a note".into(), Label::UNLABELLED);
        broker.causes = vec![Cause {
            source: "recall read a fleet note by boxmaker1".into(),
            label: Label::UNLABELLED,
        }];
    }
    let told = "this session is now untrusted: recall read a fleet note by boxmaker1; /new starts a clean one";
    let first = world.run(&turn("k1", None, "one"));
    assert_eq!(notices(&first).matches(told).count(), 1, "{first:?}");
    let (session, _) = accepted(&first);
    let second = world.run(&turn("k2", Some(&session), "two"));
    assert!(
        !notices(&second).contains("this session is now"),
        "{second:?}"
    );
}

#[test]
fn a_turn_that_came_marked_is_told_of_as_well() {
    let world = world(vec![Reply::text("One."), Reply::text("Two.")]);
    let mut marked = turn("k1", None, "one");
    if let Request::Turn { untrusted, .. } = &mut marked {
        *untrusted = true;
    }
    let events = world.run(&marked);
    let told =
        "this session is now untrusted: turn 1 was marked untrusted; /new starts a clean one";
    assert_eq!(notices(&events).matches(told).count(), 1, "{events:?}");
    let (session, _) = accepted(&events);
    let events = world.run(&turn("k2", Some(&session), "two"));
    assert!(
        !notices(&events).contains("this session is now"),
        "{events:?}"
    );
}

#[test]
fn a_question_to_memory_has_a_limit_of_its_own_that_progress_does_not_move() {
    let world = with(
        Behaviour::Script(vec![
            Reply::call("ask_memory", &json!({"question": "tea?"})),
            Reply::text("It did not answer."),
        ]),
        Options::default(),
        "[limits]\nask_memory_ms_max = 200\n",
    );
    {
        let mut broker = world.broker.lock();
        broker.tools.push(tool("ask_memory"));
        broker.behaviour = Behave::Chatter;
    }
    let events = world.run(&turn("k1", None, "one"));
    assert_eq!(reply(&events), "It did not answer.");
    let (session, _) = accepted(&events);
    let log = world.log(&session);
    assert!(
        results(&log)[0].0.contains("its answer was lost"),
        "{log:?}"
    );
    assert!(notices(&events).contains("still asking"));
}
