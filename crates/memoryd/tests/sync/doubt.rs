//! A try that may have arrived: looked up before anything is sent again, whatever became of the answer.

use bxwire::{Label, links::control::SyncAction};
use honcho_local::{Fault, Rule};

use crate::world::{World, session};

const TRUSTED: &str = "b-trusted";

fn faults() -> Vec<(&'static str, Fault)> {
    let status = |commit| Fault::Status {
        status: 500,
        retry_after: None,
        commit,
    };
    vec![
        ("dropped before it was carried out", Fault::DropBefore),
        ("carried out and dropped", Fault::CommitAndDrop),
        ("a body cut short", Fault::CutBody),
        ("garbage", Fault::Garbage),
        (
            "more than the cap",
            Fault::Huge {
                bytes: 9 * 1024 * 1024,
            },
        ),
        (
            "never answered, carried out",
            Fault::NeverAnswer { commit: true },
        ),
        (
            "never answered, not carried out",
            Fault::NeverAnswer { commit: false },
        ),
        ("one byte at a time", Fault::Drip { every_ms: 1_000 }),
        ("500 before it was carried out", status(false)),
        ("500 after it was carried out", status(true)),
    ]
}

#[test]
fn messages_are_there_exactly_once_whatever_becomes_of_the_answer() {
    for (name, fault) in faults() {
        let world = World::new();
        world
            .honcho()
            .controls()
            .add(Rule::new(fault).on("POST", "*/messages").times(1));
        world.turn(&session(1), 1);
        world.turn(&session(1), 2);
        let sync = world.settle();
        assert!(sync.failed.is_empty(), "{name}: {sync:?}");
        let id = session(1);
        let want = [
            format!("{id} owner: words 1"),
            format!("{id} boxmaker: reply 1"),
            format!("{id} owner: words 2"),
            format!("{id} boxmaker: reply 2"),
        ];
        assert_eq!(world.messages(TRUSTED), want, "{name}");
    }
}

#[test]
fn conclusions_are_there_exactly_once_whatever_becomes_of_the_answer() {
    for (name, fault) in faults() {
        let world = World::new();
        world
            .honcho()
            .controls()
            .add(Rule::new(fault).on("POST", "*/conclusions").times(1));
        let add = r#"{"op":"add","about":"user","text":"The bike is blue."}"#;
        let edit = world.tool(&session(1), Label::PRIVATE, add);
        world.settle();
        assert_eq!(
            world.conclusions(TRUSTED),
            ["owner: The bike is blue."],
            "{name}"
        );
        // It can be undone, so its id is known.
        world.undo(edit);
        world.settle();
        assert!(world.conclusions(TRUSTED).is_empty(), "{name}");
    }
}

#[test]
fn an_undo_of_what_is_in_doubt_waits_and_then_nothing_is_left() {
    for fault in [Fault::CommitAndDrop, Fault::DropBefore] {
        let world = World::new();
        world
            .honcho()
            .controls()
            .add(Rule::new(fault).on("POST", "*/conclusions").times(1));
        let add = r#"{"op":"add","about":"user","text":"The bike is blue."}"#;
        let edit = world.tool(&session(1), Label::PRIVATE, add);
        world.until("an edit in doubt", |sync| sync.workspaces[0].in_doubt == 1);
        world.undo(edit);
        world.settle();
        assert!(world.conclusions(TRUSTED).is_empty());
    }
}

#[test]
fn killed_between_honchos_commit_and_the_ledgers_line_it_is_found_again() {
    let mut world = World::new();
    world.turn_without_answer(&session(1), 1);
    world.kill();
    world.start();
    let sync = world.sync(SyncAction::Show {});
    assert_eq!(sync.workspaces[0].decided, 1);
    world.settle();
    assert_eq!(world.messages(TRUSTED).len(), 2);
    let why = world.why(&format!("{}/1", session(1)));
    assert!(why.steps[0].state.contains("found there"), "{why:?}");
    assert_eq!(why.steps[0].ids.len(), 2);
}
