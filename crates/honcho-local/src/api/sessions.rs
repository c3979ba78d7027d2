//! Handlers of `…/sessions`: the session itself, its members and their flags.

use rusqlite::Connection;
use serde_json::{Map, Value, json};

use super::Api;
use crate::call::{Answer, Call, Page, Reply};
use crate::errors::Refusal;
use crate::filters::{self, Filter};
use crate::settings::configuration;
use crate::store::members::{self, Flags, OBSERVERS_MAX};
use crate::store::sessions::{self, Among, Session};
use crate::store::workspaces::{self, Workspace};
use crate::store::{Found, messages, peers, scopes};
use crate::validate::{At, NAME, NAME_PATTERN, Problems, is_name};

pub fn create(api: &Api, call: &Call, w: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let id = problems.text(&at, "id", NAME);
    let metadata = problems.metadata(&at, "metadata");
    let settings = configuration(&mut problems, &at, "configuration");
    let wanted = problems
        .map(&at, "peers")
        .map(|map| read_flags(&mut problems, &at, map));
    let names = match at.set("scopes") {
        Some(_) => problems
            .list(&at, "scopes", 0, 100)
            .cloned()
            .unwrap_or_default(),
        None => Vec::new(),
    };
    problems.done()?;
    let (id, wanted) = (id.unwrap_or_default(), wanted.unwrap_or_default());
    check_names(wanted.iter().map(|(name, _)| name.as_str()))?;
    api.store.run(|db| {
        let workspace = workspaces::ensure(db, w)?;
        let (session, made) =
            sessions::get_or_create(db, &workspace, &id, metadata.as_ref(), settings.as_ref())?;
        join(db, &workspace, &session, &wanted)?;
        for name in names.iter().filter_map(Value::as_str) {
            let (scope, _) = scopes::get_or_create(db, workspace.key, name, None)?;
            scopes::add(db, scope.key, session.key)?;
        }
        Ok(Answer::Json(if made { 201 } else { 200 }, session.show()))
    })
}

pub fn update(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    let body = call.object()?;
    let at = At::body(&body);
    let mut problems = Problems::default();
    let metadata = problems.metadata(&at, "metadata");
    let settings = configuration(&mut problems, &at, "configuration");
    problems.done()?;
    api.store.run(|db| {
        let workspace = workspaces::ensure(db, w)?;
        let (session, _) =
            sessions::get_or_create(db, &workspace, s, metadata.as_ref(), settings.as_ref())?;
        Ok(Answer::Json(200, session.show()))
    })
}

pub fn list(api: &Api, call: &Call, w: &str) -> Reply {
    let page = Page::of(call)?;
    let body = call.optional_object()?;
    let filter = filters::read(body.get("filters"), &filters::SESSION)?;
    api.store.run(|db| {
        let Some(workspace) = workspaces::find(db, w)? else {
            return Ok(page.answer(Vec::new(), 0));
        };
        let found = sessions::list(db, &Among::Workspace(workspace.key), &filter, page)?;
        Ok(page.answer(found.items, found.total))
    })
}

pub fn delete(api: &Api, w: &str, s: &str) -> Reply {
    api.store.remove(|db| {
        let (_, session) = active(db, w, s)?;
        sessions::delete(db, session.key)?;
        Ok(Answer::Json(
            202,
            json!({ "message": "Session deleted successfully" }),
        ))
    })
}

/// A copy under a new id, up to the message named in the query.
pub fn copy(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    api.store.run(|db| {
        let (workspace, session) = active(db, w, s)?;
        let last = match call.param("message_id") {
            Some(id) => {
                let found = messages::find(db, session.key, id)?;
                let none = || Refusal::not_found(format!("Message {id} not found in session {s}"));
                Some(found.ok_or_else(none)?.key)
            }
            None => None,
        };
        let made = sessions::copy(db, &workspace, &session, last)?;
        Ok(Answer::Json(201, made.show()))
    })
}

pub fn peers(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    let page = Page::of(call)?;
    api.store.run(|db| {
        let session = match workspaces::find(db, w)? {
            Some(workspace) => sessions::find(db, workspace.key, s)?,
            None => None,
        };
        let Some(session) = session else {
            return Ok(page.answer(Vec::new(), 0));
        };
        let mut listed = members::list(db, session.key)?;
        if page.reverse {
            listed.reverse();
        }
        let all = Filter::All(Vec::new());
        let mut found = Found::empty();
        for peer in &listed {
            found.take(peer, &all, page, peers::Peer::show);
        }
        Ok(page.answer(found.items, found.total))
    })
}

pub fn add_peers(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    let wanted = wanted_peers(call)?;
    api.store.run(|db| {
        let workspace = workspaces::ensure(db, w)?;
        let (session, _) = sessions::get_or_create(db, &workspace, s, None, None)?;
        join(db, &workspace, &session, &wanted)?;
        Ok(Answer::Json(200, session.show()))
    })
}

pub fn set_peers(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    let wanted = wanted_peers(call)?;
    api.store.run(|db| {
        let workspace = workspaces::ensure(db, w)?;
        let (session, _) = sessions::get_or_create(db, &workspace, s, None, None)?;
        members::leave_all(db, session.key)?;
        join(db, &workspace, &session, &wanted)?;
        Ok(Answer::Json(200, session.show()))
    })
}

pub fn remove_peers(api: &Api, call: &Call, w: &str, s: &str) -> Reply {
    let names = match call.json()? {
        Value::Array(names) if names.iter().all(Value::is_string) => names,
        other => {
            let mut problems = Problems::default();
            let msg = String::from("Input should be a valid list");
            problems.push("list_type", vec![json!("body")], msg, &other, None);
            return Err(problems.done().err().unwrap_or_else(Refusal::unexpected));
        }
    };
    api.store.run(|db| {
        let (workspace, session) = active(db, w, s)?;
        for name in names.iter().filter_map(Value::as_str) {
            if let Some(peer) = peers::find(db, workspace.key, name)? {
                members::leave(db, session.key, peer.key)?;
            }
        }
        Ok(Answer::Json(200, session.show()))
    })
}

pub fn flags(api: &Api, w: &str, s: &str, p: &str) -> Reply {
    api.store.run(|db| {
        let (workspace, session) = active(db, w, s)?;
        let peer = peers::find(db, workspace.key, p)?.ok_or_else(|| Refusal::no_peer(p, w))?;
        let flags = members::flags(db, session.key, peer.key)?.ok_or_else(|| {
            Refusal::not_found(format!(
                "Peer {p} not found in session {s} of workspace {w}"
            ))
        })?;
        let flags =
            json!({ "observe_me": flags.observe_me, "observe_others": flags.observe_others });
        Ok(Answer::Json(200, flags))
    })
}

pub fn set_flags(api: &Api, call: &Call, w: &str, s: &str, p: &str) -> Reply {
    let body = call.object()?;
    let mut problems = Problems::default();
    let flags = read_one(&mut problems, &At::body(&body));
    problems.done()?;
    api.store.run(|db| {
        let (workspace, session) = active(db, w, s)?;
        let peer = peers::find(db, workspace.key, p)?.ok_or_else(|| Refusal::no_peer(p, w))?;
        members::set(db, session.key, peer.key, flags)?;
        check_observers(db, &session)?;
        Ok(Answer::Empty(204))
    })
}

fn active(db: &Connection, w: &str, s: &str) -> Result<(Workspace, Session), Refusal> {
    let workspace = workspaces::find(db, w)?.ok_or_else(|| Refusal::no_session(s, w))?;
    let session = sessions::active(db, &workspace, s)?;
    Ok((workspace, session))
}

fn wanted_peers(call: &Call) -> Result<Vec<(String, Flags)>, Refusal> {
    let body = call.object()?;
    let mut problems = Problems::default();
    let wanted = read_flags(
        &mut problems,
        &At {
            loc: Vec::new(),
            map: &body,
        },
        &body,
    );
    problems.done()?;
    check_names(wanted.iter().map(|(name, _)| name.as_str()))?;
    Ok(wanted)
}

fn read_flags(
    problems: &mut Problems,
    at: &At<'_>,
    map: &Map<String, Value>,
) -> Vec<(String, Flags)> {
    let mut loc = at.loc.clone();
    loc.push(json!(if at.loc.is_empty() { "body" } else { "peers" }));
    let inside = At { loc, map };
    let mut wanted = Vec::new();
    for (name, value) in map {
        let empty = Map::new();
        let flags = if value.is_null() {
            Some(&empty)
        } else {
            problems.map(&inside, name)
        };
        if let Some(flags) = flags {
            let mut loc = inside.loc.clone();
            loc.push(json!(name));
            wanted.push((name.clone(), read_one(problems, &At { loc, map: flags })));
        }
    }
    wanted
}

fn read_one(problems: &mut Problems, at: &At<'_>) -> Flags {
    Flags {
        observe_me: problems.boolean(at, "observe_me", true),
        observe_others: problems.boolean(at, "observe_others", true),
    }
}

fn join(
    db: &Connection,
    workspace: &Workspace,
    session: &Session,
    wanted: &[(String, Flags)],
) -> Result<(), Refusal> {
    for (name, flags) in wanted {
        let peer = peers::ensure(db, workspace, name)?;
        members::join(db, session.key, peer.key, *flags)?;
    }
    if wanted.is_empty() {
        Ok(())
    } else {
        check_observers(db, session)
    }
}

fn check_observers(db: &Connection, session: &Session) -> Result<(), Refusal> {
    let observers = members::observers(db, session.key)?;
    if observers <= OBSERVERS_MAX {
        return Ok(());
    }
    Err(Refusal::new(
        400,
        format!(
            "Cannot create session {} with {observers} observers. Maximum allowed is {OBSERVERS_MAX} \
             observers per session. Observers are peers with 'observe_others' set to true.",
            session.id
        ),
    ))
}

/// Peer names inside a body are looked at late, and refused with a text.
///
/// # Errors
/// 422, naming those outside the pattern.
pub fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    let mut bad: Vec<String> = names
        .filter(|name| !is_name(name))
        .map(|name| format!("'{name}'"))
        .collect();
    bad.dedup();
    if bad.is_empty() {
        return Ok(());
    }
    let detail = format!(
        "Peer name(s) [{}] must match pattern {NAME_PATTERN}",
        bad.join(", ")
    );
    Err(Refusal::unprocessable(detail))
}
