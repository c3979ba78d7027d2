//! Disks that are full, files that are torn or bad, processes that are killed.

use std::{
    fs,
    time::{Duration, Instant},
};

use bxcore::connect::ClientError;
use bxtest::{Daemon, wait_for};
use bxwire::{
    Cause, Label,
    links::tools::{CallOutcome, Reply, Request},
};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use crate::world::{Call, World, seen, session};

/// No file of the daemon grows beyond this from now on; `None`: the disk has room again.
fn limit_files(daemon: &Daemon, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap()).unwrap();
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Some(pid), Resource::Fsize, limit).unwrap();
}

fn len(world: &World, name: &str) -> u64 {
    fs::metadata(world.file(name)).unwrap().len()
}

#[test]
fn a_full_disk_withholds_what_would_raise_a_label_and_the_daemon_goes_on() {
    let world = World::new("");
    let daemon = world.start();
    let list = Call::new(&session(1), "list_files", json!({}));
    assert_eq!(world.call(&list).outcome, CallOutcome::Done);
    let whole = len(&world, "sessions.jsonl");
    limit_files(&daemon, Some(whole + 20));

    let withheld = world.call(&Call::read(&session(1), "inbox/letter.txt"));
    assert_eq!(withheld.outcome, CallOutcome::Failed);
    assert!(withheld.text.contains("state cannot be written"));
    assert!(withheld.text.contains("runbook.md#append-failed"));
    assert!(!withheld.text.contains("Dear owner"), "{withheld:?}");
    assert!(withheld.session_label.is_untrusted(), "raised all the same");
    assert!(world.state(&session(1)).untrusted);
    assert_eq!(len(&world, "sessions.jsonl"), whole, "cut back");

    // A session nobody saw: not even an answer without a label.
    let unseen = world.call(&Call::new(&session(2), "list_files", json!({})));
    assert_eq!(unseen.outcome, CallOutcome::Failed);
    assert!(!world.state(&session(2)).seen);
    let raise = Request::Raise {
        session: session(3),
        label: Label::UNLABELLED,
        cause: Cause {
            source: "x".into(),
            label: Label::UNLABELLED,
        },
    };
    let refused = world.client().call(&raise);
    assert!(
        matches!(&refused, Err(ClientError::Refused(refused)) if refused.kind == "state-unwritten"),
        "{refused:?}"
    );
    let status = world.status();
    let notice = &status.notices[0];
    assert_eq!(
        notice.runbook.as_deref(),
        Some("append-failed"),
        "{status:?}"
    );
    assert!(status.facts.contains(&("appends".into(), "fail".into())));

    limit_files(&daemon, None);
    let read = world.call(&Call::read(&session(1), "inbox/letter.txt"));
    assert_eq!(read.outcome, CallOutcome::Done);
    assert!(read.text.contains("Dear owner"));
    assert!(world.status().notices.is_empty());
    daemon.kill();
    let _daemon = world.start();
    assert_eq!(world.state(&session(1)), seen(Label::UNLABELLED));
}

#[test]
fn a_call_that_cannot_be_audited_says_so_and_its_label_is_durable() {
    let world = World::new("");
    let daemon = world.start();
    let list = Call::new(&session(1), "list_files", json!({}));
    while len(&world, "audit.jsonl") < 2_000 {
        world.call(&list);
    }
    assert!(len(&world, "sessions.jsonl") < 1_000);
    limit_files(&daemon, Some(len(&world, "audit.jsonl")));
    let answer = world.call(&Call::read(&session(1), "inbox/letter.txt"));
    assert_eq!(answer.outcome, CallOutcome::Done);
    assert!(
        matches!(&answer.events[..], [Reply::Progress { text }] if text.contains("#append-failed")),
        "{answer:?}"
    );
    daemon.kill();
    let _daemon = world.start();
    assert_eq!(world.state(&session(1)), seen(Label::UNLABELLED));
}

#[test]
fn a_torn_last_line_is_cut_off() {
    for name in ["sessions.jsonl", "audit.jsonl"] {
        let world = World::new("");
        let daemon = world.start();
        world.call(&Call::read(&session(1), "inbox/letter.txt"));
        daemon.kill();
        let whole = fs::read(world.file(name)).unwrap();
        let torn = [&whole[..], b"{\"v\":1,\"at\":\"2026-0"].concat();
        fs::write(world.file(name), torn).unwrap();
        let daemon = world.start();
        wait_for("its word on it", || {
            let log = daemon.log();
            log.contains("cut off an unfinished last line")
                .then_some(())
        });
        assert_eq!(fs::read(world.file(name)).unwrap(), whole);
        assert_eq!(world.state(&session(1)), seen(Label::UNLABELLED));
    }
}

#[test]
fn a_bad_or_newer_line_stops_the_start_with_its_number() {
    let rows = [
        ("{\"type\":\"se", "line 1: ", "file-corrupt"),
        (
            "{\"type\":\"lowered\"}",
            "line 1 was written by a newer",
            "file-newer",
        ),
        (
            "{\"v\":2,\"type\":\"seen\"}",
            "line 1 was written by a newer",
            "file-newer",
        ),
    ];
    for name in ["sessions.jsonl", "audit.jsonl"] {
        for (bad, what, entry) in rows {
            let world = World::new("");
            let daemon = world.start();
            world.call(&Call::read(&session(1), "inbox/letter.txt"));
            daemon.kill();
            let whole = fs::read_to_string(world.file(name)).unwrap();
            fs::write(world.file(name), format!("{bad}\n{whole}")).unwrap();
            let ended = world.home.try_start("brokerd", |_| {}).unwrap_err();
            assert_eq!(ended.status.code(), Some(74));
            assert!(ended.stderr.contains(what), "{}", ended.stderr);
            assert!(ended.stderr.contains(name), "{}", ended.stderr);
            assert!(ended.stderr.contains(entry), "{}", ended.stderr);
        }
    }
}

#[test]
fn a_label_that_was_lowered_on_the_disk_stops_the_start() {
    let world = World::new("");
    let daemon = world.start();
    world.call(&Call::read(&session(1), "inbox/letter.txt"));
    daemon.kill();
    let path = world.file("sessions.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let lowered = whole.replace("\"untrusted\":true", "\"untrusted\":false");
    assert_ne!(lowered, whole);
    fs::write(&path, lowered).unwrap();
    let ended = world.home.try_start("brokerd", |_| {}).unwrap_err();
    assert_eq!(ended.status.code(), Some(74));
    assert!(ended.stderr.contains("checksum"), "{}", ended.stderr);
    let mut stripped: Vec<_> = whole.lines().map(str::to_owned).collect();
    assert!(stripped.len() > 1);
    let last = stripped.last_mut().unwrap();
    *last = format!("{}}}", last.split(",\"crc\":").next().unwrap());
    fs::write(&path, stripped.join("\n") + "\n").unwrap();
    let ended = world.home.try_start("brokerd", |_| {}).unwrap_err();
    assert!(ended.stderr.contains("no checksum"), "{}", ended.stderr);
    // A line of an older program has none.
    let without = whole
        .lines()
        .map(|line| format!("{}}}\n", line.split(",\"crc\":").next().unwrap()));
    fs::write(&path, without.collect::<String>()).unwrap();
    let _daemon = world.start();
    assert_eq!(world.state(&session(1)), seen(Label::UNLABELLED));
}

#[test]
fn a_stop_ends_a_waiting_call_in_time() {
    let world = World::new("[tools.read_file]\npolicy = \"ask\"");
    let daemon = world.start();
    let mut client = world.client();
    let call = Call::read(&session(1), "inbox/letter.txt");
    client.send(&call.request()).unwrap();
    assert!(matches!(client.recv().unwrap(), Reply::Approval { .. }));
    let began = Instant::now();
    let ended = daemon.stop();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(ended.status.success(), "{ended:?}");
    let outcome = crate::world::answer(&mut client).outcome;
    assert_eq!(outcome, CallOutcome::Cancelled);
    assert!(!world.home.dirs.tools_socket().exists());
}
