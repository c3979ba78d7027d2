//! Handlers of keys, the queue's status, dreams and the server's own description.

use serde_json::{Map, Value, json};

use super::Api;
use crate::auth::{Claims, Need};
use crate::call::{Answer, Call, Reply};
use crate::errors::Refusal;
use crate::store::{queue, workspaces};
use crate::validate::{ANY, At, Problems, REQUIRED};

/// The Honcho whose behaviour this follows.
const HONCHO_VERSION: &str = "3.0.12";

pub fn openapi() -> Answer {
    let info = json!({ "title": "Honcho API (honcho-local)", "version": HONCHO_VERSION });
    Answer::Json(
        200,
        json!({ "openapi": "3.1.0", "info": info, "paths": {} }),
    )
}

pub fn mint(api: &Api, call: &Call) -> Reply {
    let Some(keys) = &api.keys else {
        return Err(Refusal::new(405, "Feature is disabled"));
    };
    api.allow(call, &Need::Admin)?;
    let given = |name| call.param(name).map(str::to_owned);
    let claims = Claims {
        admin: false,
        workspace: given("workspace_id"),
        peer: given("peer_id"),
        session: given("session_id"),
    };
    if claims.workspace.is_none() {
        let detail = "workspace_id is required; peer_id and session_id may be added to it";
        return Err(Refusal::unprocessable(detail));
    }
    Ok(Answer::Json(
        200,
        json!({ "key": keys.mint(&claims, call.param("expires_at")) }),
    ))
}

pub fn queue_status(api: &Api, call: &Call, w: &str) -> Reply {
    let (session, sender, observer) = (
        call.param("session_id"),
        call.param("sender_id"),
        call.param("observer_id"),
    );
    let units = api.store.run(|db| match workspaces::find(db, w)? {
        // Asked for an observer, Honcho finds nothing either.
        Some(workspace) if observer.is_none() => queue::pending(db, &workspace),
        _ => Ok(Vec::new()),
    })?;
    let mut by_session: Map<String, Value> = Map::new();
    let mut total = 0_u64;
    for unit in units {
        if session.is_some_and(|session| session != unit.session)
            || sender.is_some_and(|sender| sender != unit.sender)
        {
            continue;
        }
        total += 1;
        let before = by_session
            .get(&unit.session_uid)
            .and_then(|entry| entry["pending_work_units"].as_u64());
        let mut entry = counts(before.unwrap_or(0) + 1);
        entry.insert(String::from("session_id"), json!(unit.session_uid));
        by_session.insert(unit.session_uid, Value::Object(entry));
    }
    let mut status = counts(total);
    let sessions = if by_session.is_empty() || session.is_some() {
        Value::Null
    } else {
        Value::Object(by_session)
    };
    status.insert(String::from("sessions"), sessions);
    let why = if api.model.is_some() {
        "off: the model answers chat only"
    } else {
        "off: no model is configured"
    };
    status.insert(String::from("derivation"), json!(why));
    Ok(Answer::Json(200, Value::Object(status)))
}

fn counts(pending: u64) -> Map<String, Value> {
    let mut map = Map::new();
    for name in ["total_work_units", "pending_work_units"] {
        map.insert(name.to_owned(), json!(pending));
    }
    for name in ["completed_work_units", "in_progress_work_units"] {
        map.insert(name.to_owned(), json!(0));
    }
    map
}

/// Accepted, and nothing is done: dreaming takes a model.
pub fn schedule_dream(api: &Api, call: &Call, w: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    problems.text(&at, "observer", REQUIRED);
    problems.choice(&at, "dream_type", &["omni", "card_refresh"], true);
    problems.text(&at, "observed", ANY);
    problems.text(&at, "session_id", ANY);
    problems.done()?;
    match api.store.run(|db| workspaces::find(db, w))? {
        Some(_) => Ok(Answer::Empty(204)),
        None => Err(Refusal::unexpected()),
    }
}
