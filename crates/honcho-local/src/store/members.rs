//! Who takes part in a session, and each member's two observation flags.

use rusqlite::{Connection, OptionalExtension, params};

use super::peers::{self, Peer};
use crate::errors::Refusal;

/// Members with `observe_others` that one session may have.
pub const OBSERVERS_MAX: usize = 10;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    pub observe_me: Option<bool>,
    pub observe_others: Option<bool>,
}

/// Joins the peer. A present member keeps its flags; one that had left comes back with these.
pub fn join(db: &Connection, session: i64, peer: i64, flags: Flags) -> Result<(), Refusal> {
    db.prepare_cached(
        "INSERT INTO members (session, peer, observe_me, observe_others) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (session, peer) DO UPDATE \
         SET observe_me = ?3, observe_others = ?4, gone = 0 WHERE gone",
    )?
    .execute(params![
        session,
        peer,
        flags.observe_me,
        flags.observe_others
    ])?;
    Ok(())
}

/// Sets the flags of a member, joining it if need be.
pub fn set(db: &Connection, session: i64, peer: i64, flags: Flags) -> Result<(), Refusal> {
    db.prepare_cached(
        "INSERT INTO members (session, peer, observe_me, observe_others) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (session, peer) DO UPDATE SET observe_me = ?3, observe_others = ?4, gone = 0",
    )?
    .execute(params![
        session,
        peer,
        flags.observe_me,
        flags.observe_others
    ])?;
    Ok(())
}

pub fn leave(db: &Connection, session: i64, peer: i64) -> Result<(), Refusal> {
    db.prepare_cached("UPDATE members SET gone = 1 WHERE session = ?1 AND peer = ?2")?
        .execute(params![session, peer])?;
    Ok(())
}

pub fn leave_all(db: &Connection, session: i64) -> Result<(), Refusal> {
    db.prepare_cached("UPDATE members SET gone = 1 WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}

/// `None`: no member, or one that has left.
pub fn flags(db: &Connection, session: i64, peer: i64) -> Result<Option<Flags>, Refusal> {
    let sql = "SELECT observe_me, observe_others FROM members \
               WHERE session = ?1 AND peer = ?2 AND NOT gone";
    Ok(db
        .prepare_cached(sql)?
        .query_row(params![session, peer], |row| {
            Ok(Flags {
                observe_me: row.get(0)?,
                observe_others: row.get(1)?,
            })
        })
        .optional()?)
}

/// Members in the order of their names.
pub fn list(db: &Connection, session: i64) -> Result<Vec<Peer>, Refusal> {
    let sql = format!(
        "SELECT {} JOIN members m ON m.peer = p.key WHERE m.session = ?1 AND NOT m.gone ORDER BY p.id",
        peers::COLUMNS
    );
    Ok(db
        .prepare_cached(&sql)?
        .query_map([session], peers::read)?
        .collect::<Result<_, _>>()?)
}

pub fn observers(db: &Connection, session: i64) -> Result<usize, Refusal> {
    let sql = "SELECT count(*) FROM members WHERE session = ?1 AND NOT gone AND observe_others = 1";
    let count: i64 = db
        .prepare_cached(sql)?
        .query_row([session], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}
