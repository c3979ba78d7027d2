//! The memory tools as brokerd calls them.

use bxwire::{Class, Label, Trust, links::memory_tools::Reply};

use crate::world::{World, add, caller, note, owner};

#[test]
fn each_operation_shows_in_the_files_and_in_identity() {
    let world = World::new();
    world.done(&add("likes tea"));
    world.done(&add("plays chess"));
    world.done(r#"{"op":"add","about":"agent","text":"keeps the garden log"}"#);
    assert_eq!(
        world.read("user.md"),
        "# About the owner\n\n- likes tea ^u1\n- plays chess ^u2\n"
    );
    assert!(
        world
            .read("memory.md")
            .contains("- keeps the garden log ^a3")
    );
    world.done(r#"{"op":"replace","about":"user","match":"tea","text":"likes coffee"}"#);
    world.done(r#"{"op":"remove","about":"agent","id":"a3"}"#);
    let (identity, owner_changes) = world.identity();
    assert_eq!(
        identity,
        "What you know of the owner:\n- [u1] likes coffee\n- [u2] plays chess\n"
    );
    assert_eq!(owner_changes, 0, "these were the agent's own changes");
    let said = world.done(
        r#"{"op":"consolidate","entries":[{"id":"u1","fate":"note"},{"id":"u2","fate":"drop"}]}"#,
    );
    assert!(
        said.contains("moved u1") && said.contains("removed u2"),
        "{said}"
    );
    assert_eq!(world.read("user.md"), "# About the owner\n");
    world.done(&note("the fence needs paint"));
    let months: Vec<_> = std::fs::read_dir(world.path("notes")).unwrap().collect();
    assert_eq!(months.len(), 1);
    let file = months[0].as_ref().unwrap().path();
    let notes = std::fs::read_to_string(file).unwrap();
    assert!(
        notes.contains("private, clean: likes coffee ^u1"),
        "{notes}"
    );
    assert!(
        notes.contains("local/owner, private, clean: the fence needs paint ^n7"),
        "{notes}"
    );
}

#[test]
fn a_label_or_another_speaker_keeps_identity_as_it_is() {
    let world = World::new();
    let untrusted = Label::new(Class::Private, Trust::Untrusted);
    let secret = Label::new(Class::Secret, Trust::Trusted);
    let said = world.denied(caller(untrusted, "owner"), &add("x"));
    assert!(said.contains("from outside"), "{said}");
    let said = world.denied(caller(secret, "owner"), &add("x"));
    assert!(said.contains("secret"), "{said}");
    for label in [untrusted, secret] {
        assert!(matches!(
            world.op(caller(label, "owner"), &note("kept")),
            Reply::Done { .. }
        ));
    }
    let reply = world.op(caller(Label::PRIVATE, "bob"), &add("is the owner's friend"));
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    assert_eq!(world.identity().0, "");
    let (found, _) = world.recall(owner(), "friend");
    assert!(
        found.contains("local/bob said: is the owner's friend"),
        "{found}"
    );
}

#[test]
fn a_secret_is_refused_by_its_rule_and_is_nowhere_on_the_disk() {
    let mut world = World::new();
    let key = format!("AKIA{}", "Z7Q2M4X6W3B5N7K5");
    let said = world.denied(owner(), &note(&format!("the key is {key}")));
    assert!(said.contains("rule `"), "{said}");
    let log = world.stop();
    for text in [said, log, world.read("journal.jsonl")] {
        assert!(!text.contains(&key));
    }
}

#[test]
fn a_bad_argument_is_told_and_changes_nothing() {
    let world = World::new();
    world.done(&add("likes tea"));
    world.done(&add("likes green tea"));
    let before = world.read("journal.jsonl");
    for (json, wanted) in [
        (r#"{"op":"remove","about":"user","match":"tea"}"#, "u1, u2"),
        (
            r#"{"op":"remove","about":"user","match":"zebra"}"#,
            "no entry fits",
        ),
        (r#"{"op":"consolidate","entries":[]}"#, "not named: u1, u2"),
        (r#"{"op":"note","text":" "}"#, "no text"),
    ] {
        let said = world.denied(owner(), json);
        assert!(said.contains(wanted), "{said}");
    }
    assert_eq!(world.read("journal.jsonl"), before);
}

#[test]
fn recall_says_what_it_did_not_search() {
    let world = World::new();
    world.done(&note("the fence is green"));
    let secret = Label::new(Class::Secret, Trust::Trusted);
    world.op(caller(secret, "owner"), &note("the fence code is 1234"));
    let (text, label) = world.recall(owner(), "fence");
    assert!(
        text.contains("the fence is green") && !text.contains("1234"),
        "{text}"
    );
    assert!(
        text.contains("Not searched: memory above private"),
        "{text}"
    );
    assert_eq!(label, Label::PRIVATE);
    let (text, label) = world.recall(caller(secret, "owner"), "fence");
    assert!(text.contains("1234"), "{text}");
    assert_eq!(label.class, Class::Secret);
    let (text, label) = world.recall(owner(), "zeppelin");
    assert!(text.starts_with("Nothing found."), "{text}");
    assert_eq!(label, Label::default());
}
