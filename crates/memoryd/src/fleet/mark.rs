//! Marks which words of a text match a query, with the index's own tokenizer, so that what comes from outside is
//! measured as memory is. Called by `source` on its own thread; keeps nothing.

use std::borrow::Cow;

use rusqlite::{Connection, params};

use crate::index::TOKENIZER;

/// Characters of one text that are looked at; Honcho's messages are shorter.
const TEXT_CHARS_MAX: usize = 30_000;

/// Each text, inert, its matches between U+0002 and U+0003. `None`: no word of it matches. `expression` is FTS5's.
///
/// # Errors
/// When SQLite has no memory left.
pub fn mark(texts: &[&str], expression: &str) -> rusqlite::Result<Vec<Option<String>>> {
    let db = Connection::open_in_memory()?;
    db.execute_batch(&format!(
        "CREATE VIRTUAL TABLE found USING fts5(text, tokenize = '{TOKENIZER}')"
    ))?;
    for (at, text) in texts.iter().enumerate() {
        // Inert first, so that the marks of a match can only be ours.
        let text = inert(text);
        let row = i64::try_from(at).unwrap_or(i64::MAX);
        db.prepare_cached("INSERT INTO found(rowid, text) VALUES (?1, ?2)")?
            .execute(params![row, text])?;
    }
    let mut marked = vec![None; texts.len()];
    let mut rows = db.prepare(
        "SELECT rowid, highlight(found, 0, char(2), char(3)) FROM found WHERE found MATCH ?1",
    )?;
    let found = rows.query_map([expression], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    for row in found {
        let (row, text) = row?;
        if let Some(slot) = usize::try_from(row).ok().and_then(|at| marked.get_mut(at)) {
            *slot = Some(text);
        }
    }
    Ok(marked)
}

/// A text that can mark nothing.
#[must_use]
pub fn inert(text: &str) -> Cow<'_, str> {
    bxsanitize::neutralise_cow(text, TEXT_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_match_by_stem_and_marks_cannot_be_brought_along() {
        let texts = [
            "The Gardens are green",
            "nothing of it",
            "a \u{2}forged\u{3} garden",
        ];
        let marked = mark(&texts, "\"garden\" OR \"zebra\"").unwrap();
        assert_eq!(
            marked[0].as_deref(),
            Some("The \u{2}Gardens\u{3} are green")
        );
        assert_eq!(marked[1], None);
        let forged = marked[2].as_deref().unwrap();
        assert_eq!(forged.matches('\u{2}').count(), 1, "{forged:?}");
        assert!(forged.ends_with("\u{2}garden\u{3}"), "{forged:?}");
    }
}
