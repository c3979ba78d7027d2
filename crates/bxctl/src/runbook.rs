//! `bxctl runbook`: prints docs/runbook.md, whole or one entry, from the copy inside this program. Needs no
//! daemon, file or network.

use crate::{
    failure::{Exit, Failure},
    out,
};

const TEXT: &str = include_str!("../../../docs/runbook.md");

/// Prints the entry, or everything.
///
/// # Errors
/// [`Failure::Usage`] for an entry that is not there, with the nearest one.
pub fn run(entry: Option<&str>) -> Result<Exit, Failure> {
    match entry {
        None => out::print(TEXT)?,
        Some(asked) => {
            let name = plain(asked);
            let Some(text) = find(TEXT, &name) else {
                return Err(Failure::Usage(unknown(TEXT, &name)));
            };
            out::print(&text)?;
        }
    }
    Ok(Exit::Done)
}

/// The name in `docs/runbook.md#name`, `#name` or `name`.
fn plain(asked: &str) -> String {
    let name = asked.rsplit_once('#').map_or(asked, |(_, name)| name);
    name.trim().to_lowercase()
}

/// Each entry's name and where it begins.
fn entries(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut at = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        let name = line.strip_prefix("## ")?.trim();
        Some((name, start))
    })
}

/// From an entry's heading to the next one of its rank or above.
fn find(text: &str, name: &str) -> Option<String> {
    let (_, start) = entries(text).find(|(entry, _)| *entry == name)?;
    let rest = &text[start..];
    let end = ["\n## ", "\n# "]
        .into_iter()
        .filter_map(|heading| rest.find(heading))
        .min();
    let entry = end.map_or(rest, |end| &rest[..end]);
    Some(format!("{}\n", entry.trim_end()))
}

fn unknown(text: &str, name: &str) -> String {
    let near = entries(text)
        .map(|(entry, _)| (distance(entry, name), entry))
        .min();
    match near {
        Some((distance, entry)) if distance <= entry.len() / 2 => {
            format!("the runbook has no such entry; did you mean {entry}?")
        }
        _ => "the runbook has no such entry; `bxctl runbook` prints all of it".into(),
    }
}

/// How many characters must change to make one name of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "# Runbook\n\nIntro.\n\n## daemon-down\n\nIt is down.\n\n### More\n\nYes.\n\n## state-locked\n\nLocked.\n";

    #[test]
    fn an_entry_ends_where_the_next_begins() {
        let text = find(SAMPLE, "daemon-down").unwrap();
        assert_eq!(text, "## daemon-down\n\nIt is down.\n\n### More\n\nYes.\n");
        assert_eq!(
            find(SAMPLE, "state-locked").unwrap(),
            "## state-locked\n\nLocked.\n"
        );
        assert!(find(SAMPLE, "daemon").is_none());
    }

    #[test]
    fn a_slip_of_the_finger_is_put_right() {
        assert!(unknown(SAMPLE, "deamon-down").ends_with("did you mean daemon-down?"));
        assert!(unknown(SAMPLE, "xyz").contains("prints all of it"));
    }

    #[test]
    fn an_entry_is_found_however_it_is_copied() {
        for asked in ["docs/runbook.md#daemon-down", "#daemon-down", "Daemon-Down"] {
            assert_eq!(plain(asked), "daemon-down");
        }
    }

    #[test]
    fn every_entry_that_code_names_is_printed() {
        for entry in bxcore::runbook::ALL {
            assert!(find(TEXT, entry.anchor()).is_some(), "{}", entry.anchor());
        }
    }
}
