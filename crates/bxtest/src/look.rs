//! What a fleet and its Honcho look like from outside, a question each. Used by `world` and `scenario`; changes
//! nothing.

use bxwire::links::control::{self, EditLine, MemoryFiles, Sync};
use serde_json::Value;

use crate::fleet::Fleet;

/// Turns a fact into a check's result.
///
/// # Errors
/// What was seen instead.
pub fn expect(fact: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if fact { Ok(()) } else { Err(otherwise()) }
}

/// What an agent remembers.
///
/// # Errors
/// What bxctl would say.
pub fn files(fleet: &Fleet, at: usize) -> Result<MemoryFiles, String> {
    match fleet.agents[at].control("memoryd", &control::Request::MemoryShow {})? {
        control::Reply::Memory(files) => Ok(files),
        other => Err(format!("an odd answer: {other:?}")),
    }
}

/// An agent's edits, newest first.
///
/// # Errors
/// What bxctl would say.
pub fn edits(fleet: &Fleet, at: usize) -> Result<Vec<EditLine>, String> {
    match fleet.agents[at].control("memoryd", &control::Request::MemoryLog { limit: 1000 })? {
        control::Reply::Edits { edits } => Ok(edits),
        other => Err(format!("an odd answer: {other:?}")),
    }
}

/// What `bxctl memory sync` shows.
///
/// # Errors
/// What bxctl would say.
pub fn sync(fleet: &Fleet, at: usize) -> Result<Sync, String> {
    let request = control::Request::MemorySync {
        action: control::SyncAction::Show {},
    };
    match fleet.agents[at].control("memoryd", &request)? {
        control::Reply::Sync(sync) => Ok(sync),
        other => Err(format!("an odd answer: {other:?}")),
    }
}

/// The messages of a workspace in the order in which Honcho has them.
#[must_use]
pub fn messages(fleet: &Fleet, workspace: &str) -> Vec<Value> {
    let dump = fleet.honcho();
    let sessions = dump[workspace]["sessions"].as_array().cloned();
    let messages = sessions
        .unwrap_or_default()
        .into_iter()
        .filter_map(|session| session["messages"].as_array().cloned());
    messages.flatten().collect()
}

/// Everything a workspace holds, as one text to search.
#[must_use]
pub fn whole(fleet: &Fleet, workspace: &str) -> String {
    fleet.honcho()[workspace].to_string()
}

/// How often a peer said exactly this in a workspace.
#[must_use]
pub fn said(fleet: &Fleet, workspace: &str, peer: &str, text: &str) -> usize {
    let all = messages(fleet, workspace);
    let same = all
        .iter()
        .filter(|message| message["peer_id"] == peer && message["content"] == text);
    same.count()
}

/// How many conclusions of a workspace say exactly this of a peer.
#[must_use]
pub fn concluded(fleet: &Fleet, workspace: &str, peer: &str, text: &str) -> usize {
    let dump = fleet.honcho();
    let all = dump[workspace]["conclusions"].as_array().cloned();
    let same = all.unwrap_or_default().into_iter().filter(|conclusion| {
        conclusion["content"] == text
            && conclusion["observed_id"] == peer
            && conclusion["observer_id"] == peer
    });
    same.count()
}
