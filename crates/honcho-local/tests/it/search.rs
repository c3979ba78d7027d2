//! Search, conclusion queries, chat, representations and contexts, as far as words can find things.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use honcho_local::{ModelOptions, Options, Server};
use serde_json::{Value, json};

use crate::http::{Client, start};

const W: &str = "/v3/workspaces/w";

fn contents(body: &Value) -> Vec<&str> {
    body.as_array()
        .into_iter()
        .flatten()
        .filter_map(|hit| hit["content"].as_str())
        .collect()
}

fn garden(client: &Client) {
    client.say("w", "a", "owner", "The tomatoes go in the south bed");
    client.say("w", "a", "agent", "Noted");
    client.say("w", "b", "owner", "Lettuce wants shade");
    let fact = |content: &str, session: Value| json!({ "content": content, "observer_id": "owner", "observed_id": "owner", "session_id": session });
    let facts = [
        fact("grows tomatoes in the south bed", json!("a")),
        fact("likes short answers", Value::Null),
    ];
    let made = client.post(&format!("{W}/conclusions"), json!({ "conclusions": facts }));
    assert_eq!(made.status, 201, "{made:?}");
}

#[test]
fn messages_by_word_with_no_floor() {
    let (_server, client) = start();
    garden(&client);
    let search = |path: &str, body: Value| client.post(&format!("{W}/{path}search"), body).body;
    let hits = search("", json!({ "query": "tomato?" }));
    assert_eq!(
        contents(&hits)[0],
        "The tomatoes go in the south bed",
        "stemmed"
    );
    assert_eq!(contents(&hits).len(), 3, "the rest follows");
    assert_eq!(
        contents(&search("", json!({ "query": "", "limit": 1 }))),
        ["Lettuce wants shade"]
    );
    assert_eq!(
        contents(&search("peers/owner/", json!({ "query": "noted" }))).len(),
        2,
        "one author's"
    );
    let wider = json!({ "query": "shade", "filters": { "session_id": "b" } });
    assert_eq!(
        contents(&search("sessions/a/", wider)).len(),
        2,
        "the path wins over the filter"
    );
    let narrowed = json!({ "query": "bed", "filters": { "peer_id": "agent" } });
    assert_eq!(contents(&search("", narrowed)), ["Noted"]);
    assert_eq!(
        client
            .post(
                &format!("{W}/search"),
                json!({ "query": "x", "filters": { "id": "y" } })
            )
            .status,
        422
    );
    assert_eq!(
        client
            .post(
                &format!("{W}/search"),
                json!({ "query": "x", "scope": "none" })
            )
            .status,
        404
    );
    assert_eq!(
        client
            .post(
                &format!("{W}/search"),
                json!({ "query": "x", "limit": 101 })
            )
            .status,
        422
    );
    let syntax = json!({ "query": "\"tomatoes\" AND (south OR NOT* ^bed" });
    assert_eq!(
        contents(&search("", syntax))[0],
        "The tomatoes go in the south bed",
        "no query is a syntax error"
    );
}

#[test]
fn conclusions_by_distance() {
    let (_server, client) = start();
    garden(&client);
    let query = |body: Value| client.post(&format!("{W}/conclusions/query"), body);
    let with = |more: Value| {
        let mut body = json!({ "query": "tomatoes south", "filters": { "observer": "owner", "observed_id": "owner" } });
        for (key, value) in more.as_object().cloned().unwrap_or_default() {
            match key.as_str() {
                "filters" => value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .for_each(|(key, value)| body["filters"][key] = value.clone()),
                _ => body[key] = value,
            }
        }
        query(body)
    };
    assert_eq!(
        contents(&with(json!({})).body),
        ["grows tomatoes in the south bed", "likes short answers"]
    );
    assert_eq!(
        contents(&with(json!({ "distance": 0.5 })).body),
        ["grows tomatoes in the south bed"]
    );
    assert_eq!(contents(&with(json!({ "distance": 0.0 })).body), [""; 0]);
    assert_eq!(contents(&with(json!({ "top_k": 1 })).body).len(), 1);
    assert_eq!(
        contents(&with(json!({ "filters": { "session_id": null } })).body),
        ["likes short answers"]
    );
    assert_eq!(
        contents(&with(json!({ "filters": { "observer": ["owner"] } })).body),
        [""; 0]
    );
    assert_eq!(
        with(json!({ "filters": { "observer": { "in": ["owner"] } } })).status,
        500
    );
    assert_eq!(
        with(json!({ "filters": { "observer": "stranger" } })).body,
        json!([])
    );
    for bad in [
        json!({ "distance": 1.5 }),
        json!({ "top_k": 0 }),
        json!({ "top_k": 101 }),
    ] {
        assert_eq!(with(bad.clone()).status, 422, "{bad}");
    }
    let inside = json!({ "query": "x", "filters": { "AND": [{ "observer": "owner" }, { "observed": "owner" }] } });
    assert!(
        query(inside).body["detail"].is_string(),
        "inside AND they do not count"
    );
}

#[test]
fn one_conclusion() {
    let (_server, client) = start();
    garden(&client);
    let page = client
        .post(
            &format!("{W}/conclusions/list"),
            json!({ "filters": { "session_id": "a" } }),
        )
        .body;
    let id = page["items"][0]["id"].as_str().expect("an id");
    let path = format!("{W}/conclusions/{id}");
    assert_eq!(client.get(&path).body, page["items"][0]);
    assert_eq!(
        client
            .delete(&format!("/v3/workspaces/other/conclusions/{id}"))
            .status,
        404
    );
    assert_eq!(
        (client.delete(&path).status, client.delete(&path).status),
        (204, 404)
    );
    assert_eq!(client.get(&path).status, 404);
    let ids = json!({ "filters": { "id": { "in": [id] } } });
    assert_eq!(
        client.post(&format!("{W}/conclusions/list"), ids).body["total"],
        json!(0)
    );
}

#[test]
fn chat_repeats_what_matches() {
    let (_server, client) = start();
    garden(&client);
    let chat = |path: &str, body: Value| client.post(&format!("{W}/{path}chat"), body);
    let answer = chat(
        "peers/owner/",
        json!({ "query": "where do the tomatoes go?" }),
    )
    .body["content"]
        .to_string();
    assert!(
        answer.contains("south bed") && answer.contains("grows tomatoes"),
        "{answer}"
    );
    let answer = chat("", json!({ "query": "zebra" })).body["content"].to_string();
    assert!(answer.contains("Nothing"), "{answer}");
    let confined = json!({ "query": "tomatoes lettuce", "filters": { "session_id": "b" } });
    let answer = chat("peers/owner/", confined).body["content"].to_string();
    assert!(
        answer.contains("Lettuce") && !answer.contains("tomatoes"),
        "{answer}"
    );
    for (body, status) in [
        (json!({ "query": "" }), 422),
        (json!({ "query": "x".repeat(10_001) }), 422),
        (json!({ "query": "x", "stream": null }), 422),
        (json!({ "query": "x", "reasoning_level": null }), 422),
        (json!({ "query": "x", "reasoning_level": "some" }), 422),
        (json!({ "query": "x", "session_id": "none" }), 404),
        (json!({ "query": "x", "filters": { "peer_id": "p" } }), 422),
    ] {
        assert_eq!(chat("peers/owner/", body.clone()).status, status, "{body}");
    }
    let schema = json!({ "type": "object", "properties": { "answer": { "type": "string" } } });
    let shaped = chat("", json!({ "query": "shade", "response_format": schema })).body;
    let inner: Value =
        serde_json::from_str(shaped["content"].as_str().expect("a text")).expect("JSON");
    assert!(inner["answer"].is_string());
}

#[test]
fn representations_and_contexts() {
    let (_server, client) = start();
    garden(&client);
    let represent = |body: Value| {
        let reply = client.post(&format!("{W}/peers/owner/representation"), body);
        reply.body["representation"]
            .as_str()
            .expect("a text")
            .to_owned()
    };
    let whole = represent(json!({}));
    assert!(
        whole.starts_with("## Explicit Observations\n\n[") && whole.contains("short answers"),
        "{whole}"
    );
    assert!(!represent(json!({ "session_id": "a" })).contains("short answers"));
    assert_eq!(represent(json!({ "target": "agent" })), "");
    let context = client
        .get(&format!("{W}/sessions/a/context?peer_target=owner"))
        .body;
    assert_eq!(
        contents(&context["messages"]),
        ["The tomatoes go in the south bed", "Noted"]
    );
    let here = client
        .get(&format!(
            "{W}/sessions/a/context?peer_target=owner&limit_to_session=true"
        ))
        .body;
    assert!(
        !here["peer_representation"]
            .to_string()
            .contains("short answers")
    );
    assert_eq!(
        client.get(&format!("{W}/sessions/a/context?tokens=0")).body["messages"],
        json!([])
    );
    assert_eq!(
        client
            .get(&format!("{W}/sessions/a/context?tokens=100001"))
            .status,
        422
    );
    assert_eq!(
        client
            .get(&format!("{W}/sessions/a/context?peer_perspective=owner"))
            .status,
        422
    );
    let card = client.get(&format!("{W}/peers/owner/card")).body;
    assert_eq!(card, json!({ "peer_card": null }));
    client.put(
        &format!("{W}/peers/owner/card?target=agent"),
        json!({ "peer_card": [] }),
    );
    assert_eq!(
        client
            .get(&format!("{W}/peers/owner/card?target=agent"))
            .body,
        json!({ "peer_card": [] })
    );
    assert_eq!(client.get(&format!("{W}/peers/nobody/card")).status, 404);
}

#[test]
fn scopes_narrow_a_search() {
    let (_server, client) = start();
    garden(&client);
    assert_eq!(
        client
            .post(&format!("{W}/scopes"), json!({ "id": "b-only" }))
            .status,
        201
    );
    assert_eq!(
        client
            .post(&format!("{W}/scopes"), json!({ "id": "b-only" }))
            .status,
        200
    );
    let join = |session: &str| {
        client
            .post(
                &format!("{W}/scopes/b-only/sessions"),
                json!({ "session_ids": [session] }),
            )
            .status
    };
    assert_eq!((join("b"), join("none")), (204, 404));
    let hits = client
        .post(
            &format!("{W}/search"),
            json!({ "query": "tomatoes", "scope": "b-only" }),
        )
        .body;
    assert_eq!(contents(&hits), ["Lettuce wants shade"]);
    let peers = |kind: &str| {
        client
            .post(&format!("{W}/peers/list"), json!({ "kind": kind }))
            .body["total"]
            .clone()
    };
    assert_eq!(
        (peers("peer"), peers("scope"), peers("all")),
        (json!(2), json!(1), json!(3))
    );
}

/// Answers one chat completion, and gives back what it was asked.
fn one_completion(listener: &TcpListener, content: Option<&str>) -> Value {
    let (mut stream, _) = listener.accept().expect("a caller");
    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let answer = match content {
        Some(content) => json!({ "choices": [{ "message": { "content": content } }] }).to_string(),
        None => String::from("oops"),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    stream
        .write_all(format!("{head}{answer}").as_bytes())
        .expect("sent");
    serde_json::from_slice(&body).expect("JSON")
}

#[test]
fn a_model_answers_when_there_is_one() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let model = ModelOptions {
        url,
        name: String::from("small"),
        key: None,
    };
    let server = Server::start(Options {
        model: Some(model),
        ..Options::default()
    })
    .expect("a server");
    let client = Client::new(&server.url());
    garden(&client);
    let asked = std::thread::spawn(move || {
        let asked = one_completion(&listener, Some("In the south bed."));
        one_completion(&listener, None);
        asked
    });
    let question = json!({ "query": "where do the tomatoes go?" });
    let reply = client.post(&format!("{W}/peers/owner/chat"), question.clone());
    assert_eq!(reply.body, json!({ "content": "In the south bed." }));
    assert_eq!(
        client.post(&format!("{W}/chat"), question).status,
        500,
        "no usable answer"
    );
    let asked = asked.join().expect("asked");
    assert_eq!(asked["model"], json!("small"));
    assert!(
        asked["messages"][0]["content"]
            .as_str()
            .is_some_and(|text| text.contains("south bed"))
    );
}
