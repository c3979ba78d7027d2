//! Runs the table and the special rules over one form of a text: one pass for the beginnings, then a
//! look at what follows each. Called by `refuse`; linear, whatever the text.

use super::special;
use crate::rules::{Alphabet, Left, Part, RULES, Rule};
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

static PREFIXES: LazyLock<(AhoCorasick, Vec<&'static Rule>)> = LazyLock::new(|| {
    let rows: Vec<_> = RULES
        .iter()
        .flat_map(|rule| rule.prefixes.iter().map(move |prefix| (*prefix, rule)))
        .collect();
    let search =
        AhoCorasick::new(rows.iter().map(|(prefix, _)| prefix)).expect("the table is small");
    (search, rows.into_iter().map(|(_, rule)| rule).collect())
});

/// The first rule that matches.
pub(super) fn first_rule(text: &str) -> Option<&'static str> {
    rules(text).next().or_else(|| special::first_rule(text))
}

/// Every match of the table, in the order the beginnings end.
fn rules(text: &str) -> impl Iterator<Item = &'static str> {
    let (search, rows) = &*PREFIXES;
    let mut runs = Runs {
        text: text.as_bytes(),
        last: Vec::new(),
    };
    search.find_overlapping_iter(text).filter_map(move |found| {
        let rule = rows[found.pattern().as_usize()];
        let bounded =
            rule.left == Left::Any || !ends_in_alphanumeric(&text.as_bytes()[..found.start()]);
        (bounded && runs.follows(rule.parts, found.end())).then_some(rule.name)
    })
}

pub(super) fn ends_in_alphanumeric(before: &[u8]) -> bool {
    before.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// Measures runs, and remembers the last one of each alphabet: a text of nothing but beginnings is
/// still read once.
struct Runs<'a> {
    text: &'a [u8],
    last: Vec<(Alphabet, usize, usize)>,
}

impl Runs<'_> {
    fn follows(&mut self, parts: &[Part], mut at: usize) -> bool {
        parts.iter().all(|part| {
            let end = match *part {
                Part::Lit(text) => self.text[at..]
                    .starts_with(text.as_bytes())
                    .then_some(at + text.len()),
                Part::Exactly(alphabet, count) => {
                    let end = at + count;
                    self.text
                        .get(at..end)
                        .is_some_and(|run| run.iter().all(|b| alphabet.has(*b)))
                        .then_some(end)
                }
                Part::Run(alphabet, min) => {
                    Some(self.run_end(alphabet, at)).filter(|end| end - at >= min)
                }
            };
            at = end.unwrap_or(at);
            end.is_some()
        })
    }

    fn run_end(&mut self, alphabet: Alphabet, at: usize) -> usize {
        let known = self
            .last
            .iter()
            .position(|(known, _, _)| *known == alphabet);
        if let Some(known) = known {
            let (_, start, end) = self.last[known];
            if (start..end).contains(&at) {
                return end;
            }
        }
        let end = at
            + self.text[at..]
                .iter()
                .take_while(|b| alphabet.has(**b))
                .count();
        match known {
            Some(known) => self.last[known] = (alphabet, at, end),
            None => self.last.push((alphabet, at, end)),
        }
        end
    }
}

#[cfg(test)]
mod tests;
