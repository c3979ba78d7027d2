//! What reaches the terminal: colour only where it is wanted, and no byte that could steer the terminal.
//! Used by every command; decides nothing.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

use serde::Serialize;

use crate::failure::Failure;

/// Colour, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// For a stream: on a terminal, unless `NO_COLOR` is set or the terminal is a dumb one.
    pub fn of(stream: &impl IsTerminal) -> Self {
        let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            on: stream.is_terminal() && !set("NO_COLOR") && !dumb,
        }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.into()
        }
    }

    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }
}

/// A text from elsewhere, made safe to print: control characters and those that reorder or hide text show as
/// `<U+001B>`. Newlines and tabs stay.
pub fn safe(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            shown.push_str(&format!("<U+{:04X}>", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

fn steers(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Directional embeddings, overrides, isolates and marks; zero-width; tags.
        '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{061C}' | '\u{FEFF}' => true,
        '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{E0000}'..='\u{E007F}' => true,
        c => c.is_control(),
    }
}

/// [`safe`], and on one line.
pub fn one_line(text: &str) -> String {
    safe(text).replace('\n', " ⏎ ").replace('\t', " ")
}

/// Writes data to stdout.
///
/// # Errors
/// [`Failure::Quiet`] when the reader has gone.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Writes talk to stderr; nobody there is no reason to stop.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// One object on a line, `"v":1` first; members are only ever added.
///
/// # Errors
/// [`Failure::Output`] when the value is no object, which is a mistake in this program.
pub fn json_line(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::Output(error.into()))?;
    match text.strip_prefix('{') {
        Some("}") => Ok("{\"v\":1}\n".into()),
        Some(rest) => Ok(format!("{{\"v\":1,{rest}\n")),
        None => Err(Failure::Output(io::Error::other("not an object"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_a_terminal_is_shown_instead() {
        assert_eq!(
            safe("a\x1b[2J\rb\u{202e}c"),
            "a<U+001B>[2J<U+000D>b<U+202E>c"
        );
        assert_eq!(
            safe("zwei\n\tZeilen – ja, 日本"),
            "zwei\n\tZeilen – ja, 日本"
        );
    }

    #[test]
    fn a_line_of_json_says_its_version_first() {
        let line = json_line(&serde_json::json!({"a": 1})).unwrap();
        assert_eq!(line, "{\"v\":1,\"a\":1}\n");
        assert!(json_line(&3).is_err());
    }
}
