//! Samples of hello and of the links between daemons: turns, tools, memory, memory tools, session state.

use bxwire::{
    Audience, CallId, Cause, Class, EditId, Hello, Label, Link, Origin, PROTOCOL_VERSION, Refused,
    SessionId, Speaker, Trust,
    links::{memory, memory_tools, session_state, tools, turns},
    log::{Body, Outcome, Record},
};
use serde_json::json;

use super::{Samples, samples};

pub fn session() -> SessionId {
    "20260131-k3v9x0q2m4ab".parse().unwrap()
}

pub fn call() -> CallId {
    "a1B2c3D4e".parse().unwrap()
}

pub fn ada() -> Speaker {
    Speaker {
        realm: "local".into(),
        name: "ada".into(),
    }
}

pub fn cause() -> Cause {
    Cause {
        source: "read_file inbox/letter.txt".into(),
        label: Label::UNLABELLED,
    }
}

pub fn refused() -> Refused {
    Refused::new("unknown-session", "there is no such session").with_runbook("session-unknown")
}

pub const AT: &str = "2026-01-31T10:00:00.000Z";
const PUBLIC: Label = Label::new(Class::Public, Trust::Trusted);
const SECRET: Label = Label::new(Class::Secret, Trust::Trusted);

pub fn add(into: &mut Samples) {
    hello(into);
    turn_requests(into);
    turn_events(into);
    tool_messages(into);
    memory_messages(into);
    memory_tool_messages(into);
    state_messages(into);
}

fn hello(into: &mut Samples) {
    into.add(
        "hello",
        "",
        Hello {
            protocol: turns::Turns::NAME.into(),
            version: PROTOCOL_VERSION,
            build: "0.1.0".into(),
        },
    );
}

fn turn_requests(into: &mut Samples) {
    use turns::{Answer, Request};
    samples!(into, turns::Turns::NAME, ".request", Request {
        Turn => [
            Request::Turn {
                key: "chat-1".into(),
                session: Some(session()),
                text: "remember that my bike is blue".into(),
                speaker: Some(ada()),
                origin: Origin::Interactive,
                untrusted: false,
                audience: Audience::Owner {},
                source: "chat".into(),
            },
            Request::Turn {
                key: "post-7".into(),
                session: None,
                text: "two\nlines".into(),
                speaker: None,
                origin: Origin::Scheduled,
                untrusted: true,
                audience: Audience::Others { class_max: Class::Public },
                source: "home:garden".into(),
            },
            Request::Turn {
                key: "test-1".into(),
                session: None,
                text: String::new(),
                speaker: None,
                origin: Origin::Synthetic,
                untrusted: false,
                audience: Audience::Others { class_max: Class::Private },
                source: "test".into(),
            },
        ],
        Cancel => [Request::Cancel { session: session() }],
        Approve => [
            Request::Approve { session: session(), call: call(), answer: Answer::Once },
            Request::Approve { session: session(), call: call(), answer: Answer::Session },
            Request::Approve { session: session(), call: call(), answer: Answer::Deny },
        ],
        Command => [
            Request::Command {
                session: session(),
                speaker: Some(ada()),
                name: "undo".into(),
                arguments: vec!["e1".into()],
            },
            Request::Command {
                session: session(),
                speaker: None,
                name: "status".into(),
                arguments: Vec::new(),
            },
        ],
        ListSessions => [Request::ListSessions {}],
        ShowSession => [Request::ShowSession { session: session() }],
        SessionLabel => [Request::SessionLabel { session: session() }],
        PurgeSession => [Request::PurgeSession { session: session() }],
    });
}

fn turn_events(into: &mut Samples) {
    use turns::{SessionSummary, TurnEvent};
    let summary = |last| SessionSummary {
        session: session(),
        started: AT.into(),
        source: "chat".into(),
        turns: 2,
        last,
        label: Label::PRIVATE,
        purged: last == Some(Outcome::Cancelled),
    };
    samples!(into, turns::Turns::NAME, ".event", TurnEvent {
        Accepted => [TurnEvent::Accepted { session: session(), turn: 1 }],
        Delta => [TurnEvent::Delta { text: "I will".into() }],
        ToolStarted => [TurnEvent::ToolStarted { call: call(), tool: "memory".into() }],
        ToolFinished => [TurnEvent::ToolFinished {
            call: call(),
            tool: "read_file".into(),
            label: Label::UNLABELLED,
        }],
        Approval => [TurnEvent::Approval { call: call(), what: "write_file notes/a.md".into() }],
        Notice => [TurnEvent::Notice { text: "the tools are away".into() }],
        Reply => [TurnEvent::Reply { text: "Done.".into(), label: Label::PRIVATE }],
        Failed => [TurnEvent::Failed {
            reason: "the model server does not answer".into(),
            runbook: "model-unreachable".into(),
        }],
        Done => [TurnEvent::Done {}],
        Answer => [TurnEvent::Answer { text: "a new session".into() }],
        Sessions => [
            TurnEvent::Sessions {
                sessions: vec![summary(Some(Outcome::Replied)), summary(None)],
                more: None,
            },
            TurnEvent::Sessions { sessions: vec![summary(None)], more: Some(1_200) },
        ],
        Record => [TurnEvent::Record {
            record: Record {
                seq: 3,
                at: AT.into(),
                body: Body::Context { turn: 1, text: "it rains".into(), label: Label::PRIVATE },
            },
        }],
        End => [TurnEvent::End {}],
        SessionLabel => [TurnEvent::SessionLabel {
            session: session(),
            label: Label::UNLABELLED,
            causes: vec![cause()],
            more: 0,
        }],
        Refused => [
            TurnEvent::Refused(refused()),
            TurnEvent::Refused(Refused::new("busy", "too many connections")),
        ],
    });
}

fn tool_messages(into: &mut Samples) {
    use tools::{CallOutcome, Reply, Request, Tool};
    samples!(into, tools::Tools::NAME, ".request", Request {
        ListTools => [Request::ListTools {}],
        CallTool => [
            Request::CallTool {
                session: session(),
                turn: 1,
                call: call(),
                tool: "read_file".into(),
                arguments: json!({"path": "inbox/letter.txt"}),
                label: Label::PRIVATE,
                audience: Audience::Owner {},
                speaker: Some(ada()),
                owner_hosts: vec!["example.org".into()],
            },
            Request::CallTool {
                session: session(),
                turn: 2,
                call: call(),
                tool: "recall".into(),
                arguments: json!(null),
                label: Label::UNLABELLED,
                audience: Audience::Others { class_max: Class::Private },
                speaker: None,
                owner_hosts: Vec::new(),
            },
        ],
        CancelCall => [Request::CancelCall { session: session(), call: call() }],
        ApproveCall => [Request::ApproveCall {
            session: session(),
            call: call(),
            answer: turns::Answer::Once,
        }],
        Raise => [Request::Raise { session: session(), label: Label::UNLABELLED, cause: cause() }],
        SessionCauses => [Request::SessionCauses { session: session() }],
    });
    let result = |outcome| Reply::Result {
        outcome,
        text: "Dear reader".into(),
        label: Label::UNLABELLED,
        session_label: Label::UNLABELLED,
        causes: vec![cause()],
    };
    samples!(into, tools::Tools::NAME, ".reply", Reply {
        Tools => [Reply::Tools {
            tools: vec![Tool {
                name: "read_file".into(),
                description: "Reads a file.".into(),
                parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
            }],
            digest: "d1".into(),
        }],
        Progress => [Reply::Progress { text: "half".into() }],
        Approval => [Reply::Approval { call: call(), what: "write_file notes/a.md".into() }],
        Result => [
            result(CallOutcome::Done),
            result(CallOutcome::BadArguments),
            result(CallOutcome::UnknownTool),
            result(CallOutcome::Denied),
            result(CallOutcome::Failed),
            result(CallOutcome::Cancelled),
        ],
        Done => [Reply::Done {}],
        Causes => [Reply::Causes { label: SECRET, causes: vec![cause()], more: 3 }],
        Refused => [Reply::Refused(refused())],
    });
}

fn memory_messages(into: &mut Samples) {
    use memory::{Before, Reply, Request};
    samples!(into, memory::Memory::NAME, ".request", Request {
        Identity => [
            Request::Identity { audience: Audience::Owner {} },
            Request::Identity { audience: Audience::Others { class_max: Class::Secret } },
        ],
        Context => [
            Request::Context(Before {
                session: session(),
                text: "my bike".into(),
                label: Label::PRIVATE,
                audience: Audience::Owner {},
                speaker: Some(ada()),
                source: "cli".into(),
            }),
            Request::Context(Before {
                session: session(),
                text: "my bike".into(),
                label: SECRET,
                audience: Audience::Others { class_max: Class::Public },
                speaker: None,
                source: "town-square".into(),
            }),
        ],
        SessionUpdated => [Request::SessionUpdated { session: session(), turn: 2 }],
        OwnerCommand => [
            Request::OwnerCommand {
                session: session(),
                speaker: Some(ada()),
                name: "forget".into(),
                arguments: vec!["e1".into()],
            },
            Request::OwnerCommand {
                session: session(),
                speaker: None,
                name: "why".into(),
                arguments: Vec::new(),
            },
        ],
    });
    samples!(into, memory::Memory::NAME, ".reply", Reply {
        Identity => [Reply::Identity {
            text: "- my bike is blue".into(),
            label: Label::PRIVATE,
            digest: "d1".into(),
            owner_changes: 3,
        }],
        Context => [Reply::Context { text: String::new(), label: PUBLIC }],
        Updated => [Reply::Updated { notices: vec!["turns have waited for an hour".into()] }],
        Answer => [Reply::Answer { text: "e1 is undone".into() }],
        Refused => [Reply::Refused(refused())],
    });
}

fn memory_tool_messages(into: &mut Samples) {
    use memory_tools::{
        About, AskMemory, Caller, FactsOp, Fate, FateKind, MemoryOp, Reasoning, Recall, Reply,
        Request,
    };
    let caller = || Caller {
        session: session(),
        turn: 1,
        call: call(),
        label: Label::PRIVATE,
        speaker: Some(ada()),
        audience: Audience::Owner {},
    };
    let memory = |arguments| Request::Memory {
        caller: caller(),
        arguments,
    };
    let facts = |arguments| Request::Facts {
        caller: caller(),
        arguments,
    };
    let _every_one = |op: &FactsOp| match op {
        FactsOp::Search { .. }
        | FactsOp::Snapshot { .. }
        | FactsOp::Profile { .. }
        | FactsOp::Conclude { .. }
        | FactsOp::Forget { .. } => (),
    };
    let fate = |id: &str, fate| Fate {
        id: id.into(),
        fate,
    };
    let _every = |op: &MemoryOp| match op {
        MemoryOp::Add { .. }
        | MemoryOp::Replace { .. }
        | MemoryOp::Remove { .. }
        | MemoryOp::Note { .. }
        | MemoryOp::Consolidate { .. } => (),
    };
    samples!(into, memory_tools::MemoryTools::NAME, ".request", Request {
        Memory => [
            memory(MemoryOp::Add { about: About::User, text: "my bike is blue".into() }),
            memory(MemoryOp::Replace {
                about: About::Agent,
                id: Some("a2".into()),
                matching: None,
                text: "I answer briefly".into(),
            }),
            memory(MemoryOp::Remove {
                about: About::User,
                id: None,
                matching: Some("bike".into()),
            }),
            memory(MemoryOp::Note { text: "the garden gate creaks".into() }),
            memory(MemoryOp::Consolidate {
                entries: vec![
                    fate("u1", FateKind::Keep),
                    fate("u2", FateKind::Note),
                    fate("u3", FateKind::Drop),
                ],
            }),
        ],
        Recall => [
            Request::Recall {
                caller: caller(),
                arguments: Recall {
                    query: "bike".into(),
                    k: Some(3),
                    since: Some("2026-01-01".into()),
                    until: Some(AT.into()),
                    untrusted: Some(true),
                    class: Some(Class::Private),
                },
            },
            Request::Recall {
                caller: Caller { speaker: None, ..caller() },
                arguments: Recall::of("bike"),
            },
        ],
        AskMemory => [
            Request::AskMemory {
                caller: caller(),
                arguments: AskMemory {
                    question: "what colour is the bike?".into(),
                    workspaces: vec!["own".into(), "kitchen".into()],
                    reasoning: Some(Reasoning::Low),
                },
            },
            Request::AskMemory {
                caller: caller(),
                arguments: AskMemory {
                    question: "what colour is the bike?".into(),
                    workspaces: Vec::new(),
                    reasoning: None,
                },
            },
            Request::AskMemory {
                caller: caller(),
                arguments: AskMemory {
                    question: "bike?".into(),
                    workspaces: Vec::new(),
                    reasoning: Some(Reasoning::Minimal),
                },
            },
        ],
        Facts => [
            facts(FactsOp::Search { query: "bike".into(), k: Some(3) }),
            facts(FactsOp::Search { query: "bike".into(), k: None }),
            facts(FactsOp::Snapshot { query: Some("bike".into()) }),
            facts(FactsOp::Snapshot { query: None }),
            facts(FactsOp::Profile { card: None }),
            facts(FactsOp::Conclude { text: "the bike is blue".into() }),
            facts(FactsOp::Forget { id: "own:V1StGXR8_Z5jdHi6B-myT".into() }),
            facts(FactsOp::Profile { card: Some(vec!["rides a blue bike".into()]) }),
        ],
        Tools => [Request::Tools {}],
    });
    samples!(into, memory_tools::MemoryTools::NAME, ".reply", Reply {
        Progress => [Reply::Progress { text: "searching".into() }],
        Tools => [Reply::Tools { names: vec!["memory".into(), "recall".into()] }],
        Done => [
            Reply::Done {
                text: "kept as e1".into(),
                label: Label::PRIVATE,
                causes: Vec::new(),
                edit: Some(EditId(1)),
            },
            Reply::Done {
                text: "one hit".into(),
                label: Label::UNLABELLED,
                causes: vec![cause()],
                edit: None,
            },
        ],
        Denied => [Reply::Denied { text: "an untrusted session may not change identity".into() }],
        Refused => [Reply::Refused(refused())],
    });
}

fn state_messages(into: &mut Samples) {
    use session_state::{Reply, Request, SessionState};
    samples!(into, session_state::State::NAME, ".request", Request {
        SessionState => [Request::SessionState { session: session() }],
    });
    samples!(into, session_state::State::NAME, ".reply", Reply {
        SessionState => [Reply::SessionState(SessionState {
            class: Class::Private,
            untrusted: true,
            seen: true,
        })],
        Refused => [Reply::Refused(refused())],
    });
}
