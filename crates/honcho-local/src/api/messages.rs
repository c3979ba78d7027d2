//! Handlers of `…/messages`. A batch is stored whole or not at all, in the order sent.

use rusqlite::Connection;
use serde_json::{Map, Value, json};

use super::Api;
use super::sessions::check_names;
use crate::call::{Answer, Call, Page, Reply};
use crate::clock;
use crate::errors::Refusal;
use crate::filters;
use crate::store::members::{self, Flags};
use crate::store::messages::{self, NewMessage, tokens};
use crate::store::{peers, sessions, workspaces};
use crate::validate::{At, Problems, REQUIRED, Text};

/// Characters (Unicode scalar values, not bytes) of one message.
pub const MESSAGE_CHARS_MAX: usize = 25_000;
/// Messages, or conclusions, of one batch.
pub const BATCH_MAX: usize = 100;

/// One message as it was sent.
pub struct Sent {
    pub content: String,
    pub peer: String,
    pub metadata: Map<String, Value>,
    pub configuration: Map<String, Value>,
    pub created_at: Option<clock::Sent>,
}

pub fn create(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let mut batch = Vec::new();
    for (index, value) in problems
        .list(&at, "messages", 1, BATCH_MAX)
        .into_iter()
        .flatten()
        .enumerate()
    {
        if let Some(at) = problems.element(&at, "messages", index, value) {
            batch.extend(read(&mut problems, &at));
        }
    }
    problems.done()?;
    store(api, w, s, &batch)
}

fn read(problems: &mut Problems, at: &At<'_>) -> Option<Sent> {
    let content = problems.text(
        at,
        "content",
        Text {
            max: MESSAGE_CHARS_MAX,
            ..REQUIRED
        },
    );
    let peer = problems.text(at, "peer_id", REQUIRED);
    let metadata = problems.metadata(at, "metadata").unwrap_or_default();
    let mut configuration = Map::new();
    if let Some(given) = crate::settings::configuration(problems, at, "configuration")
        && let Some(reasoning) = given.get("reasoning").and_then(Value::as_object)
    {
        let kept = reasoning
            .iter()
            .filter(|(key, _)| matches!(key.as_str(), "enabled" | "custom_instructions"));
        let kept: Map<String, Value> = kept
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        configuration.insert(String::from("reasoning"), Value::Object(kept));
    }
    let created_at = match at.set("created_at") {
        None => None,
        Some(value) => {
            let parsed = clock::parse(value);
            if parsed.is_none() {
                let mut loc = at.loc.clone();
                loc.push(json!("created_at"));
                let msg = "Input should be a valid datetime or date, invalid character in year";
                let ctx = json!({ "error": "invalid character in year" });
                problems.push(
                    "datetime_from_date_parsing",
                    loc,
                    String::from(msg),
                    value,
                    Some(ctx),
                );
            }
            parsed
        }
    };
    Some(Sent {
        content: content?,
        peer: peer?,
        metadata,
        configuration,
        created_at,
    })
}

/// Stores a batch, making what is missing on the way; the answer repeats each `created_at` as sent.
///
/// # Errors
/// 404 while the session is being deleted, 422 for a bad author's name, and what the store says.
pub fn store(api: &Api, w: &str, s: &str, batch: &[Sent]) -> Reply {
    check_names(batch.iter().map(|message| message.peer.as_str()))?;
    api.store.run(|db| {
        let workspace = workspaces::ensure(db, w)?;
        let (session, _) = sessions::get_or_create(db, &workspace, s, None, None)?;
        let now = clock::now();
        let mut stored = Vec::with_capacity(batch.len());
        for message in batch {
            let peer = peers::ensure(db, &workspace, &message.peer)?;
            members::join(db, session.key, peer.key, Flags::default())?;
            let at = message.created_at.as_ref().map_or(now, |sent| sent.at);
            let new = NewMessage {
                peer: peer.key,
                content: &message.content,
                metadata: &message.metadata,
                configuration: &message.configuration,
                created_at: at,
            };
            let id = messages::add(db, session.key, &new)?;
            let echo = message
                .created_at
                .as_ref()
                .map_or_else(|| clock::show(at), |sent| sent.echo.clone());
            stored.push(json!({
                "id": id, "content": message.content, "peer_id": message.peer, "session_id": s,
                "metadata": message.metadata, "created_at": echo, "workspace_id": w,
                "token_count": tokens(&message.content),
            }));
        }
        Ok(Answer::Json(201, Value::Array(stored)))
    })
}

pub fn list(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    let page = Page::of(call)?;
    let body = call.optional_object()?;
    let filter = filters::read(body.get("filters"), &filters::MESSAGE)?;
    api.store.run(|db| {
        let Some(session) = session_key(db, w, s)? else {
            return Ok(page.answer(Vec::new(), 0));
        };
        let found = messages::list(db, session, &filter, page)?;
        Ok(page.answer(found.items, found.total))
    })
}

pub fn get(api: &Api, w: &str, s: &str, m: &str) -> Reply {
    api.store
        .run(|db| Ok(Answer::Json(200, find(db, w, s, m)?.show())))
}

pub fn update(api: &Api, call: &Call, w: &str, s: &str, m: &str) -> Reply {
    let body = call.object()?;
    let mut problems = Problems::default();
    let metadata = problems.metadata(&At::body(&body), "metadata");
    problems.done()?;
    api.store.run(|db| {
        let message = find(db, w, s, m)?;
        if let Some(metadata) = &metadata {
            messages::set_metadata(db, message.key, metadata)?;
        }
        Ok(Answer::Json(200, find(db, w, s, m)?.show()))
    })
}

fn session_key(db: &Connection, w: &str, s: &str) -> Result<Option<i64>, Refusal> {
    let Some(workspace) = workspaces::find(db, w)? else {
        return Ok(None);
    };
    Ok(sessions::find(db, workspace.key, s)?.map(|session| session.key))
}

fn find(db: &Connection, w: &str, s: &str, m: &str) -> Result<messages::Message, Refusal> {
    let none = || Refusal::not_found(format!("Message {m} not found in session {s}"));
    let session = session_key(db, w, s)?.ok_or_else(none)?;
    messages::find(db, session, m)?.ok_or_else(none)
}
