//! Replays every recorded call in the order it was recorded, and compares status, content type and body.
//!
//! Not compared by value, and why:
//! - ids that the server makes up: every recorded id must stand for one and the same id here;
//! - times that the server takes from its clock (those of the recording's minute): must be times;
//! - `token_count`: Honcho counts with a real tokenizer, here it is estimated; must be a number;
//! - which messages a search ranks first: an embedding decided that; each hit must have the shape;
//! - chat's text: a stand-in model wrote it; must be a text;
//! - the keys of the queue status' `sessions`, which are internal ids.
//!
//! Cases 59 and 60 were recorded with an embedding provider and a database down. Neither can be down on
//! its own here, so the server is told to fail in their place; what is compared is the error's shape.

use std::collections::HashMap;
use std::path::Path;

use honcho_local::auth::Claims;
use honcho_local::{Fault, Options, Rule, Server};
use serde_json::{Map, Value, json};

use crate::http::{Client, Reply, start};

const CLOCK: &str = "2026-11-30T";

fn cases() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/recorded");
    let mut cases: Vec<(String, Value)> = std::fs::read_dir(folder)
        .expect("the fixtures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a fixture");
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, serde_json::from_str(&long_runs(&text)).expect("JSON"))
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

/// Recorded runs of one letter are shortened to `<25001 x>`.
fn long_runs(text: &str) -> String {
    text.replace("<25001 x>", &"x".repeat(25_001))
}

#[test]
fn recorded_calls() {
    let (server, client) = start();
    let mut ids = Ids::default();
    let cases = cases();
    assert_eq!(cases.len(), 60);
    for (name, case) in &cases {
        before(name, &server, &client);
        let got = match case["request"]["auth"].as_str() {
            None => {
                let (method, path) = route(case);
                replay(&client, method, &ids.here(path), &case["request"]["body"])
            }
            Some(who) => with_keys(who, case),
        };
        server.controls().clear();
        compare(name, &case["response"], got, &mut ids);
    }
}

fn route(case: &Value) -> (&str, &str) {
    let text = |name: &str| case["request"][name].as_str().expect("a text");
    (text("method"), text("path"))
}

fn replay(client: &Client, method: &str, path: &str, body: &Value) -> Reply {
    match body {
        Value::String(raw) => client.send(method, path, Some("application/json"), raw.as_bytes()),
        body => client.call(method, path, body.clone()),
    }
}

/// Calls that were made between the recorded ones.
fn before(name: &str, server: &Server, client: &Client) {
    let fail = |path: &str| {
        server.controls().add(
            Rule::new(Fault::Status {
                status: 500,
                retry_after: None,
                commit: false,
            })
            .path(path),
        )
    };
    match &name[..2] {
        "10" => drop(client.post(
            "/v3/workspaces/fleet-demo/peers",
            json!({ "id": "agent-a" }),
        )),
        "20" => drop(client.say("fleet-demo", "conv-1", "owner", "")),
        "47" => {
            let card = json!({ "peer_card": ["Name: Owner", "Grows tomatoes"] });
            client.put("/v3/workspaces/fleet-demo/peers/owner/card", card);
        }
        "49" => drop(client.say("fleet-observed", "talk", "owner", "hello")),
        "55" => drop(client.delete("/v3/workspaces/fleet-observed/sessions/talk")),
        "59" => fail("*/search"),
        "60" => fail("*/messages"),
        _ => {}
    }
}

/// The cases recorded with keys required.
fn with_keys(who: &str, case: &Value) -> Reply {
    let options = Options {
        key_secret: Some(String::from("a secret")),
        ..Options::default()
    };
    let server = Server::start(options).expect("a server");
    let key = match who {
        "none" => None,
        "admin key" => server.key(&Claims::admin()),
        "workspace key for fleet-demo" => server.key(&Claims::workspace("fleet-demo")),
        other => panic!("an unknown key: {other}"),
    };
    let client = match key {
        Some(key) => Client::with_key(&server.url(), &key),
        None => Client::new(&server.url()),
    };
    let (method, path) = route(case);
    replay(&client, method, path, &case["request"]["body"])
}

fn compare(name: &str, recorded: &Value, mut got: Reply, ids: &mut Ids) {
    assert_eq!(json!(got.status), recorded["status"], "{name}: {got:?}");
    assert_eq!(
        json!(got.kind),
        recorded["headers"]["content-type"],
        "{name}"
    );
    let mut want = recorded["body"].clone();
    match &name[..2] {
        "29" => {
            let hits = got.body.as_array().expect("hits").clone();
            assert_eq!(hits.len(), 2, "{name}");
            for hit in &hits {
                let keys = |value: &Value| {
                    value
                        .as_object()
                        .map(|map| map.keys().cloned().collect::<Vec<_>>())
                };
                assert_eq!(keys(hit), keys(&want[0]), "{name}");
            }
            return;
        }
        "43" | "44" => {
            assert!(
                got.body["content"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{name}"
            );
            (want["content"], got.body["content"]) = (json!("text"), json!("text"));
        }
        "45" => return compare_streams(name, &want, &got.body),
        "49" => {
            let removed = got
                .body
                .as_object_mut()
                .and_then(|map| map.remove("derivation"));
            assert_eq!(
                removed,
                Some(json!("off: no model is configured")),
                "{name}"
            );
            for body in [&mut want, &mut got.body] {
                name_sessions(body);
            }
        }
        "57" => {
            assert!(
                got.body["key"]
                    .as_str()
                    .is_some_and(|key| key.split('.').count() == 3),
                "{name}"
            );
            got.body["key"] = want["key"].clone();
        }
        _ => {}
    }
    ids.same(name, &mut want, &mut got.body);
    assert_eq!(got.body, want, "{name}");
}

fn compare_streams(name: &str, want: &Value, got: &Value) {
    let events = |value: &Value| -> Vec<Value> {
        let text = value.as_str().expect("a stream");
        assert!(text.ends_with("\n\n"), "{name}");
        let data = text
            .trim_end()
            .split("\n\n")
            .map(|event| event.strip_prefix("data: ").expect("data"));
        data.map(|data| serde_json::from_str(data).expect("JSON"))
            .collect()
    };
    let (want, got) = (events(want), events(got));
    assert_eq!(got.last(), want.last(), "{name}");
    for event in &got[..got.len() - 1] {
        assert_eq!(event["done"], json!(false), "{name}");
        assert!(event["delta"]["content"].is_string(), "{name}");
        assert_eq!(
            event.as_object().map(Map::len),
            want[0].as_object().map(Map::len),
            "{name}"
        );
    }
    assert!(got.len() > 1, "{name}");
}

/// Numbers the internal ids, which are keys and values alike.
fn name_sessions(body: &mut Value) {
    let sessions = body["sessions"].as_object().expect("sessions").clone();
    let named = sessions
        .into_iter()
        .enumerate()
        .map(|(number, (key, mut value))| {
            assert_eq!(key.len(), 21);
            assert_eq!(value["session_id"], json!(key));
            value["session_id"] = json!(number);
            (number.to_string(), value)
        });
    body["sessions"] = Value::Object(named.collect());
}

/// Which id here stands for which recorded one.
#[derive(Default)]
struct Ids(HashMap<String, String>);

impl Ids {
    fn here(&self, text: &str) -> String {
        self.0
            .iter()
            .fold(text.to_owned(), |text, (recorded, here)| {
                text.replace(recorded, here)
            })
    }

    /// Lays the ids, clock times and token counts of `got` into `want` where they may differ.
    fn same(&mut self, name: &str, want: &mut Value, got: &mut Value) {
        match (want, got) {
            (Value::Object(want), Value::Object(got)) => {
                for (key, want) in want.iter_mut() {
                    let Some(got) = got.get_mut(key) else {
                        continue;
                    };
                    match (key.as_str(), want.as_str(), got.as_str()) {
                        ("id", Some(recorded), Some(here)) if recorded.len() == 21 => {
                            assert_eq!(here.len(), 21, "{name}");
                            let known = self
                                .0
                                .entry(recorded.to_owned())
                                .or_insert_with(|| here.to_owned());
                            *want = Value::from(known.as_str());
                        }
                        ("created_at", Some(recorded), Some(here))
                            if recorded.starts_with(CLOCK) =>
                        {
                            assert!(here.len() >= 20 && here.ends_with('Z'), "{name}: {here}");
                            *want = Value::from(here);
                        }
                        ("token_count", ..) => {
                            assert!(got.is_u64(), "{name}");
                            *want = got.clone();
                        }
                        ("detail", Some(recorded), _) => *want = Value::from(self.here(recorded)),
                        ("representation" | "peer_representation", Some(recorded), Some(here)) => {
                            *want = Value::from(plain_times(recorded));
                            *got = Value::from(plain_times(here));
                        }
                        _ => self.same(name, want, got),
                    }
                }
            }
            (Value::Array(want), Value::Array(got)) => {
                want.iter_mut()
                    .zip(got)
                    .for_each(|(want, got)| self.same(name, want, got));
            }
            _ => {}
        }
    }
}

/// `[2026-11-30 09:58:22] text` without the time.
fn plain_times(text: &str) -> String {
    let lines: Vec<&str> = text
        .split('\n')
        .map(|line| match line.split_once("] ") {
            Some((time, rest)) if time.len() == 20 && time.starts_with('[') => rest,
            _ => line,
        })
        .collect();
    lines.join("\n")
}
