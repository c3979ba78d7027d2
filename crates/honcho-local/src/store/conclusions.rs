//! Conclusions (facts that one peer holds about another): stored, listed newest first, deleted.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde_json::{Value, json as object};

use super::Found;
use crate::call::Page;
use crate::clock;
use crate::errors::Refusal;
use crate::filters::{Cell, Filter, Row};

pub struct Conclusion {
    pub key: i64,
    pub id: String,
    pub content: String,
    pub observer: String,
    pub observed: String,
    pub session: Option<String>,
    pub workspace: String,
    pub created_at: i64,
}

pub const COLUMNS: &str = "c.key, c.id, c.content, a.id, b.id, s.id, w.id, c.created_at \
     FROM conclusions c JOIN workspaces w ON w.key = c.workspace JOIN peers a ON a.key = c.observer \
     JOIN peers b ON b.key = c.observed LEFT JOIN sessions s ON s.key = c.session";

pub fn read(row: &SqlRow<'_>) -> rusqlite::Result<Conclusion> {
    Ok(Conclusion {
        key: row.get(0)?,
        id: row.get(1)?,
        content: row.get(2)?,
        observer: row.get(3)?,
        observed: row.get(4)?,
        session: row.get(5)?,
        workspace: row.get(6)?,
        created_at: row.get(7)?,
    })
}

impl Conclusion {
    pub fn show(&self) -> Value {
        object!({
            "id": self.id, "content": self.content, "observer_id": self.observer,
            "observed_id": self.observed, "session_id": self.session, "level": "explicit",
            "source_ids": null, "times_derived": 1, "created_at": clock::show(self.created_at),
        })
    }
}

impl Row for Conclusion {
    fn cell(&self, column: &str) -> Cell<'_> {
        match column {
            "id" => Cell::Text(&self.id),
            "content" => Cell::Text(&self.content),
            "observer_id" => Cell::Text(&self.observer),
            "observed_id" => Cell::Text(&self.observed),
            "session_id" => self.session.as_deref().map_or(Cell::Null, Cell::Text),
            "workspace_id" => Cell::Text(&self.workspace),
            "level" => Cell::Text("explicit"),
            "created_at" => Cell::Number(self.created_at),
            "times_derived" => Cell::Number(1),
            _ => Cell::Null,
        }
    }
}

pub struct NewConclusion<'a> {
    pub content: &'a str,
    pub observer: i64,
    pub observed: i64,
    pub session: Option<i64>,
}

/// Stores one conclusion; its id.
pub fn add(
    db: &Connection,
    workspace: i64,
    new: &NewConclusion<'_>,
    created_at: i64,
) -> Result<String, Refusal> {
    let id = clock::new_id()?;
    db.prepare_cached(
        "INSERT INTO conclusions (id, workspace, session, observer, observed, content, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        id,
        workspace,
        new.session,
        new.observer,
        new.observed,
        new.content,
        created_at
    ])?;
    Ok(id)
}

/// Newest first; those of one batch share a time and keep the order they were sent in.
pub fn list(
    db: &Connection,
    workspace: i64,
    filter: &Filter,
    page: Page,
) -> Result<Found, Refusal> {
    let order = if page.reverse {
        "c.created_at, c.key DESC"
    } else {
        "c.created_at DESC, c.key"
    };
    let sql = format!("SELECT {COLUMNS} WHERE c.workspace = ?1 ORDER BY {order}");
    let mut statement = db.prepare_cached(&sql)?;
    let mut found = Found::empty();
    for row in statement.query_map([workspace], read)? {
        found.take(&row?, filter, page, Conclusion::show);
    }
    Ok(found)
}

/// What one peer holds about another, newest first.
pub fn of_pair(
    db: &Connection,
    workspace: i64,
    observer: &str,
    observed: &str,
) -> Result<Vec<Conclusion>, Refusal> {
    let sql = format!(
        "SELECT {COLUMNS} WHERE c.workspace = ?1 AND a.id = ?2 AND b.id = ?3 \
         ORDER BY c.created_at DESC, c.key"
    );
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement
        .query_map(params![workspace, observer, observed], read)?
        .collect::<Result<_, _>>()?)
}

pub fn find(db: &Connection, workspace: i64, id: &str) -> Result<Option<Conclusion>, Refusal> {
    let sql = format!("SELECT {COLUMNS} WHERE c.workspace = ?1 AND c.id = ?2");
    Ok(db
        .prepare_cached(&sql)?
        .query_row(params![workspace, id], read)
        .optional()?)
}

/// False: there was none.
pub fn delete(db: &Connection, workspace: i64, id: &str) -> Result<bool, Refusal> {
    let sql = "DELETE FROM conclusions WHERE workspace = ?1 AND id = ?2";
    Ok(db.prepare_cached(sql)?.execute(params![workspace, id])? > 0)
}
