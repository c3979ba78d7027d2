//! `bxctl chat`: reads what the owner types, runs turns, carries out slash commands. Called by `main` and by
//! `up`; knows a session only by what loopd says of it.

pub mod input;
pub mod interrupt;
mod show;
mod slash;
mod turn;

use std::io::{self, IsTerminal, Read};

use bxcore::{paths::Dirs, report::Actionable};

use crate::{
    ask, commands,
    config::{self, Config},
    failure::{Exit, Failure},
    out::{self, Paint},
    render,
};

use input::{Input, Line};
use interrupt::Interrupts;
use show::{Show, Style};
use slash::Slash;
use turn::{Ask, End, TEXT_BYTES_MAX};

/// From this many characters or lines on, a text is taken for a paste.
const PASTE_CHARS_MIN: usize = 1_000;
const PASTE_LINES_MIN: usize = 6;

/// Runs the chat, or the one turn of `--once`.
///
/// # Errors
/// When the terminal, the configuration or (for `--once`) loopd cannot be used.
pub fn run(
    dirs: &Dirs,
    arguments: &commands::Chat,
    interrupts: &Interrupts,
) -> Result<Exit, Failure> {
    let config = config::load(dirs)?;
    let style = match (&arguments.once, arguments.json) {
        (_, true) => Style::Json,
        (Some(_), false) => Style::Once,
        (None, false) => Style::Talk,
    };
    let mut chat = Chat {
        dirs,
        config,
        interrupts,
        show: Show::new(dirs, style, arguments.session.clone()),
        untrusted: arguments.untrusted,
        untrusted_next: false,
        failed: false,
    };
    chat.show.look_up_label()?;
    if let Some(text) = &arguments.once {
        let text = if text == "-" { stdin()? } else { text.clone() };
        return match chat.turn(&text)? {
            End::Replied => Ok(Exit::Done),
            End::Failed => Ok(Exit::Attention),
        };
    }
    chat.talk()
}

fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin()
        .lock()
        .take(TEXT_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .map_err(Failure::Terminal)?;
    Ok(text)
}

struct Chat<'a> {
    dirs: &'a Dirs,
    config: Config,
    interrupts: &'a Interrupts,
    show: Show<'a>,
    /// Every turn is somebody else's words.
    untrusted: bool,
    /// The next one is.
    untrusted_next: bool,
    failed: bool,
}

impl Chat<'_> {
    fn talk(mut self) -> Result<Exit, Failure> {
        let mut input = Input::open(self.dirs)?;
        if input.is_editor() {
            let version = env!("CARGO_PKG_VERSION");
            self.hint(&format!(
                "Boxmaker {version}. Say something; /help lists commands, Ctrl-D leaves."
            ));
        }
        let mut interrupted = false;
        loop {
            let (text, pasted) = match input.next(self.prompt())? {
                Line::Text(text) => (text, false),
                Line::Pasted(text) => (text, true),
                Line::End => break,
                Line::Interrupt if interrupted => break,
                Line::Interrupt => {
                    interrupted = true;
                    self.hint("Ctrl-C again, or Ctrl-D, leaves");
                    continue;
                }
            };
            interrupted = false;
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let command = slash::parse(text).filter(|_| !pasted);
            let went = match command {
                Some(Slash::Quit) => break,
                Some(command) => self.command(command),
                None if pasted => self.said(text, true),
                // Two slashes stand for one.
                None => {
                    let text = text.strip_prefix('/').unwrap_or(text);
                    self.said(text, input.is_editor())
                }
            };
            match went {
                Err(failure @ (Failure::Quiet | Failure::Output(_) | Failure::Terminal(_))) => {
                    return Err(failure);
                }
                Err(failure) => self.went_wrong(&failure),
                Ok(()) => {}
            }
        }
        // At a terminal every failure was seen; a program has only the exit code.
        Ok(Exit::attention(self.failed && !input.is_editor()))
    }

    /// The label decides how the prompt looks: it is what matters about what is typed next.
    fn prompt(&self) -> &'static str {
        if self.untrusted || self.untrusted_next {
            "(as untrusted) > "
        } else if self.show.label.is_untrusted() {
            "(untrusted) > "
        } else {
            "> "
        }
    }

    fn hint(&self, text: &str) {
        out::say(&Paint::of(&io::stderr()).dim(&format!("· {text}")));
    }

    fn went_wrong(&mut self, failure: &Failure) {
        self.failed = true;
        self.show.close();
        let paint = Paint::of(&io::stderr());
        out::say(&paint.red(&render::error(failure)));
        if let Some(entry) = failure.runbook() {
            self.hint(&format!("bxctl runbook {}", entry.anchor()));
        }
    }

    fn said(&mut self, text: &str, typed: bool) -> Result<(), Failure> {
        if typed && !self.untrusted && !self.untrusted_next && is_paste(text) {
            let question = "That is long. If somebody else wrote it, send it marked, so that nobody takes \
                            it for your word.\nsend as [y]our words, [u]ntrusted, [N]ot at all:";
            match ask::line(question)?.unwrap_or_default().as_str() {
                "y" | "yes" => {}
                "u" | "untrusted" => self.untrusted_next = true,
                _ => {
                    self.hint("not sent");
                    return Ok(());
                }
            }
        }
        if self.turn(text)? == End::Failed {
            self.failed = true;
        }
        Ok(())
    }

    fn turn(&mut self, text: &str) -> Result<End, Failure> {
        if text.len() > TEXT_BYTES_MAX {
            let most = TEXT_BYTES_MAX / 1024;
            return Err(Failure::Usage(format!(
                "a message may have {most} KiB at most; put a longer text into a file the agent may read"
            )));
        }
        if text.trim().is_empty() {
            return Err(Failure::Usage("there is nothing to send".into()));
        }
        let untrusted = std::mem::take(&mut self.untrusted_next) || self.untrusted;
        let ask = Ask {
            dirs: self.dirs,
            session: self.show.session.clone(),
            text,
            speaker: &self.config.speaker,
            untrusted,
        };
        let show = &mut self.show;
        turn::run(ask, self.interrupts, &mut |event| show.event(event))
    }

    fn command(&mut self, command: Slash) -> Result<(), Failure> {
        match command {
            Slash::Quit => {}
            Slash::New => {
                self.show.forget_session();
                self.hint("the next message starts a new session");
            }
            Slash::Untrusted(text) if text.is_empty() => {
                self.untrusted_next = true;
                self.hint("the next message is sent as somebody else's words");
            }
            Slash::Untrusted(text) => {
                self.untrusted_next = true;
                self.said(&text, false)?;
            }
            other => slash::carry_out(other, self.dirs, &self.show)?,
        }
        Ok(())
    }
}

fn is_paste(text: &str) -> bool {
    text.chars().count() >= PASTE_CHARS_MIN || text.lines().count() >= PASTE_LINES_MIN
}

/// What a forced end must put back: an editor leaves the terminal in a state of its own.
#[derive(Debug)]
pub struct SavedTerminal(Option<rustix::termios::Termios>);

impl SavedTerminal {
    pub fn save() -> Self {
        let stdin = io::stdin();
        let saved = stdin
            .is_terminal()
            .then(|| rustix::termios::tcgetattr(&stdin).ok());
        Self(saved.flatten())
    }

    pub fn restore(&self) {
        if let Some(saved) = &self.0 {
            let now = rustix::termios::OptionalActions::Now;
            let _ = rustix::termios::tcsetattr(io::stdin(), now, saved);
            // The editor asks for bracketed paste; the shell does not expect it.
            if io::stdout().is_terminal() {
                let _ = out::print("\x1b[?2004l\r\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_and_one_of_many_lines_are_pastes() {
        assert!(!is_paste("remember that my bike is blue"));
        assert!(is_paste(&"x".repeat(PASTE_CHARS_MIN)));
        assert!(is_paste("1\n2\n3\n4\n5\n6"));
    }
}
