//! An index of any size, put in by memoryd's own code: notes of pseudo-words, of which few are common and most are
//! rare, as in what people write.

use std::path::Path;

use bxcore::report;
use bxwire::{Class, EditId, Label, Trust};
use memoryd::{
    edit::{By, Change, Edit},
    index::{Index, of_memory},
    memory::Contents,
};

/// Words that texts are made of.
const WORDS: usize = 50_000;
/// Makes the commonest words less common, as stop words are left out.
const HEAD: f64 = 10.0;
const TEXT_WORDS: usize = 20;
/// Notes of one edit; memory looks for an id among all that it holds.
const EDIT_NOTES: usize = 200;
const SYLLABLES: [&str; 16] = [
    "ba", "ko", "mi", "lu", "ter", "van", "so", "pe", "dri", "ga", "hol", "ni", "zu", "fer", "wo",
    "qua",
];

/// Fills a new index with `size` notes.
///
/// # Errors
/// What the index says.
pub fn fill(path: &Path, size: u64) -> Result<(), String> {
    let shares = shares();
    let mut random = 1_u64;
    let mut rows = Vec::new();
    let mut edit = 0;
    while (rows.len() as u64) < size {
        edit += 1;
        let left = usize::try_from(size).unwrap_or(usize::MAX) - rows.len();
        let notes = (0..left.min(EDIT_NOTES)).map(|at| Change::Noted {
            note: format!("n{edit}-{}", at + 1),
            text: text(&shares, &mut random),
        });
        let edit = Edit {
            id: EditId(edit),
            at: format!("2026-01-{:02}T10:00:00.000Z", edit % 28 + 1),
            by: By::Owner {},
            what: "note".into(),
            changes: notes.collect(),
            undoes: None,
            label: label(edit),
            kept_local: None,
            files: Vec::new(),
        };
        let mut contents = Contents::default();
        contents.make(&edit).map_err(|_| "notes that do not fit")?;
        rows.extend(of_memory(&contents, None));
    }
    // memoryd's journal is empty, so it takes the index to be up to date.
    Index::at(path)
        .take_memory(EditId(0), &rows)
        .map_err(|error| report::line(&error, None))
}

/// Most is private and clean; of the rest each table has some.
fn label(edit: u64) -> Label {
    match edit % 50 {
        0..4 => Label::UNLABELLED,
        4 => Label::new(Class::Secret, Trust::Trusted),
        5 => Label::new(Class::Public, Trust::Trusted),
        _ => Label::PRIVATE,
    }
}

/// For each word, how often it or one before it is chosen.
fn shares() -> Vec<f64> {
    let mut sum = 0.0;
    let weight = |at: usize| 1.0 / (f64::from(u32::try_from(at).unwrap_or(u32::MAX)) + HEAD);
    let mut shares: Vec<_> = (0..WORDS)
        .map(|at| {
            sum += weight(at);
            sum
        })
        .collect();
    shares.iter_mut().for_each(|share| *share /= sum);
    shares
}

fn text(shares: &[f64], random: &mut u64) -> String {
    let words = (0..TEXT_WORDS).map(|_| {
        // Knuth's numbers for a linear congruence; its upper bits are good enough here.
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let drawn = f64::from(u32::try_from(*random >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        word(
            shares
                .partition_point(|share| *share < drawn)
                .min(WORDS - 1),
        )
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The word at a place, the commonest first.
#[must_use]
pub fn word(at: usize) -> String {
    // Four syllables are more than there are words, and no two places share all of them.
    (0..4)
        .map(|place| SYLLABLES[at >> (4 * place) & 15])
        .collect()
}
