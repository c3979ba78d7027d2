//! The reads of Honcho that roncho's blocking client does not have, or not with a bound on the whole call. Called by
//! `context` and `tool` on threads that may wait; creates nothing, and an error keeps a kind and a status.

use std::time::Duration;

use bxcore::{http, secrets::Secret};
use serde_json::{Value, json};

use crate::sync::{
    config::{HonchoConfig, Role},
    request::Failure,
};

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// Tokens asked for with a session's summary: Honcho gives four tenths of them to it.
const SUMMARY_TOKENS: usize = 2_000;
/// Facts of a snapshot.
const SNAPSHOT_FACTS: usize = 40;

/// A client of the agent's own trusted workspace.
pub struct Client {
    agent: ureq::Agent,
    /// Of the workspace.
    url: String,
    key: Option<Secret>,
    owner: String,
    /// Ceiling of a fact's distance, in thousandths.
    distance_milli: u16,
}

/// A fact that Honcho holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    pub id: String,
    pub text: String,
    /// When Honcho made it.
    pub at: String,
    /// How it came about, in Honcho's words, for example `explicit`.
    pub level: String,
}

/// A conclusion, whoever it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub text: String,
    /// The Honcho session it was made from, if any.
    pub session: Option<String>,
    pub about_owner: bool,
    /// When Honcho made it, and how, in its words.
    pub at: String,
    pub level: String,
}

/// What Honcho holds of the owner, unread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub facts: Option<String>,
    pub card: Vec<String>,
}

impl Client {
    /// `limit`: a whole call, however slowly its answer drips.
    #[must_use]
    pub fn new(config: &HonchoConfig, key: Option<&Secret>, limit: Duration) -> Self {
        let agent = http::config(&config.url)
            .timeout_global(Some(limit))
            .build()
            .new_agent();
        Self {
            agent,
            url: format!(
                "{}/v3/workspaces/{}",
                config.url.trim_end_matches('/'),
                config.workspace(Role::Trusted)
            ),
            key: key.cloned(),
            owner: config.owner.clone(),
            distance_milli: config.read.distance_milli,
        }
    }

    /// Facts concluded about the owner that are near the text, nearest first.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn facts(&self, text: &str, most: usize) -> Result<Vec<Fact>, Failure> {
        let body = json!({
            "query": text,
            "top_k": most,
            "distance": f64::from(self.distance_milli) / 1000.0,
            "filters": {"observer_id": self.owner, "observed_id": self.owner},
        });
        let request = self
            .agent
            .post(format!("{}/conclusions/query", self.url))
            .header("content-type", "application/json");
        let found = read(self.keyed(request).send(body.to_string()))?;
        let listed = match &found {
            None => &Vec::new(),
            Some(found) => found.as_array().ok_or(UNREADABLE)?,
        };
        Ok(listed.iter().take(most).filter_map(fact).collect())
    }

    /// What Honcho wrote up of a session; `None`: nothing yet.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn summary(&self, session: &str) -> Result<Option<String>, Failure> {
        let url = format!(
            "{}/sessions/{session}/context?tokens={SUMMARY_TOKENS}&summary=true",
            self.url
        );
        let found = self.get(&url)?;
        Ok(text_of(found.as_ref(), &["summary", "content"]))
    }

    /// What is concluded about the owner, near `query` first, and the card; `None`: Honcho does not know the owner.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn snapshot(&self, query: Option<&str>) -> Result<Option<Snapshot>, Failure> {
        let mut request = self
            .agent
            .get(format!("{}/peers/{}/context", self.url, self.owner))
            .query("max_conclusions", SNAPSHOT_FACTS.to_string());
        if let Some(query) = query {
            request = request.query("search_query", query);
        }
        let found = read(self.keyed(request).call())?;
        let snapshot = |found: &Value| {
            Ok(Snapshot {
                facts: text_of(Some(found), &["representation"]),
                card: card_of(found)?,
            })
        };
        found.as_ref().map(snapshot).transpose()
    }

    /// The lines of the owner's card; empty when there is none.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn card(&self) -> Result<Vec<String>, Failure> {
        let found = self.get(&format!("{}/peers/{}/card", self.url, self.owner))?;
        found.as_ref().map_or(Ok(Vec::new()), card_of)
    }

    /// One conclusion; `None`: it is not there.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn conclusion(&self, id: &str) -> Result<Option<Found>, Failure> {
        // Not every Honcho can be asked for one by its path.
        let request = self
            .agent
            .post(format!("{}/conclusions/list?size=1", self.url))
            .header("content-type", "application/json");
        let body = json!({"filters": {"id": {"in": [id]}}}).to_string();
        let page = read(self.keyed(request).send(body))?;
        let items = match &page {
            None => &Vec::new(),
            Some(page) => page["items"].as_array().ok_or(UNREADABLE)?,
        };
        let found = items.iter().find(|found| found["id"] == id);
        let text = |found: &Value, name: &str| found[name].as_str().unwrap_or_default().to_owned();
        Ok(found.map(|found| Found {
            text: text(found, "content"),
            at: text(found, "created_at"),
            level: text(found, "level"),
            session: found["session_id"].as_str().map(str::to_owned),
            about_owner: ["observer_id", "observed_id"]
                .iter()
                .all(|peer| found[*peer] == self.owner.as_str()),
        }))
    }

    fn get(&self, url: &str) -> Result<Option<Value>, Failure> {
        read(self.keyed(self.agent.get(url)).call())
    }

    fn keyed<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        let request = request.header("connection", "close");
        match &self.key {
            Some(key) => request.header("authorization", format!("Bearer {}", key.expose())),
            None => request,
        }
    }
}

/// The JSON of an answer; `None`: what was asked for is not there.
fn read(
    answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Option<Value>, Failure> {
    let unknown = |kind| Failure::Unknown { kind, status: None };
    let mut answer = answer.map_err(|error| match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Failure::NotReached {
            kind: "cannot connect",
        },
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Failure::NotReached {
                kind: "connection refused",
            }
        }
        ureq::Error::Timeout(_) => unknown("no answer in time"),
        _ => unknown("the connection broke"),
    })?;
    match answer.status().as_u16() {
        200..=299 => {
            let text = answer
                .body_mut()
                .with_config()
                .limit(ANSWER_BYTES_MAX)
                .read_to_string();
            text.ok()
                .and_then(|text| serde_json::from_str(&text).ok())
                .map(Some)
                .ok_or(UNREADABLE)
        }
        404 => Ok(None),
        status @ (401 | 403) => Err(Failure::KeyRefused { status }),
        status => Err(Failure::Unknown {
            kind: "an answer that does not fit",
            status: Some(status),
        }),
    }
}

/// What came says something else than what was asked.
const UNREADABLE: Failure = Failure::Unknown {
    kind: "an answer that cannot be read",
    status: None,
};

fn strings(value: &Value) -> Option<Vec<String>> {
    let lines = value.as_array()?.iter();
    lines.map(|line| line.as_str().map(str::to_owned)).collect()
}

/// `None`: it has no words, or no id that could be Honcho's.
fn fact(value: &Value) -> Option<Fact> {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let found = Fact {
        id: text("id"),
        text: text("content"),
        at: text("created_at"),
        level: text("level"),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let named = !found.id.is_empty() && found.id.chars().all(plain);
    (named && !found.text.trim().is_empty()).then_some(found)
}

/// The card in an answer; `null`: there is none.
fn card_of(value: &Value) -> Result<Vec<String>, Failure> {
    match value.get("peer_card") {
        Some(Value::Null) => Ok(Vec::new()),
        lines => lines.and_then(strings).ok_or(UNREADABLE),
    }
}

fn text_of(value: Option<&Value>, path: &[&str]) -> Option<String> {
    let found = path
        .iter()
        .try_fold(value?, |value, name| value.get(name))?
        .as_str()?;
    (!found.trim().is_empty()).then(|| found.to_owned())
}
