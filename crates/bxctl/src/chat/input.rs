//! Where the chat's lines come from: an editor with history on a terminal, plain lines otherwise. The history
//! is this user's alone (0600) and bounded.

use std::{
    collections::VecDeque,
    fs::OpenOptions,
    io::{self, BufRead, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use bxcore::{
    paths::{Dirs, make_private},
    replace::replace,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use rustyline::{Config, DefaultEditor, error::ReadlineError, history::History as _};

use crate::{ask::unusable, failure::Failure, out};

use super::is_paste;

/// Lines of history kept.
const HISTORY_LINES_MAX: usize = 1_000;
/// Longest line read from a pipe, in bytes.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// Lines taken at once of what was typed while nobody read; the terminal keeps the rest.
const WAITING_LINES_MAX: usize = 10_000;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Text(String),
    /// Typed or pasted while nobody read, and so much of it that it cannot be told which.
    Pasted(String),
    /// Ctrl-C at the prompt.
    Interrupt,
    End,
}

/// The source of lines.
pub enum Input {
    Editor {
        editor: Box<DefaultEditor>,
        history: PathBuf,
        /// What was typed while a turn ran, in its order.
        waiting: VecDeque<Line>,
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
        let history = history_of(dirs);
        if let Err(failure) = load(&history, &mut editor) {
            out::say(&format!("no history: {}", crate::render::error(&failure)));
        }
        Ok(Self::Editor {
            editor,
            history,
            waiting: VecDeque::new(),
        })
    }

    pub fn is_editor(&self) -> bool {
        matches!(self, Self::Editor { .. })
    }

    /// The next line.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub fn next(&mut self, prompt: &str) -> Result<Line, Failure> {
        let Self::Editor {
            editor,
            history,
            waiting,
        } = self
        else {
            return plain();
        };
        // The editor would take all that waits at once and keep the first line of it.
        take_waiting(waiting)?;
        if let Some(line) = next_waiting(waiting) {
            if let Line::Text(text) | Line::Pasted(text) = &line {
                out::say(&format!("{prompt}{}", out::one_line(text)));
                remember(editor, history, text);
            }
            return Ok(line);
        }
        match editor.readline(prompt) {
            Ok(text) => {
                remember(editor, history, &text);
                Ok(Line::Text(text))
            }
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupt),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(unusable(error)),
        }
    }
}

/// Forgets every line that was ever typed: they do not say whose session they were of.
///
/// # Errors
/// When the file cannot be removed.
pub fn forget(dirs: &Dirs) -> Result<(), Failure> {
    let path = history_of(dirs);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::file(path)(error)),
        _ => Ok(()),
    }
}

fn history_of(dirs: &Dirs) -> PathBuf {
    dirs.state.join("bxctl/history")
}

fn remember(editor: &mut DefaultEditor, history: &Path, text: &str) {
    if !text.trim().is_empty() && editor.add_history_entry(text).unwrap_or(false) {
        // A full disk costs the history, not the chat.
        let _ = append(history, text);
    }
}

/// Whole lines that wait at the terminal. Outside the editor it hands out one at a time; an unfinished one stays
/// and begins the next prompt.
fn take_waiting(waiting: &mut VecDeque<Line>) -> Result<(), Failure> {
    while waiting.len() < WAITING_LINES_MAX && is_waiting()? {
        let line = plain()?;
        let ends = line == Line::End;
        waiting.push_back(line);
        if ends {
            break;
        }
    }
    Ok(())
}

fn is_waiting() -> Result<bool, Failure> {
    let stdin = io::stdin();
    let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut wanted, Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(Failure::Terminal(error.into())),
    }
}

/// One line, or all of them if together they look like a paste: then they are one text, not as many messages
/// in the owner's words.
fn next_waiting(waiting: &mut VecDeque<Line>) -> Option<Line> {
    let texts: Vec<_> = waiting
        .iter()
        .map_while(|line| match line {
            Line::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let (together, count) = (texts.join("\n"), texts.len());
    if count > 1 && is_paste(&together) {
        waiting.drain(..count);
        return Some(Line::Pasted(together));
    }
    waiting.pop_front()
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
