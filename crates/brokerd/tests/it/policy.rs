//! Who may run what: denied, asked for, approved once or for a session, cancelled.

use bxcore::connect::ClientError;
use bxtest::wait_for;
use bxwire::links::{
    tools::{CallOutcome, Reply, Request},
    turns::Answer as Word,
};
use serde_json::json;

use crate::world::{Answer, Call, World, answer, session};

const ASK: &str = "[tools.read_file]\npolicy = \"ask\"";

fn letter() -> Call {
    Call::read(&session(1), "inbox/letter.txt")
}

fn approve(call: &Call, answer: Word) -> Request {
    Request::ApproveCall {
        session: call.session.clone(),
        call: call.call.clone(),
        answer,
    }
}

/// Sends the call, answers its approval from another connection.
fn asked(world: &World, call: &Call, word: Word) -> Answer {
    let mut client = world.client();
    client.send(&call.request()).unwrap();
    match client.recv().unwrap() {
        Reply::Approval { call: id, what } => {
            assert_eq!(id, call.call);
            assert!(what.contains("inbox/letter.txt"), "{what}");
        }
        other => panic!("{other:?}"),
    }
    let taken = world.client().call(&approve(call, word)).unwrap();
    assert_eq!(taken, Reply::Done {});
    answer(&mut client)
}

#[test]
fn a_denied_tool_says_which_rule_and_does_not_run() {
    let world = World::new("[tools.read_file]\npolicy = \"deny\"");
    let _daemon = world.start();
    let answer = world.call(&letter());
    assert_eq!(answer.outcome, CallOutcome::Denied);
    assert!(answer.text.contains("tools.read_file.policy"), "{answer:?}");
    assert!(!answer.session_label.is_untrusted());
}

#[test]
fn the_owner_is_asked_each_time_unless_the_answer_is_for_the_session() {
    let world = World::new(ASK);
    let _daemon = world.start();
    let denied = asked(&world, &letter(), Word::Deny);
    assert_eq!(denied.outcome, CallOutcome::Denied);
    let once = asked(&world, &letter(), Word::Once);
    assert_eq!(once.outcome, CallOutcome::Done);
    let session_wide = asked(&world, &letter(), Word::Session);
    assert_eq!(session_wide.outcome, CallOutcome::Done);
    let unasked = world.call(&letter());
    assert_eq!(unasked.outcome, CallOutcome::Done);
    assert!(unasked.events.is_empty(), "{unasked:?}");
    let other = Call::read(&session(2), "inbox/letter.txt");
    let other = asked(&world, &other, Word::Deny);
    assert_eq!(other.outcome, CallOutcome::Denied, "another session asks");
}

#[test]
fn nobody_answers_in_time_is_a_no() {
    let world = World::new(&format!("{ASK}\n[limits]\napproval_ms_max = 50"));
    let _daemon = world.start();
    let answer = world.call(&letter());
    assert_eq!(answer.outcome, CallOutcome::Denied);
    assert_eq!(answer.events.len(), 1);
    assert!(answer.text.contains("did not answer in time"));
    let late = world.client().call(&approve(&letter(), Word::Once));
    assert!(matches!(late, Err(ClientError::Refused(refused)) if refused.kind == "unknown-call"));
}

#[test]
fn a_call_is_cancelled_from_another_connection() {
    let world = World::new(ASK);
    let _daemon = world.start();
    let mut client = world.client();
    client.send(&letter().request()).unwrap();
    assert!(matches!(client.recv().unwrap(), Reply::Approval { .. }));
    let twice = world.client().call(&letter().request());
    assert!(matches!(twice, Err(ClientError::Refused(refused)) if refused.kind == "call-running"));
    let cancel = Request::CancelCall {
        session: session(1),
        call: letter().call,
    };
    assert_eq!(world.client().call(&cancel).unwrap(), Reply::Done {});
    assert_eq!(answer(&mut client).outcome, CallOutcome::Cancelled);
    let again = world.client().call(&cancel);
    assert!(
        matches!(again, Err(ClientError::Refused(_))),
        "it has ended"
    );
}

#[test]
fn a_cancel_ends_the_wait_for_memoryd() {
    let world = World::new("");
    let (came, coming) = std::sync::mpsc::channel();
    let came = std::sync::Mutex::new(came);
    let _memoryd = world.memoryd(move |mut peer| {
        while peer.recv().is_some() {
            came.lock().unwrap().send(()).unwrap();
        }
    });
    let _daemon = world.start();
    let call = Call::new(&session(1), "memory", json!({"op": "note", "text": "x"}));
    let mut client = world.client();
    client.send(&call.request()).unwrap();
    coming.recv().unwrap();
    let cancel = Request::CancelCall {
        session: session(1),
        call: call.call,
    };
    assert_eq!(world.client().call(&cancel).unwrap(), Reply::Done {});
    let answer = answer(&mut client);
    assert_eq!(answer.outcome, CallOutcome::Cancelled);
    assert!(answer.text.contains("may have been made"), "{answer:?}");
}

#[test]
fn a_peer_that_hangs_up_ends_its_call() {
    let world = World::new(ASK);
    let _daemon = world.start();
    let mut client = world.client();
    client.send(&letter().request()).unwrap();
    assert!(matches!(client.recv().unwrap(), Reply::Approval { .. }));
    drop(client);
    wait_for("the audit line", || {
        let lines = world.lines("audit.jsonl");
        lines
            .iter()
            .any(|line| line["outcome"] == "cancelled")
            .then_some(())
    });
}
