//! The searches of one workspace and its chats, each with a bound on the whole call, which roncho's blocking client
//! lacks. Called by `source`, `chat` and `able` on threads of their own; creates nothing, and an error keeps a kind
//! and a status.

use std::time::{Duration, Instant};

use bxcore::{http, secrets::Secret};
use roncho::models::{
    chat::{ChatResponse, ReasoningLevel},
    conclusions::ConclusionQuery,
    page::Page,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::sync::{config::HonchoConfig, honcho::by_status, request::Failure};

/// Largest answer that is read, in bytes: as many of the longest messages as one search asks for.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Shortest bound of a call.
const CALL_MS_MIN: Duration = Duration::from_millis(1);

/// A client of one workspace with its own key.
pub struct Client {
    agent: ureq::Agent,
    /// Of the workspace.
    url: String,
    key: Option<Secret>,
}

impl Client {
    #[must_use]
    pub fn new(config: &HonchoConfig, workspace: &str, key: Option<&Secret>) -> Self {
        let agent = http::config(&config.url)
            .timeout_connect(Some(config.limits.connect_ms_max))
            .build()
            .new_agent();
        let url = config.url.trim_end_matches('/');
        Self {
            agent,
            url: format!("{url}/v3/workspaces/{workspace}"),
            key: key.cloned(),
        }
    }

    /// Messages that match.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn messages(
        &self,
        query: &str,
        limit: usize,
        filters: Option<Map<String, Value>>,
        deadline: Instant,
    ) -> Result<Vec<roncho::Message>, Failure> {
        let mut body = json!({ "query": query, "limit": limit });
        if let Some(filters) = filters {
            body["filters"] = Value::Object(filters);
        }
        self.post("search", &body, deadline)
    }

    /// Conclusions near a text.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn conclusions(
        &self,
        query: &ConclusionQuery,
        deadline: Instant,
    ) -> Result<Vec<roncho::Conclusion>, Failure> {
        let body =
            serde_json::to_value(query).map_err(|_| unknown("a request that has no form"))?;
        self.post("conclusions/query", &body, deadline)
    }

    /// The first messages of a session that the filters let through. `session`: plain, as `naming::is_name` says.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn listed(
        &self,
        session: &str,
        most: usize,
        filters: &Map<String, Value>,
        deadline: Instant,
    ) -> Result<Vec<roncho::Message>, Failure> {
        let path = format!("sessions/{session}/messages/list?page=1&size={most}");
        let page: Page<_> = self.post(&path, &json!({ "filters": filters }), deadline)?;
        Ok(page.items)
    }

    /// What Honcho answers over the whole workspace, or of one peer; `None`: it has nothing to say.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn chat(
        &self,
        peer: Option<&str>,
        question: &str,
        level: ReasoningLevel,
        deadline: Instant,
    ) -> Result<Option<String>, Failure> {
        let path = match peer {
            None => "chat".into(),
            Some(peer) => format!("peers/{peer}/chat"),
        };
        let body = json!({ "query": question, "reasoning_level": level });
        let reply: ChatResponse = self.post(&path, &body, deadline)?;
        Ok(reply.content.filter(|text| !text.trim().is_empty()))
    }

    /// Whether a peer is there. A chat with one that is not would make it.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn has(&self, peer: &str, deadline: Instant) -> Result<bool, Failure> {
        let request = self.agent.get(format!("{}/peers/{peer}/card", self.url));
        let answer = self.ready(request, deadline).call();
        match answer.map_err(|error| failure(&error))?.status().as_u16() {
            200..=299 => Ok(true),
            404 => Ok(false),
            status => Err(by_status(status)),
        }
    }

    fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        deadline: Instant,
    ) -> Result<T, Failure> {
        let request = self.agent.post(format!("{}/{path}", self.url));
        let mut answer = self
            .ready(request, deadline)
            .header("content-type", "application/json")
            .send(body.to_string())
            .map_err(|error| failure(&error))?;
        let status = answer.status().as_u16();
        if !(200..=299).contains(&status) {
            return Err(by_status(status));
        }
        let text = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_string()
            .map_err(|error| failure(&error))?;
        serde_json::from_str(&text).map_err(|_| unknown("an answer that cannot be read"))
    }

    /// With the key. However slowly the answer drips, the connection is closed at the deadline.
    fn ready<B>(
        &self,
        request: ureq::RequestBuilder<B>,
        deadline: Instant,
    ) -> ureq::RequestBuilder<B> {
        let left = deadline.saturating_duration_since(Instant::now());
        let request = request
            .config()
            .timeout_global(Some(left.max(CALL_MS_MIN)))
            .build()
            .header("connection", "close");
        match &self.key {
            Some(key) => request.header("authorization", format!("Bearer {}", key.expose())),
            None => request,
        }
    }
}

/// What an error of ureq's means. Its text is never looked at.
fn failure(error: &ureq::Error) -> Failure {
    use std::io::ErrorKind;
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
            Failure::NotReached {
                kind: "cannot connect",
            }
        }
        ureq::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
            Failure::NotReached {
                kind: "connection refused",
            }
        }
        ureq::Error::Timeout(_) => unknown("no answer in time"),
        ureq::Error::BodyExceedsLimit(_) => unknown("an answer that is too large"),
        _ => unknown("the connection broke"),
    }
}

fn unknown(kind: &'static str) -> Failure {
    Failure::Unknown { kind, status: None }
}
