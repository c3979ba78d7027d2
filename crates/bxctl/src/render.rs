//! Pieces of what commands show: times, tables, labels, notices. Takes values, returns text.

use std::error::Error;

use bxcore::report;
use bxwire::{
    Label,
    links::control::{ItemNote, Notice},
    log::Outcome,
};

use crate::out::{Paint, one_line};

/// `2026-01-31 14:02 UTC`; what is no time is shown as it is.
pub fn time(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(11..16)) {
        (Some(day), Some(minute)) if rfc3339.ends_with('Z') => {
            one_line(&format!("{day} {minute} UTC"))
        }
        _ => one_line(rfc3339),
    }
}

/// `2026-01-31 14:02:09 UTC`, where a minute is too coarse.
pub fn time_to_the_second(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(11..19)) {
        (Some(day), Some(second)) if rfc3339.ends_with('Z') => {
            one_line(&format!("{day} {second} UTC"))
        }
        _ => one_line(rfc3339),
    }
}

/// Seconds, as a person says them: `45 s`, `12 min`, `3 h`, `4 days`.
pub fn seconds(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Columns as wide as their widest cell, two spaces between, no trailing space.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Name and value, indented and aligned.
pub fn facts(facts: &[(String, String)]) -> String {
    let rows: Vec<_> = facts
        .iter()
        .map(|(name, value)| {
            let value = if value.is_empty() { "none" } else { value };
            vec![format!("  {}", one_line(name)), one_line(value)]
        })
        .collect();
    table(&rows)
}

/// Indents every line by two spaces more.
pub fn indent(text: &str, by: usize) -> String {
    let space = " ".repeat(by);
    text.lines()
        .map(|line| format!("{space}{line}\n"))
        .collect()
}

pub fn label(label: Label, paint: Paint) -> String {
    let shown = label.to_string();
    if label.is_untrusted() {
        paint.yellow(&shown)
    } else {
        shown
    }
}

pub fn outcome(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "-",
        Some(Outcome::Replied) => "replied",
        Some(Outcome::Failed) => "failed",
        Some(Outcome::Cancelled) => "cancelled",
        Some(Outcome::Interrupted) => "interrupted",
    }
}

/// `; see docs/runbook.md#entry`.
pub fn see(entry: &str) -> String {
    format!("; see docs/runbook.md#{}", one_line(entry))
}

/// A notice with its page.
pub fn notice(notice: &Notice) -> String {
    let page = notice.runbook.as_deref().map(see).unwrap_or_default();
    format!("{}{page}", one_line(&notice.text))
}

/// An item and what keeps it.
pub fn item_note(note: &ItemNote) -> Vec<String> {
    let status = note
        .status
        .map(|status| format!(" (status {status})"))
        .unwrap_or_default();
    vec![
        format!("  {}", note.item),
        format!("{}{status}{}", one_line(&note.why), see(&note.runbook)),
    ]
}

/// An error's chain on one line; what a daemon wrote into it is made safe.
pub fn error(error: &(impl bxcore::report::Actionable + 'static)) -> String {
    report::actionable(error)
        .lines()
        .map(one_line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// [`error`] without its page, for where the page is a member of its own.
pub fn bare_error(error: &(dyn Error + 'static)) -> String {
    one_line(&report::line(error, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let rows = [
            vec!["a".into(), "bcd".into()],
            vec!["äöü".into(), String::new()],
        ];
        assert_eq!(table(&rows), "a    bcd\näöü\n");
    }

    #[test]
    fn a_time_is_short_and_says_its_zone() {
        assert_eq!(time("2026-01-31T14:02:09.123Z"), "2026-01-31 14:02 UTC");
        let exact = time_to_the_second("2026-01-31T14:02:09.123Z");
        assert_eq!(exact, "2026-01-31 14:02:09 UTC");
        assert_eq!(time("soon\x1b"), "soon<U+001B>");
    }

    #[test]
    fn seconds_read_as_spoken() {
        let shown = [5, 119, 120, 7_199, 7_200, 200_000].map(seconds);
        assert_eq!(shown, ["5 s", "119 s", "2 min", "119 min", "2 h", "2 days"]);
    }
}
