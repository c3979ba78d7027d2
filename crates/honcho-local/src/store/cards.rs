//! Peer cards: what one peer keeps on another as a short list of lines.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::json;
use crate::errors::Refusal;

/// `null` when it was never set.
pub fn get(db: &Connection, observer: i64, observed: i64) -> Result<Value, Refusal> {
    let sql = "SELECT card FROM cards WHERE observer = ?1 AND observed = ?2";
    let card: Option<String> = db
        .prepare_cached(sql)?
        .query_row(params![observer, observed], |row| row.get(0))
        .optional()?;
    Ok(card.map_or(Value::Null, |card| json(&card)))
}

pub fn set(db: &Connection, observer: i64, observed: i64, card: &Value) -> Result<(), Refusal> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO cards (observer, observed, card) VALUES (?1, ?2, ?3)",
    )?
    .execute(params![observer, observed, card.to_string()])?;
    Ok(())
}
