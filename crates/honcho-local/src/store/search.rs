//! Finding by words, with FTS5. Messages come in rank order with no relevance floor, as Honcho's do;
//! conclusions come with a distance, so that a ceiling can be asked for.
//!
//! The distance of a conclusion is `1 - 0.98 × (share of the query's distinct words, stemmed, that it
//! holds)`: 0.02 for all of them, 1.0 for none. Equal distances are ordered by FTS5's rank, then newest
//! first. It is never 0, so a ceiling of 0 finds nothing, as on Honcho.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::conclusions::{self, Conclusion};
use super::messages::{self, Message};
use crate::errors::Refusal;
use crate::filters::Filter;

/// Distinct words of a query that are looked for; the rest are ignored.
pub const QUERY_WORDS_MAX: usize = 32;
/// Rows fetched at a time while going through the ranked hits.
const CHUNK_ROWS: usize = 100;

struct Hit {
    covered: usize,
    rank: f64,
}

fn words(query: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .filter(|word| seen.insert(word.clone()))
        .take(QUERY_WORDS_MAX)
        .collect()
}

/// Rows that hold any of the words. `table` is one of the two names below, never outside text.
fn hits(db: &Connection, table: &str, words: &[String]) -> Result<HashMap<i64, Hit>, Refusal> {
    let mut hits = HashMap::new();
    if words.is_empty() {
        return Ok(hits);
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let sql = format!("SELECT rowid, bm25({table}) FROM {table} WHERE {table} MATCH ?1");
    let mut statement = db.prepare_cached(&sql)?;
    let any = quoted.join(" OR ");
    for row in statement.query_map([&any], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?))
    })? {
        let (key, rank) = row?;
        hits.insert(key, Hit { covered: 0, rank });
    }
    let sql = format!("SELECT rowid FROM {table} WHERE {table} MATCH ?1");
    let mut statement = db.prepare_cached(&sql)?;
    for word in &quoted {
        for key in statement.query_map([word], |row| row.get::<_, i64>(0))? {
            if let Some(hit) = hits.get_mut(&key?) {
                hit.covered += 1;
            }
        }
    }
    Ok(hits)
}

/// Where to look for messages.
pub enum Where {
    Workspace(i64),
    Session(i64),
    Peer(i64),
}

/// The best messages first; when the words run out, the newest of the rest.
pub fn messages(
    db: &Connection,
    place: &Where,
    query: &str,
    accepts: &dyn Fn(&Message) -> bool,
    limit: usize,
) -> Result<Vec<Message>, Refusal> {
    let mut found = matching(db, place, query, accepts, limit)?;
    if found.len() < limit {
        let taken: HashSet<i64> = found.iter().map(|message| message.key).collect();
        let (which, key) = place.condition();
        let sql = format!(
            "SELECT {} WHERE {which} ORDER BY m.key DESC",
            messages::COLUMNS
        );
        let mut statement = db.prepare_cached(&sql)?;
        for row in statement.query_map([key], messages::read)? {
            let message = row?;
            if !taken.contains(&message.key) && accepts(&message) {
                found.push(message);
                if found.len() == limit {
                    break;
                }
            }
        }
    }
    Ok(found)
}

/// Only messages that hold a word of the query, best first.
pub fn matching(
    db: &Connection,
    place: &Where,
    query: &str,
    accepts: &dyn Fn(&Message) -> bool,
    limit: usize,
) -> Result<Vec<Message>, Refusal> {
    let hits = hits(db, "messages_fts", &words(query))?;
    let mut ranked: Vec<(i64, Hit)> = hits.into_iter().collect();
    ranked.sort_by(|(a_key, a), (b_key, b)| {
        b.covered
            .cmp(&a.covered)
            .then(a.rank.total_cmp(&b.rank))
            .then(b_key.cmp(a_key))
    });
    let (which, place_key) = place.condition();
    let sql = format!("SELECT {} WHERE m.key = ?2 AND {which}", messages::COLUMNS);
    let mut statement = db.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for chunk in ranked.chunks(CHUNK_ROWS) {
        for (key, _) in chunk {
            let mut rows = statement.query_map([place_key, *key], messages::read)?;
            if let Some(message) = rows.next().transpose()?
                && accepts(&message)
            {
                found.push(message);
                if found.len() == limit {
                    return Ok(found);
                }
            }
        }
    }
    Ok(found)
}

impl Where {
    fn condition(&self) -> (&'static str, i64) {
        match self {
            Self::Workspace(key) => ("s.workspace = ?1", *key),
            Self::Session(key) => ("m.session = ?1", *key),
            Self::Peer(key) => ("m.peer = ?1", *key),
        }
    }
}

/// What one peer holds about another, nearest first, with the distance.
pub fn conclusions(
    db: &Connection,
    workspace: i64,
    (observer, observed): (&str, &str),
    query: &str,
    filter: &Filter,
    ceiling: Option<f64>,
) -> Result<Vec<(f64, Conclusion)>, Refusal> {
    let words = words(query);
    let hits = hits(db, "conclusions_fts", &words)?;
    let mut found: Vec<(f64, f64, Conclusion)> =
        conclusions::of_pair(db, workspace, observer, observed)?
            .into_iter()
            .filter(|conclusion| filter.matches(conclusion))
            .map(|conclusion| match hits.get(&conclusion.key) {
                Some(hit) => {
                    let share = hit.covered as f64 / words.len().max(1) as f64;
                    (1.0 - 0.98 * share, hit.rank, conclusion)
                }
                None => (1.0, 0.0, conclusion),
            })
            .filter(|(distance, ..)| ceiling.is_none_or(|ceiling| *distance <= ceiling))
            .collect();
    // Stable, so what is equal stays newest first.
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    Ok(found
        .into_iter()
        .map(|(distance, _, conclusion)| (distance, conclusion))
        .collect())
}
