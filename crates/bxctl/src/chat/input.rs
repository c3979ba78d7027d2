//! Where the chat's lines come from: an editor with history on a terminal, plain lines otherwise. The history
//! is this user's alone (0600) and bounded.

use std::{
    fs::OpenOptions,
    io::{self, BufRead, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use bxcore::{
    paths::{Dirs, make_private},
    replace::replace,
};
use rustyline::{Config, DefaultEditor, error::ReadlineError, history::History as _};

use crate::{ask::unusable, failure::Failure, out};

/// Lines of history kept.
const HISTORY_LINES_MAX: usize = 1_000;
/// Longest line read from a pipe, in bytes.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Text(String),
    /// Ctrl-C at the prompt.
    Interrupt,
    End,
}

/// The source of lines.
pub enum Input {
    Editor {
        editor: Box<DefaultEditor>,
        history: PathBuf,
    },
    Plain,
}

impl Input {
    /// An editor if somebody sits there.
    ///
    /// # Errors
    /// When the terminal cannot be used.
    pub fn open(dirs: &Dirs) -> Result<Self, Failure> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Plain);
        }
        let config = Config::builder().auto_add_history(false);
        let config = config
            .max_history_size(HISTORY_LINES_MAX)
            .map_err(unusable)?
            .build();
        let mut editor = Box::new(DefaultEditor::with_config(config).map_err(unusable)?);
        let history = dirs.state.join("bxctl/history");
        if let Err(failure) = load(&history, &mut editor) {
            out::say(&format!("no history: {}", crate::render::error(&failure)));
        }
        Ok(Self::Editor { editor, history })
    }

    pub fn is_editor(&self) -> bool {
        matches!(self, Self::Editor { .. })
    }

    /// The next line.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub fn next(&mut self, prompt: &str) -> Result<Line, Failure> {
        let Self::Editor { editor, history } = self else {
            return plain();
        };
        match editor.readline(prompt) {
            Ok(text) => {
                if !text.trim().is_empty() && editor.add_history_entry(&text).unwrap_or(false) {
                    // A full disk costs the history, not the chat.
                    let _ = append(history, &text);
                }
                Ok(Line::Text(text))
            }
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupt),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(unusable(error)),
        }
    }
}

fn plain() -> Result<Line, Failure> {
    let mut bytes = Vec::new();
    let mut stdin = io::Read::take(io::stdin().lock(), LINE_BYTES_MAX);
    stdin
        .read_until(b'\n', &mut bytes)
        .map_err(Failure::Terminal)?;
    if bytes.is_empty() {
        return Ok(Line::End);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Line::Text(text.trim_end_matches(['\r', '\n']).into())),
        Err(_) => Err(Failure::Usage("the input is not UTF-8 text".into())),
    }
}

/// A pasted text of several lines is one entry: its newlines are written as `\n`.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => {}
            },
            c => text.push(c),
        }
    }
    text
}

fn load(path: &Path, editor: &mut DefaultEditor) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        make_private(folder, 0o700)?;
    }
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::file(path)(error)),
    };
    let lines: Vec<_> = text.lines().collect();
    let kept = &lines[lines.len().saturating_sub(HISTORY_LINES_MAX)..];
    if kept.len() < lines.len() {
        let text = kept.join("\n") + "\n";
        replace(path, text.as_bytes(), 0o600).map_err(Failure::file(path))?;
    }
    for line in kept {
        let _ = editor.history_mut().add(&unescaped(line));
    }
    Ok(())
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(format!("{}\n", escaped(text)).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_several_lines_comes_back_from_the_history() {
        for text in ["one", "two\nlines", "back\\slash \\n", "\\"] {
            let line = escaped(text);
            assert!(!line.contains('\n'));
            assert_eq!(unescaped(&line), text);
        }
    }
}
