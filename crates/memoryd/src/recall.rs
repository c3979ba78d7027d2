//! `recall`: which tables of the index, which hits count, and the text that is answered, of the index and of
//! what other sources found. Called by the service. Nothing is tagged by what a text says, only by where it
//! came from.

use std::collections::BTreeSet;

use bxcore::clock::Millis;
use bxsanitize::neutralise;
use bxwire::{Audience, Cause, Class, Label, Trust, links::memory_tools::Recall};
use unicode_normalization::UnicodeNormalization;

use crate::{
    denied::Denied,
    index::{Index, IndexError, Row, Source},
    screen::one_line,
};

mod counting;
use counting::Counting;

/// Terms of a query that are looked for.
pub const TERMS_MAX: usize = 32;
/// Rows read for each hit wanted, since not all of them count.
const ROWS_PER_HIT: usize = 4;
/// Causes that an answer names.
const CAUSES_MAX: usize = 20;
/// Before each text that is shown.
const TEXT_INDENT: &str = "  ";

/// When untrusted sources are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untrusted {
    /// Unless the call says no.
    Always,
    /// Only when the call says yes.
    Ask,
}

/// The bounds of an answer; keys under `[limits]`. And what the owner says of untrusted sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub hits: usize,
    pub hits_max: usize,
    pub snippet_chars_max: usize,
    pub untrusted: Untrusted,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hits: 8,
            hits_max: 20,
            snippet_chars_max: 500,
            untrusted: Untrusted::Always,
        }
    }
}

/// Who may see what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// The session's label, or that of an owner at the command line.
    pub label: Label,
    pub audience: Audience,
    pub queries: Queries,
}

impl Reader {
    /// A session in a turn: what is asked in a secret one, or in an excluded turn, stays on this machine.
    #[must_use]
    pub fn session(label: Label, audience: Audience, turn: Asker) -> Self {
        let queries = match (label.class, turn) {
            (Class::Secret, _) => Queries::StayHere(Stay::Secret),
            (Class::Public | Class::Private, Asker::Excluded) => Queries::StayHere(Stay::Excluded),
            (Class::Public | Class::Private, Asker::Usual) => Queries::MayLeave,
        };
        Self {
            label,
            audience,
            queries,
        }
    }
}

/// Whether what is asked may be sent to Honcho.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queries {
    MayLeave,
    StayHere(Stay),
}

/// Why nothing that is asked leaves this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// The session is secret.
    Secret,
    /// The owner excluded the turn's speaker, or where it came from.
    Excluded,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    Usual,
    /// A speaker or a source that the owner excluded from Honcho.
    Excluded,
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
    /// As it was asked, its letters composed.
    pub text: String,
    terms: Vec<String>,
    pub since: Millis,
    pub until: Millis,
    pub hits: usize,
    untrusted: bool,
}

impl Query {
    /// Reads the arguments.
    ///
    /// # Errors
    /// [`Denied::Argument`].
    pub fn read(arguments: &Recall, limits: Limits) -> Result<Self, Denied> {
        // A mark that stands by itself would end its word.
        let text: String = arguments.query.nfc().collect();
        let terms = terms(&text);
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
            text,
            terms,
            untrusted: match limits.untrusted {
                Untrusted::Always => arguments.untrusted != Some(false),
                Untrusted::Ask => arguments.untrusted == Some(true),
            },
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

    /// What FTS5 looks for: any of the terms.
    #[must_use]
    pub fn expression(&self) -> String {
        let quoted: Vec<_> = self.terms.iter().map(|term| quoted(term)).collect();
        quoted.join(" OR ")
    }
}

/// What a call reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The highest class.
    pub class: Class,
    pub untrusted: bool,
}

impl Reach {
    #[must_use]
    pub fn of(arguments: &Recall, query: &Query, reader: Reader) -> Self {
        let wanted = arguments.class.unwrap_or(reader.label.class);
        Self {
            class: wanted.min(reader.audience.class_max()),
            untrusted: query.untrusted,
        }
    }

    #[must_use]
    pub fn holds(self, label: Label) -> bool {
        label.class <= self.class && (self.untrusted || label.trust == Trust::Trusted)
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
pub fn tables(arguments: &Recall, query: &Query, reader: Reader) -> (Vec<Label>, Vec<String>) {
    let shown = reader.audience.class_max();
    let reach = Reach::of(arguments, query, reader);
    let highest = reach.class;
    let searched = Label::all().filter(|label| reach.holds(*label)).collect();
    let usual = reader.label.class.min(shown);
    let mut left_out = Vec::new();
    if highest < Class::Secret {
        if highest < usual {
            left_out.push(format!(
                "Not searched: memory above {}, as the call asked.",
                highest.name()
            ));
        } else if shown == highest && shown < Class::Secret {
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
    if !reach.untrusted {
        left_out.push(match arguments.untrusted {
            Some(_) => "Not searched: untrusted memory, as the call asked.".into(),
            None => "Not searched: untrusted memory. A call with `untrusted` searches it, and marks this \
                     session if it finds something."
                .into(),
        });
    }
    (searched, left_out)
}

/// How it is known that something belongs to the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// By the words that match, as the index counts them.
    Words,
    /// By the ceiling of a distance that was asked for.
    Distance,
}

/// Something found, wherever it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub label: Label,
    /// Tag, source, time, id: one line in fixed words.
    pub head: String,
    /// The text, each match between U+0002 and U+0003.
    pub marked: String,
    /// What has to be read beside it, for example that it was taken back.
    pub beside: Option<String>,
    /// What it is, in the words of a cause.
    pub what: String,
    pub measure: Measure,
}

/// What other sources found, each in its own order, and lines about sources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elsewhere {
    pub found: Vec<Vec<Hit>>,
    pub lines: Vec<String>,
}

/// Searches and answers. `elsewhere` is asked after the index, so that others work meanwhile.
///
/// # Errors
/// [`IndexError`].
pub fn recall(
    index: &Index,
    query: &Query,
    arguments: &Recall,
    reader: Reader,
    limits: Limits,
    elsewhere: impl FnOnce() -> Elsewhere,
) -> Result<Answer, IndexError> {
    let (labels, mut lines) = tables(arguments, query, reader);
    let mut counting = Counting::new(index, query);
    let expression = query.expression();
    let mut ranked = Vec::new();
    for label in labels {
        let rows = index.search(
            label,
            &expression,
            query.since,
            query.until,
            query.hits * ROWS_PER_HIT,
        )?;
        let rows = rows.into_iter().map(|row| local(row, label));
        ranked.push(counting.counted(rows, reader, &[label])?);
    }
    let elsewhere = elsewhere();
    // What others wrote is measured against all that may leave this machine.
    let open: Vec<_> = Label::all()
        .filter(|label| label.class < Class::Secret)
        .collect();
    for found in elsewhere.found {
        ranked.push(counting.counted(found.into_iter(), reader, &open)?);
    }
    lines.extend(elsewhere.lines);
    let hits = interleave(ranked, query.hits);
    Ok(answer(&hits, limits, &lines))
}

/// One of each list in turn, each list in its own order.
#[must_use]
pub fn interleave<T>(lists: Vec<Vec<T>>, most: usize) -> Vec<T> {
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

fn answer(hits: &[Hit], limits: Limits, lines: &[String]) -> Answer {
    let mut parts = Vec::new();
    let mut label = Label::default();
    let mut causes: Vec<Cause> = Vec::new();
    for hit in hits {
        label = label.join(hit.label);
        parts.push(hit.head.clone());
        parts.extend(hit.beside.clone());
        // Set in: no text can begin a line, so none can pass for a hit or for a word of ours.
        let text = snippet(&hit.marked, limits.snippet_chars_max);
        parts.push(format!("{TEXT_INDENT}{text}"));
        let cause = Cause {
            source: format!("recall read {}", hit.what),
            label: hit.label,
        };
        // Whether it raises the session or not: brokerd keeps each, and tells the user what raised.
        if !Label::PRIVATE.covers(hit.label)
            && causes.len() < CAUSES_MAX
            && !causes.contains(&cause)
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

fn local(row: Row, label: Label) -> Hit {
    let (source, id) = match row.source {
        Source::Identity => ("identity", format!("{} ({})", row.subject, row.item)),
        Source::Note => ("note", format!("{} ({})", row.subject, row.item)),
        Source::Words => ("said in a turn", row.item.clone()),
        Source::Reply => ("replied in a turn", row.item.clone()),
    };
    let tag = match (row.source, label.trust) {
        (Source::Identity, Trust::Trusted) => tag("identity", label),
        _ => tag("memory", label),
    };
    let kind = match (label.class, label.trust) {
        (Class::Secret, Trust::Untrusted) => "a secret, untrusted",
        (Class::Secret, Trust::Trusted) => "a secret",
        (_, Trust::Untrusted) => "an untrusted",
        (Class::Private, Trust::Trusted) => "a private",
        (Class::Public, Trust::Trusted) => "a public",
    };
    let (what, named) = match row.source {
        Source::Identity => ("entry", &row.subject),
        Source::Note => ("note", &row.subject),
        Source::Words | Source::Reply => ("turn", &row.item),
    };
    Hit {
        label,
        head: format!("{tag} {source}, {}, {id}", row.at),
        what: format!("{kind} {what} of {} ({named})", date(row.at)),
        marked: row.marked,
        beside: None,
        measure: Measure::Words,
    }
}

/// The tag of a hit with this label; `trusted` is its name when it is trusted.
#[must_use]
pub fn tag(trusted: &str, label: Label) -> String {
    let name = match label.trust {
        Trust::Untrusted => "memory-tainted",
        Trust::Trusted => trusted,
    };
    match label.class {
        Class::Secret => format!("[{name}, secret]"),
        Class::Public | Class::Private => format!("[{name}]"),
    }
}

/// The day of a time.
#[must_use]
pub fn date(at: Millis) -> String {
    at.to_string().chars().take(10).collect()
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
