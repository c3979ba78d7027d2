//! What a crash, a bad disk or a second daemon leaves behind.

use std::{os::unix::process::CommandExt, process::Command};

use bxtest::{program, wait_for};
use bxwire::links::memory_tools::Reply;

use crate::world::{World, add, note, owner};

#[test]
fn what_was_answered_survives_kill_9() {
    let mut world = World::new();
    for n in 0..5 {
        world.done(&note(&format!("note {n}")));
        world.kill();
        world.start();
    }
    assert_eq!(world.read("journal.jsonl").lines().count(), 5);
    let (text, _) = world.recall(owner(), "note");
    assert_eq!(text.matches("[memory]").count(), 5, "{text}");
}

#[test]
fn a_crash_between_journal_and_file_is_made_good() {
    let mut world = World::new();
    world.done(&add("likes tea"));
    let before = world.read("user.md");
    world.done(&add("plays chess"));
    let after = world.read("user.md");
    world.kill();
    world.put("user.md", &before);
    world.start();
    assert_eq!(world.read("user.md"), after);
    assert!(world.status().notices.is_empty());
}

#[test]
fn a_torn_last_line_is_cut_off_and_said() {
    let mut world = World::new();
    world.done(&note("first"));
    world.stop();
    let whole = world.read("journal.jsonl");
    world.put("journal.jsonl", &format!("{whole}{}", &whole[..40]));
    world.start();
    assert_eq!(world.read("journal.jsonl"), whole);
    world.done(&note("second"));
    assert!(world.stop().contains("unfinished last line"));
}

#[test]
fn a_bad_line_and_a_newer_one_stop_the_start_with_their_place() {
    let mut world = World::new();
    world.done(&note("first"));
    world.done(&note("second"));
    world.stop();
    let whole = world.read("journal.jsonl");
    let newer = bxcore::sealed::seal(r#"{"type":"chapter"}"#);
    let rows = [
        (
            whole.replacen("first", "worse", 1),
            "line 1",
            "file-corrupt",
        ),
        (format!("{whole}{newer}\n"), "line 3", "file-newer"),
        (format!("{whole}{{}}\n"), "line 3", "file-corrupt"),
    ];
    for (journal, line, entry) in rows {
        world.put("journal.jsonl", &journal);
        let ended = world
            .home
            .try_start("memoryd", |_| {})
            .expect_err("no start");
        assert_eq!(ended.status.code(), Some(74), "{ended:?}");
        for wanted in ["journal.jsonl", line, entry] {
            assert!(ended.stderr.contains(wanted), "{wanted}: {}", ended.stderr);
        }
        assert!(!ended.stderr.contains("second"));
        assert_eq!(world.read("journal.jsonl"), journal, "nothing was changed");
    }
}

#[test]
fn a_second_daemon_refuses_to_start() {
    let world = World::new();
    let ended = world
        .home
        .try_start("memoryd", |_| {})
        .expect_err("no start");
    assert_eq!(ended.status.code(), Some(74));
    assert!(ended.stderr.contains("state-locked"), "{}", ended.stderr);
    world.done(&note("the first goes on"));
}

#[test]
fn a_wrong_configuration_stops_the_start() {
    let world = World::stopped();
    world.home.configure(
        "memoryd",
        "owner_speakers = [\"robin\"]\n[limits]\nnote_chars = 3\n",
    );
    let ended = world
        .home
        .try_start("memoryd", |_| {})
        .expect_err("no start");
    assert_eq!(ended.status.code(), Some(78), "{ended:?}");
    for wanted in ["memoryd.toml:1", "memoryd.toml:3", "config-invalid"] {
        assert!(ended.stderr.contains(wanted), "{}", ended.stderr);
    }
}

/// Files of this process may grow to so many KiB.
fn limited(command: &mut Command, kib: u32) {
    let home: Vec<_> = command
        .get_args()
        .map(std::ffi::OsStr::to_os_string)
        .collect();
    let mut shell = Command::new("bash");
    shell
        .arg("-c")
        .arg(format!("ulimit -f {kib}; exec \"$@\""))
        .arg0("bash")
        .arg("memoryd")
        .arg(program("memoryd"))
        .args(home);
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    shell
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    *command = shell;
}

#[test]
fn a_full_disk_refuses_the_write_and_harms_nothing() {
    let mut world = World::new();
    world.done(&note("first word"));
    world.stop();
    let daemon = world
        .home
        .try_start("memoryd", |command| limited(command, 24))
        .expect("a start");
    world.run(daemon);
    let long = "word ".repeat(500);
    let mut made = 1;
    let refused = loop {
        match world.op(owner(), &note(&format!("{made} {long}"))) {
            Reply::Done { .. } => made += 1,
            Reply::Refused(refused) => break refused,
            other => panic!("{other:?}"),
        }
        assert!(made < 100, "the disk is never full");
    };
    assert_eq!(refused.kind, "append-failed");
    assert!(
        refused.message.contains("nothing was changed"),
        "{}",
        refused.message
    );
    assert_eq!(world.read("journal.jsonl").lines().count(), made);
    let notices = world.status().notices;
    assert!(
        notices
            .iter()
            .any(|notice| notice.runbook.as_deref() == Some("append-failed")),
        "{notices:?}"
    );
    let (text, _) = world.recall(owner(), "first");
    assert!(text.contains("first word"), "{text}");
    world.stop();
    // With room again everything works, and nothing was lost.
    world.start();
    world.done(&note("room again"));
    assert_eq!(world.read("journal.jsonl").lines().count(), made + 1);
    let notices = world.status().notices;
    assert!(notices.is_empty(), "{notices:?}");
    // The index has caught up with what it could not take then.
    wait_for("the index", || {
        let rows = ("index".to_owned(), format!("{} rows", made + 1));
        world.status().facts.contains(&rows).then_some(())
    });
}
