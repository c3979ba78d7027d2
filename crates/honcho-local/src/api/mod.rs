//! From a call to its answer: who may make it, which handler takes it. The only way into the handlers,
//! and free of sockets, so that a test could call it directly.

mod admin;
mod chat;
mod conclusions;
mod messages;
mod peers;
mod represent;
mod scopes;
mod search;
mod sessions;
mod upload;
mod workspaces;

use serde_json::json;

use crate::auth::{Claims, Keys, Need};
use crate::call::{Answer, Call, Reply};
use crate::errors::Refusal;
use crate::model::Model;
use crate::store::{self, Store};

pub struct Api {
    pub store: Store,
    /// `None`: any key is accepted, and none is needed.
    pub keys: Option<Keys>,
    /// `None`: chat answers from what is stored.
    pub model: Option<Model>,
}

impl Api {
    pub fn answer(&self, call: &Call) -> Answer {
        match self.route(call) {
            Ok(answer) => answer,
            Err(refusal) => Answer::Json(refusal.status, refusal.body()),
        }
    }

    fn route(&self, call: &Call) -> Reply {
        let segments = call.segments();
        let mut path: Vec<&str> = segments.iter().map(String::as_str).collect();
        if path.len() > 1 && path.last() == Some(&"") {
            path.pop();
            // Only the message POST is served with a trailing slash.
            if !(call.method == "POST" && path.last() == Some(&"messages")) {
                return Ok(Answer::Redirect(call.path.trim_end_matches('/').to_owned()));
            }
        }
        match (call.method.as_str(), path.as_slice()) {
            ("GET", ["health"]) => Ok(Answer::Json(200, json!({ "status": "ok" }))),
            ("GET", ["openapi.json"]) => Ok(admin::openapi()),
            ("POST", ["v3", "keys"]) => admin::mint(self, call),
            ("POST", ["v3", "workspaces"]) => workspaces::create(self, call),
            ("POST", ["v3", "workspaces", "list"]) => {
                self.allow(call, &Need::Admin)?;
                workspaces::list(self, call)
            }
            ("PUT", ["v3", "workspaces", w]) => {
                self.allow(call, &Need::Workspace(w))?;
                workspaces::update(self, call, w)
            }
            ("DELETE", ["v3", "workspaces", w]) => {
                self.allow(call, &Need::Workspace(w))?;
                workspaces::delete(self, w)
            }
            (_, ["v3", "workspaces", w, rest @ ..]) if !rest.is_empty() => {
                self.inside(call, w, rest)
            }
            (
                _,
                ["health" | "openapi.json"]
                | ["v3", "keys" | "workspaces"]
                | ["v3", "workspaces", _],
            ) => Err(Refusal::new(405, "Method Not Allowed")),
            _ => Err(Refusal::not_found("Not Found")),
        }
    }

    /// Calls on something in a workspace.
    fn inside(&self, call: &Call, w: &str, rest: &[&str]) -> Reply {
        let need = match (call.method.as_str(), rest) {
            ("POST", ["peers" | "sessions"]) => Need::AnyOf(w),
            (_, ["peers", p, ..]) if *p != "list" => Need::Peer(w, p),
            ("POST", ["sessions", s, "messages"]) => Need::SessionWrite(w, s),
            ("POST", ["sessions", s, "messages", "upload"]) => Need::SessionWrite(w, s),
            ("PUT" | "DELETE", ["sessions", s, ..]) => Need::SessionWrite(w, s),
            ("POST", ["sessions", s, "peers" | "clone"]) => Need::SessionWrite(w, s),
            (_, ["sessions", s, ..]) if *s != "list" => Need::SessionRead {
                workspace: w,
                session: s,
            },
            _ => Need::Workspace(w),
        };
        self.allow(call, &need)?;
        match (call.method.as_str(), rest) {
            ("POST", ["peers"]) => peers::create(self, call, w),
            ("POST", ["peers", "list"]) => peers::list(self, call, w),
            ("PUT", ["peers", p]) => peers::update(self, call, w, p),
            ("POST", ["peers", p, "sessions"]) => peers::sessions(self, call, w, p),
            ("GET", ["peers", p, "card"]) => peers::card(self, call, w, p),
            ("PUT", ["peers", p, "card"]) => peers::set_card(self, call, w, p),
            ("GET", ["peers", p, "context"]) => represent::peer_context(self, call, w, p),
            ("POST", ["peers", p, "representation"]) => represent::representation(self, call, w, p),
            ("POST", ["peers", p, "search"]) => search::peer(self, call, w, p),
            ("POST", ["peers", p, "chat"]) => chat::peer(self, call, w, p),
            ("POST", ["sessions"]) => sessions::create(self, call, w),
            ("POST", ["sessions", "list"]) => sessions::list(self, call, w),
            ("PUT", ["sessions", s]) => sessions::update(self, call, w, s),
            ("DELETE", ["sessions", s]) => sessions::delete(self, w, s),
            ("POST", ["sessions", s, "clone"]) => sessions::copy(self, call, w, s),
            ("GET", ["sessions", s, "peers"]) => sessions::peers(self, call, w, s),
            ("POST", ["sessions", s, "peers"]) => sessions::add_peers(self, call, w, s),
            ("PUT", ["sessions", s, "peers"]) => sessions::set_peers(self, call, w, s),
            ("DELETE", ["sessions", s, "peers"]) => sessions::remove_peers(self, call, w, s),
            ("GET", ["sessions", s, "peers", p, "config"]) => sessions::flags(self, w, s, p),
            ("PUT", ["sessions", s, "peers", p, "config"]) => {
                sessions::set_flags(self, call, w, s, p)
            }
            ("GET", ["sessions", s, "context"]) => represent::session_context(self, call, w, s),
            ("GET", ["sessions", s, "summaries"]) => represent::summaries(self, w, s),
            ("POST", ["sessions", s, "search"]) => search::session(self, call, w, s),
            ("POST", ["sessions", s, "messages"]) => messages::create(self, call, w, s),
            ("POST", ["sessions", s, "messages", "list"]) => messages::list(self, call, w, s),
            ("POST", ["sessions", s, "messages", "upload"]) => upload::create(self, call, w, s),
            ("GET", ["sessions", s, "messages", m]) => messages::get(self, w, s, m),
            ("PUT", ["sessions", s, "messages", m]) => messages::update(self, call, w, s, m),
            ("POST", ["conclusions"]) => conclusions::create(self, call, w),
            ("POST", ["conclusions", "list"]) => conclusions::list(self, call, w),
            ("POST", ["conclusions", "query"]) => conclusions::query(self, call, w),
            ("GET", ["conclusions", c]) => conclusions::get(self, w, c),
            ("DELETE", ["conclusions", c]) => conclusions::delete(self, w, c),
            ("POST", ["search"]) => search::workspace(self, call, w),
            ("POST", ["chat"]) => chat::workspace(self, call, w),
            ("POST", ["scopes"]) => scopes::create(self, call, w),
            ("POST", ["scopes", "list"]) => scopes::list(self, call, w),
            ("GET", ["scopes", c]) => scopes::get(self, w, c),
            ("POST", ["scopes", c, "sessions"]) => scopes::add_sessions(self, call, w, c),
            ("POST", ["scopes", c, "sessions", "list"]) => scopes::sessions(self, call, w, c),
            ("DELETE", ["scopes", c, "sessions", s]) => scopes::remove_session(self, w, c, s),
            ("GET", ["scopes", c, "status"]) => scopes::status(self, w, c),
            ("GET", ["queue", "status"]) => admin::queue_status(self, call, w),
            ("POST", ["schedule_dream"]) => admin::schedule_dream(self, call, w),
            (_, known) if is_known(known) => Err(Refusal::new(405, "Method Not Allowed")),
            _ => Err(Refusal::not_found("Not Found")),
        }
    }

    /// Whether the call's key opens this.
    fn allow(&self, call: &Call, need: &Need<'_>) -> Result<(), Refusal> {
        let Some(keys) = &self.keys else {
            return Ok(());
        };
        let claims = keys.claims(call.authorization.as_deref())?;
        claims.allow(need, |peer| self.is_member(need, peer))
    }

    fn is_member(&self, need: &Need<'_>, peer: &str) -> bool {
        let Need::SessionRead { workspace, session } = need else {
            return false;
        };
        let found = self.store.run(|db| {
            let Some(workspace) = store::workspaces::find(db, workspace)? else {
                return Ok(false);
            };
            let Some(session) = store::sessions::find(db, workspace.key, session)? else {
                return Ok(false);
            };
            let Some(peer) = store::peers::find(db, workspace.key, peer)? else {
                return Ok(false);
            };
            Ok(store::members::flags(db, session.key, peer.key)?.is_some())
        });
        found.unwrap_or(false)
    }

    /// A key for tests and for the command line; `None` when keys are off.
    pub fn mint(&self, claims: &Claims) -> Option<String> {
        self.keys.as_ref().map(|keys| keys.mint(claims, None))
    }
}

/// Paths that exist, whatever the method.
fn is_known(path: &[&str]) -> bool {
    matches!(
        path,
        ["peers" | "sessions" | "conclusions" | "search" | "chat" | "scopes" | "schedule_dream"]
            | ["peers" | "sessions" | "conclusions" | "scopes", _]
            | [
                "peers",
                _,
                "sessions" | "card" | "context" | "representation" | "search" | "chat"
            ]
            | [
                "sessions",
                _,
                "peers" | "context" | "summaries" | "search" | "messages"
            ]
            | ["sessions", _, "peers", _, "config"]
            | ["sessions", _, "messages", _]
            | ["scopes", _, "sessions" | "status"]
            | ["scopes", _, "sessions", _]
            | ["queue", "status"]
    )
}
