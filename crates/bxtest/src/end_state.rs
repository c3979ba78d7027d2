//! Where a scenario ended, for two runs to be compared. Used by the test that kills daemons.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    fleet::{FLEET, OWNER},
    look::{files, messages},
    world::World,
};

/// What must be the same however often daemons were killed on the way: not how often something was tried, but
/// where everything ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EndState {
    /// By agent and session name.
    pub labels: BTreeMap<String, String>,
    /// Identity entries and notes, by agent.
    pub remembered: BTreeMap<String, BTreeSet<String>>,
    /// What people said (and, in the fleet, what agents noted), by workspace.
    pub said: BTreeMap<String, BTreeSet<String>>,
    pub concluded: BTreeMap<String, BTreeSet<String>>,
}

impl World<'_> {
    /// Where everything ended. `noise` is what may have been said in vain, and then went where a sentence of a
    /// clean session goes.
    ///
    /// # Errors
    /// What bxctl would say.
    pub fn end_state(&self, noise: &[&str]) -> Result<EndState, String> {
        let mut end = EndState::default();
        for ((at, role), session) in &self.sessions {
            let agent = &self.fleet.agents[*at];
            let label = agent.label(session)?.to_string();
            end.labels.insert(format!("{} {role}", agent.name), label);
        }
        let mut workspaces = vec![(FLEET.to_owned(), None)];
        for (at, agent) in self.fleet.agents.iter().enumerate() {
            let files = files(&self.fleet, at)?;
            let entries = files
                .user
                .into_iter()
                .chain(files.agent)
                .map(|entry| entry.text);
            let notes = files.notes.into_iter().map(|note| note.text);
            end.remembered
                .insert(agent.name.into(), entries.chain(notes).collect());
            workspaces.push((agent.trusted(), Some(OWNER)));
            workspaces.push((agent.untrusted(), Some(OWNER)));
        }
        for (name, peer) in workspaces {
            let by_people = messages(&self.fleet, &name).into_iter().filter(|message| {
                let noise = if name.ends_with("-trusted") {
                    noise
                } else {
                    &[]
                };
                peer.is_none_or(|peer| message["peer_id"] == peer)
                    && !noise.iter().any(|noise| message["content"] == *noise)
            });
            let said =
                by_people.map(|message| format!("{}: {}", message["peer_id"], message["content"]));
            end.said.insert(name.clone(), said.collect());
            let conclusions = self.fleet.honcho()[&name]["conclusions"]
                .as_array()
                .cloned();
            let concluded = conclusions
                .unwrap_or_default()
                .into_iter()
                .map(|conclusion| {
                    format!("{}: {}", conclusion["observed_id"], conclusion["content"])
                });
            end.concluded.insert(name, concluded.collect());
        }
        Ok(end)
    }
}
