//! The index as a cache: filled from logs and journal, however it was lost.

use bxtest::wait_for;
use bxwire::{Class, Label, Trust, links::memory};

use crate::world::{World, caller, note, owner, session};

const SECRET: Label = Label::new(Class::Secret, Trust::Trusted);

#[test]
fn a_turn_can_be_recalled_as_soon_as_it_was_told() {
    let world = World::new();
    world.log(
        &session(),
        1,
        Label::PRIVATE,
        "the boiler hums",
        "it needs a new valve",
    );
    let reply = world.updated(&session(), 1);
    assert_eq!(
        reply,
        memory::Reply::Updated {
            notices: Vec::new()
        }
    );
    let (text, label) = world.recall(owner(), "boiler valve");
    assert!(
        text.contains(&format!(
            "said in a turn, 2026-01-31T10:00:00.000Z, {}/1",
            session()
        )),
        "{text}"
    );
    assert!(text.contains("it needs a new valve"), "{text}");
    assert_eq!(label, Label::PRIVATE);
}

#[test]
fn turns_that_nobody_told_of_are_found_at_start_and_when_loopd_connects() {
    let mut world = World::stopped();
    world.log(&session(), 1, Label::PRIVATE, "the boiler hums", "yes");
    world.start();
    let recalled = |world: &World, words: &str| {
        let (text, _) = world.recall(owner(), words);
        (!text.starts_with("Nothing found")).then_some(())
    };
    wait_for("the log at start", || recalled(&world, "boiler"));
    world.log(&session(), 2, Label::PRIVATE, "the gutter leaks", "where");
    // loopd connects, for whatever it wants.
    world.identity();
    wait_for("the log at loopd's connection", || {
        recalled(&world, "gutter")
    });
}

#[test]
fn a_deleted_index_and_a_broken_one_are_rebuilt_with_their_labels() {
    let mut world = World::new();
    world.log(&session(), 1, Label::UNLABELLED, "the boiler page", "read");
    world.updated(&session(), 1);
    world.done(&note("the boiler man is called Ann"));
    world.op(caller(SECRET, "owner"), &note("the boiler code is oak"));
    let wanted = wait_for("the first pass", || {
        let found = world.recall(caller(SECRET, "owner"), "boiler");
        (!found.0.contains("being filled")).then_some(found)
    });
    assert_eq!(wanted.0.matches("boiler").count(), 3, "{}", wanted.0);
    for broken in [None, Some("no database at all, but long enough to look at")] {
        world.stop();
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(world.path(&format!("index.sqlite{end}")));
        }
        if let Some(text) = broken {
            world.put("index.sqlite", text);
        }
        world.start();
        wait_for("the index", || {
            (world.recall(caller(SECRET, "owner"), "boiler") == wanted).then_some(())
        });
        let (text, label) = world.recall(owner(), "boiler");
        assert!(
            text.contains("[memory-tainted]") && !text.contains("oak"),
            "{text}"
        );
        assert_eq!(label, Label::UNLABELLED);
    }
    assert!(world.stop().contains("docs/runbook.md#index-rebuilt"));
}

#[test]
fn a_broken_log_is_shown_and_keeps_nothing_else_back() {
    let mut world = World::stopped();
    world.log(&session(), 1, Label::PRIVATE, "the boiler hums", "yes");
    let folder = world.home.dirs.state_of("loopd").join("sessions");
    std::fs::write(folder.join("20260130-abcdefghijkl.jsonl"), "nonsense\n").unwrap();
    world.start();
    let notice = wait_for("a notice", || world.status().notices.pop());
    assert_eq!(notice.runbook.as_deref(), Some("file-corrupt"));
    let (text, _) = world.recall(owner(), "boiler");
    assert!(text.contains("the boiler hums"), "{text}");
}
