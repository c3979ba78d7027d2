//! Samples of the control link.

use bxwire::{
    Class, EditId, ItemId, Label, Link, Trust,
    links::{
        control::{
            Control, Derived, EditLine, Entry, Health, HeldBack, ItemNote, MemoryFiles, Note,
            Notice, OwnerDecision, Reply, Request, Status, Sync, SyncAction, Wait, Why, WhyStep,
            WorkspaceSync,
        },
        memory_tools::{AskMemory, Recall},
    },
};

use super::{
    Samples,
    links::{AT, refused, session},
    samples,
};

pub fn add(into: &mut Samples) {
    requests(into);
    replies(into);
}

fn item() -> ItemId {
    ItemId::Turn {
        session: session(),
        turn: 2,
    }
}

fn requests(into: &mut Samples) {
    let sync = |action| Request::MemorySync { action };
    let _every = |action: &SyncAction| match action {
        SyncAction::Show {}
        | SyncAction::Now {}
        | SyncAction::Retry { .. }
        | SyncAction::RetryAll {} => (),
    };
    samples!(into, Control::NAME, ".request", Request {
        Status => [Request::Status {}],
        MemoryShow => [Request::MemoryShow {}],
        MemoryLog => [Request::MemoryLog { limit: 20 }],
        MemoryUndo => [Request::MemoryUndo { edit: EditId(1), confirm: false }],
        MemoryPurge => [Request::MemoryPurge { session: session(), confirm: false }],
        MemoryReview => [Request::MemoryReview {}],
        MemoryPromote => [Request::MemoryPromote { note: "n4".into(), confirm: true }],
        MemoryAccept => [Request::MemoryAccept { confirm: true }],
        MemoryRecall => [Request::MemoryRecall {
            arguments: Recall::of("bike"),
        }],
        MemoryAsk => [Request::MemoryAsk {
            arguments: AskMemory {
                question: "what colour is the bike?".into(),
                workspaces: vec!["own".into()],
                reasoning: None,
            },
        }],
        MemorySync => [
            sync(SyncAction::Show {}),
            sync(SyncAction::Now {}),
            sync(SyncAction::Retry { item: item() }),
            sync(SyncAction::RetryAll {}),
        ],
        MemoryWhyFound => [Request::MemoryWhyFound { id: "fleet:V1StGXR8_Z5jdHi6B-myT".into() }],
        MemoryWhy => [
            Request::MemoryWhy { item: item() },
            Request::MemoryWhy { item: ItemId::Edit(EditId(7)) },
        ],
        SessionDecide => [
            Request::SessionDecide { session: session(), decision: OwnerDecision::Untrusted },
            Request::SessionDecide { session: session(), decision: OwnerDecision::Skip },
        ],
    });
}

fn status() -> Status {
    Status {
        daemon: "memoryd".into(),
        build: "0.1.0".into(),
        pid: 17,
        since: AT.into(),
        notices: vec![
            Notice {
                text: "user.md was changed by hand".into(),
                runbook: Some("hand-edit-held".into()),
            },
            Notice {
                text: "the index is being rebuilt".into(),
                runbook: None,
            },
        ],
        facts: vec![("edits".into(), "12".into())],
    }
}

fn files() -> MemoryFiles {
    MemoryFiles {
        user: vec![Entry {
            id: "u1".into(),
            text: "my bike is blue".into(),
        }],
        agent: Vec::new(),
        notes: vec![Note {
            edit: EditId(2),
            at: AT.into(),
            text: "the garden gate creaks".into(),
            label: Label::PRIVATE,
            flagged: false,
        }],
        held: vec!["user.md".into()],
        identity_chars: 15,
        identity_chars_max: 4000,
    }
}

fn sync() -> Sync {
    let workspace = WorkspaceSync {
        role: "trusted".into(),
        name: "box-trusted".into(),
        decided: 14,
        waiting: 1,
        sent: 9,
        failed: 1,
        in_doubt: 1,
        withdrawn: 1,
        cancelled: 1,
        oldest_waiting_s: Some(60),
        wait: Some(Wait {
            reason: "connection refused".into(),
            since: AT.into(),
            tries: 5,
            next: Some(AT.into()),
            runbook: "honcho-unreachable".into(),
        }),
    };
    let idle = WorkspaceSync {
        role: "fleet".into(),
        name: "fleet".into(),
        oldest_waiting_s: None,
        wait: None,
        ..workspace.clone()
    };
    let note = |why: &str, status, runbook: &str| ItemNote {
        item: item(),
        why: why.into(),
        status,
        runbook: runbook.into(),
    };
    Sync {
        configured: true,
        workspaces: vec![workspace, idle],
        undecided: vec![note("brokerd is away", None, "broker-state-unavailable")],
        failed: vec![note("refused", Some(422), "honcho-send-refused")],
        in_doubt: vec![note("no answer", None, "honcho-in-doubt")],
        skipped: vec![("secret".into(), 2)],
        health: Some(Health {
            asked_at: Some(AT.into()),
            pending: Some(3),
            derives: Some(true),
            warnings: vec![Notice {
                text: "3 of 10 conclusions that were written are gone from Honcho".into(),
                runbook: Some("honcho-items-gone".into()),
            }],
        }),
    }
}

fn replies(into: &mut Samples) {
    let untrusted = Label::new(Class::Private, Trust::Untrusted);
    let edit = EditLine {
        edit: EditId(1),
        at: AT.into(),
        by: "owner".into(),
        what: "add user".into(),
        text: "my bike is blue".into(),
        label: Label::PRIVATE,
        undone_by: Some(EditId(3)),
    };
    let standing = EditLine {
        by: session().to_string(),
        undone_by: None,
        label: untrusted,
        ..edit.clone()
    };
    let idle = Sync {
        configured: false,
        workspaces: Vec::new(),
        undecided: Vec::new(),
        failed: Vec::new(),
        in_doubt: Vec::new(),
        skipped: Vec::new(),
        health: None,
    };
    samples!(into, Control::NAME, ".reply", Reply {
        Status => [Reply::Status(status())],
        Memory => [Reply::Memory(files())],
        Edits => [Reply::Edits { edits: vec![edit, standing] }],
        Change => [
            Reply::Change { done: true, lines: vec!["removes u1".into()], edit: Some(EditId(3)) },
            Reply::Change { done: false, lines: vec!["removes u1".into()], edit: None },
        ],
        Recalled => [Reply::Recalled { text: "one hit".into(), label: untrusted }],
        Review => [Reply::Review {
            held: vec![
                HeldBack {
                    what: "user.md".into(),
                    at: None,
                    cause: "it was changed by hand".into(),
                    note: None,
                    text: None,
                },
                HeldBack {
                    what: "e4".into(),
                    at: Some(AT.into()),
                    cause: "it may hold a key".into(),
                    note: Some("n4".into()),
                    text: Some("the garden gate creaks".into()),
                },
            ],
            more: 2,
        }],
        Sync => [Reply::Sync(sync()), Reply::Sync(idle)],
        Derived => [Reply::Derived(Derived {
            id: "own:4YUGjWGoXRV0ttPWSwC34".into(),
            facts: vec![("kind".into(), "conclusion".into())],
        })],
        Why => [Reply::Why(Why {
            item: item(),
            facts: vec![("broker says".into(), "private, clean".into())],
            steps: vec![WhyStep {
                what: "2 messages".into(),
                state: "sent".into(),
                place: "box-trusted".into(),
                ids: vec!["m1".into(), "m2".into()],
            }],
        })],
        Done => [Reply::Done {}],
        Refused => [Reply::Refused(refused())],
    });
}
