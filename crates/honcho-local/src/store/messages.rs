//! Messages: stored in batches, listed in the order they were stored, never changed but for their
//! metadata.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde_json::{Map, Value, json as object};

use super::{Found, json, text};
use crate::call::Page;
use crate::clock;
use crate::errors::Refusal;
use crate::filters::{Cell, Filter, Row};

pub struct Message {
    pub key: i64,
    pub id: String,
    pub content: String,
    pub peer: String,
    pub session: String,
    pub workspace: String,
    pub metadata: String,
    pub created_at: i64,
    pub tokens: i64,
}

pub const COLUMNS: &str = "m.key, m.id, m.content, p.id, s.id, w.id, m.metadata, m.created_at, m.tokens \
     FROM messages m JOIN peers p ON p.key = m.peer JOIN sessions s ON s.key = m.session \
     JOIN workspaces w ON w.key = s.workspace";

pub fn read(row: &SqlRow<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        key: row.get(0)?,
        id: row.get(1)?,
        content: row.get(2)?,
        peer: row.get(3)?,
        session: row.get(4)?,
        workspace: row.get(5)?,
        metadata: row.get(6)?,
        created_at: row.get(7)?,
        tokens: row.get(8)?,
    })
}

impl Message {
    pub fn show(&self) -> Value {
        object!({
            "id": self.id, "content": self.content, "peer_id": self.peer, "session_id": self.session,
            "metadata": json(&self.metadata), "created_at": clock::show(self.created_at),
            "workspace_id": self.workspace, "token_count": self.tokens,
        })
    }
}

impl Row for Message {
    fn cell(&self, column: &str) -> Cell<'_> {
        match column {
            "peer_id" => Cell::Text(&self.peer),
            "session_id" => Cell::Text(&self.session),
            "workspace_id" => Cell::Text(&self.workspace),
            "created_at" => Cell::Number(self.created_at),
            "token_count" => Cell::Number(self.tokens),
            "metadata" => Cell::Json(&self.metadata),
            _ => Cell::Null,
        }
    }
}

pub struct NewMessage<'a> {
    pub peer: i64,
    pub content: &'a str,
    pub metadata: &'a Map<String, Value>,
    pub configuration: &'a Map<String, Value>,
    pub created_at: i64,
}

/// Stores one message; its id.
pub fn add(db: &Connection, session: i64, message: &NewMessage<'_>) -> Result<String, Refusal> {
    let id = clock::new_id()?;
    db.prepare_cached(
        "INSERT INTO messages (id, session, peer, content, metadata, configuration, created_at, tokens) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        id,
        session,
        message.peer,
        message.content,
        text(message.metadata)?,
        text(message.configuration)?,
        message.created_at,
        tokens(message.content) as i64
    ])?;
    Ok(id)
}

pub fn list(db: &Connection, session: i64, filter: &Filter, page: Page) -> Result<Found, Refusal> {
    let order = if page.reverse { "DESC" } else { "ASC" };
    let sql = format!(
        "SELECT {COLUMNS} WHERE m.session = ?1 AND (?2 IS NULL OR instr(m.metadata, ?2)) \
         ORDER BY m.key {order}"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut found = Found::empty();
    for row in statement.query_map(params![session, filter.needle()], read)? {
        found.take(&row?, filter, page, Message::show);
    }
    Ok(found)
}

pub fn find(db: &Connection, session: i64, id: &str) -> Result<Option<Message>, Refusal> {
    let sql = format!("SELECT {COLUMNS} WHERE m.session = ?1 AND m.id = ?2");
    Ok(db
        .prepare_cached(&sql)?
        .query_row(params![session, id], read)
        .optional()?)
}

pub fn set_metadata(
    db: &Connection,
    key: i64,
    metadata: &Map<String, Value>,
) -> Result<(), Refusal> {
    db.prepare_cached("UPDATE messages SET metadata = ?2 WHERE key = ?1")?
        .execute(params![key, text(metadata)?])?;
    Ok(())
}

/// The newest messages of a session whose tokens fit, oldest first.
pub fn newest(db: &Connection, session: i64, tokens_max: i64) -> Result<Vec<Message>, Refusal> {
    let sql = format!("SELECT {COLUMNS} WHERE m.session = ?1 ORDER BY m.key DESC");
    let mut statement = db.prepare_cached(&sql)?;
    let mut left = tokens_max;
    let mut kept = Vec::new();
    if tokens_max <= 0 {
        return Ok(kept);
    }
    for row in statement.query_map([session], read)? {
        let message = row?;
        left -= message.tokens;
        if left < 0 {
            break;
        }
        kept.push(message);
    }
    kept.reverse();
    Ok(kept)
}

/// About as many tokens as a tokenizer would find: a short word or a sign is one, longer words more.
/// Honcho counts with a real tokenizer, so its numbers differ a little.
pub fn tokens(text: &str) -> usize {
    const WORD_CHARS: usize = 10;
    const OTHER_CHARS: usize = 2;
    let (mut count, mut word, mut other, mut newline) = (0, 0_usize, 0_usize, false);
    for c in text.chars() {
        let ascii_word = c.is_ascii_alphanumeric();
        let other_word = !c.is_ascii() && c.is_alphanumeric();
        if !ascii_word {
            count += word.div_ceil(WORD_CHARS);
            word = 0;
        }
        if !other_word {
            count += other.div_ceil(OTHER_CHARS);
            other = 0;
        }
        word += usize::from(ascii_word);
        other += usize::from(other_word);
        count += usize::from(c == '\n' && !newline);
        newline = c == '\n';
        count += usize::from(!c.is_whitespace() && !ascii_word && !other_word);
    }
    count + word.div_ceil(WORD_CHARS) + other.div_ceil(OTHER_CHARS)
}
