//! Sessions: found, made, merged, listed, marked for deletion. Their members are in `members`.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde_json::{Map, Value, json as object};

use super::workspaces::{Workspace, merged};
use super::{Found, json, text};
use crate::call::Page;
use crate::clock;
use crate::errors::Refusal;
use crate::filters::{Cell, Filter, Row};
use crate::validate::is_name;

pub struct Session {
    pub key: i64,
    pub workspace: String,
    pub id: String,
    pub metadata: String,
    pub configuration: String,
    pub created_at: i64,
    pub active: bool,
}

pub const COLUMNS: &str = "s.key, w.id, s.id, s.metadata, s.configuration, s.created_at, \
     s.deleted_at IS NULL FROM sessions s JOIN workspaces w ON w.key = s.workspace";

pub fn read(row: &SqlRow<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        key: row.get(0)?,
        workspace: row.get(1)?,
        id: row.get(2)?,
        metadata: row.get(3)?,
        configuration: row.get(4)?,
        created_at: row.get(5)?,
        active: row.get(6)?,
    })
}

impl Session {
    pub fn show(&self) -> Value {
        object!({
            "id": self.id, "is_active": self.active, "workspace_id": self.workspace,
            "metadata": json(&self.metadata), "configuration": json(&self.configuration),
            "created_at": clock::show(self.created_at),
        })
    }
}

impl Row for Session {
    fn cell(&self, column: &str) -> Cell<'_> {
        match column {
            "id" => Cell::Text(&self.id),
            "workspace_id" => Cell::Text(&self.workspace),
            "is_active" => Cell::Number(i64::from(self.active)),
            "metadata" => Cell::Json(&self.metadata),
            "created_at" => Cell::Number(self.created_at),
            _ => Cell::Null,
        }
    }
}

/// Also finds one that is being deleted: reads still see it.
pub fn find(db: &Connection, workspace: i64, id: &str) -> Result<Option<Session>, Refusal> {
    let sql = format!("SELECT {COLUMNS} WHERE s.workspace = ?1 AND s.id = ?2");
    Ok(db
        .prepare_cached(&sql)?
        .query_row(params![workspace, id], read)
        .optional()?)
}

/// # Errors
/// 404 when it is not there or is being deleted.
pub fn active(db: &Connection, workspace: &Workspace, id: &str) -> Result<Session, Refusal> {
    match find(db, workspace.key, id)? {
        Some(session) if session.active => Ok(session),
        _ => Err(Refusal::no_session(id, &workspace.id)),
    }
}

/// Metadata is replaced, configuration merged at the top level. True: it was made now.
///
/// # Errors
/// 404 while it is being deleted; a name outside the pattern is an unexpected error.
pub fn get_or_create(
    db: &Connection,
    workspace: &Workspace,
    id: &str,
    metadata: Option<&Map<String, Value>>,
    configuration: Option<&Map<String, Value>>,
) -> Result<(Session, bool), Refusal> {
    if let Some(mut session) = find(db, workspace.key, id)? {
        if !session.active {
            return Err(Refusal::no_session(id, &workspace.id));
        }
        if metadata.is_some() || configuration.is_some() {
            if let Some(metadata) = metadata {
                session.metadata = text(metadata)?;
            }
            if let Some(configuration) = configuration {
                session.configuration = merged(&session.configuration, configuration)?;
            }
            db.prepare_cached(
                "UPDATE sessions SET metadata = ?2, configuration = ?3 WHERE key = ?1",
            )?
            .execute(params![
                session.key,
                session.metadata,
                session.configuration
            ])?;
        }
        return Ok((session, false));
    }
    if !is_name(id) {
        return Err(Refusal::unexpected());
    }
    let mut session = Session {
        key: 0,
        workspace: workspace.id.clone(),
        id: id.to_owned(),
        metadata: text(metadata.unwrap_or(&Map::new()))?,
        configuration: text(configuration.unwrap_or(&Map::new()))?,
        created_at: clock::now(),
        active: true,
    };
    db.prepare_cached(
        "INSERT INTO sessions (workspace, id, uid, metadata, configuration, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        workspace.key,
        session.id,
        clock::new_id()?,
        session.metadata,
        session.configuration,
        session.created_at
    ])?;
    session.key = db.last_insert_rowid();
    Ok((session, true))
}

/// Which sessions a list is about.
pub enum Among {
    Workspace(i64),
    Member(i64),
    Scope(i64),
}

/// Those not being deleted, oldest first.
pub fn list(db: &Connection, among: &Among, filter: &Filter, page: Page) -> Result<Found, Refusal> {
    let order = if page.reverse { "DESC" } else { "ASC" };
    let (which, key) = match among {
        Among::Workspace(key) => ("s.workspace = ?1", key),
        Among::Member(key) => (
            "s.key IN (SELECT session FROM members WHERE peer = ?1 AND NOT gone)",
            key,
        ),
        Among::Scope(key) => (
            "s.key IN (SELECT session FROM scope_sessions WHERE scope = ?1)",
            key,
        ),
    };
    let sql =
        format!("SELECT {COLUMNS} WHERE {which} AND s.deleted_at IS NULL ORDER BY s.key {order}");
    let mut statement = db.prepare_cached(&sql)?;
    let mut found = Found::empty();
    for row in statement.query_map([key], read)? {
        found.take(&row?, filter, page, Session::show);
    }
    Ok(found)
}

/// Marks it; its messages and conclusions go with it when the drain comes by.
pub fn delete(db: &Connection, key: i64) -> Result<(), Refusal> {
    db.prepare_cached("UPDATE sessions SET deleted_at = ?2 WHERE key = ?1")?
        .execute(params![key, clock::now()])?;
    Ok(())
}

/// Copies a session under an id made up here: its members, and its messages up to this one, or all.
///
/// # Errors
/// The database refused.
pub fn copy(
    db: &Connection,
    workspace: &Workspace,
    session: &Session,
    last_message: Option<i64>,
) -> Result<Session, Refusal> {
    let id = clock::new_id()?;
    let map = |text: &str| json(text).as_object().cloned();
    let (metadata, configuration) = (map(&session.metadata), map(&session.configuration));
    let (made, _) = get_or_create(
        db,
        workspace,
        &id,
        metadata.as_ref(),
        configuration.as_ref(),
    )?;
    db.prepare_cached(
        "INSERT INTO members (session, peer, observe_me, observe_others, gone) \
         SELECT ?2, peer, observe_me, observe_others, gone FROM members WHERE session = ?1",
    )?
    .execute(params![session.key, made.key])?;
    let sql = "SELECT key FROM messages WHERE session = ?1 AND key <= ?2 ORDER BY key";
    let mut statement = db.prepare_cached(sql)?;
    let last = last_message.unwrap_or(i64::MAX);
    let keys: Vec<i64> = statement
        .query_map(params![session.key, last], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let sql = "INSERT INTO messages (id, session, peer, metadata, configuration, created_at, tokens, content) \
               SELECT ?1, ?2, peer, metadata, configuration, created_at, tokens, content \
               FROM messages WHERE key = ?3";
    let mut statement = db.prepare_cached(sql)?;
    for key in keys {
        statement.execute(params![clock::new_id()?, made.key, key])?;
    }
    Ok(made)
}
