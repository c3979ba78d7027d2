//! A plain client for the tests, a bounded wait, and short-cuts for set-up.

use std::time::{Duration, Instant};

use honcho_local::{Options, Server};
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub kind: String,
    /// JSON where it is JSON, a text where it is not, `null` without a body.
    pub body: Value,
}

pub struct Client {
    url: String,
    key: Option<String>,
    agent: ureq::Agent,
}

impl Client {
    pub fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_secs(20)));
        Self {
            url: url.to_owned(),
            key: None,
            agent: config.build().into(),
        }
    }

    pub fn with_key(url: &str, key: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
            ..Self::new(url)
        }
    }

    pub fn send(&self, method: &str, path: &str, kind: Option<&str>, body: &[u8]) -> Reply {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        let sent = if body.is_empty() {
            self.agent.run(request.body(()).expect("a request"))
        } else {
            let request = request.body(body.to_vec()).expect("a request");
            self.agent.run(
                self.agent
                    .configure_request(request)
                    .allow_non_standard_methods(true)
                    .build(),
            )
        };
        let mut answer = sent.expect("an answer");
        let kind = answer
            .headers()
            .get("content-type")
            .and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let text = answer
            .body_mut()
            .with_config()
            .limit(256 << 20)
            .read_to_string()
            .expect("a body");
        let body = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(_) if text.is_empty() => Value::Null,
            Err(_) => Value::from(text),
        };
        Reply {
            status: answer.status().as_u16(),
            kind,
            body,
        }
    }

    pub fn call(&self, method: &str, path: &str, body: Value) -> Reply {
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        self.send(
            method,
            path,
            (!bytes.is_empty()).then_some("application/json"),
            &bytes,
        )
    }

    pub fn get(&self, path: &str) -> Reply {
        self.call("GET", path, Value::Null)
    }

    pub fn post(&self, path: &str, body: Value) -> Reply {
        self.call("POST", path, body)
    }

    pub fn put(&self, path: &str, body: Value) -> Reply {
        self.call("PUT", path, body)
    }

    pub fn delete(&self, path: &str) -> Reply {
        self.call("DELETE", path, Value::Null)
    }

    /// Stores one message; its id.
    pub fn say(&self, workspace: &str, session: &str, peer: &str, text: &str) -> String {
        let body = json!({ "messages": [{ "content": text, "peer_id": peer }] });
        let reply = self.post(
            &format!("/v3/workspaces/{workspace}/sessions/{session}/messages"),
            body,
        );
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.body[0]["id"].as_str().expect("an id").to_owned()
    }
}

pub fn start() -> (Server, Client) {
    let server = Server::start(Options::default()).expect("a server");
    let client = Client::new(&server.url());
    (server, client)
}

/// Polls until it is so; panics when it is not within ten seconds.
pub fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !so() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
