//! Peers: found, made, replaced, listed. A peer goes only with its workspace.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde_json::{Map, Value, json as object};

use super::workspaces::Workspace;
use super::{Found, json, text};
use crate::call::Page;
use crate::clock;
use crate::errors::Refusal;
use crate::filters::{Cell, Filter, Row};
use crate::validate::is_name;

pub struct Peer {
    pub key: i64,
    pub workspace: String,
    pub id: String,
    pub metadata: String,
    pub configuration: String,
    pub created_at: i64,
}

pub const COLUMNS: &str = "p.key, w.id, p.id, p.metadata, p.configuration, p.created_at \
     FROM peers p JOIN workspaces w ON w.key = p.workspace";

pub fn read(row: &SqlRow<'_>) -> rusqlite::Result<Peer> {
    Ok(Peer {
        key: row.get(0)?,
        workspace: row.get(1)?,
        id: row.get(2)?,
        metadata: row.get(3)?,
        configuration: row.get(4)?,
        created_at: row.get(5)?,
    })
}

impl Peer {
    pub fn show(&self) -> Value {
        object!({
            "id": self.id, "workspace_id": self.workspace, "created_at": clock::show(self.created_at),
            "metadata": json(&self.metadata), "configuration": json(&self.configuration),
        })
    }
}

impl Row for Peer {
    fn cell(&self, column: &str) -> Cell<'_> {
        match column {
            "id" => Cell::Text(&self.id),
            "workspace_id" => Cell::Text(&self.workspace),
            "metadata" => Cell::Json(&self.metadata),
            "created_at" => Cell::Number(self.created_at),
            _ => Cell::Null,
        }
    }
}

pub fn find(db: &Connection, workspace: i64, id: &str) -> Result<Option<Peer>, Refusal> {
    let sql = format!("SELECT {COLUMNS} WHERE p.workspace = ?1 AND p.id = ?2");
    Ok(db
        .prepare_cached(&sql)?
        .query_row(params![workspace, id], read)
        .optional()?)
}

/// # Errors
/// A name outside the pattern is an unexpected error, as on Honcho.
pub fn ensure(db: &Connection, workspace: &Workspace, id: &str) -> Result<Peer, Refusal> {
    Ok(get_or_create(db, workspace, id, None, None)?.0)
}

/// What is given replaces what is stored, whole. True: it was made now.
///
/// # Errors
/// As for [`ensure`].
pub fn get_or_create(
    db: &Connection,
    workspace: &Workspace,
    id: &str,
    metadata: Option<&Map<String, Value>>,
    configuration: Option<&Map<String, Value>>,
) -> Result<(Peer, bool), Refusal> {
    let metadata = metadata.map(text).transpose()?;
    let configuration = configuration.map(text).transpose()?;
    if let Some(mut peer) = find(db, workspace.key, id)? {
        if metadata.is_some() || configuration.is_some() {
            peer.metadata = metadata.unwrap_or(peer.metadata);
            peer.configuration = configuration.unwrap_or(peer.configuration);
            db.prepare_cached("UPDATE peers SET metadata = ?2, configuration = ?3 WHERE key = ?1")?
                .execute(params![peer.key, peer.metadata, peer.configuration])?;
        }
        return Ok((peer, false));
    }
    if !is_name(id) {
        return Err(Refusal::unexpected());
    }
    let mut peer = Peer {
        key: 0,
        workspace: workspace.id.clone(),
        id: id.to_owned(),
        metadata: metadata.unwrap_or_else(|| String::from("{}")),
        configuration: configuration.unwrap_or_else(|| String::from("{}")),
        created_at: clock::now(),
    };
    db.prepare_cached(
        "INSERT INTO peers (workspace, id, metadata, configuration, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![workspace.key, peer.id, peer.metadata, peer.configuration, peer.created_at])?;
    peer.key = db.last_insert_rowid();
    Ok((peer, true))
}

pub fn list(
    db: &Connection,
    workspace: i64,
    filter: &Filter,
    page: Page,
) -> Result<Found, Refusal> {
    let order = if page.reverse { "DESC" } else { "ASC" };
    let sql = format!("SELECT {COLUMNS} WHERE p.workspace = ?1 ORDER BY p.key {order}");
    let mut statement = db.prepare_cached(&sql)?;
    let mut found = Found::empty();
    for row in statement.query_map([workspace], read)? {
        found.take(&row?, filter, page, Peer::show);
    }
    Ok(found)
}
