//! What would wait to be derived: worked out from the messages and the switches, since nothing here
//! ever derives. Read by the queue status only.

use rusqlite::Connection;
use serde_json::Value;

use super::json;
use super::workspaces::Workspace;
use crate::errors::Refusal;

/// One author's messages in one session.
pub struct Unit {
    pub session_uid: String,
    pub session: String,
    pub sender: String,
}

pub fn pending(db: &Connection, workspace: &Workspace) -> Result<Vec<Unit>, Refusal> {
    let sql = "SELECT s.uid, s.id, s.configuration, p.id, p.configuration, b.observe_me, m.configuration \
         FROM sessions s JOIN messages m ON m.session = s.key JOIN peers p ON p.key = m.peer \
         LEFT JOIN members b ON b.session = s.key AND b.peer = p.key \
         WHERE s.workspace = ?1 AND s.deleted_at IS NULL \
         GROUP BY s.key, p.key, m.configuration ORDER BY s.key, p.key";
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map([workspace.key], |row| {
        let unit = Unit {
            session_uid: row.get(0)?,
            session: row.get(1)?,
            sender: row.get(3)?,
        };
        let configurations: [String; 3] = [row.get(2)?, row.get(4)?, row.get(6)?];
        Ok((unit, configurations, row.get::<_, Option<bool>>(5)?))
    })?;
    let ours = workspace.configuration();
    let mut units: Vec<Unit> = Vec::new();
    for row in rows {
        let (unit, [session, peer, message], member) = row?;
        let reasoning = [json(&message), json(&session), ours.clone()]
            .iter()
            .find_map(|configuration| configuration["reasoning"]["enabled"].as_bool())
            .unwrap_or(true);
        let peer = &json(&peer)["observe_me"];
        // A peer whose switch is no truth value is stored and never queued.
        let observed = match (member, peer) {
            (Some(flag), _) => flag,
            (None, Value::Null) => true,
            (None, value) => value.as_bool().unwrap_or(false),
        };
        let known = units
            .last()
            .is_some_and(|last| last.session_uid == unit.session_uid && last.sender == unit.sender);
        if reasoning && observed && !known {
            units.push(unit);
        }
    }
    Ok(units)
}
