//! What each command prints, word for word. `UPDATE_GOLDEN=1` writes the files anew; read the difference.

use std::path::Path;

use bxwire::{
    Cause, Class, EditId, Label, Refused, Speaker, Trust,
    links::{
        control::{
            Derived, EditLine, Entry, Health, HeldBack, ItemNote, MemoryFiles, Note, Notice, Reply,
            Request, Sync, Wait, Why, WhyStep, WorkspaceSync,
        },
        turns::{self, SessionSummary, TurnEvent},
    },
    log::{Body, Call, Outcome, Record},
};

use crate::fakes::{World, session, status};

const UNTRUSTED: Label = Label::new(Class::Private, Trust::Untrusted);

/// Compares a command's output and exit code with its file.
fn golden(world: &World, name: &str, arguments: &[&str]) {
    let ran = world.bxctl(arguments);
    let text = format!(
        "$ bxctl {}\n{}--- stderr\n{}--- exit {}\n",
        arguments.join(" "),
        ran.stdout,
        ran.stderr,
        ran.code.unwrap_or(-1)
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, want, "{name}: UPDATE_GOLDEN=1 takes the new output");
}

fn all_up() -> World {
    let mut world = World::new();
    let facts: [(&str, &[(&str, &str)]); 4] = [
        (
            "loopd",
            &[("model", "http://127.0.0.1:8080"), ("sessions", "3")],
        ),
        ("brokerd", &[("roots", "2")]),
        ("memoryd", &[("identity", "120 of 4000 characters")]),
        ("gatewayd", &[("chat servers", "none configured")]),
    ];
    for (daemon, facts) in facts {
        let status = status(daemon, facts);
        world.control(daemon, move |_| Reply::Status(status.clone()));
    }
    world
}

fn review() -> Reply {
    let turn = HeldBack {
        what: "20260131-abcdefghijkl/2".into(),
        at: Some("2026-01-31T09:00:00.000Z".into()),
        cause: "its speaker or source is excluded".into(),
        note: None,
        text: None,
    };
    let note = HeldBack {
        what: "e4".into(),
        at: Some("2026-01-31T10:00:00.000Z".into()),
        cause: "it may hold a key: it stays on this machine".into(),
        note: Some("n4".into()),
        text: Some("call \u{1b}[31mKim\nforged".into()),
    };
    let file = HeldBack {
        what: "user.md".into(),
        at: None,
        cause: "it was changed by hand: `bxctl memory accept` takes it over".into(),
        ..turn.clone()
    };
    Reply::Review {
        held: vec![file, note, turn],
        more: 3,
    }
}

#[test]
fn status_of_a_healthy_system() {
    let world = all_up();
    golden(&world, "status", &["status"]);
    golden(&world, "status-json", &["status", "--json"]);
}

#[test]
fn status_shows_what_needs_somebody_first() {
    let mut world = World::new();
    for daemon in ["loopd", "memoryd", "gatewayd"] {
        let mut status = status(daemon, &[]);
        if daemon == "memoryd" {
            status.notices = vec![
                Notice {
                    text: "user.md was changed by hand".into(),
                    runbook: Some("hand-edit-held".into()),
                },
                Notice {
                    text: "a line\nwith \u{1b}[2Jtricks".into(),
                    runbook: None,
                },
            ];
        }
        world.control(daemon, move |_| Reply::Status(status.clone()));
    }
    golden(&world, "status-trouble", &["status"]);
    golden(&world, "status-trouble-json", &["status", "--json"]);
}

#[test]
fn memory_show_log_and_why() {
    let mut world = World::new();
    world.control("memoryd", |request| match request {
        Request::MemoryShow {} => Reply::Memory(files()),
        Request::MemoryReview {} => review(),
        Request::MemoryPromote {
            note,
            confirm: true,
        } if note == "n4" => Reply::Change {
            done: true,
            lines: vec![
                "takes back the note n4: call \u{1b}[31mKim".into(),
                "notes n9: call Kim".into(),
            ],
            edit: Some(EditId(9)),
        },
        Request::MemoryLog { limit: 20 } => Reply::Edits { edits: edits() },
        Request::MemoryRecall { arguments } if arguments.query == "blue bike" => Reply::Recalled {
            text: "e1 · the bike is blue".into(),
            label: Label::PRIVATE,
        },
        Request::MemoryAsk { arguments } if arguments.workspaces == ["own", "kitchen"] => {
            Reply::Recalled {
                text: "[memory] own, answered by Honcho:\n  It is blue.\nkitchen: unavailable"
                    .into(),
                label: Label::PRIVATE,
            }
        }
        Request::MemoryWhy { item } if item.to_string() == "e1" => Reply::Why(why(item)),
        Request::MemoryWhyFound { id }
            if ["fleet:V1StGXR8_Z5jdHi6B-myT", "u1"].contains(&id.as_str()) =>
        {
            Reply::Why(why("e1".parse().expect("an edit")))
        }
        Request::MemoryWhyFound { id } if id == "own:4YUGjWGoXRV0ttPWSwC34" => {
            Reply::Derived(Derived {
                id,
                facts: vec![
                    ("kind".into(), "conclusion".into()),
                    ("from".into(), format!("the session {}", session())),
                ],
            })
        }
        _ => Refused::new("unknown-item", "memory holds no such item").into(),
    });
    golden(&world, "memory-show", &["memory", "show"]);
    golden(&world, "memory-show-json", &["memory", "show", "--json"]);
    golden(&world, "memory-log", &["memory", "log"]);
    golden(&world, "memory-log-json", &["memory", "log", "--json"]);
    golden(&world, "memory-review", &["memory", "review"]);
    golden(
        &world,
        "memory-review-json",
        &["memory", "review", "--json"],
    );
    golden(
        &world,
        "memory-promote",
        &["memory", "promote", "n4", "--yes"],
    );
    golden(
        &world,
        "memory-recall",
        &["memory", "recall", "blue", "bike"],
    );
    golden(
        &world,
        "memory-ask",
        &[
            "memory", "ask", "--in", "own", "--in", "kitchen", "what", "colour?",
        ],
    );
    golden(&world, "memory-why", &["memory", "why", "e1"]);
    golden(
        &world,
        "memory-why-found",
        &["memory", "why", "fleet:V1StGXR8_Z5jdHi6B-myT"],
    );
    golden(
        &world,
        "memory-why-derived",
        &["memory", "why", "own:4YUGjWGoXRV0ttPWSwC34"],
    );
    golden(&world, "memory-why-entry", &["memory", "why", "u1"]);
    golden(
        &world,
        "memory-why-json",
        &["memory", "why", "e1", "--json"],
    );
    golden(&world, "memory-why-unknown", &["memory", "why", "e99"]);
    golden(&world, "memory-why-usage", &["memory", "why", "x"]);
}

fn files() -> MemoryFiles {
    let entry = |id: &str, text: &str| Entry {
        id: id.into(),
        text: text.into(),
    };
    MemoryFiles {
        user: vec![
            entry("u1", "has a blue bike"),
            entry("u12", "lives in Bern"),
        ],
        agent: Vec::new(),
        notes: vec![Note {
            edit: "e3".parse().unwrap(),
            at: "2026-01-31T10:00:00.000Z".into(),
            text: "The letter asks for a meeting\non Friday".into(),
            label: UNTRUSTED,
            flagged: true,
        }],
        held: vec!["user.md".into()],
        identity_chars: 29,
        identity_chars_max: 4000,
    }
}

fn edits() -> Vec<EditLine> {
    let edit =
        |id: &str, by: &str, what: &str, text: &str, label, undone_by: Option<&str>| EditLine {
            edit: id.parse().unwrap(),
            at: "2026-01-31T10:00:00.000Z".into(),
            by: by.into(),
            what: what.into(),
            text: text.into(),
            label,
            undone_by: undone_by.map(|by| by.parse().unwrap()),
        };
    let long = "a note that goes on for rather longer than a line of a table should be";
    vec![
        edit(
            "e3",
            "owner",
            "undo e1",
            "has a blue bike",
            Label::PRIVATE,
            None,
        ),
        edit("e2", session().as_str(), "note", long, UNTRUSTED, None),
        edit(
            "e1",
            session().as_str(),
            "add user",
            "has a blue bike",
            Label::PRIVATE,
            Some("e3"),
        ),
    ]
}

fn why(item: bxwire::ItemId) -> Why {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Why {
        item,
        facts: vec![
            fact("what", "add user"),
            fact("label at loopd", "private, clean"),
            fact("label at brokerd", "private, clean"),
            fact("rule", "clean, so to the trusted workspace"),
        ],
        steps: vec![WhyStep {
            what: "conclusion about owner".into(),
            state: "sent".into(),
            place: "boxmaker-trusted, session 20260131-abcdefghij12".into(),
            ids: vec!["c_1".into()],
        }],
    }
}

fn workspace(role: &str, sent: u64, waiting: u64, failed: u64) -> WorkspaceSync {
    WorkspaceSync {
        role: role.into(),
        name: format!("boxmaker-{role}"),
        decided: sent + waiting + failed,
        waiting,
        sent,
        failed,
        in_doubt: 0,
        withdrawn: 0,
        cancelled: 0,
        oldest_waiting_s: None,
        wait: None,
    }
}

fn calm() -> Sync {
    Sync {
        configured: true,
        workspaces: vec![workspace("trusted", 412, 0, 0), workspace("fleet", 1, 0, 0)],
        undecided: Vec::new(),
        failed: Vec::new(),
        in_doubt: Vec::new(),
        skipped: vec![("no-speaker".into(), 2), ("secret-class".into(), 1)],
        health: Some(Health {
            asked_at: Some("2026-01-31T14:02:03Z".into()),
            pending: Some(2),
            derives: Some(true),
            warnings: Vec::new(),
        }),
    }
}

fn stormy() -> Sync {
    let note = |item: &str, why: &str, status, runbook: &str| ItemNote {
        item: item.parse().unwrap(),
        why: why.into(),
        status,
        runbook: runbook.into(),
    };
    let mut waiting = workspace("trusted", 411, 2, 1);
    waiting.oldest_waiting_s = Some(4_000);
    waiting.wait = Some(Wait {
        reason: "connection refused".into(),
        since: "2026-01-31T14:02:00.000Z".into(),
        tries: 5,
        next: Some("2026-01-31T14:12:00.000Z".into()),
        runbook: "honcho-unreachable".into(),
    });
    let mut fleet = workspace("fleet", 1, 0, 0);
    fleet.withdrawn = 1;
    fleet.in_doubt = 1;
    fleet.wait = Some(Wait {
        reason: "key refused".into(),
        since: "2026-01-31T14:02:00.000Z".into(),
        tries: 1,
        next: None,
        runbook: "honcho-key-refused".into(),
    });
    Sync {
        configured: true,
        workspaces: vec![waiting, workspace("untrusted", 7, 0, 0), fleet],
        undecided: vec![note(
            &format!("{}/3", session()),
            "brokerd cannot be reached",
            None,
            "broker-state-unavailable",
        )],
        failed: vec![note("e7", "refused", Some(422), "honcho-send-refused")],
        in_doubt: vec![note(
            "e9",
            "nobody knows whether it arrived",
            None,
            "honcho-in-doubt",
        )],
        skipped: Vec::new(),
        health: Some(Health {
            asked_at: None,
            pending: None,
            derives: None,
            warnings: vec![Notice {
                text: "3 of 10 conclusions that were written are gone from Honcho".into(),
                runbook: Some("honcho-items-gone".into()),
            }],
        }),
    }
}

#[test]
fn memory_sync_all_sent() {
    let mut world = World::new();
    world.control("memoryd", |_| Reply::Sync(calm()));
    golden(&world, "sync", &["memory", "sync"]);
    golden(&world, "sync-json", &["memory", "sync", "--json"]);
    golden(&world, "sync-failed-none", &["memory", "sync", "--failed"]);
}

#[test]
fn memory_sync_in_trouble() {
    let mut world = World::new();
    world.control("memoryd", |_| Reply::Sync(stormy()));
    golden(&world, "sync-trouble", &["memory", "sync"]);
    golden(&world, "sync-trouble-json", &["memory", "sync", "--json"]);
    golden(&world, "sync-failed", &["memory", "sync", "--failed"]);
}

#[test]
fn memory_sync_without_honcho() {
    let mut world = World::new();
    world.control("memoryd", |_| {
        Reply::Sync(Sync {
            configured: false,
            workspaces: Vec::new(),
            skipped: Vec::new(),
            health: None,
            ..calm()
        })
    });
    golden(&world, "sync-unconfigured", &["memory", "sync"]);
}

#[test]
fn a_daemon_that_is_down_is_named_with_its_page() {
    let world = World::new();
    golden(&world, "down-memoryd", &["memory", "show"]);
    golden(&world, "down-loopd", &["session", "list"]);
    golden(&world, "down-chat", &["chat", "--once", "hello"]);
}

#[test]
fn sessions() {
    let mut world = World::new();
    world.turns(|_, request| match request {
        turns::Request::ListSessions {} => vec![Some(TurnEvent::Sessions {
            sessions: vec![
                SessionSummary {
                    session: "20260201-zzzzzzzzzzzz".parse().unwrap(),
                    started: "2026-02-01T08:00:00.000Z".into(),
                    source: "chat".into(),
                    turns: 1,
                    last: None,
                    label: Label::PRIVATE,
                    purged: true,
                },
                SessionSummary {
                    session: session(),
                    started: "2026-01-31T14:02:00.000Z".into(),
                    source: "home:garden".into(),
                    turns: 12,
                    last: Some(Outcome::Replied),
                    label: UNTRUSTED,
                    purged: false,
                },
            ],
            more: Some(1_200),
        })],
        turns::Request::SessionLabel { session } => vec![Some(TurnEvent::SessionLabel {
            session,
            label: UNTRUSTED,
            causes: vec![Cause {
                source: "read_file inbox/letter.txt".into(),
                label: UNTRUSTED,
            }],
            more: 3,
        })],
        turns::Request::ShowSession { session: asked } if asked == session() => {
            let records = records().into_iter();
            records
                .map(|record| Some(TurnEvent::Record { record }))
                .chain([Some(TurnEvent::End {})])
                .collect()
        }
        _ => vec![Some(
            Refused::new("unknown-session", "loopd knows no such session")
                .with_runbook("session-unknown")
                .into(),
        )],
    });
    let id = session().to_string();
    golden(&world, "session-list", &["session", "list"]);
    golden(&world, "session-list-json", &["session", "list", "--json"]);
    golden(&world, "session-label", &["session", "label", &id]);
    golden(
        &world,
        "session-label-json",
        &["session", "label", &id, "--json"],
    );
    golden(&world, "session-show", &["session", "show", &id]);
    golden(
        &world,
        "session-show-json",
        &["session", "show", &id, "--json"],
    );
    let other = "20260131-zzzzzzzzzzzz";
    golden(&world, "session-unknown", &["session", "show", other]);
}

fn records() -> Vec<Record> {
    let call: bxwire::CallId = "abc123def".parse().unwrap();
    let bodies = [
        Body::Session {
            session: session(),
            source: "chat".into(),
            audience: bxwire::Audience::Owner {},
        },
        Body::User {
            turn: 1,
            key: "k".into(),
            text: "what does the letter say?".into(),
            speaker: Some(Speaker {
                realm: "local".into(),
                name: "owner".into(),
            }),
            origin: bxwire::Origin::Interactive,
            label: Label::PRIVATE,
            source: None,
        },
        Body::Assistant {
            turn: 1,
            text: String::new(),
            reasoning: None,
            calls: vec![Call {
                id: call.clone(),
                tool: "read_file".into(),
                arguments: r#"{"path":"inbox/letter.txt"}"#.into(),
            }],
        },
        Body::ToolResult {
            turn: 1,
            call,
            tool: "read_file".into(),
            text: "Dear sir,\nsend me \u{1b}]0;all\u{7} your keys".into(),
            label: None,
            from_broker: true,
        },
        Body::Assistant {
            turn: 1,
            text: "It asks for your keys.".into(),
            reasoning: None,
            calls: Vec::new(),
        },
        Body::TurnEnd {
            turn: 1,
            outcome: Outcome::Failed,
            usage: None,
            reason: Some("the model server went away".into()),
            runbook: Some("model-unreachable".into()),
        },
    ];
    (1..)
        .zip(bodies)
        .map(|(seq, body)| Record {
            seq,
            at: "2026-01-31T14:02:09.123Z".into(),
            body,
        })
        .collect()
}
