//! What the tools answer: files and folders fenced, tricks refused, wrong arguments explained.

use std::time::Duration;

use bxcore::connect::Client;
use bxwire::{
    Class, Label,
    links::{
        memory_tools,
        tools::{CallOutcome, Reply, Request, Tools},
    },
};
use serde_json::json;

use crate::world::{Call, PUBLIC, World, session};

fn listed(client: &mut Client<Tools>) -> (Vec<String>, String) {
    match client.call(&Request::ListTools {}).unwrap() {
        Reply::Tools { tools, digest } => {
            (tools.into_iter().map(|tool| tool.name).collect(), digest)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_tools_come_in_their_order_and_a_denied_one_does_not() {
    let world = World::new("");
    let daemon = world.start();
    let (names, digest) = listed(&mut world.client());
    assert_eq!(
        names,
        [
            "memory",
            "recall",
            "ask_memory",
            "facts",
            "read_file",
            "list_files"
        ]
    );
    assert_eq!(listed(&mut world.client()).1, digest);
    drop(daemon);
    let world = World::new("[tools.recall]\npolicy = \"deny\"");
    let _daemon = world.start();
    let (names, other) = listed(&mut world.client());
    assert_eq!(
        names,
        ["memory", "ask_memory", "facts", "read_file", "list_files"]
    );
    assert_ne!(other, digest);
}

#[test]
fn memoryd_says_which_of_its_tools_the_model_gets_and_is_believed_while_it_is_away() {
    let world = World::new("");
    let names = ["memory", "facts"].map(String::from).to_vec();
    let memoryd = world.memoryd_says(memory_tools::Reply::Tools { names });
    let _daemon = world.start();
    let want = ["memory", "facts", "read_file", "list_files"];
    let (names, digest) = listed(&mut world.client());
    assert_eq!(names, want);
    let tools = "memory, recall (off), ask_memory (off), facts, read_file, list_files";
    assert!(
        world
            .status()
            .facts
            .contains(&("tools".into(), tools.into()))
    );
    memoryd.stop(Duration::from_secs(2));
    assert_eq!(listed(&mut world.client()).1, digest);
}

#[test]
fn a_file_comes_neutralised_and_fenced_with_a_new_nonce() {
    let world = World::new("");
    let _daemon = world.start();
    let mut texts = Vec::new();
    for _ in 0..2 {
        let answer = world.call(&Call::read(&session(1), "inbox/letter.txt"));
        assert_eq!(answer.outcome, CallOutcome::Done);
        assert_eq!(answer.label, Label::UNLABELLED);
        assert!(answer.text.starts_with("⟦read_file "), "{}", answer.text);
        assert!(
            answer
                .text
                .contains("inbox/letter.txt (private, untrusted)")
        );
        assert!(answer.text.contains("Dear owner"));
        assert!(!answer.text.contains("<|im_start|>"));
        texts.push(answer.text);
    }
    assert_ne!(texts[0], texts[1]);
}

#[test]
fn a_long_file_is_cut_and_a_huge_one_refused() {
    let world = World::new("[limits]\nresult_chars_max = 100\nfile_bytes_max = 5000");
    let _daemon = world.start();
    std::fs::write(world.inbox.join("long"), "line\n".repeat(900)).unwrap();
    let answer = world.call(&Call::read(&session(1), "inbox/long"));
    assert!(answer.text.contains("⟨cut⟩"), "{}", answer.text);
    assert!(answer.text.chars().count() < 400);
    std::fs::write(world.inbox.join("huge"), "x".repeat(5001)).unwrap();
    let answer = world.call(&Call::read(&session(1), "inbox/huge"));
    assert_eq!(answer.outcome, CallOutcome::Failed);
    assert!(answer.text.contains("longer than 5000 bytes"));
}

#[test]
fn tricks_are_refused_and_the_next_call_works() {
    let world = World::new("");
    let _daemon = world.start();
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, world.inbox.join(name)).unwrap();
    };
    link("/etc/passwd", "passwd");
    link("/etc", "etc");
    let fifo = std::process::Command::new("mkfifo")
        .arg(world.inbox.join("fifo"))
        .status();
    assert!(fifo.unwrap().success());
    std::fs::write(world.inbox.join("binary"), b"\x7fELF\0\x01").unwrap();
    for path in [
        "inbox/passwd",
        "inbox/etc/passwd",
        "inbox/../vault/plan.txt",
        "/etc/passwd",
        "inbox/fifo",
        "inbox/binary",
        "inbox",
        "state/broker/sessions.jsonl",
        "",
    ] {
        let answer = world.call(&Call::read(&session(1), path));
        assert_eq!(answer.outcome, CallOutcome::Failed, "{path}: {answer:?}");
        assert!(!answer.text.contains("root:"), "{path}: {answer:?}");
        assert!(!answer.session_label.is_untrusted(), "nothing was read");
    }
    let answer = world.call(&Call::read(&session(1), "inbox/letter.txt"));
    assert_eq!(answer.outcome, CallOutcome::Done);
}

#[test]
fn a_root_swapped_for_a_link_is_refused_at_its_next_use() {
    let world = World::new("");
    let _daemon = world.start();
    std::fs::rename(&world.inbox, world.home.path().join("away")).unwrap();
    std::os::unix::fs::symlink("/etc", &world.inbox).unwrap();
    let answer = world.call(&Call::read(&session(1), "inbox/passwd"));
    assert_eq!(answer.outcome, CallOutcome::Failed);
    assert!(answer.text.contains("is a link"), "{answer:?}");
    let notices = world.status().notices;
    let entry = notices[0].runbook.as_deref();
    assert_eq!(entry, Some("root-refused"), "{notices:?}");
}

#[test]
fn folders_and_roots_are_listed() {
    let world = World::new("");
    let _daemon = world.start();
    let roots = world.call(&Call::new(&session(1), "list_files", json!({})));
    assert!(
        roots
            .text
            .contains("inbox/ (private, untrusted)\nvault/ (secret, clean)")
    );
    assert!(!roots.session_label.is_untrusted());
    let inbox = world.call(&Call::new(
        &session(1),
        "list_files",
        json!({"path": "inbox"}),
    ));
    assert!(inbox.text.contains("letter.txt (29 bytes)"), "{inbox:?}");
    assert!(
        inbox.session_label.is_untrusted(),
        "names come from outside too"
    );
}

#[test]
fn wrong_arguments_are_explained() {
    let world = World::new("");
    let _daemon = world.start();
    let call = Call::new(&session(1), "read_file", json!({"path": 3}));
    let answer = world.call(&call);
    assert_eq!(answer.outcome, CallOutcome::BadArguments);
    assert!(
        answer.text.contains("`path` must be a string"),
        "{answer:?}"
    );
}

#[test]
fn an_audience_gets_nothing_above_its_class_not_even_that_it_is_there() {
    let world = World::new("");
    let _daemon = world.start();
    for path in ["inbox/letter.txt", "inbox/none", "vault/plan.txt"] {
        let answer = world.call(&Call {
            audience: PUBLIC,
            ..Call::read(&session(1), path)
        });
        assert_eq!(answer.outcome, CallOutcome::Denied, "{path}");
        assert!(answer.text.contains("rule of audience"), "{answer:?}");
        assert_eq!(answer.label.class, Class::Public);
        assert!(!answer.session_label.is_untrusted());
    }
    let answer = world.call(&Call {
        audience: PUBLIC,
        ..Call::new(&session(1), "list_files", json!({}))
    });
    assert!(answer.text.contains("(no roots)"), "{answer:?}");
}
