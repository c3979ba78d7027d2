//! Handlers of `…/conclusions`. Unlike messages, conclusions make nothing on the way.

use serde_json::{Map, Value};

use super::Api;
use super::messages::BATCH_MAX;
use crate::call::{Answer, Call, Page, Reply};
use crate::clock;
use crate::errors::Refusal;
use crate::filters::{self, CONCLUSION};
use crate::store::conclusions::{self, NewConclusion};
use crate::store::messages::tokens;
use crate::store::{peers, search, sessions, workspaces};
use crate::validate::{ANY, At, Problems, REQUIRED, Text};

/// Characters of one conclusion.
pub const CONCLUSION_CHARS_MAX: usize = 65_535;
/// Tokens of a conclusion, or of a search query.
pub const EMBEDDED_TOKENS_MAX: usize = 8_192;

struct Sent {
    content: String,
    observer: String,
    observed: String,
    session: Option<String>,
}

pub fn create(api: &Api, call: &Call, w: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let mut batch = Vec::new();
    for (index, value) in problems
        .list(&at, "conclusions", 1, BATCH_MAX)
        .into_iter()
        .flatten()
        .enumerate()
    {
        if let Some(at) = problems.element(&at, "conclusions", index, value) {
            let rule = Text {
                min: 1,
                max: CONCLUSION_CHARS_MAX,
                ..REQUIRED
            };
            let content = problems.text(&at, "content", rule);
            let observer = problems.text(&at, "observer_id", REQUIRED);
            let observed = problems.text(&at, "observed_id", REQUIRED);
            let session = problems.text(&at, "session_id", ANY);
            if let (Some(content), Some(observer), Some(observed)) = (content, observer, observed) {
                batch.push(Sent {
                    content,
                    observer,
                    observed,
                    session,
                });
            }
        }
    }
    problems.done()?;
    if batch
        .iter()
        .any(|sent| tokens(&sent.content) > EMBEDDED_TOKENS_MAX)
    {
        let detail =
            format!("Conclusion content exceeds the maximum of {EMBEDDED_TOKENS_MAX} tokens");
        return Err(Refusal::unprocessable(detail));
    }
    api.store.run(|db| {
        let workspace = workspaces::find(db, w)?.ok_or_else(|| Refusal::no_workspace(w))?;
        let created_at = clock::now();
        let mut stored = Vec::with_capacity(batch.len());
        for sent in &batch {
            let peer = |id: &str| -> Result<i64, Refusal> {
                peers::find(db, workspace.key, id)?
                    .map(|peer| peer.key)
                    .ok_or_else(|| Refusal::no_peer(id, w))
            };
            let session = match &sent.session {
                Some(id) => Some(sessions::active(db, &workspace, id)?.key),
                None => None,
            };
            let new = NewConclusion {
                content: &sent.content,
                observer: peer(&sent.observer)?,
                observed: peer(&sent.observed)?,
                session,
            };
            let id = conclusions::add(db, workspace.key, &new, created_at)?;
            let made =
                conclusions::find(db, workspace.key, &id)?.ok_or_else(Refusal::unexpected)?;
            stored.push(made.show());
        }
        Ok(Answer::Json(201, Value::Array(stored)))
    })
}

pub fn list(api: &Api, call: &Call, w: &str) -> Reply {
    let page = Page::of(call)?;
    let body = call.optional_object()?;
    let filter = filters::read(body.get("filters"), &CONCLUSION)?;
    api.store.run(|db| {
        let Some(workspace) = workspaces::find(db, w)? else {
            return Ok(page.answer(Vec::new(), 0));
        };
        let found = conclusions::list(db, workspace.key, &filter, page)?;
        Ok(page.answer(found.items, found.total))
    })
}

pub fn query(api: &Api, call: &Call, w: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let query = problems.text(&at, "query", REQUIRED).unwrap_or_default();
    let top_k = problems.integer(&at, "top_k", 1, 100).unwrap_or(10);
    let ceiling = problems.number(&at, "distance", 0.0, 1.0);
    problems.done()?;
    let given = body
        .get("filters")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let filter = filters::read(body.get("filters"), &CONCLUSION)?;
    let Some(observer) = party(&given, "observer")? else {
        return Ok(nothing());
    };
    let Some(observed) = party(&given, "observed")? else {
        return Ok(nothing());
    };
    if tokens(&query) > EMBEDDED_TOKENS_MAX {
        return Err(Refusal::unprocessable(format!(
            "Query exceeds maximum token limit of {EMBEDDED_TOKENS_MAX}."
        )));
    }
    api.store.run(|db| {
        let Some(workspace) = workspaces::find(db, w)? else {
            return Ok(nothing());
        };
        let pair = (observer.as_str(), observed.as_str());
        let nearest = search::conclusions(db, workspace.key, pair, &query, &filter, ceiling)?;
        let shown = nearest
            .iter()
            .take(top_k as usize)
            .map(|(_, conclusion)| conclusion.show())
            .collect();
        Ok(Answer::Json(200, Value::Array(shown)))
    })
}

fn nothing() -> Answer {
    Answer::Json(200, Value::Array(Vec::new()))
}

/// Whom the query is about, by either name. `None`: a list, which finds nothing.
fn party(given: &Map<String, Value>, name: &str) -> Result<Option<String>, Refusal> {
    match given.get(name).or_else(|| given.get(&format!("{name}_id"))) {
        Some(Value::String(peer)) => Ok(Some(peer.clone())),
        Some(Value::Array(_)) => Ok(None),
        Some(Value::Object(_)) => Err(Refusal::unexpected()),
        _ => Err(Refusal::unprocessable(
            "observer and observed must be specified for semantic search. Pass them inside the 'filters' \
             object, e.g. {\"query\": \"...\", \"filters\": {\"observer\": \"alice\", \"observed\": \
             \"bob\"}}. Both 'observer'/'observer_id' and 'observed'/'observed_id' are accepted.",
        )),
    }
}

pub fn get(api: &Api, w: &str, c: &str) -> Reply {
    api.store.run(|db| {
        let found = match workspaces::find(db, w)? {
            Some(workspace) => conclusions::find(db, workspace.key, c)?,
            None => None,
        };
        Ok(Answer::Json(
            200,
            found.ok_or_else(|| missing(w, c))?.show(),
        ))
    })
}

pub fn delete(api: &Api, w: &str, c: &str) -> Reply {
    api.store.remove(|db| {
        let gone = match workspaces::find(db, w)? {
            Some(workspace) => conclusions::delete(db, workspace.key, c)?,
            None => false,
        };
        if gone {
            Ok(Answer::Empty(204))
        } else {
            Err(missing(w, c))
        }
    })
}

fn missing(w: &str, c: &str) -> Refusal {
    Refusal::not_found(format!(
        "Document {c} not found or does not belong to workspace {w}"
    ))
}
