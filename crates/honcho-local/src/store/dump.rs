//! Everything that is stored, as one value in a stable order, for tests to compare.

use rusqlite::Connection;
use serde_json::{Map, Value, json as object};

use super::workspaces::{self, Workspace};
use super::{Store, cards, conclusions, json, members, messages, peers, scopes, sessions};
use crate::call::Page;
use crate::clock;
use crate::errors::Refusal;

const EVERYTHING: Page = Page {
    page: 1,
    size: usize::MAX,
    reverse: false,
};

impl Store {
    /// One workspace's contents, or `null`. Peers and sessions are in the order of their names,
    /// messages and conclusions in the order they were stored.
    ///
    /// # Errors
    /// The database refused.
    pub fn dump(&self, workspace: &str) -> Result<Value, Refusal> {
        self.run(|db| match workspaces::find(db, workspace)? {
            Some(workspace) => one(db, &workspace),
            None => Ok(Value::Null),
        })
    }

    /// Every workspace's contents, by name.
    ///
    /// # Errors
    /// The database refused.
    pub fn dump_all(&self) -> Result<Value, Refusal> {
        self.run(|db| {
            let names: Vec<String> = db
                .prepare("SELECT id FROM workspaces ORDER BY id")?
                .query_map([], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            let mut all = Map::new();
            for name in names {
                if let Some(workspace) = workspaces::find(db, &name)? {
                    all.insert(name, one(db, &workspace)?);
                }
            }
            Ok(Value::Object(all))
        })
    }
}

fn one(db: &Connection, workspace: &Workspace) -> Result<Value, Refusal> {
    let sql = format!(
        "SELECT {} WHERE p.workspace = ?1 ORDER BY p.id",
        peers::COLUMNS
    );
    let all_peers: Vec<peers::Peer> = db
        .prepare(&sql)?
        .query_map([workspace.key], peers::read)?
        .collect::<Result<_, _>>()?;
    let mut shown_peers = Vec::new();
    for peer in &all_peers {
        let mut held = Map::new();
        for other in &all_peers {
            match cards::get(db, peer.key, other.key)? {
                Value::Null => {}
                card => drop(held.insert(other.id.clone(), card)),
            }
        }
        shown_peers.push(object!({
            "id": peer.id, "metadata": json(&peer.metadata),
            "configuration": json(&peer.configuration), "cards": held,
        }));
    }

    let sql = format!(
        "SELECT {} WHERE s.workspace = ?1 ORDER BY s.id",
        sessions::COLUMNS
    );
    let all_sessions: Vec<sessions::Session> = db
        .prepare(&sql)?
        .query_map([workspace.key], sessions::read)?
        .collect::<Result<_, _>>()?;
    let mut shown_sessions = Vec::new();
    for session in &all_sessions {
        let mut shown_members = Vec::new();
        for peer in members::list(db, session.key)? {
            let flags = members::flags(db, session.key, peer.key)?.unwrap_or_default();
            shown_members.push(object!({
                "peer_id": peer.id, "observe_me": flags.observe_me,
                "observe_others": flags.observe_others,
            }));
        }
        let all = crate::filters::Filter::All(Vec::new());
        let stored = messages::list(db, session.key, &all, EVERYTHING)?.items;
        shown_sessions.push(object!({
            "id": session.id, "is_active": session.active, "metadata": json(&session.metadata),
            "configuration": json(&session.configuration), "members": shown_members, "messages": stored,
        }));
    }

    let sql = format!(
        "SELECT {} WHERE c.workspace = ?1 ORDER BY c.key",
        conclusions::COLUMNS
    );
    let facts: Vec<Value> = db
        .prepare(&sql)?
        .query_map([workspace.key], conclusions::read)?
        .map(|row| row.map(|conclusion| conclusion.show()))
        .collect::<Result<_, _>>()?;
    let mut shown_scopes = Vec::new();
    for scope in scopes::list(db, workspace.key)? {
        shown_scopes.push(scope.show());
    }
    Ok(object!({
        "id": workspace.id, "metadata": json(&workspace.metadata),
        "configuration": json(&workspace.configuration),
        "created_at": clock::show(workspace.created_at), "peers": shown_peers,
        "sessions": shown_sessions, "conclusions": facts, "scopes": shown_scopes,
    }))
}
