//! Handlers of message search, in a workspace, a session or one peer's messages.

use serde_json::Value;

use super::Api;
use super::conclusions::EMBEDDED_TOKENS_MAX;
use crate::call::{Answer, Call, Reply};
use crate::errors::Refusal;
use crate::filters::{self, Filter, MESSAGE};
use crate::store::messages::{Message, tokens};
use crate::store::search::{self, Where};
use crate::store::{peers, scopes, sessions, workspaces};
use crate::validate::{ANY, At, Problems, REQUIRED};

struct Asked {
    query: String,
    limit: usize,
    scope: Option<String>,
    filter: Filter,
}

/// `fixed`: filter fields that the path decides, whatever the body says.
fn read(call: &Call, fixed: &[&str]) -> Result<Asked, Refusal> {
    let mut body = call.object()?;
    if let Some(filters) = body.get_mut("filters").and_then(Value::as_object_mut) {
        fixed.iter().for_each(|field| drop(filters.remove(*field)));
    }
    let at = At::body(&body);
    let mut problems = Problems::default();
    let query = problems.text(&at, "query", REQUIRED).unwrap_or_default();
    let limit = problems.integer(&at, "limit", 1, 100).unwrap_or(10);
    let scope = problems.text(&at, "scope", ANY);
    problems.done()?;
    let filter = filters::read(body.get("filters"), &MESSAGE)?;
    if tokens(&query) > EMBEDDED_TOKENS_MAX {
        return Err(Refusal::unprocessable(format!(
            "Query exceeds maximum token limit of {EMBEDDED_TOKENS_MAX}."
        )));
    }
    Ok(Asked {
        query,
        limit: limit as usize,
        scope,
        filter,
    })
}

fn shown(found: &[Message]) -> Answer {
    Answer::Json(200, found.iter().map(Message::show).collect())
}

fn nothing() -> Answer {
    Answer::Json(200, Value::Array(Vec::new()))
}

pub fn workspace(api: &Api, call: &Call, w: &str) -> Reply {
    let asked = read(call, &["workspace_id"])?;
    api.store.run(|db| {
        let Some(workspace) = workspaces::find(db, w)? else {
            return Ok(nothing());
        };
        let within = match &asked.scope {
            Some(scope) => Some(scopes::sessions(
                db,
                workspace.key,
                std::slice::from_ref(scope),
            )?),
            None => None,
        };
        let accepts = |message: &Message| {
            within
                .as_ref()
                .is_none_or(|names| names.contains(&message.session))
                && asked.filter.matches(message)
        };
        let place = Where::Workspace(workspace.key);
        Ok(shown(&search::messages(
            db,
            &place,
            &asked.query,
            &accepts,
            asked.limit,
        )?))
    })
}

pub fn session(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    let asked = read(call, &["workspace_id", "session_id"])?;
    api.store.run(|db| {
        let session = match workspaces::find(db, w)? {
            Some(workspace) => sessions::find(db, workspace.key, s)?,
            None => None,
        };
        let Some(session) = session else {
            return Ok(nothing());
        };
        let accepts = |message: &Message| asked.filter.matches(message);
        let place = Where::Session(session.key);
        Ok(shown(&search::messages(
            db,
            &place,
            &asked.query,
            &accepts,
            asked.limit,
        )?))
    })
}

pub fn peer(api: &Api, call: &Call, w: &str, p: &str) -> Reply {
    let asked = read(call, &["workspace_id", "peer_id"])?;
    api.store.run(|db| {
        let peer = match workspaces::find(db, w)? {
            Some(workspace) => peers::find(db, workspace.key, p)?,
            None => None,
        };
        let Some(peer) = peer else {
            return Ok(nothing());
        };
        let accepts = |message: &Message| asked.filter.matches(message);
        let place = Where::Peer(peer.key);
        Ok(shown(&search::messages(
            db,
            &place,
            &asked.query,
            &accepts,
            asked.limit,
        )?))
    })
}
