//! A session's texts taken out of its log at the owner's word.

use bxcore::connect::ClientError;
use bxwire::{
    SessionId,
    links::turns::{Request, TurnEvent},
    log::Body,
};
use model_local::{Gate, Reply};

use crate::world::*;

fn purge(world: &World, session: &SessionId) -> Result<TurnEvent, String> {
    let session = session.clone();
    let request = Request::PurgeSession { session };
    world.client().call(&request).map_err(|error| match error {
        ClientError::Refused(refused) => refused.kind,
        other => panic!("{other}"),
    })
}

#[test]
fn a_purged_session_has_labels_and_no_words_and_takes_no_more_turns() {
    let mut world = world(vec![
        Reply::text("The shed is open."),
        Reply::text("Hello."),
    ]);
    let events = world.run(&turn("k1", None, "the code of the shed is 1234"));
    let session = accepted(&events).0;
    let before = world.log(&session);
    assert_eq!(purge(&world, &session), Ok(TurnEvent::Done {}));
    assert_eq!(purge(&world, &session), Ok(TurnEvent::Done {}));
    let text = std::fs::read_to_string(world.log_path(&session)).unwrap();
    for gone in ["shed", "1234"] {
        assert!(!text.contains(gone), "{text}");
    }
    let after = world.log(&session);
    assert_eq!(after.len(), before.len() + 1);
    assert_eq!(after.last().unwrap().body, Body::Purged {});
    for (old, new) in before.iter().zip(&after) {
        assert_eq!((old.seq, &old.at), (new.seq, &new.at));
        assert_eq!(old.body.label(), new.body.label());
        assert_eq!(old.body.turn(), new.body.turn());
    }
    for started in [false, true] {
        if started {
            world.kill();
            world.start();
        }
        // Also by the key of its first turn, which would find the session again.
        for request in [
            turn("k2", Some(&session), "go on"),
            turn("k1", None, "go on"),
        ] {
            let refused = match world.client().call(&request) {
                Err(ClientError::Refused(refused)) => refused,
                other => panic!("{other:?}"),
            };
            assert_eq!(refused.kind, "purged");
            assert_eq!(refused.runbook.as_deref(), Some("session-purged"));
        }
        let listed = match world.client().call(&Request::ListSessions {}).unwrap() {
            TurnEvent::Sessions { sessions, .. } => sessions,
            other => panic!("{other:?}"),
        };
        assert!(
            listed
                .iter()
                .any(|one| one.session == session && one.purged)
        );
    }
    let (another, _) = world.say("hello");
    assert_ne!(another, session);
}

#[test]
fn a_session_whose_turn_runs_is_not_purged() {
    let gate = Gate::new();
    let world = world(vec![Reply::text("Yes.").hold_before(1, &gate)]);
    let mut client = world.client();
    client.send(&turn("k1", None, "hello")).unwrap();
    let TurnEvent::Accepted { session, .. } = client.recv().unwrap() else {
        panic!("not accepted")
    };
    assert!(gate.wait_held(SOON));
    assert_eq!(purge(&world, &session), Err("busy".into()));
    gate.open();
    let events = events(&mut client);
    assert_eq!(reply(&events), "Yes.");
    assert_eq!(purge(&world, &session), Ok(TurnEvent::Done {}));
}

#[test]
fn an_unknown_session_is_not_purged() {
    let world = world(Vec::new());
    let session = SessionId::new("20260131", [7; 12]).unwrap();
    assert_eq!(purge(&world, &session), Err("unknown-session".into()));
}

#[test]
fn a_log_that_cannot_be_replaced_stays_whole_and_the_owner_is_told() {
    let world = world(vec![Reply::text("One."), Reply::text("Two.")]);
    let (session, _) = world.say("one");
    let before = world.log(&session);
    let mut beside = world.log_path(&session).into_os_string();
    beside.push(".new");
    std::fs::create_dir(&beside).unwrap();
    assert_eq!(purge(&world, &session), Err("full".into()));
    assert_eq!(world.log(&session), before);
    std::fs::remove_dir(&beside).unwrap();
    let events = world.run(&turn("k2", Some(&session), "two"));
    assert_eq!(reply(&events), "Two.");
    assert_eq!(purge(&world, &session), Ok(TurnEvent::Done {}));
}
