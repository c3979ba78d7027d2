//! Nothing failed, and yet something is wrong: what was sent is looked for again, and what was derived.

use bxcore::clock::Millis;
use bxtest::wait_for;
use bxwire::{
    Label,
    links::{control::SyncAction, memory},
};
use honcho_local::{Fault, Rule};

use crate::world::{World, session};

/// A day of the health checks this short: every send is followed by a look.
const SHORT_DAY: &str = "honcho_health_ms = 1\n";

fn world() -> World {
    let world = World::limited(SHORT_DAY);
    world.turn(&session(1), 1);
    world.settle();
    world
}

/// What holds, as `bxctl memory sync` shows it.
fn warnings(world: &World) -> Vec<(String, String)> {
    let health = world.sync(SyncAction::Show {}).health;
    let warnings = health.into_iter().flat_map(|health| health.warnings);
    warnings
        .map(|notice| (notice.text, notice.runbook.unwrap_or_default()))
        .collect()
}

fn until_warned(world: &World, anchor: &str) -> String {
    wait_for("a warning", || {
        let found = warnings(world).into_iter().find(|(_, see)| see == anchor);
        found.map(|(text, _)| text)
    })
}

fn forget(world: &World) {
    let forget = Rule::new(Fault::Forget).on("GET", "*/queue/status");
    world.honcho().controls().add(forget.times(1));
}

fn looked(world: &World) -> usize {
    let requests = world.honcho().controls().requests();
    let queue = |path: &str| path.ends_with("/queue/status");
    requests
        .iter()
        .filter(|request| queue(&request.path))
        .count()
}

#[test]
fn a_server_that_says_that_it_derives_nothing_is_well() {
    let world = world();
    let health = wait_for("a look", || world.sync(SyncAction::Show {}).health);
    assert_eq!((health.derives, health.warnings.len()), (Some(false), 0));
    assert!(health.pending.is_some() && health.asked_at.is_some());
}

#[test]
fn what_was_sent_last_and_is_gone_is_told_everywhere_until_it_is_there_again() {
    let mut world = world();
    wait_for("the first look", || (looked(&world) > 0).then_some(()));
    // It loses everything as soon as it is looked at.
    forget(&world);
    world.turn(&session(1), 2);
    world.settle();
    let text = until_warned(&world, "honcho-items-gone");
    assert_eq!(
        text,
        "what was sent last to the trusted workspace is not there any more"
    );
    let updated = memory::Request::SessionUpdated {
        session: session(1),
        turn: 2,
    };
    match world.memory(&updated) {
        memory::Reply::Updated { notices } => {
            assert!(
                notices.iter().any(|line| line.contains(&text)),
                "{notices:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    world.turn(&session(1), 3);
    world.settle();
    wait_for("the end of it", || {
        warnings(&world).is_empty().then_some(())
    });
    world.stop();
    assert_eq!(world.said.matches("is not there any more; see").count(), 1);
    assert_eq!(
        world
            .said
            .matches("holds no longer: what was sent last")
            .count(),
        1
    );
}

#[test]
fn conclusions_that_are_gone_are_counted() {
    let world = world();
    for text in ["The bike is blue.", "The tea is green.", "The cat is old."] {
        let add = format!(r#"{{"op":"add","about":"user","text":"{text}"}}"#);
        world.tool(&session(1), Label::PRIVATE, &add);
    }
    world.settle();
    forget(&world);
    world.turn(&session(1), 2);
    world.settle();
    wait_for("the count", || {
        let gone = "3 of 3 conclusions that were written are gone from Honcho";
        warnings(&world)
            .iter()
            .any(|(text, _)| text == gone)
            .then_some(())
    });
}

#[test]
fn a_day_of_turns_of_which_nothing_comes_is_told() {
    let world = World::limited(SHORT_DAY);
    // A server that does not say so.
    let queue = r#"{"total_work_units":0,"completed_work_units":0,"in_progress_work_units":0,"pending_work_units":4}"#;
    let says = Rule::new(Fault::Says { body: queue.into() });
    world
        .honcho()
        .controls()
        .add(says.on("GET", "*/queue/status"));
    let before = Millis::now();
    for turn in 1..=3 {
        world.turn(&session(1), turn);
        world.settle();
    }
    let text = until_warned(&world, "honcho-nothing-derived");
    assert!(
        text.starts_with("Honcho has derived nothing from the turns sent since "),
        "{text}"
    );
    let health = world.sync(SyncAction::Show {}).health.expect("a look");
    assert_eq!((health.pending, health.derives), (Some(4), Some(true)));
    assert!(Millis::parse(&health.asked_at.expect("a time")) >= Some(before));
}

#[test]
fn with_days_of_the_usual_length_the_next_look_is_tomorrow() {
    let world = World::new();
    world.turn(&session(1), 1);
    world.settle();
    wait_for("a look", || (looked(&world) > 0).then_some(()));
    for turn in 2..=5 {
        world.turn(&session(1), turn);
        world.settle();
    }
    assert_eq!(looked(&world), 1);
}
