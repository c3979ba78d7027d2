//! Questions to the person at the terminal. Used before a command changes something; never asks a pipe.

use std::io::{self, IsTerminal};

use rustyline::{Behavior, Config, DefaultEditor, error::ReadlineError};

use crate::{failure::Failure, out};

/// Whether anybody is there to answer.
pub fn somebody() -> bool {
    io::stdin().is_terminal()
}

/// Asks and reads one line; lines before the last of the question are said first. `None`: Ctrl-C or Ctrl-D.
///
/// # Errors
/// When the terminal cannot be used.
pub fn line(question: &str) -> Result<Option<String>, Failure> {
    let prompt = match question.rsplit_once('\n') {
        Some((before, last)) => {
            out::say(before);
            last
        }
        None => question,
    };
    // The terminal itself, whatever stdout is: a question is no data. An editor, so that Ctrl-C is an answer.
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    let answered = DefaultEditor::with_config(config)
        .and_then(|mut editor| editor.readline(&format!("{prompt} ")));
    match answered {
        Ok(answer) => Ok(Some(answer.trim().to_owned())),
        Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok(None),
        Err(error) => Err(unusable(error)),
    }
}

/// What an editor's error is to a command.
pub fn unusable(error: ReadlineError) -> Failure {
    Failure::Terminal(match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    })
}

/// Whether the answer is yes; anything but `y` or `yes` is no.
///
/// # Errors
/// As [`line`].
pub fn yes(question: &str) -> Result<bool, Failure> {
    let answer = line(&format!("{question} [y/N]"))?.unwrap_or_default();
    Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}
