//! Keys: what each kind opens over HTTP, and that they are looked at before the body.

use honcho_local::auth::Claims;
use honcho_local::{Options, Server};
use serde_json::{Value, json};

use crate::http::Client;

fn world() -> (Server, Client) {
    let options = Options {
        key_secret: Some(String::from("a secret")),
        ..Options::default()
    };
    let server = Server::start(options).expect("a server");
    let admin = server.key(&Claims::admin()).expect("keys are on");
    let client = Client::with_key(&server.url(), &admin);
    client.say("w", "s", "p", "hello");
    client.say("w", "t", "q", "hello");
    (server, client)
}

#[test]
fn what_each_key_opens() {
    let (server, admin) = world();
    let minted = |query: &str| {
        let reply = admin.post(&format!("/v3/keys?{query}"), Value::Null);
        Client::with_key(&server.url(), reply.body["key"].as_str().expect("a key"))
    };
    let none = Client::new(&server.url());
    let workspace = minted("workspace_id=w");
    let peer = minted("workspace_id=w&peer_id=p");
    let session = minted("workspace_id=w&session_id=s");
    let expiring = minted("workspace_id=w&expires_at=2099-01-01T00:00:00Z");
    let say = json!({ "messages": [{ "content": "x", "peer_id": "p" }] });
    let rows: [(&str, &str, Value, [u16; 6]); 10] = [
        // admin, workspace, peer, session, expiring, none
        (
            "GET",
            "/health",
            Value::Null,
            [200, 200, 200, 200, 200, 200],
        ),
        (
            "POST",
            "/v3/workspaces/list",
            json!({}),
            [200, 401, 401, 401, 401, 401],
        ),
        (
            "POST",
            "/v3/workspaces",
            json!({ "id": "w" }),
            [200, 200, 401, 401, 401, 401],
        ),
        (
            "POST",
            "/v3/workspaces/w/search",
            json!({ "query": "x" }),
            [200, 200, 401, 401, 401, 401],
        ),
        (
            "POST",
            "/v3/workspaces/v/search",
            json!({ "query": "x" }),
            [200, 401, 401, 401, 401, 401],
        ),
        (
            "POST",
            "/v3/workspaces/w/conclusions/list",
            json!({}),
            [200, 200, 401, 401, 401, 401],
        ),
        (
            "POST",
            "/v3/workspaces/w/peers",
            json!({ "id": "p" }),
            [200, 200, 200, 200, 401, 401],
        ),
        (
            "GET",
            "/v3/workspaces/w/peers/p/context",
            Value::Null,
            [200, 200, 200, 401, 401, 401],
        ),
        (
            "POST",
            "/v3/workspaces/w/sessions/s/messages/list",
            json!({}),
            [200, 200, 200, 200, 401, 401],
        ),
        (
            "POST",
            "/v3/workspaces/w/sessions/s/messages",
            say,
            [201, 201, 401, 201, 401, 401],
        ),
    ];
    for (method, path, body, want) in rows {
        let clients = [&admin, &workspace, &peer, &session, &expiring, &none];
        let got = clients.map(|client| client.call(method, path, body.clone()).status);
        assert_eq!(got, want, "{method} {path}");
    }
    let other = peer.post("/v3/workspaces/w/sessions/t/messages/list", json!({}));
    assert_eq!(other.status, 401, "not a member there");
}

#[test]
fn keys_come_before_bodies() {
    let (server, admin) = world();
    let client = Client::with_key(&server.url(), "nonsense");
    let refused = client.send(
        "POST",
        "/v3/workspaces/w/peers",
        Some("application/json"),
        b"{",
    );
    assert_eq!(
        (refused.status, refused.body),
        (401, json!({ "detail": "Invalid JWT" }))
    );
    assert_eq!(admin.post("/v3/keys", Value::Null).status, 422);
    let workspace = server.key(&Claims::workspace("w")).expect("keys are on");
    let refused =
        Client::with_key(&server.url(), &workspace).post("/v3/keys?workspace_id=w", Value::Null);
    assert_eq!(
        refused.body,
        json!({ "detail": "Resource requires admin privileges" })
    );
}
