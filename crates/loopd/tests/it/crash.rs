//! kill -9, stops, full disks, corrupted logs: what was said to have happened has happened, and nothing twice.

use std::os::unix::fs::PermissionsExt;

use bxwire::{
    SessionId,
    links::turns::TurnEvent,
    log::{Body, Outcome},
};
use model_local::{Behaviour, Gate, Options, Outcome as Answered, Reply};

use crate::world::*;

fn running(
    world: &World,
    gate: &Gate,
) -> (
    bxcore::connect::Client<bxwire::links::turns::Turns>,
    SessionId,
) {
    let mut client = world.client();
    client.send(&turn("k1", None, "one")).unwrap();
    let TurnEvent::Accepted { session, .. } = client.recv().unwrap() else {
        panic!("not accepted")
    };
    assert!(gate.wait_held(SOON));
    (client, session)
}

#[test]
fn a_kill_in_the_middle_of_a_turn_interrupts_it_and_runs_nothing_twice() {
    let gate = Gate::new();
    let mut world = world(vec![
        Reply::text("never").hold_before(2, &gate),
        Reply::text("Next."),
    ]);
    let (client, session) = running(&world, &gate);
    world.kill();
    drop(client);
    world.start();
    let log = world.log(&session);
    assert!(matches!(
        log.last().unwrap().body,
        Body::TurnEnd {
            outcome: Outcome::Interrupted,
            ..
        }
    ));
    for request in [turn("k1", Some(&session), "one"), turn("k1", None, "one")] {
        let events = world.run(&request);
        assert_eq!(accepted(&events), (session.clone(), 1));
        assert_eq!(failure(&events).1, "turn-interrupted");
    }
    assert_eq!(world.model.chats().len(), 1);
    let events = world.run(&turn("k2", Some(&session), "two"));
    assert_eq!((accepted(&events).1, reply(&events)), (2, "Next."));
}

#[test]
fn a_stop_in_the_middle_of_a_turn_ends_in_time_and_tells_the_client() {
    let gate = Gate::new();
    let mut world = world(vec![Reply::text("never").hold_before(2, &gate)]);
    let (mut client, session) = running(&world, &gate);
    let before = std::time::Instant::now();
    let ended = world.stop();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(before.elapsed() < bxcore::daemon::STOP_MS_MAX);
    let events = events(&mut client);
    assert_eq!(failure(&events).1, "turn-interrupted");
    assert!(matches!(
        world.log(&session).last().unwrap().body,
        Body::TurnEnd {
            outcome: Outcome::Interrupted,
            ..
        }
    ));
    assert!(
        world
            .model
            .wait_for_outcome(0, Answered::Disconnected, SOON)
    );
}

#[test]
fn a_torn_end_is_cut_off() {
    let mut world = world(vec![Reply::text("One."), Reply::text("Two.")]);
    let (session, _) = world.say("one");
    assert!(world.stop().status.success());
    let path = world.log_path(&session);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{whole}{{\"seq\":6,\"at\"")).unwrap();
    world.start();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    bxtest::wait_for("a word about it", || {
        world
            .daemon()
            .log()
            .contains("unfinished last line")
            .then_some(())
    });
    assert_eq!(
        reply(&world.run(&turn("k2", Some(&session), "two"))),
        "Two."
    );
}

#[test]
fn a_reply_torn_from_its_end_is_not_shown_as_final() {
    let mut world = world(vec![Reply::text("One."), Reply::text("Two.")]);
    let (session, _) = world.say("one");
    assert!(world.stop().status.success());
    let path = world.log_path(&session);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    assert!(lines.pop().unwrap().contains("turn_end"));
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    world.start();
    let events = world.run(&turn("key of one", Some(&session), "one"));
    assert_eq!(failure(&events).1, "turn-interrupted");
    assert_eq!(
        reply(&world.run(&turn("k2", Some(&session), "two"))),
        "Two."
    );
}

#[test]
fn a_bad_line_stops_the_daemon_with_its_place() {
    let mut world = world(vec![Reply::text("One.")]);
    let (session, _) = world.say("one");
    assert!(world.stop().status.success());
    let path = world.log_path(&session);
    let good = std::fs::read_to_string(&path).unwrap();
    let newer = good.replacen("\"type\":\"user\"", "\"type\":\"dream\"", 1);
    let gap = good.replacen("\"seq\":2", "\"seq\":7", 1);
    for (text, entry) in [
        (good.replacen("{\"seq\":2", "{seq:2", 1), "file-corrupt"),
        (gap, "file-corrupt"),
        (newer, "file-newer"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let ended = world.home.try_start("loopd", |_| {}).unwrap_err();
        assert_eq!(ended.status.code(), Some(74));
        assert!(
            ended.stderr.contains(&format!("{session}.jsonl line 2")),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains(entry), "{}", ended.stderr);
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            text,
            "nothing is changed"
        );
    }
    std::fs::write(&path, good).unwrap();
    world.start();
}

#[test]
fn a_log_without_a_record_is_no_session() {
    let mut world = unstarted(Behaviour::Script(vec![]), Options::default(), "");
    let session = SessionId::new("20260131", [1; 12]).unwrap();
    let path = world.log_path(&session);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    for folder in path.ancestors().skip(1).take(2) {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o750)).unwrap();
    }
    std::fs::write(&path, "{\"seq\":1,").unwrap();
    world.start();
    assert!(!path.exists());
}

#[test]
fn logs_may_be_read_by_their_group_and_nobody_else() {
    let world = world(vec![Reply::text("One.")]);
    let (session, _) = world.say("one");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let path = world.log_path(&session);
    assert_eq!(mode(&path) & !0o640, 0);
    assert_eq!(mode(path.parent().unwrap()) & !0o750, 0);
}

#[test]
fn a_log_that_cannot_grow_fails_the_turn_and_works_again_later() {
    // A limit on the size of files stands in for a full disk.
    let script = vec![
        Reply::text("One."),
        Reply::text(&*"long words ".repeat(7_000)),
        Reply::text("Three."),
    ];
    let mut world = unstarted(
        Behaviour::Script(script),
        Options::default(),
        "max_tokens = 16000\n",
    );
    world.start_limited(16);
    let (session, _) = world.say("one");
    let events = world.run(&turn("k2", Some(&session), "two"));
    assert_eq!(failure(&events).1, "append-failed");
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, TurnEvent::Reply { .. }))
    );
    // What fits is taken again, and the session goes on.
    let events = world.run(&turn("k3", Some(&session), "three"));
    assert_eq!(reply(&events), "Three.");
    let outcomes: Vec<_> = world
        .log(&session)
        .iter()
        .filter_map(|record| match record.body {
            Body::TurnEnd { outcome, .. } => Some(outcome),
            _ => None,
        })
        .collect();
    assert_eq!(
        outcomes,
        [Outcome::Replied, Outcome::Failed, Outcome::Replied]
    );
}

#[test]
fn a_first_turn_that_cannot_be_logged_leaves_no_session() {
    let mut world = unstarted(
        Behaviour::Script(vec![Reply::text("Fine.")]),
        Options::default(),
        "",
    );
    world.start_limited(16);
    let events = world.run(&turn("k1", None, &"x".repeat(60_000)));
    assert_eq!(failure(&events).1, "append-failed");
    assert!(world.logs().is_empty());
    assert_eq!(reply(&world.run(&turn("k1", None, "short"))), "Fine.");
}

#[test]
fn an_outage_of_the_disk_is_logged_once_at_its_start_and_once_at_its_end() {
    let script = vec![Reply::text("Fine.")];
    let mut world = unstarted(Behaviour::Script(script), Options::default(), "");
    world.start_limited(16);
    for key in ["k1", "k2", "k3"] {
        let events = world.run(&turn(key, None, &"x".repeat(60_000)));
        assert_eq!(failure(&events).1, "append-failed");
    }
    assert_eq!(reply(&world.run(&turn("k4", None, "short"))), "Fine.");
    let log = world.stop().stderr;
    let times = |words: &str| log.matches(words).count();
    assert_eq!(times("cannot append to"), 1, "{log}");
    assert_eq!(times("can be written again"), 1, "{log}");
}
