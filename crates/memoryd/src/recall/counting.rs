//! Which of what was found counts: what would raise the session has to match the query well. Part of `recall`;
//! asks the index how rare a word is, and nothing else.

use std::collections::{BTreeSet, HashMap};

use bxwire::Label;
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use super::{Hit, Measure, Query, Reader, quoted};
use crate::index::{Index, IndexError};

/// Which hits count, and what is known of how rare the terms are.
pub(super) struct Counting<'a> {
    index: &'a Index,
    query: &'a Query,
    /// By tables, for each term.
    rare: HashMap<Vec<Label>, Vec<Option<bool>>>,
}

impl<'a> Counting<'a> {
    pub(super) fn new(index: &'a Index, query: &'a Query) -> Self {
        Self {
            index,
            query,
            rare: HashMap::new(),
        }
    }

    /// The first hits that count; `tables` say what is rare.
    pub(super) fn counted(
        &mut self,
        found: impl Iterator<Item = Hit>,
        reader: Reader,
        tables: &[Label],
    ) -> Result<Vec<Hit>, IndexError> {
        let mut hits = Vec::new();
        for hit in found {
            if hits.len() == self.query.hits {
                break;
            }
            // Only what would raise the session has to earn its place.
            if reader.label.covers(hit.label)
                || hit.measure == Measure::Distance
                || self.counts(&hit.marked, tables)?
            {
                hits.push(hit);
            }
        }
        Ok(hits)
    }

    /// A hit counts when it has half of the terms, or one that few rows of the tables have.
    fn counts(&mut self, marked: &str, tables: &[Label]) -> Result<bool, IndexError> {
        let found = matched(marked, &self.query.terms);
        if found.is_empty() {
            return Ok(false);
        }
        if found.len() * 2 >= self.query.terms.len() {
            return Ok(true);
        }
        let terms = &self.query.terms;
        let rare = self
            .rare
            .entry(tables.to_vec())
            .or_insert_with(|| vec![None; terms.len()]);
        for at in found {
            let is_rare = match rare[at] {
                Some(known) => known,
                None => *rare[at].insert(self.index.is_rare(tables, &quoted(&terms[at]))?),
            };
            if is_rare {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Which terms the marked words stand for: for each, the term with the longest common beginning, since the
/// index matches by stem.
pub(super) fn matched(marked: &str, terms: &[String]) -> BTreeSet<usize> {
    let terms: Vec<_> = terms.iter().map(|term| folded(term)).collect();
    marked
        .split('\u{2}')
        .skip(1)
        .filter_map(|part| part.split('\u{3}').next())
        .filter_map(|word| {
            let word = folded(word);
            let common = |term: &[char]| {
                let pairs = term.iter().zip(&word);
                pairs.take_while(|(a, b)| a == b).count()
            };
            (0..terms.len()).max_by_key(|at| common(&terms[*at]))
        })
        .collect()
}

/// A word as the index's tokenizer compares it: in lower case and without diacritics.
fn folded(word: &str) -> Vec<char> {
    let bare = word.nfd().filter(|c| !is_combining_mark(*c));
    bare.flat_map(char::to_lowercase).collect()
}
