//! Reads a daemon's TOML file and reports every mistake at once, each with its line. A daemon's own
//! configuration module asks a [`Section`] for its keys; what nobody asked for is an unknown key.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fmt, io,
    ops::{Range, RangeInclusive},
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    report::Actionable,
    runbook::{self, Runbook},
};

/// Longest configuration file in bytes.
pub const CONFIG_BYTES_MAX: u64 = 256 * 1024;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}", shown(path, problems))]
    Invalid {
        path: PathBuf,
        problems: Vec<Problem>,
        runbook: Runbook,
    },
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub what: String,
}

fn shown(path: &Path, problems: &[Problem]) -> String {
    use fmt::Write as _;
    let count = match problems.len() {
        1 => "1 mistake".into(),
        count => format!("{count} mistakes"),
    };
    let mut text = format!("{count} in the configuration");
    for problem in problems {
        let _ = write!(
            text,
            "\n  {}:{}: {}",
            path.display(),
            problem.line,
            problem.what
        );
    }
    text
}

impl Actionable for ConfigError {
    fn runbook(&self) -> Option<Runbook> {
        Some(match self {
            Self::Read { .. } => runbook::CONFIG_INVALID,
            Self::Invalid { runbook, .. } => *runbook,
        })
    }
}

/// Reads the file, if it is there, and has `read` take its keys. A missing file reads as an empty one.
///
/// # Errors
/// [`ConfigError`]; `Invalid` names every mistake.
pub fn load<T>(path: &Path, read: impl FnOnce(&mut Section<'_>) -> T) -> Result<T, ConfigError> {
    let text = match std::fs::metadata(path).map(|found| found.len()) {
        Ok(bytes) if bytes > CONFIG_BYTES_MAX => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is longer than any configuration",
        )),
        Ok(_) => std::fs::read_to_string(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
    .map_err(|source| ConfigError::Read {
        path: path.into(),
        source,
    })?;
    parse(path, &text, read)
}

/// [`load`] for a text that is already read.
///
/// # Errors
/// [`ConfigError::Invalid`].
pub fn parse<T>(
    path: &Path,
    text: &str,
    read: impl FnOnce(&mut Section<'_>) -> T,
) -> Result<T, ConfigError> {
    let file = Rc::new(File {
        text: text.into(),
        found: RefCell::default(),
    });
    let value = match DeTable::parse(text) {
        Ok(table) => {
            let mut root = Section {
                table: table.get_ref(),
                span: 0..0,
                name: String::new(),
                asked: BTreeSet::new(),
                file: Rc::clone(&file),
            };
            let value = read(&mut root);
            drop(root);
            Some(value)
        }
        Err(error) => {
            file.problem(
                error.span().unwrap_or(0..0),
                error.message().replace('\n', " "),
            );
            None
        }
    };
    let mut found = file.found.take();
    match value {
        Some(value) if found.problems.is_empty() => Ok(value),
        _ => {
            found.problems.sort_by_key(|problem| problem.line);
            Err(ConfigError::Invalid {
                path: path.into(),
                problems: found.problems,
                runbook: found.runbook.unwrap_or(runbook::CONFIG_INVALID),
            })
        }
    }
}

#[derive(Debug)]
struct File {
    text: String,
    found: RefCell<Found>,
}

#[derive(Debug, Default)]
struct Found {
    problems: Vec<Problem>,
    /// A more exact entry than `config-invalid`, when a mistake has one.
    runbook: Option<Runbook>,
}

impl File {
    fn problem(&self, span: Range<usize>, what: String) {
        let upto = self.text.get(..span.start).unwrap_or(&self.text);
        let line = upto.matches('\n').count() + 1;
        self.found
            .borrow_mut()
            .problems
            .push(Problem { line, what });
    }
}

/// A table of the file. Dropped, it reports the keys nobody asked for.
#[derive(Debug)]
pub struct Section<'a> {
    table: &'a DeTable<'a>,
    span: Range<usize>,
    name: String,
    asked: BTreeSet<String>,
    file: Rc<File>,
}

impl<'a> Section<'a> {
    fn value(&mut self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.insert(key.into());
        self.table
            .iter()
            .find(|(name, _)| name.get_ref().as_ref() == key)
            .map(|(_, value)| value)
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.into()
        } else {
            format!("{}.{key}", self.name)
        }
    }

    /// Reports a mistake of a key, at the key's line or the section's.
    pub fn problem(&mut self, key: &str, what: &str) {
        let span = self.value(key).map_or(self.span.clone(), Spanned::span);
        self.file
            .problem(span, format!("`{}` {what}", self.path(key)));
    }

    /// Has this file's mistakes point to a more exact runbook entry, when the last one was found here.
    pub fn blame(&mut self, entry: Runbook) {
        self.file.found.borrow_mut().runbook = Some(entry);
    }

    /// How many mistakes were found so far.
    #[must_use]
    pub fn mistakes(&self) -> usize {
        self.file.found.borrow().problems.len()
    }

    pub fn string(&mut self, key: &str) -> Option<String> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                self.problem(key, "must be a string");
                None
            }
        }
    }

    /// A string that must be there.
    pub fn required(&mut self, key: &str) -> Option<String> {
        if self.value(key).is_none() {
            self.problem(key, "is missing");
            return None;
        }
        self.string(key)
    }

    pub fn boolean(&mut self, key: &str, default: bool) -> bool {
        match self.value(key).map(Spanned::get_ref) {
            None => default,
            Some(DeValue::Boolean(value)) => *value,
            Some(_) => {
                self.problem(key, "must be true or false");
                default
            }
        }
    }

    /// A whole number within bounds.
    pub fn number(&mut self, key: &str, default: u64, bounds: RangeInclusive<u64>) -> u64 {
        let found = match self.value(key).map(Spanned::get_ref) {
            None => return default,
            Some(DeValue::Integer(value)) => {
                u64::from_str_radix(value.as_str(), value.radix()).ok()
            }
            Some(_) => None,
        };
        match found.filter(|value| bounds.contains(value)) {
            Some(value) => value,
            None => {
                let what = format!(
                    "must be a whole number from {} to {}",
                    bounds.start(),
                    bounds.end()
                );
                self.problem(key, &what);
                default
            }
        }
    }

    /// A number with a fraction, within bounds.
    pub fn float(&mut self, key: &str, default: f64, bounds: RangeInclusive<f64>) -> f64 {
        let found = match self.value(key).map(Spanned::get_ref) {
            None => return default,
            Some(DeValue::Float(value)) => value.as_str().parse().ok(),
            Some(DeValue::Integer(value)) => value.as_str().parse().ok(),
            Some(_) => None,
        };
        match found.filter(|value| bounds.contains(value)) {
            Some(value) => value,
            None => {
                let what = format!(
                    "must be a number from {} to {}",
                    bounds.start(),
                    bounds.end()
                );
                self.problem(key, &what);
                default
            }
        }
    }

    /// A key `…_ms`: milliseconds, at least 1 and at most a week.
    pub fn millis(&mut self, key: &str, default_ms: u64) -> Duration {
        Duration::from_millis(self.number(key, default_ms, 1..=7 * 24 * 3_600_000))
    }

    /// One word of a fixed set.
    pub fn choice<T: Copy>(&mut self, key: &str, default: T, words: &[(&str, T)]) -> T {
        let Some(found) = self.string(key) else {
            return default;
        };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == found) {
            return *value;
        }
        let names: Vec<_> = words
            .iter()
            .map(|(word, _)| format!("\"{word}\""))
            .collect();
        self.problem(key, &format!("must be one of {}", names.join(", ")));
        default
    }

    /// Whether the key is written, whatever it holds.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        let is = |(name, _): &(&Spanned<_>, _)| name.get_ref() == key;
        self.table.iter().any(|entry| is(&entry))
    }

    pub fn strings(&mut self, key: &str) -> Vec<String> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let list = match value.get_ref() {
            DeValue::Array(items) => items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
        list.unwrap_or_else(|| {
            self.problem(key, "must be a list of strings");
            Vec::new()
        })
    }

    /// `[key]`, if it is there.
    pub fn section(&mut self, key: &str) -> Option<Section<'a>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(self.child(key, table, value.span())),
            _ => {
                self.problem(key, "must be a section");
                None
            }
        }
    }

    /// Every `[[key]]`, or each table of a list.
    pub fn sections(&mut self, key: &str) -> Vec<Section<'a>> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let DeValue::Array(items) = value.get_ref() else {
            self.problem(key, "must be a list of sections");
            return Vec::new();
        };
        let mut found = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::Table(table) => found.push(self.child(key, table, item.span())),
                _ => self.problem(key, "must be a list of sections"),
            }
        }
        found
    }

    /// Every `[key.NAME]`, by name.
    pub fn named_sections(&mut self, key: &str) -> Vec<(String, Section<'a>)> {
        let Some(mut parent) = self.section(key) else {
            return Vec::new();
        };
        let names: Vec<String> = parent
            .table
            .iter()
            .map(|(name, _)| name.get_ref().to_string())
            .collect();
        names
            .into_iter()
            .filter_map(|name| parent.section(&name).map(|section| (name, section)))
            .collect()
    }

    fn child(&self, key: &str, table: &'a DeTable<'a>, span: Range<usize>) -> Section<'a> {
        Section {
            table,
            span,
            name: self.path(key),
            asked: BTreeSet::new(),
            file: Rc::clone(&self.file),
        }
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        for (key, _) in self.table.iter() {
            if !self.asked.contains(key.get_ref().as_ref()) {
                let known: Vec<_> = self.asked.iter().map(String::as_str).collect();
                let what = format!(
                    "`{}` is not a key here (known: {})",
                    self.path(key.get_ref()),
                    known.join(", ")
                );
                self.file.problem(key.span(), what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<(usize, String)> {
        let result = parse(Path::new("x.toml"), text, |root| {
            root.required("url");
            root.number("count", 3, 1..=9);
            root.boolean("on", false);
            root.strings("names");
            if let Some(mut limits) = root.section("limits") {
                limits.millis("idle_ms", 5);
            }
            for mut read in root.sections("read") {
                read.required("agent");
            }
        });
        match result {
            Ok(()) => Vec::new(),
            Err(ConfigError::Invalid { problems, .. }) => problems
                .into_iter()
                .map(|problem| (problem.line, problem.what))
                .collect(),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_right_file_has_no_problem() {
        let text = "url = \"x\"\ncount = 9\n[limits]\nidle_ms = 7\n[[read]]\nagent = \"b\"\n";
        assert_eq!(problems(text), []);
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let text = "count = 10\non = 1\nnames = [1]\nurl2 = \"x\"\n[limits]\nidle = 7\n[[read]]\n";
        let found = problems(text);
        let lines: Vec<_> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 1, 2, 3, 4, 6, 7], "{found:?}");
        assert!(found[4].1.contains("`url2` is not a key here"), "{found:?}");
        assert!(found[5].1.contains("`limits.idle`"), "{found:?}");
    }

    #[test]
    fn what_is_not_toml_is_named_with_its_line() {
        let found = problems("url = \"x\"\ncount = = 2\n");
        assert_eq!(found[0].0, 2);
    }
}
