//! A part of `make bench`: what a recall costs with 10^4, 10^5 and 10^6 indexed snippets, beside the same SQL run in
//! this process on a copy of the same file. Prints figures; asserts nothing about time.
#![forbid(unsafe_code)]

mod filled;

use std::{
    io::Write,
    process::ExitCode,
    time::{Duration, Instant},
};

use bxcore::{connect::Client, report};
use bxtest::{Home, wait_for};
use bxwire::{
    Audience, Class, Label, SessionId,
    links::memory_tools::{Caller, MemoryTools, Recall, Reply, Request},
};
use memoryd::recall::{Asker, Limits, Query, Reader, tables};
use rusqlite::{Connection, params};

const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
/// Recalls timed for one figure, each after a run of the SQL; then the least of each.
const RUNS_MIN: usize = 15;
/// As long as this there are more of them: a short one is soon doubled by what else the machine does.
const RUNS_FOR: Duration = Duration::from_secs(1);
/// Rows that memoryd reads for each hit wanted.
const ROWS_PER_HIT: usize = 4;
const ANSWER_MS_MAX: Duration = Duration::from_secs(60);

/// What is asked, as places in the vocabulary of `filled`, where the first word is the commonest.
const QUERIES: [(&str, &[usize]); 4] = [
    ("a rare word", &[20_000]),
    ("a common and a rare word", &[60, 20_000]),
    (
        "eight words",
        &[40, 90, 300, 900, 2_000, 5_000, 9_000, 30_000],
    ),
    ("a word in every twentieth text", &[40]),
];

fn main() -> ExitCode {
    show(
        "\nOne recall by the number of indexed snippets, least of many (aims: 1.5 x the same SQL in one process, \
         no growth of that)",
    );
    match SIZES.into_iter().try_for_each(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            show(&format!("cannot go on: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn show(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn run(size: u64) -> Result<(), String> {
    let home = Home::new();
    let folder = home.dirs.state_of("memoryd");
    bxcore::paths::make_private(&folder, 0o700).map_err(said)?;
    let path = folder.join("index.sqlite");
    let begun = Instant::now();
    filled::fill(&path, size)?;
    show(&format!(
        "  {size:>9} snippets, indexed in {:.1} s",
        begun.elapsed().as_secs_f64()
    ));
    // memoryd keeps its file to itself.
    let copy = home.path().join("copy.sqlite");
    std::fs::copy(&path, &copy).map_err(said)?;
    let alone = Connection::open(&copy).map_err(said)?;
    let _daemon = home
        .try_start("memoryd", |_| {})
        .map_err(|ended| ended.stderr)?;
    let mut client =
        Client::<MemoryTools>::connect(&home.dirs.memory_tools_socket(), ANSWER_MS_MAX)
            .map_err(|error| report::actionable(&error))?;
    // It has looked whether anything is missing.
    let arguments = Recall::of("anything");
    wait_for("the index", || match recall(&mut client, &arguments) {
        Ok((_, text)) if text.contains("being filled") => None,
        other => Some(other),
    })?;
    for (name, words) in QUERIES {
        let words: Vec<_> = words.iter().map(|at| filled::word(*at)).collect();
        let arguments = Recall::of(words.join(" "));
        let (mut recalls, mut floors) = (Vec::new(), Vec::new());
        let begun = Instant::now();
        while recalls.len() < RUNS_MIN || begun.elapsed() < RUNS_FOR {
            floors.push(search(&alone, &arguments)?);
            let (took, _) = recall(&mut client, &arguments)?;
            recalls.push(took);
        }
        let (recall, floor) = (least(&recalls), least(&floors));
        show(&format!(
            "    {name:<31} {recall:8.2} ms   {:5.2} x the SQL ({floor:.2} ms)",
            recall / floor
        ));
    }
    Ok(())
}

/// The rest of a time is what else the machine did.
fn least(times: &[Duration]) -> f64 {
    let least = times.iter().min().copied().unwrap_or_default();
    least.as_secs_f64() * 1000.0
}

fn recall(
    client: &mut Client<MemoryTools>,
    arguments: &Recall,
) -> Result<(Duration, String), String> {
    let request = Request::Recall {
        caller: Caller {
            session: SessionId::new("20260131", [1; 12]).map_err(said)?,
            turn: 1,
            call: "bench".parse().map_err(said)?,
            label: Label::PRIVATE,
            speaker: None,
            audience: Audience::Owner {},
        },
        arguments: arguments.clone(),
    };
    let begun = Instant::now();
    let reply = client.call(&request);
    let took = begun.elapsed();
    match reply.map_err(|error| report::actionable(&error))? {
        Reply::Done { text, .. } => Ok((took, text)),
        _ => Err("an odd answer".into()),
    }
}

/// What memoryd asks SQLite for such a call, as it stands in `memoryd::index`, and nothing else.
fn search(alone: &Connection, arguments: &Recall) -> Result<Duration, String> {
    let query = Query::read(arguments, Limits::default()).map_err(said)?;
    let reader = Reader::session(Label::PRIVATE, Audience::Owner {}, Asker::Usual);
    let (labels, _) = tables(arguments, &query, reader);
    if labels.iter().any(|label| label.class == Class::Secret) {
        return Err("it searches more than the session may see".into());
    }
    let limit = i64::try_from(query.hits * ROWS_PER_HIT).map_err(said)?;
    let expression = query.expression();
    let begun = Instant::now();
    for label in labels {
        let table = format!("text_{}_{}", label.class.name(), label.trust.name());
        let sql = format!(
            "SELECT rowid, source, subject, item, at, highlight({table}, 0, char(2), char(3)) \
             FROM {table} WHERE {table} MATCH ?1 AND at BETWEEN ?2 AND ?3 ORDER BY rank LIMIT ?4"
        );
        let mut statement = alone.prepare_cached(&sql).map_err(said)?;
        let mut rows = statement
            .query(params![expression, query.since.0, query.until.0, limit])
            .map_err(said)?;
        while let Some(row) = rows.next().map_err(said)? {
            let _: String = row.get(5).map_err(said)?;
        }
    }
    Ok(begun.elapsed())
}
