//! Questions to the person at the terminal. Used before a command changes something; never asks a pipe.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::failure::Failure;

/// Whether anybody is there to answer.
pub fn somebody() -> bool {
    io::stdin().is_terminal()
}

/// Asks on stderr and reads one line. `None`: the input ended.
///
/// # Errors
/// When the terminal cannot be read.
pub fn line(question: &str) -> Result<Option<String>, Failure> {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{question} ");
    let _ = stderr.flush();
    drop(stderr);
    let mut answer = String::new();
    let read = io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(Failure::Terminal)?;
    Ok((read > 0).then(|| answer.trim().to_owned()))
}

/// Whether the answer is yes; anything but `y` or `yes` is no.
///
/// # Errors
/// As [`line`].
pub fn yes(question: &str) -> Result<bool, Failure> {
    let answer = line(&format!("{question} [y/N]"))?.unwrap_or_default();
    Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}
