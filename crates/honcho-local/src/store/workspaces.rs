//! Workspaces: found, made, changed, listed, marked for deletion.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde_json::{Map, Value, json as object};

use super::{Found, json, text};
use crate::call::Page;
use crate::clock;
use crate::errors::Refusal;
use crate::filters::{Cell, Filter, Row};
use crate::validate::is_name;

pub struct Workspace {
    pub key: i64,
    pub id: String,
    pub metadata: String,
    pub configuration: String,
    pub created_at: i64,
}

const COLUMNS: &str = "key, id, metadata, configuration, created_at";

fn read(row: &SqlRow<'_>) -> rusqlite::Result<Workspace> {
    Ok(Workspace {
        key: row.get(0)?,
        id: row.get(1)?,
        metadata: row.get(2)?,
        configuration: row.get(3)?,
        created_at: row.get(4)?,
    })
}

impl Workspace {
    pub fn show(&self) -> Value {
        object!({
            "id": self.id, "metadata": json(&self.metadata),
            "configuration": json(&self.configuration), "created_at": clock::show(self.created_at),
        })
    }

    pub fn configuration(&self) -> Value {
        json(&self.configuration)
    }
}

impl Row for Workspace {
    fn cell(&self, column: &str) -> Cell<'_> {
        match column {
            "id" => Cell::Text(&self.id),
            "metadata" => Cell::Json(&self.metadata),
            "created_at" => Cell::Number(self.created_at),
            _ => Cell::Null,
        }
    }
}

pub fn find(db: &Connection, id: &str) -> Result<Option<Workspace>, Refusal> {
    let sql = format!("SELECT {COLUMNS} FROM workspaces WHERE id = ?1");
    Ok(db.prepare_cached(&sql)?.query_row([id], read).optional()?)
}

/// The workspace of the path, made with an empty configuration when it is not there.
///
/// # Errors
/// A name outside the pattern is an unexpected error: Honcho looks at it too late.
pub fn ensure(db: &Connection, id: &str) -> Result<Workspace, Refusal> {
    Ok(get_or_create(db, id, &Map::new(), &Map::new())?.0)
}

/// What is stored already wins over what is given. True: it was made now.
///
/// # Errors
/// As for [`ensure`].
pub fn get_or_create(
    db: &Connection,
    id: &str,
    metadata: &Map<String, Value>,
    configuration: &Map<String, Value>,
) -> Result<(Workspace, bool), Refusal> {
    if let Some(found) = find(db, id)? {
        return Ok((found, false));
    }
    if !is_name(id) {
        return Err(Refusal::unexpected());
    }
    let created_at = clock::now();
    let (metadata, configuration) = (text(metadata)?, text(configuration)?);
    db.prepare_cached(
        "INSERT INTO workspaces (id, metadata, configuration, created_at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![id, metadata, configuration, created_at])?;
    let key = db.last_insert_rowid();
    Ok((
        Workspace {
            key,
            id: id.to_owned(),
            metadata,
            configuration,
            created_at,
        },
        true,
    ))
}

/// Metadata is replaced, configuration merged key by key at the top.
///
/// # Errors
/// As for [`ensure`].
pub fn update(
    db: &Connection,
    id: &str,
    metadata: Option<&Map<String, Value>>,
    configuration: Option<&Map<String, Value>>,
) -> Result<Workspace, Refusal> {
    let mut workspace = ensure(db, id)?;
    if let Some(metadata) = metadata {
        workspace.metadata = text(metadata)?;
    }
    if let Some(configuration) = configuration {
        workspace.configuration = merged(&workspace.configuration, configuration)?;
    }
    db.prepare_cached("UPDATE workspaces SET metadata = ?2, configuration = ?3 WHERE key = ?1")?
        .execute(params![
            workspace.key,
            workspace.metadata,
            workspace.configuration
        ])?;
    Ok(workspace)
}

/// Stored configuration with the given keys laid over it.
///
/// # Errors
/// The result cannot be written as JSON.
pub fn merged(stored: &str, given: &Map<String, Value>) -> Result<String, Refusal> {
    let mut map = match json(stored) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    map.extend(given.clone());
    text(&map)
}

pub fn list(db: &Connection, filter: &Filter, page: Page) -> Result<Found, Refusal> {
    let order = if page.reverse { "DESC" } else { "ASC" };
    let sql = format!("SELECT {COLUMNS} FROM workspaces ORDER BY key {order}");
    let mut statement = db.prepare_cached(&sql)?;
    let mut found = Found {
        items: Vec::new(),
        total: 0,
    };
    for row in statement.query_map([], read)? {
        let row = row?;
        found.take(&row, filter, page, Workspace::show);
    }
    Ok(found)
}

/// Whether a session of it has not been deleted.
pub fn has_active_sessions(db: &Connection, key: i64) -> Result<bool, Refusal> {
    let sql = "SELECT 1 FROM sessions WHERE workspace = ?1 AND deleted_at IS NULL LIMIT 1";
    Ok(db.prepare_cached(sql)?.exists([key])?)
}

/// Marks it; it goes for good when the drain comes by. A second time changes nothing.
pub fn delete(db: &Connection, key: i64) -> Result<(), Refusal> {
    db.prepare_cached(
        "UPDATE workspaces SET deleted_at = ?2 WHERE key = ?1 AND deleted_at IS NULL",
    )?
    .execute(params![key, clock::now()])?;
    Ok(())
}

impl Found {
    pub fn empty() -> Self {
        Self {
            items: Vec::new(),
            total: 0,
        }
    }

    /// Counts the row if it matches, and keeps it if it lies in the page.
    pub fn take<T: Row>(
        &mut self,
        row: &T,
        filter: &Filter,
        page: Page,
        show: impl FnOnce(&T) -> Value,
    ) {
        if !filter.matches(row) {
            return;
        }
        if self.total >= page.skip() && self.items.len() < page.size {
            self.items.push(show(row));
        }
        self.total += 1;
    }
}
