//! The tables of the index, and rows put into them and taken out. Called by the index alone; every function
//! works inside a transaction of its caller.

use std::collections::BTreeSet;

use bxcore::clock::Millis;
use bxwire::{EditId, Label, links::memory_tools::About};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::Source;
use crate::{
    logs::{Cursor, Turn},
    memory::Contents,
};

/// How a text becomes words and stems. Whatever is measured against the index uses it too.
pub const TOKENIZER: &str = "porter unicode61 remove_diacritics 2";
/// Counts up with every change of the tables; another number means a rebuild.
const SCHEMA_VERSION: i64 = 1;
/// Pages that SQLite keeps in memory, in KiB: those of some fifty texts far apart, as a rare word has them among 10^6.
const CACHE_KIB_MAX: i64 = 2_048;
/// Pages of the write-ahead log, after which it is folded into the file.
const WAL_PAGES_MAX: i64 = 256;

/// Makes the tables unless they are there; says whether it did.
pub(super) fn prepare(connection: &mut Connection) -> rusqlite::Result<bool> {
    // Nobody else opens it; so SQLite needs no shared memory, which a full disk would take away.
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES_MAX)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB_MAX)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == SCHEMA_VERSION {
        return Ok(false);
    }
    let tx = connection.transaction()?;
    let old: Vec<String> = tx
        .prepare(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND (name IN ('cursors', 'places', 'meta') \
             OR sql LIKE 'CREATE VIRTUAL%')",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for name in old {
        tx.execute_batch(&format!("DROP TABLE \"{}\"", name.replace('"', "\"\"")))?;
    }
    tx.execute_batch(
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);
         CREATE TABLE cursors(session TEXT PRIMARY KEY, cursor TEXT NOT NULL);
         CREATE TABLE places(subject TEXT NOT NULL, label INTEGER NOT NULL, row INTEGER NOT NULL, \
         PRIMARY KEY (subject, label, row)) WITHOUT ROWID;",
    )?;
    for label in Label::all() {
        tx.execute_batch(&format!(
            "CREATE VIRTUAL TABLE {} USING fts5(text, source UNINDEXED, subject UNINDEXED, item UNINDEXED, \
             at UNINDEXED, tokenize = '{TOKENIZER}')",
            table(label)
        ))?;
    }
    tx.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    tx.commit()?;
    Ok(true)
}

pub(super) fn table(label: Label) -> String {
    format!("text_{}_{}", label.class.name(), label.trust.name())
}

fn label_number(label: Label) -> i64 {
    let at = Label::all().position(|other| other == label);
    at.and_then(|at| i64::try_from(at).ok()).unwrap_or(0)
}

pub(super) fn read_cursor(tx: &Transaction<'_>, session: &str) -> rusqlite::Result<Option<Cursor>> {
    let text: Option<String> = tx
        .query_row(
            "SELECT cursor FROM cursors WHERE session = ?1",
            [session],
            |row| row.get(0),
        )
        .optional()?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

pub(super) fn write_cursor(
    tx: &Transaction<'_>,
    session: &str,
    cursor: &Cursor,
) -> rusqlite::Result<()> {
    let text = serde_json::to_string(cursor)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    tx.execute(
        "INSERT OR REPLACE INTO cursors(session, cursor) VALUES (?1, ?2)",
        [session, &text],
    )?;
    Ok(())
}

pub(super) fn last_edit(tx: &Transaction<'_>) -> rusqlite::Result<EditId> {
    edit_at(tx, "edit")
}

pub(super) fn set_last_edit(tx: &Transaction<'_>, last: EditId) -> rusqlite::Result<()> {
    set_edit_at(tx, "edit", last)
}

pub(super) fn last_purge(tx: &Transaction<'_>) -> rusqlite::Result<EditId> {
    edit_at(tx, "purge")
}

pub(super) fn set_last_purge(tx: &Transaction<'_>, last: EditId) -> rusqlite::Result<()> {
    set_edit_at(tx, "purge", last)
}

fn edit_at(tx: &Transaction<'_>, key: &str) -> rusqlite::Result<EditId> {
    let last: Option<i64> = tx
        .query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| {
            row.get(0)
        })
        .optional()?;
    let last = last.and_then(|last| u64::try_from(last).ok());
    Ok(EditId(last.unwrap_or(0)))
}

fn set_edit_at(tx: &Transaction<'_>, key: &str, edit: EditId) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT OR REPLACE INTO meta(key, value) VALUES (?1, ?2)",
        params![key, i64::try_from(edit.0).unwrap_or(i64::MAX)],
    )?;
    Ok(())
}

/// A row to be put in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct New {
    label: Label,
    source: Source,
    subject: String,
    item: String,
    at: String,
    text: String,
}

/// The rows of memory: of all of it, or of some entries and notes.
#[must_use]
pub fn of_memory(contents: &Contents, only: Option<&BTreeSet<String>>) -> Vec<New> {
    let wanted = |id: &String| only.is_none_or(|only| only.contains(id));
    let entries = [About::User, About::Agent]
        .into_iter()
        .flat_map(|about| contents.entries(about))
        .filter(|entry| wanted(&entry.id))
        .map(|entry| New {
            label: Label::PRIVATE,
            source: Source::Identity,
            subject: entry.id.clone(),
            item: entry.edit.to_string(),
            at: entry.at.clone(),
            text: entry.text.clone(),
        });
    let notes = contents
        .notes()
        .iter()
        .filter(|note| wanted(&note.id))
        .map(|note| New {
            label: note.label,
            source: Source::Note,
            subject: note.id.clone(),
            item: note.edit.to_string(),
            at: note.at.clone(),
            text: note.text.clone(),
        });
    entries.chain(notes).collect()
}

pub(super) fn put(tx: &Transaction<'_>, new: &New) -> rusqlite::Result<()> {
    if new.text.trim().is_empty() {
        return Ok(());
    }
    // Inert before it is kept, so that the marks of a match can only be ours.
    let text = bxsanitize::neutralise_cow(&new.text, usize::MAX);
    let at = Millis::parse(&new.at).unwrap_or_default();
    tx.prepare_cached(&format!(
        "INSERT INTO {}(text, source, subject, item, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        table(new.label)
    ))?
    .execute(params![
        text,
        new.source as i64,
        new.subject,
        new.item,
        at.0
    ])?;
    tx.prepare_cached("INSERT INTO places(subject, label, row) VALUES (?1, ?2, ?3)")?
        .execute(params![
            new.subject,
            label_number(new.label),
            tx.last_insert_rowid()
        ])?;
    Ok(())
}

pub(super) fn put_turn(tx: &Transaction<'_>, turn: &Turn) -> rusqlite::Result<()> {
    let sides = [
        (Source::Words, &turn.said_at, &turn.text),
        (Source::Reply, &turn.ended_at, &turn.reply),
    ];
    for (source, at, text) in sides {
        let new = New {
            label: turn.label,
            source,
            subject: turn.session.to_string(),
            item: format!("{}/{}", turn.session, turn.turn),
            at: at.clone(),
            text: text.clone(),
        };
        put(tx, &new)?;
    }
    Ok(())
}

/// Removes every row of an entry, note or session.
pub(super) fn take_out(tx: &Transaction<'_>, subject: &str) -> rusqlite::Result<()> {
    for label in Label::all() {
        let number = label_number(label);
        tx.prepare_cached(&format!(
            "DELETE FROM {} WHERE rowid IN (SELECT row FROM places WHERE subject = ?1 AND label = ?2)",
            table(label)
        ))?
        .execute(params![subject, number])?;
    }
    tx.execute("DELETE FROM places WHERE subject = ?1", [subject])?;
    Ok(())
}

/// Removes every row of memory; sessions stay.
pub(super) fn take_out_memory(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    // A session's id ends in a dash and twelve characters; no entry's and no note's does.
    let old: Vec<String> = tx
        .prepare("SELECT DISTINCT subject FROM places WHERE subject NOT LIKE '%-____________'")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    old.iter().try_for_each(|subject| take_out(tx, subject))
}
