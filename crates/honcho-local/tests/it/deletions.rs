//! What was deleted leaves the file, to the last byte, whether or not somebody asks again.

use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use crate::durability::Program;
use crate::http::{Client, wait_for};

const LONG: [&str; 2] = ["--drain-after", "100000"];

/// Whether any file of the folder holds it.
fn holds(folder: &Path, word: &str) -> bool {
    let files = std::fs::read_dir(folder).expect("the folder");
    files.flatten().any(|file| {
        // SQLite may remove one meanwhile.
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        bytes
            .windows(word.len())
            .any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    })
}

fn conclude(client: &Client, text: &str) -> String {
    let body = json!({ "conclusions":
        [{ "content": text, "observer_id": "owner", "observed_id": "owner" }] });
    let reply = client.post("/v3/workspaces/w/conclusions", body);
    let id = reply.body[0]["id"].as_str();
    id.unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

fn delete(client: &Client, what: &str) {
    let status = client.delete(&format!("/v3/workspaces/w/{what}")).status;
    assert!(matches!(status, 202 | 204), "{what}: {status}");
}

#[test]
fn what_is_deleted_leaves_the_file_without_another_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("honcho.sqlite");
    let program = Program::start(&db, &["--drain-after", "300"]);
    let client = &program.client;
    client.say("w", "s", "owner", "the zebrafinch sings");
    conclude(client, "hears a nightjar");
    let id = conclude(client, "keeps a quokka");
    for word in ["zebrafinch", "quokka", "nightjar"] {
        assert!(holds(folder.path(), word), "{word}");
    }
    delete(client, "sessions/s");
    wait_for("the session's end", || !holds(folder.path(), "zebrafinch"));
    delete(client, &format!("conclusions/{id}"));
    wait_for("the conclusion's end", || !holds(folder.path(), "quokka"));

    // Nor does a whole workspace wait for somebody.
    assert!(holds(folder.path(), "nightjar"));
    assert_eq!(client.delete("/v3/workspaces/w").status, 202);
    wait_for("the workspace's end", || !holds(folder.path(), "nightjar"));
    assert_eq!(
        client.post("/v3/workspaces/list", json!({})).body["total"],
        json!(0)
    );
}

#[test]
fn a_stop_and_a_start_do_what_still_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("honcho.sqlite");
    let mut program = Program::start(&db, &LONG);
    program
        .client
        .say("w", "s", "owner", "the zebrafinch sings");
    delete(&program.client, "sessions/s");
    assert!(holds(folder.path(), "zebrafinch"));
    let (code, log) = program.stop(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");
    assert!(!holds(folder.path(), "zebrafinch"), "after a stop");

    let mut program = Program::start(&db, &LONG);
    let client = &program.client;
    client.say("w", "s", "owner", "the nightjar sings");
    let id = conclude(client, "keeps a quokka");
    delete(client, &format!("conclusions/{id}"));
    delete(client, "sessions/s");
    program.stop(Signal::KILL);
    for word in ["nightjar", "quokka"] {
        assert!(holds(folder.path(), word), "{word} after a kill");
    }
    let _program = Program::start(&db, &LONG);
    for word in ["nightjar", "quokka"] {
        assert!(!holds(folder.path(), word), "{word} after a start");
    }
}

/// Rows move between pages as others come and go, and leave copies behind.
#[test]
fn of_many_rows_only_those_that_are_left_are_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("honcho.sqlite");
    let program = Program::start(&db, &["--drain-after", "0"]);
    let client = &program.client;
    // Words that begin unlike each other, for the index stores only in what one differs from the one before.
    let word = |n: u32| format!("{:08x}q", n.wrapping_add(1).wrapping_mul(0x9e37_79b1));
    let (sessions, each) = (24, 12);
    for n in 0..sessions * each {
        let filling = "so on ".repeat((n as usize * 37) % 300);
        let text = format!("{} {filling}", word(n));
        client.say("w", &format!("s{}", n % sessions), "owner", &text);
    }
    let gone = |n: u32| !(n % sessions).is_multiple_of(3);
    for session in (0..sessions).filter(|session| gone(*session)) {
        delete(client, &format!("sessions/s{session}"));
    }
    wait_for("the end of all that was deleted", || {
        (0..sessions * each).all(|n| !gone(n) || !holds(folder.path(), &word(n)[2..]))
    });
    // The nearest come first, whether or not they hold the word.
    for n in 0..sessions * each {
        let hits = client.post("/v3/workspaces/w/search", json!({ "query": word(n) }));
        let first = hits.body[0]["content"].as_str().expect("a text");
        assert_eq!(first.starts_with(&word(n)), !gone(n), "{n}");
    }
}
