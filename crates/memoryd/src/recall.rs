//! `recall` over the local index: which tables, which hits count, and the text that is answered. Called by the
//! service. Nothing is tagged by what a text says, only by where it came from.

use std::collections::BTreeSet;

use bxcore::clock::Millis;
use bxsanitize::neutralise;
use bxwire::{Audience, Cause, Class, Label, Trust, links::memory_tools::Recall};

use crate::{
    denied::Denied,
    index::{Index, IndexError, Row, Source},
    screen::one_line,
};

/// Terms of a query that are looked for.
pub const TERMS_MAX: usize = 32;
/// Rows read for each hit wanted, since not all of them count.
const ROWS_PER_HIT: usize = 4;
/// Causes that an answer names.
const CAUSES_MAX: usize = 20;

/// The bounds of an answer; keys under `[limits]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub hits: usize,
    pub hits_max: usize,
    pub snippet_chars_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hits: 8,
            hits_max: 20,
            snippet_chars_max: 500,
        }
    }
}

/// Who may see what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// The session's label, or that of an owner at the command line.
    pub label: Label,
    pub audience: Audience,
}

/// What `recall` answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub label: Label,
    pub causes: Vec<Cause>,
}

/// A query that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    terms: Vec<String>,
    since: Millis,
    until: Millis,
    hits: usize,
}

impl Query {
    /// Reads the arguments.
    ///
    /// # Errors
    /// [`Denied::Argument`].
    pub fn read(arguments: &Recall, limits: Limits) -> Result<Self, Denied> {
        let terms = terms(&arguments.query);
        if terms.is_empty() {
            return Err(Denied::Argument("the query has no word to look for"));
        }
        let day = |text: &Option<String>, end: &str, usual: i64, wrong| match text {
            None => Ok(Millis(usual)),
            Some(text) => Millis::parse(text)
                .or_else(|| Millis::parse(&format!("{text}T{end}Z")))
                .ok_or(Denied::Argument(wrong)),
        };
        let wanted = arguments
            .k
            .map(|k| usize::try_from(k).unwrap_or(usize::MAX));
        Ok(Self {
            terms,
            since: day(
                &arguments.since,
                "00:00:00",
                i64::MIN,
                "`since` is not a date or a time (2026-01-31, or 2026-01-31T10:00:00Z)",
            )?,
            until: day(
                &arguments.until,
                "23:59:59.999",
                i64::MAX,
                "`until` is not a date or a time (2026-01-31, or 2026-01-31T10:00:00Z)",
            )?,
            hits: wanted.unwrap_or(limits.hits).clamp(1, limits.hits_max),
        })
    }
}

/// Words that are in every text and tell nothing.
const STOP_WORDS: &str = "a about an and are as at be been by did do does for from had has have how i in is it \
    me my of on or our that the their there they this to was we were what when where which who will with you \
    your";

/// The words to look for, each once; a query of stop words alone keeps them.
#[must_use]
pub fn terms(query: &str) -> Vec<String> {
    let lower = query.to_lowercase();
    let mut seen = BTreeSet::new();
    let all: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && seen.insert(*word))
        .collect();
    let stop: BTreeSet<_> = STOP_WORDS.split_whitespace().collect();
    let telling: Vec<_> = all.iter().filter(|word| !stop.contains(*word)).collect();
    let chosen = if telling.is_empty() {
        all.iter().collect()
    } else {
        telling
    };
    chosen
        .into_iter()
        .take(TERMS_MAX)
        .map(|word| (*word).to_owned())
        .collect()
}

/// FTS5's form of a word: quoted, so that nothing in it is an operator.
fn quoted(term: &str) -> String {
    format!("\"{}\"", term.replace('"', "\"\""))
}

/// The tables to search, and what to say of those that are left out, whether or not they hold a match.
#[must_use]
pub fn tables(arguments: &Recall, reader: Reader) -> (Vec<Label>, Vec<String>) {
    let shown = reader.audience.class_max();
    let wanted = reader.label.class.max(arguments.class.unwrap_or_default());
    let highest = wanted.min(shown);
    let untrusted = arguments.untrusted != Some(false);
    let searched = Label::all()
        .filter(|label| label.class <= highest)
        .filter(|label| untrusted || label.trust == Trust::Trusted)
        .collect();
    let mut left_out = Vec::new();
    if highest < Class::Secret {
        if shown == highest && shown < Class::Secret {
            left_out.push(format!(
                "Not searched: memory above {}, which others who read this session may not see.",
                shown.name()
            ));
        } else {
            left_out.push(format!(
                "Not searched: memory above {}. A call with `class` searches it, and raises this session.",
                highest.name()
            ));
        }
    }
    if !untrusted {
        left_out.push("Not searched: untrusted memory, as the call asked.".into());
    }
    (searched, left_out)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Hit {
    row: Row,
    label: Label,
}

/// Searches and answers. `others`: lines about sources beside the index, such as one that did not answer.
///
/// # Errors
/// [`IndexError`].
pub fn recall(
    index: &Index,
    query: &Query,
    arguments: &Recall,
    reader: Reader,
    limits: Limits,
    others: &[String],
) -> Result<Answer, IndexError> {
    let (labels, mut lines) = tables(arguments, reader);
    lines.extend_from_slice(others);
    let quoted: Vec<_> = query.terms.iter().map(|term| quoted(term)).collect();
    let expression = quoted.join(" OR ");
    let mut ranked = Vec::new();
    for label in labels {
        let rows = index.search(
            label,
            &expression,
            query.since,
            query.until,
            query.hits * ROWS_PER_HIT,
        )?;
        let mut rare = vec![None; query.terms.len()];
        let mut hits = Vec::new();
        for row in rows {
            if hits.len() == query.hits {
                break;
            }
            // Only what would raise the session has to earn its place.
            if reader.label.covers(label) || counts(index, label, query, &quoted, &row, &mut rare)?
            {
                hits.push(Hit { row, label });
            }
        }
        ranked.push(hits);
    }
    let hits = interleave(ranked, query.hits);
    Ok(answer(&hits, reader, limits, &lines))
}

/// A hit counts when it has half of the terms, or one that few rows of its table have.
fn counts(
    index: &Index,
    label: Label,
    query: &Query,
    quoted: &[String],
    row: &Row,
    rare: &mut [Option<bool>],
) -> Result<bool, IndexError> {
    let found = matched(&row.marked, &query.terms);
    if found.len() * 2 >= query.terms.len() {
        return Ok(true);
    }
    for at in found {
        let is_rare = match rare[at] {
            Some(known) => known,
            None => *rare[at].insert(index.is_rare(label, &quoted[at])?),
        };
        if is_rare {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Which terms the marked words stand for: for each, the term with the longest common beginning, since the
/// index matches by stem.
fn matched(marked: &str, terms: &[String]) -> BTreeSet<usize> {
    marked
        .split('\u{2}')
        .skip(1)
        .filter_map(|part| part.split('\u{3}').next())
        .filter_map(|word| {
            let word = word.to_lowercase();
            let common = |term: &String| {
                let pairs = term.chars().zip(word.chars());
                pairs.take_while(|(a, b)| a == b).count()
            };
            (0..terms.len()).max_by_key(|at| common(&terms[*at]))
        })
        .collect()
}

/// One of each list in turn, each list in its own order.
fn interleave<T>(lists: Vec<Vec<T>>, most: usize) -> Vec<T> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut out = Vec::new();
    while out.len() < most {
        let before = out.len();
        for list in &mut lists {
            if out.len() < most {
                out.extend(list.next());
            }
        }
        if out.len() == before {
            break;
        }
    }
    out
}

fn answer(hits: &[Hit], reader: Reader, limits: Limits, lines: &[String]) -> Answer {
    let mut parts = Vec::new();
    let mut label = Label::default();
    let mut causes: Vec<Cause> = Vec::new();
    for hit in hits {
        label = label.join(hit.label);
        parts.push(format!(
            "{}\n{}",
            head(hit),
            snippet(&hit.row.marked, limits.snippet_chars_max)
        ));
        let cause = cause(hit);
        if !reader.label.covers(hit.label) && causes.len() < CAUSES_MAX && !causes.contains(&cause)
        {
            causes.push(cause);
        }
    }
    if hits.is_empty() {
        parts.push("Nothing found.".into());
    }
    parts.extend_from_slice(lines);
    Answer {
        text: parts.join("\n"),
        label,
        causes,
    }
}

fn head(hit: &Hit) -> String {
    let row = &hit.row;
    let tag = match (row.source, hit.label.trust) {
        (_, Trust::Untrusted) => "memory-tainted",
        (Source::Identity, Trust::Trusted) => "identity",
        (_, Trust::Trusted) => "memory",
    };
    let secret = match hit.label.class {
        Class::Secret => ", secret",
        Class::Public | Class::Private => "",
    };
    let (source, id) = match row.source {
        Source::Identity => ("identity", format!("{} ({})", row.subject, row.item)),
        Source::Note => ("note", format!("{} ({})", row.subject, row.item)),
        Source::Words => ("said in a turn", row.item.clone()),
        Source::Reply => ("replied in a turn", row.item.clone()),
    };
    format!("[{tag}{secret}] {source}, {}, {id}", row.at)
}

fn cause(hit: &Hit) -> Cause {
    let date: String = hit.row.at.to_string().chars().take(10).collect();
    let kind = match (hit.label.class, hit.label.trust) {
        (Class::Secret, Trust::Untrusted) => "a secret, untrusted",
        (Class::Secret, Trust::Trusted) => "a secret",
        (_, Trust::Untrusted) => "an untrusted",
        (Class::Private, Trust::Trusted) => "a private",
        (Class::Public, Trust::Trusted) => "a public",
    };
    let (what, id) = match hit.row.source {
        Source::Identity => ("entry", &hit.row.subject),
        Source::Note => ("note", &hit.row.subject),
        Source::Words | Source::Reply => ("turn", &hit.row.item),
    };
    Cause {
        source: format!("recall read {kind} {what} of {date} ({id})"),
        label: hit.label,
    }
}

/// The text around the first match, on one line, inert, at most `most` characters.
#[must_use]
pub fn snippet(marked: &str, most: usize) -> String {
    let before = marked.find('\u{2}').unwrap_or(0);
    let unmarked = |text: &str| text.replace(['\u{2}', '\u{3}'], "");
    let (head, tail) = (unmarked(&marked[..before]), unmarked(&marked[before..]));
    let (head_chars, tail_chars) = (head.chars().count(), tail.chars().count());
    if head_chars + tail_chars <= most {
        return one_line(&neutralise(&one_line(&(head + &tail)), most));
    }
    // Two characters for the marks of a cut; a third of the rest before the match, more where less follows.
    let room = most.saturating_sub(2);
    let lead = (room / 3)
        .max(room.saturating_sub(tail_chars))
        .min(head_chars);
    let from_head: String = head.chars().skip(head_chars - lead).collect();
    let from_tail: String = tail.chars().take(room - lead).collect();
    let start = if lead < head_chars { "…" } else { "" };
    let end = if room - lead < tail_chars { "…" } else { "" };
    let cut = format!("{start}{}{end}", one_line(&(from_head + &from_tail)));
    one_line(&neutralise(&cut, most))
}

#[cfg(test)]
mod tests;
