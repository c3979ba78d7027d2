//! What the commands about memory ask of memoryd, above all before they change something.

use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

use bxwire::{
    Refused,
    links::control::{EditLine, OwnerDecision, Reply, Request, Sync, SyncAction},
};

use crate::fakes::{World, asked, session};

fn undoing(request: &Request) -> Option<bool> {
    match request {
        Request::MemoryUndo { confirm, .. } | Request::MemoryAccept { confirm } => Some(*confirm),
        _ => None,
    }
}

fn willing(request: Request) -> Reply {
    match undoing(&request) {
        Some(done) => Reply::Change {
            done,
            lines: vec!["user.md: remove \"has a blue bike\"".into()],
            edit: None,
        },
        None => Refused::new("unexpected", "not in this test").into(),
    }
}

#[test]
fn an_undo_shows_what_it_would_do_and_changes_nothing_unasked() {
    let mut world = World::new();
    let log = world.control("memoryd", willing);
    let ran = world.bxctl(&["memory", "undo", "e1"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("has a blue bike") && ran.stderr.contains("--yes"));
    assert_eq!(
        asked(&log).iter().filter_map(undoing).collect::<Vec<_>>(),
        [false]
    );
}

#[test]
fn with_nothing_to_accept_it_says_so_and_is_done() {
    let mut world = World::new();
    let _log = world.control("memoryd", |_| Reply::Change {
        done: false,
        lines: Vec::new(),
        edit: None,
    });
    let ran = world.bxctl(&["memory", "accept"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stderr, "there is nothing to accept\n");
}

#[test]
fn yes_carries_it_out() {
    let mut world = World::new();
    let log = world.control("memoryd", willing);
    for command in [
        &["memory", "undo", "e1", "--yes"][..],
        &["memory", "accept", "--yes"],
    ] {
        let ran = world.bxctl(command);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(ran.stdout, "user.md: remove \"has a blue bike\"\n");
    }
    assert_eq!(
        asked(&log).iter().filter_map(undoing).collect::<Vec<_>>(),
        [true, true]
    );
}

#[test]
fn a_refused_undo_says_why_and_which_page() {
    let mut world = World::new();
    world.control("memoryd", |_| {
        Refused::new("undo-refused", "e1 is undone already, by e2")
            .with_runbook("undo-refused")
            .into()
    });
    let ran = world.bxctl(&["memory", "undo", "e1", "--yes"]);
    assert_eq!(ran.code, Some(77), "{ran:?}");
    assert!(
        ran.stderr
            .contains("e1 is undone already, by e2; see docs/runbook.md#undo-refused"),
        "{ran:?}"
    );
}

#[test]
fn without_an_id_the_latest_are_offered() {
    let mut world = World::new();
    world.control("memoryd", |request| match request {
        Request::MemoryLog { .. } => Reply::Edits {
            edits: vec![EditLine {
                edit: "e4".parse().unwrap(),
                at: "2026-01-31T10:00:00.000Z".into(),
                by: "owner".into(),
                what: "add user".into(),
                text: "has a blue bike".into(),
                label: bxwire::Label::PRIVATE,
                undone_by: None,
            }],
        },
        other => willing(other),
    });
    let ran = world.bxctl(&["memory", "undo"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stderr.contains("e4") && ran.stderr.contains("name the edit"),
        "{ran:?}"
    );
}

fn nothing() -> Sync {
    Sync {
        configured: true,
        workspaces: Vec::new(),
        undecided: Vec::new(),
        failed: Vec::new(),
        in_doubt: Vec::new(),
        skipped: Vec::new(),
        health: None,
    }
}

#[test]
fn each_order_about_sending_reaches_memoryd() {
    let mut world = World::new();
    let log = world.control("memoryd", |request| match request {
        Request::MemorySync {
            action: SyncAction::Show {},
        } => Reply::Sync(nothing()),
        _ => Reply::Done {},
    });
    for order in [&["--now"][..], &["--retry", "e7"], &["--retry", "all"]] {
        let arguments = [&["memory", "sync"], order].concat();
        assert_eq!(world.bxctl(&arguments).code, Some(0), "{order:?}");
    }
    let actions: Vec<_> = asked(&log)
        .into_iter()
        .filter_map(|request| match request {
            Request::MemorySync { action } => Some(action),
            _ => None,
        })
        .filter(|action| *action != SyncAction::Show {})
        .collect();
    let item = "e7".parse().unwrap();
    assert_eq!(
        actions,
        [
            SyncAction::Now {},
            SyncAction::Retry { item },
            SyncAction::RetryAll {}
        ]
    );
}

#[test]
fn a_watch_shows_what_changed_and_ends_when_told() {
    let mut world = World::new();
    let count = std::sync::atomic::AtomicU64::new(0);
    world.control("memoryd", move |_| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Reply::Sync(Sync {
            skipped: vec![("no-speaker".into(), n + 1)],
            health: None,
            ..nothing()
        })
    });
    let mut child = world
        .command(&["memory", "sync", "--watch"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "kept here: 1 no-speaker");
    assert_eq!(lines.next().unwrap().unwrap(), "kept here: 2 no-speaker");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_owners_decision_reaches_memoryd() {
    let mut world = World::new();
    let log = world.control("memoryd", |_| Reply::Done {});
    let id = session().to_string();
    assert_eq!(world.bxctl(&["session", "decide", &id]).code, Some(2));
    assert_eq!(
        world.bxctl(&["session", "decide", &id, "--skip"]).code,
        Some(0)
    );
    let want = Request::SessionDecide {
        session: session(),
        decision: OwnerDecision::Skip,
    };
    assert_eq!(asked(&log), [want]);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let world = World::new();
    let mut child = world
        .command(&["runbook"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(stderr, "");
}

#[test]
fn an_entry_of_the_runbook_is_printed_and_a_wrong_name_put_right() {
    let world = World::new();
    let ran = world.bxctl(&["runbook", "docs/runbook.md#daemon-down"]);
    assert!(
        ran.code == Some(0) && ran.stdout.starts_with("## daemon-down\n"),
        "{ran:?}"
    );
    let ran = world.bxctl(&["runbook", "deamon-down"]);
    assert!(
        ran.code == Some(2) && ran.stderr.contains("did you mean daemon-down?"),
        "{ran:?}"
    );
}
