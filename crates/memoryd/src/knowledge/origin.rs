//! Where something of Honcho's comes from that nothing here sent, for `bxctl memory why`. Called by `control`, on a
//! thread that may wait for Honcho; never shows a text.

use bxcore::runbook;
use bxwire::{
    Refused,
    links::control::{Derived, Reply},
};

use super::{
    client::Found,
    tool::{Facts, word},
};
use crate::sync::naming::{is_name, of_session};

/// Longest id that is asked for, in characters; Honcho's are far shorter.
const ID_CHARS_MAX: usize = 64;

const SENT_ELSEWHERE: &str = "this agent has sent nothing under that id; run the same command where the agent runs that wrote it";

/// `place`: what stands before the id where a hit shows it, for example `own`.
#[must_use]
pub fn of(facts: &Facts, place: Option<&str>, id: &str) -> Reply {
    let Some(config) = facts.config() else {
        return unknown(SENT_ELSEWHERE);
    };
    let is_own = place.is_none_or(|place| place == "own" || place == config.agent);
    let mut readers = config.read.readers.iter();
    if let Some(reader) = readers.find(|reader| Some(reader.agent.as_str()) == place) {
        let (agent, workspace) = (&reader.agent, &reader.workspace);
        return unknown(&format!(
            "nothing here sent it: {agent} did, or Honcho derived it in the workspace {workspace}; run the same command \
             where {agent} runs"
        ));
    }
    if !is_own || !is_name(id) || id.len() > ID_CHARS_MAX {
        return unknown(SENT_ELSEWHERE);
    }
    let workspace = &config.trusted;
    match facts.conclusion(id) {
        Ok(Some(found)) => {
            let name = place.map_or_else(|| id.to_owned(), |place| format!("{place}:{id}"));
            Reply::Derived(derived(name, &found, workspace))
        }
        Ok(None) if place.is_none() => unknown(SENT_ELSEWHERE),
        Ok(None) => unknown(&format!(
            "nothing here sent it, and Honcho holds no conclusion under that id in the workspace {workspace}"
        )),
        Err(_) => Refused::new(
            "unknown-item",
            "nothing here sent it; whether Honcho derived it itself, it does not say now",
        )
        .with_runbook(runbook::HONCHO_UNREACHABLE.anchor())
        .into(),
    }
}

fn unknown(message: &str) -> Reply {
    Refused::new("unknown-item", message)
        .with_runbook(runbook::ITEM_UNKNOWN.anchor())
        .into()
}

fn derived(id: String, found: &Found, workspace: &str) -> Derived {
    let about = match found.about_owner {
        true => "the owner",
        false => "somebody else",
    };
    let name = found.session.as_deref().filter(|name| is_name(name));
    let from = match (name, name.and_then(of_session)) {
        (Some(name), Some(session)) => {
            format!("the session {name}; `bxctl session show {session}` has its turns")
        }
        (Some(name), None) => format!("the session {name}, which is none of this agent's"),
        (None, _) => "nothing that Honcho names".to_owned(),
    };
    let fact = |name: &str, value: String| (name.to_owned(), value);
    Derived {
        id,
        facts: vec![
            fact("kind", "conclusion".into()),
            fact("by", "Honcho itself: nothing here sent it".into()),
            fact("from", from),
            fact("about", about.into()),
            fact("level", word(&found.level)),
            fact("at", word(&found.at)),
            fact("workspace", workspace.into()),
        ],
    }
}
