//! From an id that a hit shows, back to what made it: the call of a tool and its labels, or Honcho itself. Two agents;
//! each id is cut from the line that the other one's recall gave.

use std::{fs, time::Duration};

use bxcore::connect::Client;
use bxtest::{
    fleet::{Agent, Ended, Fleet, OWNER, Setup},
    look::concluded,
    wait_for,
};
use bxwire::{
    Audience, Label, SessionId, Speaker,
    links::{
        control::{Reply, Request, Why},
        memory_tools::{self, Caller, FactsOp, MemoryTools, Recall},
        turns::{self, TurnEvent, Turns},
    },
};
use roncho::{ConclusionCreate, models::ConclusionBatchCreate};
use serde_json::Value;

const GARDEN: usize = 0;
const KITCHEN: usize = 1;
const ANSWER_MS_MAX: Duration = Duration::from_secs(20);
const FACT: &str = "my bike is blue";

/// kitchen reads what is concluded in garden's workspace. The session in which garden learned a fact.
fn learned() -> (Fleet, SessionId) {
    let fleet = Fleet::start_as(Setup {
        memoryd: Box::new(|name| match name {
            "kitchen" => {
                "[[honcho.read]]\nagent = \"garden\"\nworkspace = \"garden-trusted\"\n".into()
            }
            _ => String::new(),
        }),
        ..Setup::default()
    })
    .expect("a fleet");
    let told = format!("remember that {FACT}");
    let (session, ended) = fleet.agents[GARDEN].ask(None, "k1".into(), &told).run();
    assert!(matches!(ended, Ended::Replied { .. }), "{ended:?}");
    wait_for("the fact to be in Honcho", || {
        (concluded(&fleet, "garden-trusted", OWNER, FACT) == 1).then_some(())
    });
    (fleet, session.expect("a session"))
}

/// The id at the end of the first line of kitchen's recall that begins like a conclusion's hit.
fn recalled(fleet: &Fleet, query: &str) -> String {
    let arguments = Recall::of(query);
    let answer = fleet.agents[KITCHEN].control("memoryd", &Request::MemoryRecall { arguments });
    let Ok(Reply::Recalled { text, .. }) = answer else {
        panic!("{answer:?}");
    };
    let head = text
        .lines()
        .find(|line| line.contains(", concluded about "));
    id_of(head.unwrap_or_else(|| panic!("{text}")))
}

fn id_of(head: &str) -> String {
    let (_, id) = head.rsplit_once(", ").expect("an id at its end");
    id.to_owned()
}

/// An error is what bxctl would say.
fn why(agent: &Agent, id: &str) -> Result<Reply, String> {
    let request = Request::MemoryWhyFound { id: id.into() };
    agent.control("memoryd", &request)
}

fn fact<'a>(facts: &'a [(String, String)], name: &str) -> &'a str {
    let found = facts.iter().find(|(known, _)| known == name);
    &found.unwrap_or_else(|| panic!("no {name}: {facts:?}")).1
}

/// The lines of a file of JSON lines.
fn lines(agent: &Agent, daemon: &str, name: &str) -> Vec<Value> {
    let path = agent.dirs().state_of(daemon).join(name);
    let text = fs::read_to_string(path).expect("a file");
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON")
}

#[test]
fn what_was_sent_leads_back_to_the_tool_call_its_labels_and_its_place_in_the_log() {
    let (fleet, session) = learned();
    let garden = &fleet.agents[GARDEN];
    let Ok(Reply::Why(Why { facts, .. })) = why(garden, &recalled(&fleet, "bike")) else {
        panic!("not found");
    };
    assert_eq!(fact(&facts, "turn"), format!("{session}/1"));
    assert_eq!(fact(&facts, "label"), "private, clean");
    let call = fact(&facts, "tool call");
    assert!(fact(&facts, "to see the call").contains(session.as_str()));
    let audit = lines(garden, "brokerd", "audit.jsonl");
    let audited = audit
        .iter()
        .find(|line| line["session"] == session.as_str() && line["call"] == call);
    let audited = audited.unwrap_or_else(|| panic!("no {call}: {audit:?}"));
    assert_eq!(
        (&audited["tool"], &audited["turn"]),
        (&"memory".into(), &1.into())
    );
    assert_eq!(audited["after"]["untrusted"], false);
    let log = lines(garden, "loopd", &format!("sessions/{session}.jsonl"));
    let made = |record: &&Value| record["calls"][0]["id"] == call;
    assert!(log.iter().any(|record| made(&record)), "{log:?}");
}

#[test]
fn what_honcho_derived_itself_is_said_to_be_that() {
    let (fleet, session) = learned();
    let client = bxtest::other_agent(&fleet.server().url(), "garden-trusted");
    let create = ConclusionCreate::new("owner likes to ride a tandem", OWNER, OWNER)
        .with_session_id(session.as_str());
    client
        .create_conclusions(&ConclusionBatchCreate::new(vec![create]))
        .expect("it is stored");
    let garden = &fleet.agents[GARDEN];
    let id = recalled(&fleet, "tandem");
    assert!(id.starts_with("garden:"), "{id}");
    let from_facts = searched(garden, session.clone(), "tandem");
    assert!(from_facts.starts_with("own:"), "{from_facts}");
    for id in [&id, &from_facts] {
        let Ok(Reply::Derived(derived)) = why(garden, id) else {
            panic!("{id} is not found");
        };
        assert_eq!(&derived.id, id);
        assert!(fact(&derived.facts, "by").starts_with("Honcho itself"));
        assert!(fact(&derived.facts, "from").contains(session.as_str()));
        assert_eq!(fact(&derived.facts, "workspace"), "garden-trusted");
        assert!(!format!("{derived:?}").contains("tandem"));
        let told = command(garden, &session, id);
        assert!(told.contains("by: Honcho itself"), "{told}");
    }
    // The other agent cannot know, and says who does.
    let refused = why(&fleet.agents[KITCHEN], &id).expect_err("it is not found");
    assert!(refused.contains("where garden runs"), "{refused}");
    let refused = why(garden, "own:V1StGXR8_Z5jdHi6B-myT").expect_err("it is not found");
    assert!(refused.contains("holds no conclusion"), "{refused}");
}

/// The id in the first line of `facts search`.
fn searched(agent: &Agent, session: SessionId, query: &str) -> String {
    let request = memory_tools::Request::Facts {
        caller: Caller {
            session,
            turn: 1,
            call: "c1".parse().expect("an id"),
            label: Label::PRIVATE,
            speaker: None,
            audience: Audience::Owner {},
        },
        arguments: FactsOp::Search {
            query: query.into(),
            k: None,
        },
    };
    let socket = agent.dirs().memory_tools_socket();
    let answer = Client::<MemoryTools>::connect(&socket, ANSWER_MS_MAX)
        .and_then(|mut client| client.call(&request));
    let Ok(memory_tools::Reply::Done { text, .. }) = answer else {
        panic!("{answer:?}");
    };
    id_of(text.lines().next().expect("a line"))
}

/// What a chat's `why` answers.
fn command(agent: &Agent, session: &SessionId, id: &str) -> String {
    let request = turns::Request::Command {
        session: session.clone(),
        speaker: Some(Speaker {
            realm: "local".into(),
            name: OWNER.into(),
        }),
        name: "why".into(),
        arguments: vec![id.into()],
    };
    let answer = Client::<Turns>::connect(&agent.dirs().turns_socket(), ANSWER_MS_MAX)
        .and_then(|mut client| client.call(&request));
    match answer {
        Ok(TurnEvent::Answer { text }) => text,
        other => panic!("{other:?}"),
    }
}
