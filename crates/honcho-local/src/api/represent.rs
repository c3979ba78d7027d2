//! Handlers of what is put together from conclusions and cards: a peer's representation and context,
//! a session's context.

use std::collections::HashSet;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::Api;
use crate::call::{Answer, Call, Reply, query_boolean, query_integer};
use crate::clock;
use crate::errors::Refusal;
use crate::filters::{self, CONCLUSION, Filter};
use crate::store::conclusions::{self, Conclusion};
use crate::store::messages::{self, Message, tokens};
use crate::store::workspaces::{self, Workspace};
use crate::store::{cards, peers, search, sessions, summaries as written};
use crate::validate::{ANY, At, Problems};

/// Conclusions of one representation, when nothing else is asked for.
const CONCLUSIONS_DEFAULT: i64 = 25;
/// Tokens of one session context.
const CONTEXT_TOKENS_MAX: i64 = 100_000;
/// With a summary wanted, this share of the tokens is left for messages, in percent.
const MESSAGES_PERCENT: i64 = 60;

/// Which conclusions a representation is made of.
#[derive(Default)]
struct Choice {
    query: Option<String>,
    top_k: Option<i64>,
    distance: Option<f64>,
    most: Option<i64>,
}

fn build(
    db: &Connection,
    workspace: &Workspace,
    pair: (&str, &str),
    filter: &Filter,
    choice: &Choice,
) -> Result<String, Refusal> {
    let most = choice.most.unwrap_or(CONCLUSIONS_DEFAULT) as usize;
    let mut chosen: Vec<Conclusion> = Vec::new();
    if let Some(query) = &choice.query {
        let nearest = search::conclusions(db, workspace.key, pair, query, filter, choice.distance)?;
        let wanted = choice.top_k.unwrap_or(most as i64) as usize;
        chosen.extend(
            nearest
                .into_iter()
                .take(wanted.min(most))
                .map(|(_, conclusion)| conclusion),
        );
    }
    let taken: HashSet<i64> = chosen.iter().map(|conclusion| conclusion.key).collect();
    let newest = conclusions::of_pair(db, workspace.key, pair.0, pair.1)?
        .into_iter()
        .filter(|conclusion| !taken.contains(&conclusion.key) && filter.matches(conclusion));
    let room = most.saturating_sub(chosen.len());
    chosen.extend(newest.take(room));
    chosen.sort_by_key(|conclusion| (conclusion.created_at, conclusion.key));
    if chosen.is_empty() {
        return Ok(String::new());
    }
    let lines: String = chosen
        .iter()
        .map(|conclusion| {
            format!(
                "[{}] {}\n",
                clock::show_plain(conclusion.created_at),
                conclusion.content
            )
        })
        .collect();
    Ok(format!("## Explicit Observations\n\n{lines}"))
}

pub fn representation(api: &Api, call: &Call, w: &str, p: &str) -> Reply {
    let body = call.optional_object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let target = problems.text(&at, "target", ANY);
    let session = problems.text(&at, "session_id", ANY);
    let choice = Choice {
        query: problems.text(&at, "search_query", ANY),
        top_k: problems.integer(&at, "search_top_k", 1, 100),
        distance: problems.number(&at, "search_max_distance", 0.0, 1.0),
        most: problems.integer(&at, "max_conclusions", 1, 100),
    };
    problems.done()?;
    let mut parts = vec![filters::read(body.get("filters"), &CONCLUSION)?];
    if let Some(session) = &session {
        parts.push(filters::read(
            Some(&json!({ "session_id": session })),
            &CONCLUSION,
        )?);
    }
    let filter = Filter::All(parts);
    api.store.run(|db| {
        let text = match workspaces::find(db, w)? {
            Some(workspace) => build(
                db,
                &workspace,
                (p, target.as_deref().unwrap_or(p)),
                &filter,
                &choice,
            )?,
            None => String::new(),
        };
        Ok(Answer::Json(200, json!({ "representation": text })))
    })
}

pub fn peer_context(api: &Api, call: &Call, w: &str, p: &str) -> Reply {
    let mut problems = Problems::default();
    let choice = Choice {
        query: call.param("search_query").map(str::to_owned),
        top_k: query_integer(&mut problems, call, "search_top_k", 1, 100),
        distance: None,
        most: query_integer(&mut problems, call, "max_conclusions", 1, 100),
    };
    problems.done()?;
    let target = call.param("target").unwrap_or(p);
    api.store.run(|db| {
        let workspace = workspaces::find(db, w)?.ok_or_else(|| Refusal::no_peer(p, w))?;
        let peer = peers::find(db, workspace.key, p)?.ok_or_else(|| Refusal::no_peer(p, w))?;
        let text = build(
            db,
            &workspace,
            (p, target),
            &Filter::All(Vec::new()),
            &choice,
        )?;
        let card = card_of(db, &workspace, peer.key, target)?;
        Ok(Answer::Json(
            200,
            json!({ "peer_id": p, "target_id": target, "representation": text, "peer_card": card }),
        ))
    })
}

fn card_of(
    db: &Connection,
    workspace: &Workspace,
    observer: i64,
    target: &str,
) -> Result<Value, Refusal> {
    match peers::find(db, workspace.key, target)? {
        Some(target) => cards::get(db, observer, target.key),
        None => Ok(Value::Null),
    }
}

pub fn session_context(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    let mut problems = Problems::default();
    let budget = query_integer(&mut problems, call, "tokens", i64::MIN, CONTEXT_TOKENS_MAX)
        .unwrap_or(CONTEXT_TOKENS_MAX);
    let summary = query_boolean(&mut problems, call, "summary").unwrap_or(true);
    let only_here = query_boolean(&mut problems, call, "limit_to_session").unwrap_or(false);
    let choice = Choice {
        query: call.param("search_query").map(str::to_owned),
        top_k: query_integer(&mut problems, call, "search_top_k", 1, 100),
        distance: None,
        most: query_integer(&mut problems, call, "max_conclusions", 1, 100),
    };
    problems.done()?;
    let target = call.param("peer_target");
    let perspective = call.param("peer_perspective");
    if perspective.is_some() && target.is_none() {
        return Err(Refusal::unprocessable(
            "peer_target must be provided if peer_perspective is provided",
        ));
    }
    let wanted = if only_here {
        json!({ "session_id": s })
    } else {
        json!({})
    };
    let filter = filters::read(Some(&wanted), &CONCLUSION)?;
    api.store.run(|db| {
        let (mut view, mut card) = (Value::Null, Value::Null);
        let workspace = workspaces::find(db, w)?;
        if let (Some(workspace), Some(target)) = (&workspace, target) {
            let observer = perspective.unwrap_or(target);
            view = Value::from(build(db, workspace, (observer, target), &filter, &choice)?);
            if let Some(peer) = peers::find(db, workspace.key, observer)?
                && !only_here
            {
                card = card_of(db, workspace, peer.key, target)?;
            }
        }
        let session = match &workspace {
            Some(workspace) => sessions::find(db, workspace.key, s)?,
            None => None,
        };
        let used = tokens(view.as_str().unwrap_or("")) + if card.is_null() { 0 } else { tokens(&card.to_string()) };
        let mut left = budget.saturating_sub(used as i64);
        let mut summed_up = Value::Null;
        if summary {
            let for_messages = left * MESSAGES_PERCENT / 100;
            if let Some(session) = &session {
                summed_up = written::get(db, session.key, left - for_messages)?;
            }
            left = for_messages;
        }
        let newest = match session {
            Some(session) => messages::newest(db, session.key, left)?,
            None => Vec::new(),
        };
        let shown: Vec<Value> = newest.iter().map(Message::show).collect();
        Ok(Answer::Json(
            200,
            json!({
                "id": s, "messages": shown, "summary": summed_up, "peer_representation": view, "peer_card": card,
            }),
        ))
    })
}

/// A model would write them; here there is one only where a test put it.
pub fn summaries(api: &Api, w: &str, s: &str) -> Reply {
    api.store.run(|db| {
        let session = match workspaces::find(db, w)? {
            Some(workspace) => sessions::find(db, workspace.key, s)?,
            None => None,
        };
        let short = match session {
            Some(session) => written::get(db, session.key, i64::MAX)?,
            None => Value::Null,
        };
        Ok(Answer::Json(
            200,
            json!({ "id": s, "short_summary": short, "long_summary": null }),
        ))
    })
}
