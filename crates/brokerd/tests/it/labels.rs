//! Labels: durable before the answer, never lower, loopd's first.

use bxwire::{
    Cause, Class, Label, Trust,
    links::tools::{CallOutcome, Reply, Request},
};
use serde_json::json;

use crate::world::{Call, World, seen, session};

const SECRET_UNTRUSTED: Label = Label::new(Class::Secret, Trust::Untrusted);

#[test]
fn a_label_outlives_a_kill_right_after_each_answer() {
    let world = World::new("");
    let s = session(1);
    let steps = [
        (Call::read(&s, "inbox/none"), Label::PRIVATE),
        (Call::read(&s, "inbox/letter.txt"), Label::UNLABELLED),
        (Call::read(&s, "vault/plan.txt"), SECRET_UNTRUSTED),
        (Call::read(&s, "inbox/letter.txt"), SECRET_UNTRUSTED),
    ];
    for (call, want) in steps {
        let daemon = world.start();
        let answer = world.call(&call);
        daemon.kill();
        assert_eq!(answer.session_label, want, "{answer:?}");
        let daemon = world.start();
        assert_eq!(world.state(&s), seen(want));
        daemon.kill();
    }
    assert_eq!(world.lines("sessions.jsonl").len(), 3);
    assert_eq!(world.lines("audit.jsonl").len(), 4);
}

#[test]
fn asking_for_a_session_nobody_saw_changes_nothing() {
    let world = World::new("");
    let _daemon = world.start();
    let state = world.state(&session(1));
    assert_eq!(
        (state.class, state.untrusted, state.seen),
        (Class::Private, false, false)
    );
    assert!(world.lines("sessions.jsonl").is_empty());
    world.call(&Call::new(&session(1), "list_files", json!({})));
    assert_eq!(world.state(&session(1)), seen(Label::PRIVATE));
    assert!(!world.state(&session(2)).seen);
}

#[test]
fn loopds_label_is_joined_even_when_there_is_no_such_tool() {
    let world = World::new("");
    let _daemon = world.start();
    let call = Call {
        label: SECRET_UNTRUSTED,
        ..Call::new(&session(1), "no_such_tool", json!({}))
    };
    let answer = world.call(&call);
    assert_eq!(answer.outcome, CallOutcome::UnknownTool);
    assert_eq!(answer.session_label, SECRET_UNTRUSTED);
    assert_eq!(world.state(&session(1)), seen(SECRET_UNTRUSTED));
    // A lower word later lowers nothing.
    let answer = world.call(&Call::new(&session(1), "list_files", json!({})));
    assert_eq!(answer.session_label, SECRET_UNTRUSTED);
}

#[test]
fn the_answer_says_what_raised_the_label_and_so_does_the_file() {
    let world = World::new("");
    let _daemon = world.start();
    let answer = world.call(&Call::read(&session(1), "inbox/letter.txt"));
    let cause = Cause {
        source: "read_file inbox/letter.txt".into(),
        label: Label::UNLABELLED,
    };
    assert_eq!(answer.causes, std::slice::from_ref(&cause));
    // Whoever lost that answer is told again; it is listed once.
    let again = world.call(&Call::read(&session(1), "inbox/letter.txt"));
    assert_eq!(again.causes, answer.causes);
    let mut client = world.client();
    let asked = Request::SessionCauses {
        session: session(1),
    };
    let want = Reply::Causes {
        label: Label::UNLABELLED,
        causes: vec![cause],
        more: 0,
    };
    assert_eq!(client.call(&asked).unwrap(), want);
    let line = &world.lines("sessions.jsonl")[1];
    assert_eq!(line["type"], "raised");
    assert_eq!(line["causes"][0]["source"], "read_file inbox/letter.txt");
}

#[test]
fn a_raise_is_durable_when_it_is_answered() {
    let world = World::new("");
    let daemon = world.start();
    let raise = Request::Raise {
        session: session(1),
        label: Label::UNLABELLED,
        cause: Cause {
            source: "a paste\u{1b}[1m".into(),
            label: Label::UNLABELLED,
        },
    };
    assert_eq!(world.client().call(&raise).unwrap(), Reply::Done {});
    daemon.kill();
    let _daemon = world.start();
    assert_eq!(world.state(&session(1)), seen(Label::UNLABELLED));
    assert_eq!(
        world.lines("sessions.jsonl")[0]["causes"][0]["source"],
        "a paste"
    );
}

#[test]
fn the_audit_has_sizes_and_labels_and_no_text() {
    let world = World::new("");
    let _daemon = world.start();
    world.call(&Call::read(&session(1), "inbox/letter.txt"));
    world.call(&Call::new(&session(1), "canary_tool", json!({"canary": 1})));
    let lines = world.lines("audit.jsonl");
    assert_eq!(lines[0]["tool"], "read_file");
    assert_eq!(lines[0]["turn"], 3);
    assert_eq!(lines[0]["outcome"], "done");
    assert_eq!(lines[0]["before"]["untrusted"], false);
    assert_eq!(lines[0]["after"]["untrusted"], true);
    assert_eq!(lines[1]["outcome"], "unknown_tool");
    let text = std::fs::read_to_string(world.file("audit.jsonl")).unwrap();
    for secret in ["canary", "letter", "Dear"] {
        assert!(!text.contains(secret), "{text}");
    }
}
