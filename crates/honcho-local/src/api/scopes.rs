//! Handlers of `…/scopes`.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::Api;
use crate::call::{Answer, Call, Page, Reply};
use crate::errors::Refusal;
use crate::filters::Filter;
use crate::store::scopes::{self, Scope};
use crate::store::workspaces::{self, Workspace};
use crate::store::{Found, sessions};
use crate::validate::{At, NAME, Problems, Text};

/// Characters of a scope's name: a session's, less the reserved prefix.
const SCOPE_CHARS_MAX: usize = 506;
const SESSIONS_MAX: usize = 100;

fn find(db: &Connection, w: &str, id: &str) -> Result<(Workspace, Scope), Refusal> {
    let none = || Refusal::not_found(format!("Scope {id} not found"));
    let workspace = workspaces::find(db, w)?.ok_or_else(none)?;
    let scope = scopes::find(db, workspace.key, id)?.ok_or_else(none)?;
    Ok((workspace, scope))
}

pub fn create(api: &Api, call: &Call, w: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let id = problems.text(
        &at,
        "id",
        Text {
            max: SCOPE_CHARS_MAX,
            ..NAME
        },
    );
    let metadata = problems.metadata(&at, "metadata");
    problems.done()?;
    let id = id.unwrap_or_default();
    api.store.run(|db| {
        let workspace = workspaces::ensure(db, w)?;
        let (scope, made) = scopes::get_or_create(db, workspace.key, &id, metadata.as_ref())?;
        Ok(Answer::Json(if made { 201 } else { 200 }, scope.show()))
    })
}

pub fn get(api: &Api, w: &str, id: &str) -> Reply {
    api.store
        .run(|db| Ok(Answer::Json(200, find(db, w, id)?.1.show())))
}

pub fn list(api: &Api, call: &Call, w: &str) -> Reply {
    let page = Page::of(call)?;
    call.optional_object()?;
    api.store.run(|db| {
        let Some(workspace) = workspaces::find(db, w)? else {
            return Ok(page.answer(Vec::new(), 0));
        };
        let mut all = scopes::list(db, workspace.key)?;
        if page.reverse {
            all.reverse();
        }
        let shown = all
            .iter()
            .skip(page.skip())
            .take(page.size)
            .map(Scope::show)
            .collect();
        Ok(page.answer(shown, all.len()))
    })
}

pub fn add_sessions(api: &Api, call: &Call, w: &str, id: &str) -> Reply {
    let body = call.object()?;
    let mut problems = Problems::default();
    let at = At::body(&body);
    let names = problems
        .list(&at, "session_ids", 1, SESSIONS_MAX)
        .cloned()
        .unwrap_or_default();
    problems.done()?;
    api.store.run(|db| {
        let (workspace, scope) = find(db, w, id)?;
        for name in &names {
            let name = name.as_str().unwrap_or("");
            let session = sessions::active(db, &workspace, name)?;
            scopes::add(db, scope.key, session.key)?;
        }
        Ok(Answer::Empty(204))
    })
}

pub fn sessions(api: &Api, call: &Call, w: &str, id: &str) -> Reply {
    let page = Page::of(call)?;
    call.optional_object()?;
    api.store.run(|db| {
        let (_, scope) = find(db, w, id)?;
        let all = Filter::All(Vec::new());
        let found: Found = sessions::list(db, &sessions::Among::Scope(scope.key), &all, page)?;
        Ok(page.answer(found.items, found.total))
    })
}

pub fn remove_session(api: &Api, w: &str, id: &str, s: &str) -> Reply {
    api.store.run(|db| {
        let (workspace, scope) = find(db, w, id)?;
        let session =
            sessions::find(db, workspace.key, s)?.ok_or_else(|| Refusal::no_session(s, w))?;
        scopes::remove(db, scope.key, session.key)?;
        Ok(Answer::Empty(204))
    })
}

pub fn status(api: &Api, w: &str, id: &str) -> Reply {
    api.store.run(|db| {
        let (_, scope) = find(db, w, id)?;
        let backfills = Value::Object(scopes::backfills(db, scope.key)?);
        Ok(Answer::Json(200, json!({ "backfill_status": backfills })))
    })
}
