//! Honcho and the model server behind TLS, with a certificate that only a root of the owner's own vouches for: each
//! client of the daemons trusts what the system trusts, and nothing else.

use std::time::Duration;

use bxcore::connect::Client;
use bxtest::{
    Daemon, Ended, Home,
    tls::{self, ROOT, STRANGER},
    wait_for,
};
use bxwire::{
    Audience, Label, Origin, SessionId, Speaker,
    links::{
        control::{self, Control},
        memory_tools::{self, Caller, FactsOp, MemoryOp, MemoryTools, Recall},
        turns::{self, TurnEvent, Turns},
    },
};
use honcho_local::{Options, Server};
use model_local::Behaviour;
use roncho::{MessageCreate, blocking::Client as Roncho};

const ANSWER_MS_MAX: Duration = Duration::from_secs(20);
const DAEMONS: [&str; 3] = ["memoryd", "brokerd", "loopd"];

struct World {
    home: Home,
    honcho: Server,
    _model: model_local::Server,
}

impl World {
    fn new() -> Self {
        let home = Home::new();
        let honcho = Server::start(Options::default()).expect("a Honcho");
        let model = model_local::Server::start(Behaviour::Rules);
        home.configure(
            "loopd",
            &format!("[model]\nurl = \"{}\"\n", tls::before(model.address())),
        );
        home.configure(
            "memoryd",
            &format!(
                "[honcho]\nurl = \"{}\"\nagent = \"garden\"\nowner = \"owner\"\ntrusted = \"g-trusted\"\n\
                 untrusted = \"g-untrusted\"\nfleet = \"fleet\"\n\
                 [[honcho.read]]\nagent = \"kitchen\"\nworkspace = \"k-trusted\"\n\
                 [limits]\nhoncho_hold_messages_ms = 100\nhoncho_retry_ms_min = 100\n",
                tls::before(honcho.address())
            ),
        );
        Self {
            home,
            honcho,
            _model: model,
        }
    }

    fn try_start(&self, daemon: &str, root: &str) -> Result<Daemon, Ended> {
        self.home.try_start(daemon, |command| {
            command
                .env("SSL_CERT_FILE", tls::certificate(root))
                .env_remove("SSL_CERT_DIR");
        })
    }

    fn start(&self, root: &str) -> Vec<Daemon> {
        let started = DAEMONS.map(|daemon| self.try_start(daemon, root).expect("it starts"));
        started.into()
    }

    /// Another agent's, over a plain connection.
    fn roncho(&self, workspace: &str) -> Roncho {
        bxtest::other_agent(&self.honcho.url(), workspace)
    }

    fn turn(&self, text: &str) -> (SessionId, TurnEvent) {
        let request = turns::Request::Turn {
            key: "k".into(),
            session: None,
            text: text.into(),
            speaker: Some(Speaker {
                realm: "local".into(),
                name: "owner".into(),
            }),
            origin: Origin::Interactive,
            untrusted: false,
            audience: Audience::Owner {},
            source: "test".into(),
        };
        let socket = self.home.dirs.turns_socket();
        let mut client = Client::<Turns>::connect(&socket, ANSWER_MS_MAX).expect("loopd");
        client.send(&request).expect("it is sent");
        let mut session = None;
        loop {
            match client.recv().expect("an event") {
                TurnEvent::Accepted { session: named, .. } => session = Some(named),
                event @ (TurnEvent::Reply { .. } | TurnEvent::Failed { .. }) => {
                    return (session.expect("a session"), event);
                }
                _ => {}
            }
        }
    }

    fn recall(&self, query: &str) -> String {
        let arguments = Recall::of(query);
        let socket = self.home.dirs.control_socket("memoryd");
        let mut client = Client::<Control>::connect(&socket, ANSWER_MS_MAX).expect("memoryd");
        match client.call(&control::Request::MemoryRecall { arguments }) {
            Ok(control::Reply::Recalled { text, .. }) => text,
            other => panic!("an odd answer: {other:?}"),
        }
    }

    /// What memoryd answers to a tool; it must be done.
    fn tool(&self, request: &memory_tools::Request) -> String {
        let socket = self.home.dirs.memory_tools_socket();
        let answer = Client::<MemoryTools>::connect(&socket, ANSWER_MS_MAX)
            .and_then(|mut client| client.call(request));
        match answer {
            Ok(memory_tools::Reply::Done { text, .. }) => text,
            other => panic!("{other:?}"),
        }
    }
}

fn caller(session: SessionId, label: Label) -> Caller {
    Caller {
        session,
        turn: 1,
        call: "c1".parse().expect("an id"),
        label,
        speaker: None,
        audience: Audience::Owner {},
    }
}

#[test]
fn with_a_root_of_ones_own_every_client_reaches_its_server() {
    let world = World::new();
    // Set up by somebody else, so that memoryd has to repair its settings.
    world.roncho("fleet");
    let kitchen = world.roncho("k-trusted");
    kitchen
        .add_messages("s1", &[MessageCreate::new("the ferry is late", "kitchen")])
        .expect("it is stored");
    let _running = world.start(ROOT);
    // loopd's.
    let (session, replied) = world.turn("hello there");
    assert!(matches!(replied, TurnEvent::Reply { .. }), "{replied:?}");
    // roncho's.
    wait_for("the turn to be in Honcho", || {
        let dump = world.honcho.dump("g-trusted").expect("a dump").to_string();
        dump.contains("hello there").then_some(())
    });
    // memoryd's own for what roncho lacks.
    world.tool(&memory_tools::Request::Memory {
        caller: caller(session.clone(), Label::UNLABELLED),
        arguments: MemoryOp::Note {
            text: "a letter came".into(),
        },
    });
    wait_for("the fleet's settings to be repaired", || {
        let dump = world.honcho.dump("fleet").expect("a dump").to_string();
        dump.contains("\"enabled\":false").then_some(())
    });
    // memoryd's for recall, and for what Honcho concluded.
    let found = world.recall("ferry");
    assert!(found.contains("the ferry is late"), "{found}");
    assert!(!found.contains("unavailable"), "{found}");
    let snapshot = world.tool(&memory_tools::Request::Facts {
        caller: caller(session, Label::PRIVATE),
        arguments: FactsOp::Snapshot { query: None },
    });
    assert_eq!(snapshot, "Nothing found.");
}

#[test]
fn a_server_that_no_root_vouches_for_gets_nothing() {
    let world = World::new();
    world.roncho("k-trusted");
    let _running = world.start(STRANGER);
    let (_, failed) = world.turn("hello there");
    assert!(
        matches!(&failed, TurnEvent::Failed { runbook, .. } if runbook == "model-unreachable"),
        "{failed:?}"
    );
    let found = world.recall("ferry");
    for source in ["fleet: unavailable", "kitchen: unavailable"] {
        assert!(found.contains(source), "{found}");
    }
    assert!(world.honcho.dump("g-trusted").expect("a dump").is_null());
}

#[test]
fn without_a_readable_root_a_daemon_says_so_and_does_not_start() {
    let world = World::new();
    for daemon in ["memoryd", "loopd"] {
        let ended = world.try_start(daemon, "missing.pem").expect_err("no root");
        assert_eq!(ended.status.code(), Some(78), "{ended:?}");
        for word in ["missing.pem", "certificates-unreadable"] {
            assert!(ended.stderr.contains(word), "{ended:?}");
        }
        // Where nothing is called over TLS, nobody needs one.
        world.home.configure(daemon, "");
        drop(world.try_start(daemon, "missing.pem").expect("it starts"));
    }
}
