//! What comes into being, what a repeat changes, and what a deletion takes: the surprises a client of
//! Honcho has to know.

use std::time::Duration;

use honcho_local::{Options, Server};
use serde_json::{Value, json};

use crate::http::{Client, start, wait_for};

const W: &str = "/v3/workspaces/w";

fn off() -> Value {
    json!({ "reasoning": { "enabled": false }, "summary": { "enabled": false }, "dream": { "enabled": false } })
}

fn workspace(client: &Client, configuration: Value) -> Value {
    client
        .post(
            "/v3/workspaces",
            json!({ "id": "w", "configuration": configuration }),
        )
        .body
}

#[test]
fn a_workspace_keeps_what_it_has() {
    let (_server, client) = start();
    client.post(&format!("{W}/peers"), json!({ "id": "p" }));
    assert_eq!(
        workspace(&client, off())["configuration"],
        json!({}),
        "touched first: derivation stays on"
    );
    let put = client.put(W, json!({ "configuration": off(), "metadata": { "a": 1 } }));
    assert_eq!(put.body["configuration"], off());
    client.put(
        W,
        json!({ "configuration": { "dream": { "enabled": true } }, "metadata": { "b": 2 } }),
    );
    let now = workspace(&client, json!({}));
    assert_eq!(now["configuration"]["dream"], json!({ "enabled": true }));
    assert_eq!(
        now["configuration"]["reasoning"],
        json!({ "enabled": false }),
        "merged at the top"
    );
    assert_eq!(now["metadata"], json!({ "b": 2 }), "replaced");
}

#[test]
fn a_put_makes_a_workspace() {
    let (_server, client) = start();
    assert_eq!(
        client.put(W, json!({ "configuration": off() })).body["configuration"],
        off()
    );
}

#[test]
fn a_peer_takes_what_it_is_given() {
    let (_server, client) = start();
    let peer = |body: Value| client.post(&format!("{W}/peers"), body);
    let made = peer(
        json!({ "id": "p", "metadata": { "a": 1 }, "configuration": { "observe_me": false, "x": 1 } }),
    );
    assert_eq!(made.status, 201);
    let again = peer(json!({ "id": "p", "configuration": { "observe_me": "xyz" } }));
    assert_eq!(
        (again.status, &again.body["configuration"]),
        (200, &json!({ "observe_me": "xyz" }))
    );
    assert_eq!(again.body["metadata"], json!({ "a": 1 }));
    assert_eq!(
        peer(json!({ "id": "p", "configuration": {} })).body["configuration"],
        json!({})
    );
}

#[test]
fn a_session_merges_and_adds_members() {
    let (_server, client) = start();
    let session = |body: Value| client.post(&format!("{W}/sessions"), body);
    let flags = |peer: &str| {
        client
            .get(&format!("{W}/sessions/s/peers/{peer}/config"))
            .body
    };
    let body = json!({
        "id": "s", "metadata": { "a": 1 }, "configuration": { "reasoning": { "enabled": true } },
        "peers": { "p": { "observe_me": true }, "q": {} },
    });
    assert_eq!(session(body).status, 201);
    let body = json!({
        "id": "s", "metadata": { "b": 2 }, "configuration": { "dream": { "enabled": false } },
        "peers": { "p": { "observe_me": false }, "r": { "observe_others": true } },
    });
    let again = session(body);
    assert_eq!(
        (again.status, &again.body["metadata"]),
        (200, &json!({ "b": 2 }))
    );
    let merged = json!({ "reasoning": { "enabled": true }, "dream": { "enabled": false } });
    assert_eq!(again.body["configuration"], merged);
    assert_eq!(
        flags("p"),
        json!({ "observe_me": true, "observe_others": null }),
        "a member keeps its flags"
    );
    assert_eq!(
        flags("r"),
        json!({ "observe_me": null, "observe_others": true }),
        "a new one gets them"
    );
    let members = client.get(&format!("{W}/sessions/s/peers")).body;
    assert_eq!(members["total"], json!(3), "one left out stays");

    assert_eq!(
        client
            .call("DELETE", &format!("{W}/sessions/s/peers"), json!(["p"]))
            .status,
        200
    );
    assert_eq!(
        client.get(&format!("{W}/sessions/s/peers/p/config")).status,
        404
    );
    session(json!({ "id": "s", "peers": { "p": { "observe_me": false } } }));
    assert_eq!(
        flags("p")["observe_me"],
        json!(false),
        "one that had left comes back with new flags"
    );
    let put = client.put(
        &format!("{W}/sessions/s/peers/p/config"),
        json!({ "observe_me": true }),
    );
    assert_eq!(
        (put.status, flags("p")["observe_me"].clone()),
        (204, json!(true))
    );
    client.put(&format!("{W}/sessions/s/peers"), json!({ "z": {} }));
    assert_eq!(
        client.get(&format!("{W}/sessions/s/peers")).body["items"][0]["id"],
        json!("z")
    );
    assert_eq!(
        client
            .get(&format!("{W}/sessions/s/peers/nobody/config"))
            .status,
        404
    );
}

#[test]
fn an_eleventh_observer() {
    let (_server, client) = start();
    let watchers = |range: std::ops::Range<u8>| -> Value {
        range
            .map(|n| (format!("w{n}"), json!({ "observe_others": true })))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let session = |peers: Value| {
        client
            .post(
                &format!("{W}/sessions"),
                json!({ "id": "s", "peers": peers }),
            )
            .status
    };
    assert_eq!(session(watchers(0..10)), 201);
    assert_eq!(session(watchers(9..11)), 400);
    assert_eq!(
        client.get(&format!("{W}/sessions/s/peers")).body["total"],
        json!(10),
        "nothing of it was done"
    );
}

#[test]
fn which_calls_make_a_workspace() {
    let rows: [(&str, &str, Value, u16, bool); 14] = [
        ("POST", "peers", json!({ "id": "p" }), 201, true),
        ("PUT", "peers/p", json!({}), 200, true),
        ("POST", "sessions", json!({ "id": "s" }), 201, true),
        ("PUT", "sessions/s", json!({}), 200, true),
        (
            "POST",
            "sessions/s/messages",
            json!({ "messages": [{ "content": "x", "peer_id": "p" }] }),
            201,
            true,
        ),
        ("POST", "scopes", json!({ "id": "s" }), 201, true),
        ("POST", "peers/p/chat", json!({ "query": "x" }), 200, true),
        ("POST", "chat", json!({ "query": "x" }), 404, false),
        ("POST", "search", json!({ "query": "x" }), 200, false),
        ("POST", "sessions/s/messages/list", json!({}), 200, false),
        ("GET", "peers/p/context", Value::Null, 404, false),
        ("GET", "sessions/s/context", Value::Null, 200, false),
        (
            "POST",
            "schedule_dream",
            json!({ "observer": "p", "dream_type": "omni" }),
            500,
            false,
        ),
        ("GET", "queue/status", Value::Null, 200, false),
    ];
    for (method, path, body, status, makes) in rows {
        let (server, client) = start();
        let reply = client.call(method, &format!("{W}/{path}"), body);
        assert_eq!(reply.status, status, "{method} {path}: {reply:?}");
        assert_eq!(
            server.dump("w").expect("a dump").is_object(),
            makes,
            "{method} {path}"
        );
    }
}

#[test]
fn a_message_makes_its_session_without_flags() {
    let (_server, client) = start();
    client.say("w", "s", "owner", "hello");
    let flags = client
        .get(&format!("{W}/sessions/s/peers/owner/config"))
        .body;
    assert_eq!(flags, json!({ "observe_me": null, "observe_others": null }));
    client.post(
        &format!("{W}/sessions"),
        json!({ "id": "s", "peers": { "owner": { "observe_me": false } } }),
    );
    let flags = client
        .get(&format!("{W}/sessions/s/peers/owner/config"))
        .body;
    assert_eq!(flags["observe_me"], json!(null), "too late");
}

#[test]
fn conclusions_make_nothing() {
    let (server, client) = start();
    let post = |conclusion: Value| {
        client
            .post(
                &format!("{W}/conclusions"),
                json!({ "conclusions": [conclusion] }),
            )
            .status
    };
    let fact = json!({ "content": "x", "observer_id": "p", "observed_id": "p" });
    assert_eq!(post(fact.clone()), 404);
    client.post(&format!("{W}/peers"), json!({ "id": "p" }));
    assert_eq!(post(fact), 201);
    assert_eq!(
        post(json!({ "content": "x", "observer_id": "p", "observed_id": "q" })),
        404
    );
    assert_eq!(
        post(json!({ "content": "x", "observer_id": "p", "observed_id": "p", "session_id": "s" })),
        404
    );
    assert_eq!(
        server.dump("w").expect("a dump")["conclusions"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_deleted_session_drains() {
    let options = Options {
        drain_after: Duration::from_millis(2_000),
        ..Options::default()
    };
    let server = Server::start(options).expect("a server");
    let client = Client::new(&server.url());
    client.say("w", "s", "owner", "hello tomato");
    let facts = json!({ "conclusions": [
        { "content": "tied", "observer_id": "owner", "observed_id": "owner", "session_id": "s" },
        { "content": "free", "observer_id": "owner", "observed_id": "owner" },
    ] });
    client.post(&format!("{W}/conclusions"), facts.clone());
    let total = |path: &str| client.post(&format!("{W}/{path}"), json!({})).body["total"].clone();
    assert_eq!(client.delete(W).status, 409);
    assert_eq!(client.delete(&format!("{W}/sessions/s")).status, 202);
    assert_eq!(client.delete(&format!("{W}/sessions/s")).status, 404);

    let message = json!({ "messages": [{ "content": "late", "peer_id": "owner" }] });
    for (method, path, body) in [
        ("POST", "sessions", json!({ "id": "s" })),
        ("PUT", "sessions/s", json!({})),
        ("POST", "sessions/s/messages", message.clone()),
        ("POST", "conclusions", facts),
    ] {
        assert_eq!(
            client.call(method, &format!("{W}/{path}"), body).status,
            404,
            "{method} {path}"
        );
    }
    assert_eq!(total("sessions/list"), json!(0));
    assert_eq!(total("sessions/s/messages/list"), json!(1), "still listed");
    let hits = client
        .post(&format!("{W}/search"), json!({ "query": "tomato" }))
        .body;
    assert_eq!(hits.as_array().map(Vec::len), Some(1), "and still found");

    wait_for("the drain", || {
        total("sessions/s/messages/list") == json!(0)
    });
    assert_eq!(total("conclusions/list"), json!(1), "the free one stays");
    assert_eq!(
        client
            .post(&format!("{W}/sessions/s/messages"), message)
            .status,
        201
    );
    assert_eq!(total("sessions/list"), json!(1), "made again, silently");
}

#[test]
fn a_deleted_workspace_is_doomed_until_it_is_gone() {
    let options = Options {
        drain_after: Duration::from_millis(2_000),
        ..Options::default()
    };
    let server = Server::start(options).expect("a server");
    let client = Client::new(&server.url());
    assert_eq!(client.delete(W).status, 404);
    workspace(&client, off());
    let accepted = json!({ "message": "Workspace deletion accepted" });
    assert_eq!(client.delete(W).body, accepted);
    assert_eq!(client.delete(W).status, 202);
    let doomed = client.post("/v3/workspaces", json!({ "id": "w" }));
    assert_eq!(
        (doomed.status, &doomed.body["configuration"]),
        (200, &off())
    );
    client.post(&format!("{W}/peers"), json!({ "id": "p" }));
    wait_for("the drain", || {
        server.dump_all().expect("a dump") == json!({})
    });
    assert_eq!(
        client.post("/v3/workspaces", json!({ "id": "w" })).status,
        201
    );
}

#[test]
fn what_the_queue_would_derive() {
    let (_server, client) = start();
    let pending = |query: &str| {
        let status = client.get(&format!("{W}/queue/status{query}")).body;
        assert!(status["derivation"].is_string());
        (
            status["pending_work_units"].as_u64().unwrap_or(99),
            status["sessions"].is_null(),
        )
    };
    client.post(
        &format!("{W}/peers"),
        json!({ "id": "quiet", "configuration": { "observe_me": false } }),
    );
    client.say("w", "s", "quiet", "hello");
    assert_eq!(pending(""), (0, true));
    client.say("w", "s", "loud", "hello");
    assert_eq!(pending(""), (1, false));
    assert_eq!(pending("?session_id=s"), (1, true));
    assert_eq!(pending("?sender_id=quiet"), (0, true));
    assert_eq!(pending("?observer_id=loud"), (0, true));
    client.put(W, json!({ "configuration": off() }));
    assert_eq!(pending(""), (0, true));
    client.put(
        &format!("{W}/sessions/s"),
        json!({ "configuration": { "reasoning": { "enabled": true } } }),
    );
    assert_eq!(pending(""), (1, false), "a session overrides its workspace");
}

#[test]
fn twelve_at_once_make_one_workspace() {
    let (server, _) = start();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    Client::new(&server.url())
                        .post("/v3/workspaces", json!({ "id": "w" }))
                        .status
                })
            })
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().expect("a status"))
            .collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1);
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 11);
}

#[test]
fn batches_of_many_writers_stay_together() {
    let (server, client) = start();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let url = server.url();
            scope.spawn(move || {
                let message =
                    |n: usize| json!({ "content": format!("{writer}-{n}"), "peer_id": "p" });
                let batch = json!({ "messages": (0..10).map(message).collect::<Vec<_>>() });
                let path = format!("{W}/sessions/s/messages");
                assert_eq!(Client::new(&url).post(&path, batch).status, 201);
            });
        }
    });
    let page = client
        .post(&format!("{W}/sessions/s/messages/list?size=100"), json!({}))
        .body;
    let listed: Vec<&str> = page["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["content"].as_str())
        .collect();
    assert_eq!(listed.len(), 80);
    for batch in listed.chunks(10) {
        let writer = batch[0].split('-').next().expect("a writer");
        let want: Vec<String> = (0..10).map(|n| format!("{writer}-{n}")).collect();
        assert_eq!(batch, want);
    }
}

#[test]
fn a_session_is_copied() {
    let (_server, client) = start();
    client.say("w", "s", "p", "one");
    let last = client.say("w", "s", "p", "two");
    client.say("w", "s", "q", "three");
    let made = client.post(
        &format!("{W}/sessions/s/clone?message_id={last}"),
        Value::Null,
    );
    assert_eq!(made.status, 201);
    let copy = made.body["id"].as_str().expect("an id");
    let page = client
        .post(&format!("{W}/sessions/{copy}/messages/list"), json!({}))
        .body;
    assert_eq!(page["total"], json!(2));
    assert_ne!(page["items"][1]["id"], json!(last));
    assert_eq!(
        client.get(&format!("{W}/sessions/{copy}/peers")).body["total"],
        json!(2)
    );
}

#[test]
fn a_summary_that_was_put_is_shown_where_it_fits_and_goes_with_its_session() {
    let (server, client) = start();
    let context = format!("{W}/sessions/s/context?tokens=100");
    assert_eq!(server.summarise("w", "s", "They met."), Ok(false));
    client.post(&format!("{W}/sessions"), json!({ "id": "s" }));
    assert_eq!(client.get(&context).body["summary"], Value::Null);
    assert_eq!(server.summarise("w", "s", "They met."), Ok(true));
    assert_eq!(client.get(&context).body["summary"]["content"], "They met.");
    let all = client.get(&format!("{W}/sessions/s/summaries")).body;
    assert_eq!(all["short_summary"]["content"], "They met.");
    let without = client.get(&format!("{context}&summary=false")).body;
    assert_eq!(without["summary"], Value::Null);
    assert_eq!(
        server.summarise("w", "s", &"They met. ".repeat(100)),
        Ok(true)
    );
    assert_eq!(
        client.get(&context).body["summary"],
        Value::Null,
        "too long"
    );
    assert_eq!(client.delete(&format!("{W}/sessions/s")).status, 202);
    wait_for("the session to be gone", || {
        client
            .post(&format!("{W}/sessions"), json!({ "id": "s" }))
            .status
            == 201
    });
    assert_eq!(client.get(&context).body["summary"], Value::Null);
}
