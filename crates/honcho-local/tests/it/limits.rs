//! What is refused, with which status and in which shape, and what is just within the limits.

use serde_json::{Map, Value, json};

use crate::http::{Client, start};

const W: &str = "/v3/workspaces/w";

fn message(client: &Client, body: Value) -> (u16, Value) {
    let reply = client.post(
        &format!("{W}/sessions/s/messages"),
        json!({ "messages": [body] }),
    );
    (reply.status, reply.body)
}

fn with_content(content: &str) -> Value {
    json!({ "content": content, "peer_id": "p" })
}

fn deep(levels: usize) -> Value {
    (1..levels).fold(json!({}), |inner, _| json!({ "in": inner }))
}

fn wide(keys: usize) -> Value {
    Value::Object(
        (0..keys)
            .map(|key| (format!("k{key}"), json!(key)))
            .collect::<Map<_, _>>(),
    )
}

#[test]
fn message_lengths_are_characters() {
    let (_server, client) = start();
    for (content, status) in [
        ("x".repeat(25_000), 201),
        ("🍅".repeat(25_000), 201),
        ("🍅".repeat(25_001), 422),
        (String::new(), 201),
        (String::from(" \r\n "), 201),
    ] {
        let (got, body) = message(&client, with_content(&content));
        assert_eq!(got, status, "{} characters", content.chars().count());
        let back = if status == 201 {
            &body[0]["content"]
        } else {
            &body["detail"][0]["input"]
        };
        assert_eq!(
            back,
            &json!(content),
            "stored exactly, and echoed whole when refused"
        );
    }
    let (_, body) = message(&client, with_content("a\0b"));
    assert_eq!(body[0]["content"], json!("ab"));
}

#[test]
fn batches_are_atomic_and_bounded() {
    let (server, client) = start();
    let send = |count: usize, bad: bool| {
        let mut batch: Vec<Value> = (0..count).map(|n| with_content(&n.to_string())).collect();
        if bad {
            batch.push(json!({ "content": 7, "peer_id": "p" }));
        }
        client.post(
            &format!("{W}/sessions/s/messages"),
            json!({ "messages": batch }),
        )
    };
    assert_eq!(
        send(101, false).body["detail"][0]["type"],
        json!("too_long")
    );
    let refused = send(2, true);
    assert_eq!(
        refused.body["detail"][0]["loc"],
        json!(["body", "messages", 2, "content"])
    );
    assert_eq!(
        server.dump("w").expect("a dump"),
        Value::Null,
        "nothing came of it"
    );
    assert_eq!(send(100, false).status, 201);
    let listed = client
        .post(
            &format!("{W}/sessions/s/messages/list?size=100&reverse=true"),
            json!({}),
        )
        .body;
    assert_eq!(listed["items"][0]["content"], json!("99"));
    assert_eq!(listed["items"][99]["content"], json!("0"));
}

#[test]
fn metadata_has_limits() {
    let (_server, client) = start();
    for (metadata, status) in [
        (wide(100), 201),
        (wide(101), 422),
        (deep(5), 201),
        (deep(6), 422),
        (json!([]), 422),
        (json!(null), 201),
    ] {
        let (got, body) = message(
            &client,
            json!({ "content": "x", "peer_id": "p", "metadata": metadata }),
        );
        assert_eq!(got, status, "{body}");
    }
}

#[test]
fn times_come_back_as_sent_once() {
    let (_server, client) = start();
    let at = json!("2026-03-01T12:00:00+02:00");
    let (_, made) = message(
        &client,
        json!({ "content": "x", "peer_id": "p", "created_at": at }),
    );
    assert_eq!(made[0]["created_at"], at);
    let id = made[0]["id"].as_str().expect("an id").to_owned();
    let read = client.get(&format!("{W}/sessions/s/messages/{id}")).body;
    assert_eq!(read["created_at"], json!("2026-03-01T10:00:00Z"));
    let (status, _) = message(
        &client,
        json!({ "content": "x", "peer_id": "p", "created_at": "soon" }),
    );
    assert_eq!(status, 422);
}

#[test]
fn a_message_changes_only_its_metadata() {
    let (_server, client) = start();
    let id = client.say("w", "s", "p", "hello");
    let path = format!("{W}/sessions/s/messages/{id}");
    let changed = client.put(&path, json!({ "metadata": { "a": 1 }, "content": "other" }));
    assert_eq!(
        (changed.status, &changed.body["content"]),
        (200, &json!("hello"))
    );
    assert_eq!(client.get(&path).body["metadata"], json!({ "a": 1 }));
    assert_eq!(client.delete(&path).status, 405);
    assert_eq!(
        client
            .get(&format!("{W}/sessions/other/messages/{id}"))
            .status,
        404
    );
}

#[test]
fn bad_names() {
    let (_server, client) = start();
    let body = json!({ "messages": [with_content("x")] });
    assert_eq!(
        client
            .post(&format!("{W}/sessions/a.b/messages"), body.clone())
            .status,
        500,
        "looked at too late"
    );
    assert_eq!(
        client
            .post("/v3/workspaces/a.b/sessions/s/messages", body)
            .status,
        500
    );
    assert_eq!(
        client
            .post(&format!("{W}/peers"), json!({ "id": "a.b" }))
            .status,
        422
    );
    assert_eq!(
        client
            .post(
                &format!("{W}/sessions"),
                json!({ "id": "s", "peers": { "a b": {} } })
            )
            .status,
        422
    );
    assert_eq!(
        client
            .post(&format!("{W}/peers"), json!({ "id": "x".repeat(513) }))
            .status,
        422
    );
    assert_eq!(
        client
            .post(&format!("{W}/peers"), json!({ "id": "x".repeat(512) }))
            .status,
        201
    );
}

#[test]
fn conclusions_have_limits() {
    let (_server, client) = start();
    client.post(&format!("{W}/peers"), json!({ "id": "p" }));
    let post = |content: &str| {
        let fact = json!({ "content": content, "observer_id": "p", "observed_id": "p" });
        client.post(
            &format!("{W}/conclusions"),
            json!({ "conclusions": [fact] }),
        )
    };
    assert_eq!(
        post("").body["detail"][0]["type"],
        json!("string_too_short")
    );
    assert_eq!(post(" ").status, 201);
    assert_eq!(
        post(&"x".repeat(65_536)).body["detail"][0]["type"],
        json!("string_too_long")
    );
    assert!(
        post(&"word ".repeat(9_000)).body["detail"].is_string(),
        "too many tokens"
    );
}

#[test]
fn bodies_that_cannot_be_read() {
    let (_server, client) = start();
    let path = "/v3/workspaces";
    let typed = Some("application/json");
    let rows: [(Option<&str>, &[u8], u16, &str); 6] = [
        (None, br#"{"id":"w"}"#, 422, "model_attributes_type"),
        (
            Some("text/plain"),
            br#"{"id":"w"}"#,
            422,
            "model_attributes_type",
        ),
        (typed, br#"["w"]"#, 422, "model_attributes_type"),
        (typed, br#"{"id":"w",}"#, 422, "json_invalid"),
        (typed, br#"{"metadata":{}}"#, 422, "missing"),
        (typed, br#"{"id":7}"#, 422, "string_type"),
    ];
    for (kind, body, status, problem) in rows {
        let reply = client.send("POST", path, kind, body);
        assert_eq!(
            (reply.status, &reply.body["detail"][0]["type"]),
            (status, &json!(problem))
        );
    }
    let reply = client.send("POST", path, typed, b"{\"id\":\"\xff\"}");
    assert_eq!(
        (reply.status, reply.body),
        (
            400,
            json!({ "detail": "There was an error parsing the body" })
        )
    );
    let reply = client.send(
        "POST",
        path,
        typed,
        br#"{"id":"w","metadata":{"a":"\ud800"}}"#,
    );
    assert_eq!(reply.status, 500, "half a surrogate pair");
    assert_eq!(
        client.post(path, Value::Null).body["detail"][0]["type"],
        json!("missing")
    );
}

#[test]
fn paths_and_methods() {
    let (_server, client) = start();
    for (method, path, status) in [
        ("GET", "/nowhere", 404),
        ("GET", "/v3/workspaces/w", 405),
        ("GET", "/v3/workspaces", 405),
        ("PUT", "/v3/workspaces/w/conclusions/x", 405),
        ("DELETE", "/v3/workspaces/w/peers/p", 405),
        ("POST", "/health", 405),
        ("POST", "/v3/workspaces/w/peers/", 307),
        ("GET", "/openapi.json", 200),
    ] {
        let reply = client.call(method, path, Value::Null);
        assert_eq!(reply.status, status, "{method} {path}");
    }
    let body = json!({ "messages": [with_content("x")] });
    assert_eq!(
        client
            .post(&format!("{W}/sessions/s/messages/"), body)
            .status,
        201
    );
}

#[test]
fn pages() {
    let (_server, client) = start();
    for name in ["a", "b", "c"] {
        client.post(&format!("{W}/peers"), json!({ "id": name }));
    }
    let list = |query: &str| client.post(&format!("{W}/peers/list{query}"), Value::Null);
    let ids = |query: &str| -> Vec<String> {
        let items = list(query).body["items"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        items
            .iter()
            .filter_map(|item| item["id"].as_str().map(str::to_owned))
            .collect()
    };
    assert_eq!(ids(""), ["a", "b", "c"]);
    assert_eq!(ids("?reverse=true&size=2"), ["c", "b"]);
    assert_eq!(ids("?page=2&size=2"), ["c"]);
    let past = list("?page=9&size=2").body;
    assert_eq!(
        past,
        json!({ "items": [], "total": 3, "page": 9, "size": 2, "pages": 2 })
    );
    for bad in [
        "?size=0",
        "?size=101",
        "?page=0",
        "?page=x",
        "?reverse=maybe",
    ] {
        assert_eq!(list(bad).status, 422, "{bad}");
    }
}

#[test]
fn configurations_are_checked() {
    let (_server, client) = start();
    for (configuration, status) in [
        (json!({ "reasoning": { "enabled": "false" } }), 200),
        (json!({ "reasoning": { "enabled": "maybe" } }), 422),
        (
            json!({ "summary": { "messages_per_short_summary": 9 } }),
            422,
        ),
        (json!({ "anything": "else" }), 200),
    ] {
        let reply = client.put(W, json!({ "configuration": configuration }));
        assert_eq!(reply.status, status, "{configuration}");
    }
    let stored = client.post("/v3/workspaces", json!({ "id": "w" })).body;
    assert_eq!(
        stored["configuration"]["reasoning"]["enabled"],
        json!(false),
        "a text was read as a truth value"
    );
}
