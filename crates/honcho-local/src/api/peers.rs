//! Handlers of `…/peers`, but for search, chat and what is made from conclusions.

use serde_json::{Value, json};

use super::Api;
use crate::call::{Answer, Call, Page, Reply};
use crate::errors::Refusal;
use crate::filters::{self, Filter};
use crate::store::{Found, cards, peers, scopes, sessions, workspaces};
use crate::validate::{At, NAME, Problems};

pub fn create(api: &Api, call: &Call, w: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let id = problems.text(&at, "id", NAME);
    let metadata = problems.metadata(&at, "metadata");
    let configuration = problems.metadata(&at, "configuration");
    problems.done()?;
    let id = id.unwrap_or_default();
    api.store.run(|db| {
        let workspace = workspaces::ensure(db, w)?;
        let (peer, made) = peers::get_or_create(
            db,
            &workspace,
            &id,
            metadata.as_ref(),
            configuration.as_ref(),
        )?;
        Ok(Answer::Json(if made { 201 } else { 200 }, peer.show()))
    })
}

pub fn update(api: &Api, call: &Call, w: &str, p: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let metadata = problems.metadata(&at, "metadata");
    let configuration = problems.metadata(&at, "configuration");
    problems.done()?;
    api.store.run(|db| {
        let workspace = workspaces::ensure(db, w)?;
        let (peer, _) =
            peers::get_or_create(db, &workspace, p, metadata.as_ref(), configuration.as_ref())?;
        Ok(Answer::Json(200, peer.show()))
    })
}

pub fn list(api: &Api, call: &Call, w: &str) -> Reply {
    let page = Page::of(call)?;
    let body = call.optional_object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let kind = at
        .set("kind")
        .and_then(|_| problems.choice(&at, "kind", &["peer", "scope", "all"], false));
    problems.done()?;
    let filter = filters::read(body.get("filters"), &filters::PEER)?;
    api.store.run(|db| {
        let Some(workspace) = workspaces::find(db, w)? else {
            return Ok(page.answer(Vec::new(), 0));
        };
        let mut found = match kind.as_deref() {
            Some("scope") => Found::empty(),
            _ => peers::list(db, workspace.key, &filter, page)?,
        };
        if matches!(kind.as_deref(), Some("scope" | "all")) {
            // A scope shows itself as a peer of a reserved name.
            for scope in scopes::list(db, workspace.key)? {
                let peer = peers::Peer {
                    key: scope.key,
                    workspace: workspace.id.clone(),
                    id: format!("scope.{}", scope.id),
                    metadata: scope.metadata,
                    configuration: String::from("{}"),
                    created_at: scope.created_at,
                };
                found.take(&peer, &filter, page, peers::Peer::show);
            }
        }
        Ok(page.answer(found.items, found.total))
    })
}

pub fn sessions(api: &Api, call: &Call, w: &str, p: &str) -> Reply {
    let page = Page::of(call)?;
    let body = call.optional_object()?;
    let filter: Filter = filters::read(body.get("filters"), &filters::SESSION)?;
    api.store.run(|db| {
        let peer = match workspaces::find(db, w)? {
            Some(workspace) => peers::find(db, workspace.key, p)?,
            None => None,
        };
        let Some(peer) = peer else {
            return Ok(page.answer(Vec::new(), 0));
        };
        let found = sessions::list(db, &sessions::Among::Member(peer.key), &filter, page)?;
        Ok(page.answer(found.items, found.total))
    })
}

pub fn card(api: &Api, call: &Call, w: &str, p: &str) -> Reply {
    api.store.run(|db| {
        let workspace = workspaces::find(db, w)?.ok_or_else(|| Refusal::no_peer(p, w))?;
        let peer = peers::find(db, workspace.key, p)?.ok_or_else(|| Refusal::no_peer(p, w))?;
        let target = match call.param("target") {
            Some(target) => peers::find(db, workspace.key, target)?.map(|target| target.key),
            None => Some(peer.key),
        };
        let card = match target {
            Some(target) => cards::get(db, peer.key, target)?,
            None => Value::Null,
        };
        Ok(Answer::Json(200, json!({ "peer_card": card })))
    })
}

pub fn set_card(api: &Api, call: &Call, w: &str, p: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let lines = problems
        .list(&at, "peer_card", 0, usize::MAX)
        .cloned()
        .unwrap_or_default();
    for (index, line) in lines.iter().enumerate() {
        if !line.is_string() {
            let loc = vec![json!("body"), json!("peer_card"), json!(index)];
            problems.push(
                "string_type",
                loc,
                String::from("Input should be a valid string"),
                line,
                None,
            );
        }
    }
    problems.done()?;
    let card = Value::Array(lines);
    api.store.run(|db| {
        let workspace = workspaces::ensure(db, w)?;
        let peer = peers::ensure(db, &workspace, p)?;
        let target = match call.param("target") {
            Some(target) => peers::ensure(db, &workspace, target)?.key,
            None => peer.key,
        };
        cards::set(db, peer.key, target, &card)?;
        Ok(Answer::Json(200, json!({ "peer_card": card })))
    })
}
