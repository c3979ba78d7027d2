//! `bxctl memory purge`, as memoryd and Honcho see it: loopd has emptied the log.

use bxtest::wait_for;
use bxwire::{
    Label, SessionId,
    links::{
        control::{Reply, Request},
        memory,
    },
};
use honcho_local::{Fault, Rule};

use crate::world::{Said, UNTRUSTED, World, owner, session, speaker};

const CLEAN: Label = Label::PRIVATE;

fn add(text: &str) -> String {
    format!(r#"{{"op":"add","about":"user","text":"{text}"}}"#)
}

fn note(text: &str) -> String {
    format!(r#"{{"op":"note","text":"{text}"}}"#)
}

fn asked(world: &World, session: &SessionId, confirm: bool) -> (bool, Vec<String>) {
    let session = session.clone();
    match world.control(&Request::MemoryPurge { session, confirm }) {
        Reply::Change { done, lines, .. } => (done, lines),
        other => panic!("{other:?}"),
    }
}

/// A deletion is accepted first and carried out a moment later.
fn until_messages(world: &World, workspace: &str, all: impl Fn(&str) -> bool) {
    wait_for("the deletion", || {
        let left = world.messages(workspace);
        left.iter().all(|line| all(line)).then_some(())
    });
}

/// Nothing under memoryd's folder holds the words.
fn is_nowhere(world: &World, words: &str) -> bool {
    let folder = world.home.dirs.state_of("memoryd");
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(words.len()).any(|at| at == words.as_bytes()) {
                return false;
            }
        }
    }
    true
}

#[test]
fn a_purge_shows_what_goes_and_what_stays_and_changes_nothing_until_it_is_told() {
    let world = World::new();
    let id = session(1);
    world.turn(&id, 1);
    world.tool(&id, CLEAN, &add("The bike is blue."));
    world.tool(&id, CLEAN, &note("Rain is expected."));
    world.settle();
    let (done, lines) = asked(&world, &id, false);
    assert!(!done);
    assert_eq!(
        lines,
        [
            "empties its 1 turn, here and in the index".to_owned(),
            "takes back the note n2: Rain is expected.".into(),
            "keeps u1: The bike is blue.".into(),
            format!("deletes the session {id} in the workspace b-trusted"),
        ]
    );
    let Reply::Refused(refused) = world.control(&Request::MemoryPurge {
        session: id,
        confirm: true,
    }) else {
        panic!("loopd has not emptied the log");
    };
    assert_eq!(refused.kind, "log-not-purged");
    assert_eq!(world.messages("b-trusted").len(), 2);
}

#[test]
fn a_purged_session_is_gone_in_every_workspace_and_what_is_kept_is_the_owners() {
    let world = World::new();
    let (id, other) = (session(1), session(2));
    world.turn(&id, 1);
    let guest = Said {
        speaker: Some(speaker("home", "guest")),
        ..Said::default()
    };
    world.turn_of(&id, 2, &guest);
    world.tool(&id, CLEAN, &add("The bike is blue."));
    world.tool(&id, CLEAN, &note("Rain is expected."));
    world.turn(&other, 1);
    world.settle();
    world.broker_says(&id, UNTRUSTED);
    world.turn(&id, 3);
    world.tool(&id, Label::UNLABELLED, &note("The letter says hello."));
    world.settle();
    assert_eq!(world.messages("fleet").len(), 1);
    assert!(!world.messages("b-untrusted").is_empty());

    world.purge_log(&id);
    let (done, _) = asked(&world, &id, true);
    assert!(done);
    world.settle();
    until_messages(&world, "b-trusted", |line| line.starts_with(other.as_str()));
    assert_eq!(world.messages("b-trusted").len(), 2);
    until_messages(&world, "b-untrusted", |_| false);
    until_messages(&world, "fleet", |_| false);
    let why = world.why(&format!("{id}/1"));
    assert!(
        why.steps[0].state.starts_with("sent, then taken back by e"),
        "{why:?}"
    );
    assert_eq!(world.conclusions("b-trusted"), ["owner: The bike is blue."]);
    for gone in ["words 3", "reply 2", "Rain is expected", "The letter says"] {
        assert!(is_nowhere(&world, gone), "{gone}");
    }
    assert!(!is_nowhere(&world, "The bike is blue."));
    // It can still be taken back, though what held it first is gone.
    let forget = memory::Request::OwnerCommand {
        session: other,
        speaker: Some(owner()),
        name: "forget".into(),
        arguments: vec!["u1".into()],
    };
    world.memory(&forget);
    world.until_conclusions("b-trusted", &[]);
    // And then its words go with another purge, and none is left after that.
    assert!(!is_nowhere(&world, "The bike is blue."));
    let (_, lines) = asked(&world, &id, false);
    let takes = "takes 1 text that stands no longer out of the journal";
    assert_eq!(lines, [takes]);
    assert!(asked(&world, &id, true).0);
    assert!(is_nowhere(&world, "The bike is blue."));
    let (done, lines) = asked(&world, &id, false);
    assert_eq!((done, lines), (false, Vec::new()));
}

#[test]
fn after_a_purge_nothing_says_that_its_texts_are_still_somewhere() {
    let world = World::new();
    let id = session(1);
    world.turn(&id, 1);
    world.settle();
    world.broker_says(&id, UNTRUSTED);
    world.turn(&id, 2);
    world.tool(&id, Label::UNLABELLED, &note("The letter says hello."));
    let promote = Request::MemoryPromote {
        note: "n1".into(),
        confirm: true,
    };
    world.control(&promote);
    world.settle();
    let (_, lines) = asked(&world, &id, false);
    let stays = "keeps n2: The letter says hello.";
    assert!(lines.iter().any(|line| line == stays), "{lines:?}");
    world.purge_log(&id);
    assert!(asked(&world, &id, true).0);
    world.settle();
    let Reply::Review { held, .. } = world.control(&Request::MemoryReview {}) else {
        panic!("no review");
    };
    assert!(held.is_empty(), "{held:?}");
    let state = &world.why(&format!("{id}/1")).steps[0].state;
    assert_eq!(state, "sent, then taken back by e3");
}

#[test]
fn an_empty_log_alone_purges_the_rest() {
    let mut world = World::new();
    let id = session(1);
    world.turn(&id, 1);
    world.tool(&id, CLEAN, &note("Rain is expected."));
    world.settle();
    world.stop();
    world.purge_log(&id);
    world.start();
    wait_for("the purge", || {
        let gone =
            world.messages("b-trusted").is_empty() && world.conclusions("b-trusted").is_empty();
        gone.then_some(())
    });
    assert!(is_nowhere(&world, "Rain is expected"));
}

#[test]
fn what_waited_for_honcho_is_cancelled_and_never_sent() {
    let mut world = World::new();
    let id = session(1);
    let options = world.stop_honcho();
    world.turn(&id, 1);
    world.tool(&id, CLEAN, &add("The bike is blue."));
    world.tool(&id, CLEAN, &note("Rain is expected."));
    world.decided();
    world.purge_log(&id);
    assert!(asked(&world, &id, true).0);
    world.decided();
    world.start_honcho(options);
    world.settle();
    assert_eq!(
        world.why(&format!("{id}/1")).steps[0].state,
        "cancelled before it was sent"
    );
    assert!(world.messages("b-trusted").is_empty());
    assert_eq!(world.conclusions("b-trusted"), ["owner: The bike is blue."]);
}

#[test]
fn what_stays_is_written_again_also_when_honcho_had_refused_it() {
    let world = World::new();
    let id = session(1);
    world.turn(&id, 1);
    world.settle();
    let refused = Fault::Status {
        status: 422,
        retry_after: None,
        commit: false,
    };
    let rule = Rule::new(refused).on("POST", "*/conclusions").times(1);
    world.honcho().controls().add(rule);
    world.tool(&id, CLEAN, &add("The bike is blue."));
    assert_eq!(world.settle().failed.len(), 1);
    world.purge_log(&id);
    assert!(asked(&world, &id, true).0);
    assert!(world.settle().failed.is_empty());
    world.until_conclusions("b-trusted", &["owner: The bike is blue."]);
}

#[test]
fn what_is_in_doubt_goes_with_its_session_and_is_not_sent_again() {
    let world = World::new();
    let id = session(1);
    world.turn(&id, 1);
    world.settle();
    // Carried out, and nobody is told.
    let lost = Rule::new(Fault::CommitAndDrop)
        .on("POST", "*/messages")
        .times(1);
    world.honcho().controls().add(lost);
    world.turn(&id, 2);
    world.until("doubt", |sync| sync.in_doubt.len() == 1);
    world.purge_log(&id);
    assert!(asked(&world, &id, true).0);
    world.settle();
    until_messages(&world, "b-trusted", |_| false);
}

#[test]
fn a_lost_answer_to_the_deletion_deletes_once_more() {
    let world = World::new();
    let id = session(1);
    world.turn(&id, 1);
    world.settle();
    let lost = Rule::new(Fault::CommitAndDrop)
        .on("DELETE", "*/sessions/*")
        .times(1);
    world.honcho().controls().add(lost);
    world.purge_log(&id);
    assert!(asked(&world, &id, true).0);
    world.settle();
    until_messages(&world, "b-trusted", |_| false);
    let e1 = world.why("e1");
    assert_eq!(e1.steps[0].what, "delete the session and all in it");
    assert_eq!(e1.steps[0].state, "sent");
}
