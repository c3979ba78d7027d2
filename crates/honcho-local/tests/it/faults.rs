//! Each fault once through roncho's blocking client: what the caller sees, what was stored, and what the
//! record says.

use std::time::{Duration, Instant};

use honcho_local::{Fault, Options, Record, Rule, Server};
use roncho::blocking::{Client, Error};
use roncho::models::message::MessageCreate;
use roncho::models::workspace::WorkspaceCreate;
use serde_json::{Value, json};

use crate::http::wait_for;

const WORKSPACE: &str = "w";
const MESSAGES: &str = "/v3/workspaces/*/sessions/*/messages";

/// A server with a workspace, and a patient client.
fn world() -> (Server, Client) {
    let server = Server::start(Options::default()).expect("a server");
    let client = client(&server, PATIENT);
    client
        .get_or_create_workspace(&WorkspaceCreate::new(WORKSPACE))
        .expect("a workspace");
    server.controls().forget_requests();
    (server, client)
}

fn client(server: &Server, read_timeout: Duration) -> Client {
    Client::builder()
        .without_config_file()
        .base_url(server.url())
        .workspace_id(WORKSPACE)
        .api_key("some-key")
        .read_timeout(read_timeout)
        .max_body(1024 * 1024)
        .build()
        .expect("a client")
}

fn say(client: &Client, text: &str) -> Result<(), Error> {
    client
        .add_messages("s", &[MessageCreate::new(text, "owner")])
        .map(drop)
}

/// Texts stored in the session.
fn stored(server: &Server) -> Vec<String> {
    let dump = server.dump(WORKSPACE).expect("a dump");
    let messages = dump["sessions"][0]["messages"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    messages
        .iter()
        .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn last(server: &Server) -> Record {
    server.controls().requests().pop().expect("a request")
}

const PATIENT: Duration = Duration::from_secs(20);
const HASTY: Duration = Duration::from_millis(200);

/// Sets the fault for one message POST and sends one, waiting this long for bytes. The client that is
/// given back is patient again.
fn once(fault: Fault, read_timeout: Duration) -> (Server, Client, Result<(), Error>) {
    let (server, patient) = world();
    server
        .controls()
        .add(Rule::new(fault).on("POST", MESSAGES).times(1));
    let outcome = say(&client(&server, read_timeout), "first");
    (server, patient, outcome)
}

fn served_again(server: &Server, client: &Client, want: &[&str]) {
    say(client, "second").expect("the fault is over");
    assert_eq!(stored(server), want);
    let record = last(server);
    assert_eq!(
        (record.status, record.answered, record.fault),
        (Some(201), true, None)
    );
}

#[test]
fn a_status() {
    let fault = Fault::Status {
        status: 503,
        retry_after: Some(7),
        commit: false,
    };
    let (server, client, outcome) = once(fault.clone(), PATIENT);
    assert!(
        matches!(outcome, Err(Error::Status { status: 503, .. })),
        "{outcome:?}"
    );
    let record = last(&server);
    assert_eq!(
        (record.status, record.answered, record.fault),
        (Some(503), true, Some(fault))
    );
    served_again(&server, &client, &["second"]);
}

#[test]
fn a_status_although_stored() {
    let fault = Fault::Status {
        status: 500,
        retry_after: None,
        commit: true,
    };
    let (server, client, outcome) = once(fault, PATIENT);
    assert!(
        matches!(outcome, Err(Error::Status { status: 500, .. })),
        "{outcome:?}"
    );
    served_again(&server, &client, &["first", "second"]);
}

#[test]
fn a_refused_key() {
    let (server, client, outcome) = once(Fault::RefuseKey, PATIENT);
    assert!(
        matches!(outcome, Err(Error::Unauthorized { status: 401 })),
        "{outcome:?}"
    );
    served_again(&server, &client, &["second"]);
}

#[test]
fn handled_after_the_caller_gave_up() {
    let (server, client, outcome) = once(Fault::HandleLate { ms: 2_000 }, HASTY);
    assert!(matches!(outcome, Err(Error::Timeout)), "{outcome:?}");
    assert_eq!(stored(&server), Vec::<String>::new());
    wait_for("the late commit", || stored(&server) == ["first"]);
    served_again(&server, &client, &["first", "second"]);
}

#[test]
fn answered_after_the_caller_gave_up() {
    let (server, client, outcome) = once(Fault::AnswerLate { ms: 600 }, HASTY);
    assert!(matches!(outcome, Err(Error::Timeout)), "{outcome:?}");
    served_again(&server, &client, &["first", "second"]);
}

#[test]
fn a_late_answer_that_is_waited_for() {
    let begun = Instant::now();
    let (server, client, outcome) = once(Fault::AnswerLate { ms: 100 }, PATIENT);
    outcome.expect("an answer");
    assert!(begun.elapsed() >= Duration::from_millis(100));
    served_again(&server, &client, &["first", "second"]);
}

#[test]
fn never_answered() {
    for (commit, want) in [(false, vec!["second"]), (true, vec!["first", "second"])] {
        let (server, client, outcome) = once(Fault::NeverAnswer { commit }, HASTY);
        assert!(matches!(outcome, Err(Error::Timeout)), "{outcome:?}");
        let record = last(&server);
        assert_eq!(
            (record.status, record.answered),
            (commit.then_some(201), false)
        );
        served_again(&server, &client, &want);
    }
}

#[test]
fn dropped_before_the_commit() {
    let (server, client, outcome) = once(Fault::DropBefore, PATIENT);
    assert!(
        matches!(outcome, Err(Error::Closed | Error::Io(_))),
        "{outcome:?}"
    );
    assert_eq!(
        (last(&server).status, last(&server).answered),
        (None, false)
    );
    served_again(&server, &client, &["second"]);
}

#[test]
fn dropped_after_the_commit() {
    let (server, client, outcome) = once(Fault::CommitAndDrop, PATIENT);
    assert!(
        matches!(outcome, Err(Error::Closed | Error::Io(_))),
        "{outcome:?}"
    );
    assert_eq!(
        (last(&server).status, last(&server).answered),
        (Some(201), false)
    );
    served_again(&server, &client, &["first", "second"]);
}

#[test]
fn a_body_cut_short() {
    let (server, client, outcome) = once(Fault::CutBody, PATIENT);
    assert!(
        matches!(outcome, Err(Error::Closed | Error::Io(_))),
        "{outcome:?}"
    );
    served_again(&server, &client, &["first", "second"]);
}

#[test]
fn a_dripping_answer() {
    let (server, client, outcome) = once(Fault::Drip { every_ms: 1 }, PATIENT);
    outcome.expect("slow, but whole");
    served_again(&server, &client, &["first", "second"]);
    let (server, client, outcome) = once(Fault::Drip { every_ms: 2_000 }, HASTY);
    assert!(matches!(outcome, Err(Error::Timeout)), "{outcome:?}");
    served_again(&server, &client, &["first", "second"]);
}

#[test]
fn garbage() {
    let (server, client, outcome) = once(Fault::Garbage, PATIENT);
    assert!(matches!(outcome, Err(Error::Decode(_))), "{outcome:?}");
    served_again(&server, &client, &["first", "second"]);
}

#[test]
fn a_huge_body() {
    let (server, client, outcome) = once(
        Fault::Huge {
            bytes: 2 * 1024 * 1024,
        },
        PATIENT,
    );
    assert!(matches!(outcome, Err(Error::TooLarge)), "{outcome:?}");
    served_again(&server, &client, &["first", "second"]);
}

#[test]
fn everything_forgotten() {
    let (server, client) = world();
    say(&client, "first").expect("stored");
    server
        .controls()
        .add(Rule::new(Fault::Forget).on("GET", "/health").times(1));
    client.probe().expect("served all the same");
    assert_eq!(server.dump_all().expect("a dump"), json!({}));
    served_again(&server, &client, &["second"]);
}

#[test]
fn rules_count_and_choose() {
    let (server, client) = world();
    let fault = || Fault::Status {
        status: 418,
        retry_after: None,
        commit: false,
    };
    server.controls().add(
        Rule::new(fault())
            .on("POST", "*/messages")
            .after(1)
            .times(2),
    );
    let outcomes: Vec<bool> = (0..5).map(|_| say(&client, "x").is_ok()).collect();
    assert_eq!(outcomes, [true, false, false, true, true]);
    server.controls().add(Rule::new(fault()));
    assert!(client.probe().is_err() && client.probe().is_err());
    server.controls().clear();
    client.probe().expect("no fault is left");
}

#[test]
fn requests_are_recorded() {
    let (server, client) = world();
    say(&client, "first").expect("stored");
    let record = last(&server);
    assert_eq!(record.method, "POST");
    assert_eq!(record.path, "/v3/workspaces/w/sessions/s/messages");
    assert_eq!(record.authorization.as_deref(), Some("Bearer some-key"));
    assert_eq!(
        record.body,
        json!({ "messages": [{ "content": "first", "peer_id": "owner" }] })
    );
    assert!(
        server
            .controls()
            .wait_for(PATIENT, |records| records.len() == 1)
    );
    assert!(
        !server
            .controls()
            .wait_for(Duration::ZERO, |records| records.len() == 2)
    );
}

#[test]
fn restarted_on_the_same_port_with_the_same_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(Options::at(folder.path().join("honcho.sqlite"))).expect("a server");
    let (client, hasty) = (client(&server, PATIENT), client(&server, HASTY));
    say(&client, "first").expect("stored");
    server
        .controls()
        .add(Rule::new(Fault::NeverAnswer { commit: false }).times(1));
    assert!(matches!(say(&hasty, "lost"), Err(Error::Timeout)));

    let begun = Instant::now();
    let (address, options) = (server.address(), server.stop());
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "a held request does not delay the stop"
    );
    let refused = say(&client, "down");
    assert!(matches!(refused, Err(Error::Connect(_))), "{refused:?}");

    let server = Server::start(options).expect("the same address");
    assert_eq!(server.address(), address);
    say(&client, "second").expect("stored");
    assert_eq!(stored(&server), ["first", "second"]);
    assert_eq!(server.controls().requests().len(), 3, "the record goes on");
    let faults: Vec<Value> = server
        .controls()
        .requests()
        .iter()
        .map(|record| json!(record.fault))
        .collect();
    assert_eq!(
        faults[1],
        json!({ "kind": "never_answer", "commit": false })
    );
}

/// No fault is needed for this one: an answer repeats what was sent.
#[test]
fn a_full_batch_is_stored_although_its_answer_is_too_large() {
    let (server, client) = world();
    let batch = vec![MessageCreate::new("🍅".repeat(25_000), "owner"); 100];
    let outcome = client.add_messages("s", &batch);
    assert!(
        matches!(outcome, Err(Error::TooLarge)),
        "{:?}",
        outcome.map(drop)
    );
    assert_eq!(stored(&server).len(), 100);
}
