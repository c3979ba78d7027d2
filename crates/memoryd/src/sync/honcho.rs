//! Carries requests out at a real Honcho: one of roncho's blocking clients a workspace, each with its own key,
//! and a small client of our own for what roncho does not cover. Called by `worker`'s calling thread. An error
//! keeps a kind and a status, never a body: a refusal can echo memory text.

use std::{collections::BTreeMap, time::Duration};

use bxcore::{http, secrets::Secret};
use roncho::{
    ConclusionCreate, MessageCreate, PeerCreate, SessionCreate, SessionPeerConfig, WorkspaceCreate,
    blocking::{Client, Error},
    models::{ConclusionBatchCreate, ConclusionListOptions, page::ListOptions},
};
use serde_json::{Map, Value, json};

use super::{
    config::{HonchoConfig, Role},
    naming::HonchoSession,
    request::{Answer, Failure, Message, Queue, Request},
};

/// Messages on one page of a look-up: few enough that a page of the longest ones is under the client's cap.
const FOUND_PAGE_SIZE: usize = 20;
/// Pages of a look-up of messages: a batch's worth, twice over.
const FOUND_PAGES_MAX: usize = 10;
/// Conclusions on one page, and pages, of a look-up; newest first.
const CONCLUSIONS_PAGE_SIZE: usize = 100;
const CONCLUSIONS_PAGES_MAX: usize = 20;
/// Longest answer of our own client, in bytes.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;

/// What is said of an answer that is none.
const UNREADABLE: &str = "an answer that cannot be read";

/// The clients.
pub struct Honcho {
    clients: BTreeMap<Role, Client>,
    keys: BTreeMap<Role, Secret>,
    /// For what roncho does not have.
    own: ureq::Agent,
    config: HonchoConfig,
    installation: String,
}

impl Honcho {
    /// Builds a client for each workspace.
    ///
    /// # Errors
    /// What roncho says of the URL, without anything secret in it.
    pub fn new(
        config: &HonchoConfig,
        keys: BTreeMap<Role, Secret>,
        installation: &str,
    ) -> Result<Self, String> {
        let mut clients = BTreeMap::new();
        for role in Role::ALL {
            // Without this roncho would take a key from a file of its own.
            let mut builder = Client::builder()
                .without_config_file()
                .base_url(&config.url)
                .workspace_id(config.workspace(role))
                .connect_timeout(config.limits.connect_ms_max)
                .read_timeout(config.limits.read_ms_max);
            if let Some(key) = keys.get(&role) {
                builder = builder.api_key(key.expose());
            }
            let client = builder.build().map_err(|error| match error {
                Error::Config(what) => what,
                _ => "the certificate store cannot be used".into(),
            })?;
            clients.insert(role, client);
        }
        let own = http::config(&config.url)
            .timeout_connect(Some(config.limits.connect_ms_max))
            .timeout_recv_response(Some(config.limits.read_ms_max))
            .timeout_recv_body(Some(config.limits.read_ms_max))
            .build()
            .new_agent();
        Ok(Self {
            clients,
            keys,
            own,
            config: config.clone(),
            installation: installation.into(),
        })
    }

    /// Carries a request out.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn call(&self, request: &Request) -> Result<Answer, Failure> {
        let client = self.clients.get(&request.role()).ok_or(Failure::Refused {
            kind: "no client",
            status: None,
        })?;
        match request {
            Request::Probe { role } => self.probe(*role),
            Request::Workspace { role } => self.workspace(client, *role),
            Request::Repair { role } => self.repair(*role),
            Request::Peer { peer, observed, .. } => {
                let mut create = PeerCreate::new(peer);
                if !observed {
                    create = create.with_configuration(map(json!({"observe_me": false})));
                }
                created(client.peer(&create).map(drop))
            }
            Request::Session { session, .. } => {
                let create = SessionCreate::new(&session.name).with_peers(self.members(session));
                created(client.session(&create).map(drop))
            }
            Request::AddMessages {
                session, messages, ..
            } => {
                let creates: Vec<_> = messages
                    .iter()
                    .map(|message| self.message(message))
                    .collect();
                let made = client
                    .add_messages(session, &creates)
                    .map_err(|error| failure(&error))?;
                Ok(Answer::Created(
                    made.into_iter().map(|made| made.id).collect(),
                ))
            }
            Request::FindMessages { session, names, .. } => {
                self.find_messages(client, session, names)
            }
            Request::Conclude {
                session,
                peer,
                content,
                ..
            } => {
                let create = ConclusionCreate::new(content, peer, peer).with_session_id(session);
                let made = client
                    .create_conclusions(&ConclusionBatchCreate::new(vec![create]))
                    .map_err(|error| failure(&error))?;
                Ok(Answer::Created(
                    made.into_iter().map(|made| made.id).collect(),
                ))
            }
            Request::FindConclusions {
                session,
                peer,
                content,
                ..
            } => find_conclusions(client, session, peer, content),
            Request::DeleteSession { session, .. } => client
                .delete_session(session)
                .map(|()| Answer::Done)
                .map_err(|error| failure(&error)),
            Request::Unconclude { id, .. } => client
                .delete_conclusion(id)
                .map(|()| Answer::Created(Vec::new()))
                .map_err(|error| failure(&error)),
            Request::SetCard { role, peer, lines } => self.set_card(*role, peer, lines),
            Request::Queue { role } => self.queue(*role),
            Request::Standing { ids, .. } => newest(client, map(json!({"id": {"in": ids}}))),
            Request::NewConclusions { peer, since, .. } => newest(
                client,
                map(json!({
                    "observer_id": peer,
                    "observed_id": peer,
                    "created_at": {"gte": since.to_string()},
                })),
            ),
        }
    }

    fn workspace(&self, client: &Client, role: Role) -> Result<Answer, Failure> {
        let mut create = WorkspaceCreate::new(self.config.workspace(role));
        if role == Role::Fleet {
            create = create.with_configuration(all_off());
        }
        match client.get_or_create_workspace(&create) {
            Ok(workspace) => Ok(Answer::Workspace {
                all_off: is_all_off(&workspace.configuration),
            }),
            Err(error) => Err(failure(&error)),
        }
    }

    /// With our own client: a server that derives nothing says so in a member that roncho's model leaves out.
    /// Asks whether somebody answers, not what. By our own client: roncho drops the header that says how long a busy
    /// server wants to be left alone, and a probe is the first call after every failure.
    fn probe(&self, role: Role) -> Result<Answer, Failure> {
        match self.queue_status(role) {
            Ok(_) => Ok(Answer::Done),
            Err(Failure::Unknown { kind, .. }) if kind == UNREADABLE => Ok(Answer::Done),
            Err(Failure::Refused { .. } | Failure::Gone { .. }) => Ok(Answer::Done),
            Err(other) => Err(other),
        }
    }

    fn queue_status(&self, role: Role) -> Result<Value, Failure> {
        let url = self.url_of(role) + "/queue/status";
        let mut request = self.own.get(&url).header("connection", "close");
        if let Some(key) = self.keys.get(&role) {
            request = request.header("authorization", format!("Bearer {}", key.expose()));
        }
        json_of(request.call())
    }

    fn queue(&self, role: Role) -> Result<Answer, Failure> {
        let status = self.queue_status(role)?;
        let count = |name: &str| status.get(name).and_then(Value::as_u64).unwrap_or(0);
        Ok(Answer::Queue(Queue {
            pending: count("pending_work_units") + count("in_progress_work_units"),
            derives: match status.get("derivation") {
                Some(Value::Bool(derives)) => *derives,
                Some(Value::String(said)) => !said.starts_with("off"),
                _ => true,
            },
        }))
    }

    fn url_of(&self, role: Role) -> String {
        format!(
            "{}/v3/workspaces/{}",
            self.config.url.trim_end_matches('/'),
            self.config.workspace(role)
        )
    }

    fn set_card(&self, role: Role, peer: &str, lines: &[String]) -> Result<Answer, Failure> {
        let url = format!("{}/peers/{peer}/card", self.url_of(role));
        // A success without the card is no outage, and trying for ever would make it one.
        let without = |status| Failure::Gone { status };
        match self.put(role, &url, &json!({"peer_card": lines})) {
            Ok(answer) if matches!(answer.get("peer_card"), Some(Value::Array(_))) => {
                Ok(Answer::Done)
            }
            Ok(_) => Err(without(200)),
            Err(Failure::Unknown {
                kind: UNREADABLE,
                status: Some(status),
            }) => Err(without(status)),
            Err(other) => Err(other),
        }
    }

    /// `PUT` merges the three switches into a workspace that was there before us.
    fn repair(&self, role: Role) -> Result<Answer, Failure> {
        let url = self.url_of(role);
        let workspace = self.put(role, &url, &json!({"configuration": all_off()}))?;
        let configuration = workspace.get("configuration").and_then(Value::as_object);
        Ok(Answer::Workspace {
            all_off: configuration.is_some_and(is_all_off),
        })
    }

    fn put(&self, role: Role, url: &str, body: &Value) -> Result<Value, Failure> {
        let mut request = self
            .own
            .put(url)
            .header("content-type", "application/json")
            .header("connection", "close");
        if let Some(key) = self.keys.get(&role) {
            request = request.header("authorization", format!("Bearer {}", key.expose()));
        }
        json_of(request.send(body.to_string().as_bytes()))
    }

    /// The agent is never observed; a speaker is, and observes nobody.
    fn members(
        &self,
        session: &HonchoSession,
    ) -> std::collections::HashMap<String, SessionPeerConfig> {
        let member = |observe_me| {
            SessionPeerConfig::new()
                .observe_me(observe_me)
                .observe_others(false)
        };
        session
            .speakers
            .iter()
            .map(|speaker| (speaker.clone(), member(true)))
            .chain(std::iter::once((self.config.agent.clone(), member(false))))
            .collect()
    }

    fn message(&self, message: &Message) -> MessageCreate {
        let mut metadata = map(json!({
            "installation": self.installation,
            "item": message.name,
            "part": message.part,
        }));
        if let Some((session, turn)) = &message.origin {
            metadata.insert("session".into(), json!(session.to_string()));
            metadata.insert("turn".into(), json!(turn));
        }
        if let Some(note) = &message.retracts {
            metadata.insert("retracts".into(), json!(note.name));
            if note.moved {
                metadata.insert("moved".into(), json!(true));
            }
        }
        MessageCreate::new(&message.content, &message.peer)
            .with_created_at(&message.created_at)
            .with_metadata(metadata)
    }

    fn find_messages(
        &self,
        client: &Client,
        session: &str,
        names: &[String],
    ) -> Result<Answer, Failure> {
        let filters = map(json!({"metadata": {
            "installation": self.installation,
            "item": {"in": names},
        }}));
        let mut found = Vec::new();
        for page in 1..=FOUND_PAGES_MAX {
            let options = ListOptions::new().page(page).size(FOUND_PAGE_SIZE);
            let page = client
                .list_messages(session, &options, Some(&filters))
                .map_err(|error| failure(&error))?;
            let more = page.has_next();
            for message in page.items {
                let item = message.metadata.get("item").and_then(Value::as_str);
                let part = message.metadata.get("part").and_then(Value::as_u64);
                if let (Some(item), Some(part)) = (item, part) {
                    found.push((
                        item.to_owned(),
                        usize::try_from(part).unwrap_or(usize::MAX),
                        message.id,
                    ));
                }
            }
            if !more {
                return Ok(Answer::Messages(found));
            }
        }
        Ok(Answer::Messages(found))
    }
}

/// By whose it is and where, comparing the text here: it need not travel again, and the filter by content is
/// not among Honcho's published ones.
fn find_conclusions(
    client: &Client,
    session: &str,
    peer: &str,
    content: &str,
) -> Result<Answer, Failure> {
    let filters = map(json!({
        "observer_id": peer,
        "observed_id": peer,
        "session_id": session,
    }));
    let mut ids = Vec::new();
    for page in 1..=CONCLUSIONS_PAGES_MAX {
        let options = ConclusionListOptions::new()
            .page(page)
            .size(CONCLUSIONS_PAGE_SIZE)
            .filters(filters.clone());
        let page = client
            .list_conclusions(&options)
            .map_err(|error| failure(&error))?;
        let more = page.has_next();
        ids.extend(
            page.items
                .into_iter()
                .filter(|found| found.content == content)
                .map(|found| found.id),
        );
        if !more {
            break;
        }
    }
    Ok(Answer::Conclusions(ids))
}

/// One page of conclusions, newest first.
fn newest(client: &Client, filters: Map<String, Value>) -> Result<Answer, Failure> {
    let options = ConclusionListOptions::new()
        .page(1)
        .size(CONCLUSIONS_PAGE_SIZE)
        .filters(filters);
    let page = client
        .list_conclusions(&options)
        .map_err(|error| failure(&error))?;
    Ok(Answer::Conclusions(
        page.items.into_iter().map(|found| found.id).collect(),
    ))
}

/// The body of an answer to our own client.
fn json_of(
    answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Value, Failure> {
    let mut answer = answer.map_err(|error| match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Failure::NotReached {
            kind: "cannot connect",
        },
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Failure::NotReached {
                kind: "connection refused",
            }
        }
        ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
            Failure::NotReached {
                kind: "no connection in time",
            }
        }
        ureq::Error::Timeout(_) => unknown("no answer in time"),
        _ => unknown("the connection broke"),
    })?;
    let status = answer.status().as_u16();
    if !(200..300).contains(&status) {
        let header = answer.headers().get("retry-after");
        let after_s = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        return Err(match by_status(status) {
            Failure::Later { status, .. } => Failure::Later { status, after_s },
            other => other,
        });
    }
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    let text = body.read_to_string().map_err(|_| unknown(UNREADABLE))?;
    // It came whole: that has a status.
    serde_json::from_str(&text).map_err(|_| Failure::Unknown {
        kind: UNREADABLE,
        status: Some(status),
    })
}

fn all_off() -> Map<String, Value> {
    map(json!({
        "reasoning": {"enabled": false},
        "summary": {"enabled": false},
        "dream": {"enabled": false},
    }))
}

fn is_all_off(configuration: &Map<String, Value>) -> bool {
    ["reasoning", "summary", "dream"].iter().all(|switch| {
        configuration
            .get(*switch)
            .and_then(|switch| switch.get("enabled"))
            == Some(&Value::Bool(false))
    })
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A get-or-create that lost a race made nothing and harmed nothing.
fn created(result: Result<(), Error>) -> Result<Answer, Failure> {
    match result {
        Ok(()) | Err(Error::Status { status: 409, .. }) => Ok(Answer::Done),
        Err(error) => Err(failure(&error)),
    }
}

fn unknown(kind: &'static str) -> Failure {
    Failure::Unknown { kind, status: None }
}

/// What an error of roncho's means. Its text is never looked at.
#[must_use]
pub fn failure(error: &Error) -> Failure {
    match error {
        Error::Connect(error) => Failure::NotReached {
            kind: match error.kind() {
                std::io::ErrorKind::ConnectionRefused => "connection refused",
                std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => {
                    "no connection in time"
                }
                _ => "cannot connect",
            },
        },
        Error::Timeout => unknown("no answer in time"),
        Error::Closed => unknown("the connection closed early"),
        Error::Io(_) => unknown("the connection broke"),
        Error::TooLarge => unknown("an answer that is too large"),
        Error::Decode(_) | Error::Stream(_) => unknown(UNREADABLE),
        Error::Status { status, .. } => by_status(*status),
        Error::Unauthorized { status } => Failure::KeyRefused { status: *status },
        Error::Redirect { status } => Failure::Refused {
            kind: "redirect",
            status: Some(*status),
        },
        Error::ActiveSessions { .. } => Failure::Gone { status: 409 },
        Error::Config(_) => Failure::Refused {
            kind: "a request roncho refuses",
            status: None,
        },
        _ => unknown("an unknown error"),
    }
}

/// What a status that is no success means.
#[must_use]
pub fn by_status(status: u16) -> Failure {
    match status {
        401 | 403 => Failure::KeyRefused { status },
        404 | 409 => Failure::Gone { status },
        408 | 425 | 429 => Failure::Later {
            status,
            after_s: None,
        },
        500.. => Failure::Unknown {
            kind: "server error",
            status: Some(status),
        },
        300..=399 => Failure::Refused {
            kind: "redirect",
            status: Some(status),
        },
        _ => Failure::Refused {
            kind: "refused",
            status: Some(status),
        },
    }
}

/// The least time a calling thread is given beyond what its client's own timeouts allow.
pub const CALL_GRACE_MS: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn each_error_has_its_meaning_and_none_shows_a_body() {
        let body = || "canary".to_owned();
        let status = |status| Error::Status {
            status,
            body: body(),
        };
        let rows = [
            (
                Error::Connect(io::ErrorKind::ConnectionRefused.into()),
                "not reached",
            ),
            (Error::Timeout, "unknown"),
            (Error::Closed, "unknown"),
            (Error::Io(io::ErrorKind::BrokenPipe.into()), "unknown"),
            (Error::TooLarge, "unknown"),
            (Error::Decode(body()), "unknown"),
            (status(500), "unknown"),
            (status(503), "unknown"),
            (status(408), "later"),
            (status(425), "later"),
            (status(429), "later"),
            (status(404), "gone"),
            (status(409), "gone"),
            (status(400), "refused"),
            (status(413), "refused"),
            (status(422), "refused"),
            (Error::Redirect { status: 307 }, "refused"),
            (Error::Unauthorized { status: 401 }, "key refused"),
            (Error::Config(body()), "refused"),
        ];
        for (error, want) in rows {
            let found = failure(&error);
            let name = match found {
                Failure::NotReached { .. } => "not reached",
                Failure::Unknown { .. } => "unknown",
                Failure::Later { .. } => "later",
                Failure::Refused { .. } => "refused",
                Failure::KeyRefused { .. } => "key refused",
                Failure::Gone { .. } => "gone",
            };
            assert_eq!(name, want, "{found:?}");
            assert!(!format!("{found:?}").contains("canary"));
        }
    }
}
