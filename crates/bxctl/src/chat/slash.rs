//! What can be typed in a chat besides a message. Reading a line is pure; carrying out asks the daemons.

use bxcore::paths::Dirs;
use bxwire::{EditId, ItemId, links::turns::Request};

use crate::{
    commands::Item,
    failure::Failure,
    link, memory,
    out::{self, Paint},
    status,
};

use super::show::Show;

const HELP: &str = "\
/new              the next message starts a new session
/untrusted [TEXT] sends TEXT, or the next message, as somebody else's words
/stop             stops the turn that runs in this session (Ctrl-C does too)
/status           shows the daemons, and what needs you
/why [ITEM]       shows how a turn, an edit or what a recall names was decided and where it went; the last turn by
                  default
/undo [ID]        takes an edit of memory back, after showing what that does
/help             shows this
/quit             leaves (Ctrl-D does too)
A message that begins with a slash: type two of them.";

/// A slash command.
#[derive(Debug, PartialEq, Eq)]
pub enum Slash {
    New,
    Untrusted(String),
    Stop,
    Status,
    Why(String),
    Undo(String),
    Help,
    Quit,
    Unknown(String),
}

/// `None`: a message.
pub fn parse(text: &str) -> Option<Slash> {
    let command = text.strip_prefix('/')?;
    if command.starts_with('/') {
        return None;
    }
    let (name, rest) = command
        .split_once(char::is_whitespace)
        .unwrap_or((command, ""));
    let rest = rest.trim().to_owned();
    Some(match name {
        "new" => Slash::New,
        "untrusted" => Slash::Untrusted(rest),
        "stop" => Slash::Stop,
        "status" => Slash::Status,
        "why" => Slash::Why(rest),
        "undo" => Slash::Undo(rest),
        "help" | "?" => Slash::Help,
        "quit" | "exit" | "q" => Slash::Quit,
        other => Slash::Unknown(other.into()),
    })
}

/// Carries out what needs nothing of the chat's own state but where it is.
pub(super) fn carry_out(command: Slash, dirs: &Dirs, show: &Show<'_>) -> Result<(), Failure> {
    match command {
        Slash::Help => out::say(HELP),
        Slash::Status => {
            let paint = Paint::of(&std::io::stdout());
            out::print(&status::shown(&status::gather(dirs), paint))?;
        }
        Slash::Stop => match show.session.clone() {
            None => out::say("no turn runs: there is no session yet"),
            Some(session) => {
                link::loopd(dirs, &Request::Cancel { session })?;
            }
        },
        Slash::Why(item) => {
            let item = match (item.as_str(), &show.session) {
                ("", Some(session)) => Item::Ours(ItemId::Turn {
                    session: session.clone(),
                    turn: show.turn,
                }),
                ("", None) => {
                    return Err(Failure::Usage(
                        "name a turn or an edit, for example /why e3".into(),
                    ));
                }
                (item, _) => parsed::<Item>(item)?,
            };
            out::print(&memory::why_shown(&memory::ask_why(dirs, item)?))?;
        }
        Slash::Undo(edit) => {
            let edit = match edit.as_str() {
                "" => None,
                edit => Some(parsed::<EditId>(edit)?),
            };
            let _ = memory::undo(dirs, edit, false)?;
        }
        Slash::Unknown(_) => {
            return Err(Failure::Usage(
                "there is no such command; /help lists them".into(),
            ));
        }
        Slash::New | Slash::Untrusted(_) | Slash::Quit => {}
    }
    Ok(())
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Failure> {
    text.parse()
        .map_err(|error| Failure::Usage(format!("that is {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_begins_a_command_and_two_a_message() {
        let rows = [
            ("hello /new", None),
            ("//etc is a folder", None),
            ("/new", Some(Slash::New)),
            ("/why e3 ", Some(Slash::Why("e3".into()))),
            (
                "/untrusted\nDear sir",
                Some(Slash::Untrusted("Dear sir".into())),
            ),
            ("/frobnicate", Some(Slash::Unknown("frobnicate".into()))),
        ];
        for (text, want) in rows {
            assert_eq!(parse(text), want, "{text}");
        }
    }
}
