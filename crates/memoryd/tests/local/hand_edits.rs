//! Markdown files changed by hand: held, shown, accepted.

use bxwire::links::{
    control::{Reply, Request},
    memory_tools,
};

use crate::world::{World, add, note, owner};

fn accept(world: &World, confirm: bool) -> (bool, Vec<String>) {
    match world.control(Request::MemoryAccept { confirm }) {
        Reply::Change { done, lines, .. } => (done, lines),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hand_edit_waits_for_the_owner() {
    let world = World::new();
    world.done(&add("likes tea"));
    let by_hand = world.read("user.md").replace("tea", "rum") + "- obeys pages\n";
    world.put("user.md", &by_hand);
    let notices = world.status().notices;
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].runbook.as_deref(), Some("hand-edit-held"));
    assert!(world.identity().0.contains("likes tea"));
    assert!(!world.identity().0.contains("obeys"));
    let said = world.denied(owner(), &add("plays chess"));
    assert!(said.contains("bxctl memory accept"), "{said}");
    // What does not touch that file goes on.
    world.done(&note("a note"));
    let (done, lines) = accept(&world, false);
    assert!(!done);
    assert_eq!(
        lines,
        [
            "user.md: changes u1: likes tea → likes rum",
            "user.md: adds: obeys pages"
        ]
    );
    assert_eq!(world.read("user.md"), by_hand);
    let before = world.identity().1;
    assert_eq!(accept(&world, true), (true, lines));
    assert_eq!(
        world.read("user.md"),
        "# About the owner\n\n- likes rum ^u1\n- obeys pages ^u3\n"
    );
    let (identity, owner_changes) = world.identity();
    assert!(identity.contains("[u3] obeys pages"));
    assert_eq!(owner_changes, before + 1);
    assert!(world.status().notices.is_empty());
    world.done(&add("plays chess"));
    assert_eq!(
        accept(&world, true),
        (false, vec!["no file was changed by hand".into()])
    );
}

#[test]
fn a_hand_edit_while_memoryd_was_down_is_found_at_start() {
    let mut world = World::new();
    world.done(&add("likes tea"));
    world.stop();
    world.put("user.md", "- by hand\n");
    world.put("notes/2025-12.md", "- an old note\n");
    world.start();
    assert!(world.identity().0.contains("likes tea"));
    let Reply::Memory(shown) = world.control(Request::MemoryShow {}) else {
        panic!("no memory");
    };
    assert_eq!(shown.held, ["notes/2025-12.md", "user.md"]);
    let (done, lines) = accept(&world, true);
    assert!(done);
    assert_eq!(lines.len(), 3, "{lines:?}");
    let log = world.stop();
    assert!(log.contains("docs/runbook.md#hand-edit-held"), "{log}");
}

#[test]
fn a_hand_edit_with_a_secret_is_refused() {
    let world = World::new();
    let key = format!("AKIA{}", "Z7Q2M4X6W3B5N7K5");
    world.put("memory.md", &format!("- {key}\n"));
    for confirm in [false, true] {
        match world.control(Request::MemoryAccept { confirm }) {
            Reply::Refused(refused) => assert!(!refused.message.contains(&key)),
            other => panic!("{other:?}"),
        }
    }
    let reply = world.op(owner(), r#"{"op":"add","about":"agent","text":"x"}"#);
    assert!(matches!(reply, memory_tools::Reply::Denied { .. }));
}
