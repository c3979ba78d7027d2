//! Calls that fail: a full disk, a disk that cannot sync, a connection that breaks. memoryd goes on, or ends with 74
//! and does not believe the file at its next start; either way the day ends as it does without.

use crate::{
    day,
    honcho::Honcho,
    outcome::EndOfDay,
    shim::{Call, Point, When},
    sweep::{self, sweep},
    world::World,
};

/// What can go wrong with a call.
fn error(call: &Call) -> &'static str {
    match call.call.as_str() {
        "fsync" => "EIO",
        "connect" => "ECONNREFUSED",
        "send" => "EPIPE",
        _ => "ENOSPC",
    }
}

#[test]
fn whichever_call_fails_the_day_ends_the_same() {
    sweep("whichever_call_fails_the_day_ends_the_same", |call| {
        if call.target.starts_with("memory/") || sweep::is_long() {
            vec![When::Fails(error(call))]
        } else {
            Vec::new()
        }
    });
}

/// A short day with one failing call; memoryd, and how the day should end.
fn with(point: &str) -> (World, EndOfDay) {
    let wanted = sweep::undisturbed(&day::short()).0;
    let point: Point = point.parse().expect("a point");
    let mut world = World::new(Honcho::here(), sweep::once(&point));
    world.live(&day::short());
    assert!(
        world.calls().iter().any(|call| call.hit),
        "{point} was not met"
    );
    (world, wanted)
}

#[test]
fn a_failed_sync_ends_memoryd_and_the_next_start_writes_the_file_anew() {
    for file in ["honcho.jsonl", "journal.jsonl"] {
        let (mut world, wanted) = with(&format!("EIO fsync memory/{file} 3"));
        let ended = format!("exit status: 74, [\"{file}.unsynced\"]");
        assert_eq!(world.ends, [ended]);
        let end = EndOfDay::of(&mut world);
        for part in ["sync-failed", "written anew after a failed sync", file] {
            assert!(world.said.contains(part), "{part}: {}", world.said);
        }
        assert_eq!(end.differs_from(&wanted), None);
    }
}

#[test]
fn a_full_disk_ends_nothing_and_is_said_once() {
    for file in ["honcho.jsonl", "journal.jsonl"] {
        let (mut world, wanted) = with(&format!("ENOSPC write memory/{file} 3"));
        assert!(world.ends.is_empty(), "{:?}", world.ends);
        let end = EndOfDay::of(&mut world);
        assert_eq!(
            world.said.matches("append-failed").count(),
            1,
            "{}",
            world.said
        );
        assert_eq!(end.differs_from(&wanted), None);
    }
}
