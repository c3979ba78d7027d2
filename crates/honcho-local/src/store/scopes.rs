//! Scopes: named sets of sessions, for narrowing a search or a chat.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde_json::{Map, Value, json as object};

use super::{json, text};
use crate::clock;
use crate::errors::Refusal;

pub struct Scope {
    pub key: i64,
    pub id: String,
    pub metadata: String,
    pub created_at: i64,
}

impl Scope {
    pub fn show(&self) -> Value {
        object!({
            "id": self.id, "metadata": json(&self.metadata), "created_at": clock::show(self.created_at),
        })
    }
}

fn read(row: &SqlRow<'_>) -> rusqlite::Result<Scope> {
    Ok(Scope {
        key: row.get(0)?,
        id: row.get(1)?,
        metadata: row.get(2)?,
        created_at: row.get(3)?,
    })
}

pub fn find(db: &Connection, workspace: i64, id: &str) -> Result<Option<Scope>, Refusal> {
    let sql = "SELECT key, id, metadata, created_at FROM scopes WHERE workspace = ?1 AND id = ?2";
    Ok(db
        .prepare_cached(sql)?
        .query_row(params![workspace, id], read)
        .optional()?)
}

/// Metadata given replaces what is stored. True: it was made now.
pub fn get_or_create(
    db: &Connection,
    workspace: i64,
    id: &str,
    metadata: Option<&Map<String, Value>>,
) -> Result<(Scope, bool), Refusal> {
    let made =
        match find(db, workspace, id)? {
            Some(scope) => {
                if let Some(metadata) = metadata {
                    db.prepare_cached("UPDATE scopes SET metadata = ?2 WHERE key = ?1")?
                        .execute(params![scope.key, text(metadata)?])?;
                }
                false
            }
            None => {
                db.prepare_cached(
                "INSERT INTO scopes (workspace, id, metadata, created_at) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![workspace, id, text(metadata.unwrap_or(&Map::new()))?, clock::now()])?;
                true
            }
        };
    find(db, workspace, id)?
        .map(|scope| (scope, made))
        .ok_or_else(Refusal::unexpected)
}

/// All scopes of a workspace, oldest first.
pub fn list(db: &Connection, workspace: i64) -> Result<Vec<Scope>, Refusal> {
    let sql = "SELECT key, id, metadata, created_at FROM scopes WHERE workspace = ?1 ORDER BY key";
    Ok(db
        .prepare_cached(sql)?
        .query_map([workspace], read)?
        .collect::<Result<_, _>>()?)
}

/// Adds a session; one that holds messages already counts as backfilled at once.
pub fn add(db: &Connection, scope: i64, session: i64) -> Result<(), Refusal> {
    db.prepare_cached(
        "INSERT INTO scope_sessions (scope, session, backfilled_at) \
         SELECT ?1, ?2, CASE WHEN EXISTS (SELECT 1 FROM messages WHERE session = ?2) THEN ?3 END \
         WHERE true ON CONFLICT DO NOTHING",
    )?
    .execute(params![scope, session, clock::now()])?;
    Ok(())
}

pub fn remove(db: &Connection, scope: i64, session: i64) -> Result<bool, Refusal> {
    let sql = "DELETE FROM scope_sessions WHERE scope = ?1 AND session = ?2";
    Ok(db.prepare_cached(sql)?.execute(params![scope, session])? > 0)
}

/// The backfills of a scope, by session.
pub fn backfills(db: &Connection, scope: i64) -> Result<Map<String, Value>, Refusal> {
    let sql = "SELECT s.id, x.backfilled_at FROM scope_sessions x JOIN sessions s ON s.key = x.session \
               WHERE x.scope = ?1 AND x.backfilled_at IS NOT NULL ORDER BY s.key";
    let mut map = Map::new();
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map([scope], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
    })?;
    for row in rows {
        let (session, at) = row?;
        // There are no derived documents to copy here, so each backfill is done with none.
        let entry =
            object!({ "state": "completed", "updated_at": clock::show(at), "docs_copied": 0 });
        map.insert(session, entry);
    }
    Ok(map)
}

/// Names of the sessions in any of these scopes.
///
/// # Errors
/// 404 for a scope that is not there.
pub fn sessions(
    db: &Connection,
    workspace: i64,
    ids: &[String],
) -> Result<HashSet<String>, Refusal> {
    let mut names = HashSet::new();
    for id in ids {
        let scope = find(db, workspace, id)?
            .ok_or_else(|| Refusal::not_found(format!("Scope {id} not found")))?;
        let sql = "SELECT s.id FROM scope_sessions x JOIN sessions s ON s.key = x.session \
                   WHERE x.scope = ?1";
        let mut statement = db.prepare_cached(sql)?;
        for name in statement.query_map([scope.key], |row| row.get::<_, String>(0))? {
            names.insert(name?);
        }
    }
    Ok(names)
}
