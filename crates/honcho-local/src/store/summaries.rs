//! What a model would have written up of a session. None is ever written here but by a test.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use super::{Store, messages, sessions, workspaces};
use crate::clock;
use crate::errors::Refusal;

impl Store {
    /// Replaces a session's summary. `false`: there is no such session.
    ///
    /// # Errors
    /// The database refused.
    pub fn summarise(&self, workspace: &str, session: &str, text: &str) -> Result<bool, Refusal> {
        self.run(|db| {
            let Some(workspace) = workspaces::find(db, workspace)? else {
                return Ok(false);
            };
            let Some(session) = sessions::find(db, workspace.key, session)? else {
                return Ok(false);
            };
            db.execute(
                "INSERT OR REPLACE INTO summaries (session, content, created_at) VALUES (?1, ?2, ?3)",
                params![session.key, text, clock::now()],
            )?;
            Ok(true)
        })
    }
}

/// A session's summary as Honcho shows it, or `null`: there is none, or it has more tokens than are left.
pub fn get(db: &Connection, session: i64, tokens_left: i64) -> Result<Value, Refusal> {
    let sql = "SELECT content, created_at FROM summaries WHERE session = ?1";
    let found: Option<(String, i64)> = db
        .prepare_cached(sql)?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((content, created_at)) = found else {
        return Ok(Value::Null);
    };
    let tokens = messages::tokens(&content);
    if i64::try_from(tokens).unwrap_or(i64::MAX) > tokens_left {
        return Ok(Value::Null);
    }
    Ok(json!({
        "content": content, "message_id": "", "summary_type": "short",
        "created_at": clock::show(created_at), "token_count": tokens,
    }))
}
