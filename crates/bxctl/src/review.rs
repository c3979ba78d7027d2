//! `bxctl memory review` and `promote`: what was held back, and the owner's word that makes a note their own. Asks
//! memoryd over its control socket; never opens its files.

use bxcore::paths::Dirs;
use bxwire::links::control::{HeldBack, Reply, Request};

use crate::{
    failure::{Exit, Failure},
    link::memoryd,
    memory,
    out::{self, json_line, one_line},
    render,
};

/// Everything that was held back, newest first.
///
/// # Errors
/// When memoryd cannot answer.
pub fn show(dirs: &Dirs, json: bool) -> Result<Exit, Failure> {
    let Reply::Review { held, more } = memoryd(dirs, &Request::MemoryReview {})? else {
        return Err(Failure::Answer { daemon: "memoryd" });
    };
    if json {
        for item in &held {
            out::print(&json_line(item)?)?;
        }
    } else if held.is_empty() {
        out::say("nothing is held back");
    } else {
        out::print(&shown(&held))?;
    }
    if more > 0 {
        out::say(&format!("and {more} older ones"));
    }
    if held.iter().any(|item| item.note.is_some()) {
        out::say("`bxctl memory promote NOTE` makes a note your own");
    }
    Ok(Exit::attention(!held.is_empty()))
}

fn shown(held: &[HeldBack]) -> String {
    let mut text = String::new();
    for item in held {
        let at = item
            .at
            .as_deref()
            .map(|at| format!("  {}", render::time(at)));
        let note = item
            .note
            .as_deref()
            .map(|note| format!(" ({})", one_line(note)));
        text.push_str(&format!(
            "{}{}{}\n  {}\n",
            one_line(&item.what),
            note.unwrap_or_default(),
            at.unwrap_or_default(),
            one_line(&item.cause)
        ));
        if let Some(words) = &item.text {
            text.push_str(&format!("    {}\n", one_line(words)));
        }
    }
    text
}

/// Makes a note the owner's own.
///
/// # Errors
/// When memoryd cannot answer, or refuses.
pub fn promote(dirs: &Dirs, note: &str, yes: bool) -> Result<Exit, Failure> {
    let request = |confirm| Request::MemoryPromote {
        note: note.into(),
        confirm,
    };
    let question = format!("make {} your own?", one_line(note));
    memory::change(dirs, request, &question, "promote", yes)
}
