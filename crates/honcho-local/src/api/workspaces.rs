//! Handlers of `/v3/workspaces` itself.

use serde_json::json;

use super::Api;
use crate::auth::Need;
use crate::call::{Answer, Call, Page, Reply};
use crate::errors::Refusal;
use crate::filters;
use crate::settings::configuration;
use crate::store::workspaces;
use crate::validate::{At, NAME, Problems};

pub fn create(api: &Api, call: &Call) -> Reply {
    // The name is in the body, so the key itself is looked at first and its workspace afterwards.
    if let Some(keys) = &api.keys {
        keys.claims(call.authorization.as_deref())?;
    }
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let id = problems.text(&at, "id", NAME);
    let metadata = problems.metadata(&at, "metadata").unwrap_or_default();
    let settings = configuration(&mut problems, &at, "configuration").unwrap_or_default();
    problems.done()?;
    let id = id.unwrap_or_default();
    api.allow(call, &Need::Workspace(&id))?;
    api.store.run(|db| {
        let (workspace, made) = workspaces::get_or_create(db, &id, &metadata, &settings)?;
        Ok(Answer::Json(if made { 201 } else { 200 }, workspace.show()))
    })
}

pub fn update(api: &Api, call: &Call, w: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let metadata = problems.metadata(&at, "metadata");
    let settings = configuration(&mut problems, &at, "configuration");
    problems.done()?;
    api.store.run(|db| {
        let workspace = workspaces::update(db, w, metadata.as_ref(), settings.as_ref())?;
        Ok(Answer::Json(200, workspace.show()))
    })
}

pub fn list(api: &Api, call: &Call) -> Reply {
    let page = Page::of(call)?;
    let body = call.optional_object()?;
    let filter = filters::read(body.get("filters"), &filters::WORKSPACE)?;
    api.store.run(|db| {
        let found = workspaces::list(db, &filter, page)?;
        Ok(page.answer(found.items, found.total))
    })
}

pub fn delete(api: &Api, w: &str) -> Reply {
    api.store.remove(|db| {
        let workspace = workspaces::find(db, w)?.ok_or_else(|| Refusal::no_workspace(w))?;
        if workspaces::has_active_sessions(db, workspace.key)? {
            return Err(Refusal::new(
                409,
                format!(
                    "Cannot delete workspace '{w}': active session(s) remain. Delete all sessions first."
                ),
            ));
        }
        workspaces::delete(db, workspace.key)?;
        Ok(Answer::Json(202, json!({ "message": "Workspace deletion accepted" })))
    })
}
