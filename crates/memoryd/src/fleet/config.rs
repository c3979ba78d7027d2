//! `[[honcho.read]]`, what else `[honcho]` says about reading, and the limits of it. Called by `sync::config`,
//! which reports every mistake with its line.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bxcore::{config::Section, secrets::Source};
use bxwire::{Class, Label, Trust};

use crate::{recall::Untrusted, sync::naming::is_name};

/// Most agents that one agent reads: each has a thread of its own.
pub const READERS_MAX: usize = 50;
/// Begins the name of a reader's key; the agent's name follows.
pub const KEY_PREFIX: &str = "honcho_read_";
/// Names that `ask_memory` has for the agent's own workspaces.
pub const OWN_NAMES: [&str; 3] = ["own", "untrusted", "fleet"];
/// Usual ceiling of a conclusion's distance.
const DISTANCE: f64 = 0.5;

/// Another agent's trusted workspace, and what the owner thinks of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderConfig {
    pub agent: String,
    pub workspace: String,
    /// Of everything read there.
    pub label: Label,
    /// Where its key is, if it has one.
    pub key: Option<Source>,
}

/// What `[honcho]` says about reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadConfig {
    pub readers: Vec<ReaderConfig>,
    pub untrusted: Untrusted,
    /// Ceiling of a conclusion's distance, in thousandths.
    pub distance_milli: u16,
    pub limits: ReadLimits,
}

impl Default for ReadConfig {
    fn default() -> Self {
        Self {
            readers: Vec::new(),
            untrusted: Untrusted::Always,
            distance_milli: milli(DISTANCE),
            limits: ReadLimits::default(),
        }
    }
}

/// Waits of the read path; keys under `[limits]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// A source's whole answer to one recall.
    pub source_ms_max: Duration,
    /// One chat of `ask_memory`.
    pub chat_ms_max: Duration,
    /// All chats of one call of it; less than brokerd waits.
    pub ask_ms_max: Duration,
    /// Between two progress notices of it.
    pub progress_ms: Duration,
    /// Before a source that failed is probed, at first and at most.
    pub probe_ms_min: Duration,
    pub probe_ms_max: Duration,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            source_ms_max: Duration::from_secs(5),
            chat_ms_max: Duration::from_secs(150),
            ask_ms_max: Duration::from_secs(165),
            progress_ms: Duration::from_secs(10),
            probe_ms_min: Duration::from_secs(2),
            probe_ms_max: Duration::from_secs(60),
        }
    }
}

impl ReadLimits {
    /// Reads the keys, all optional.
    #[must_use]
    pub fn of(section: &mut Section<'_>) -> Self {
        let usual = Self::default();
        let mut ms = |key: &str, usual: Duration| {
            section.millis(key, u64::try_from(usual.as_millis()).unwrap_or(u64::MAX))
        };
        Self {
            source_ms_max: ms("recall_source_ms_max", usual.source_ms_max),
            chat_ms_max: ms("ask_memory_chat_ms_max", usual.chat_ms_max),
            ask_ms_max: ms("ask_memory_ms_max", usual.ask_ms_max),
            progress_ms: ms("ask_memory_progress_ms", usual.progress_ms),
            probe_ms_min: ms("recall_probe_ms_min", usual.probe_ms_min),
            probe_ms_max: ms("recall_probe_ms_max", usual.probe_ms_max),
        }
    }
}

/// What a reader must differ from: the agent's own names.
#[derive(Debug)]
pub struct Own<'a> {
    pub agent: &'a str,
    pub owner: &'a str,
    pub workspaces: [&'a str; 3],
}

/// Reads what `[honcho]` says about reading; `keys` are the sources of `[secrets.honcho_read_…]` by agent, and
/// the ones left over afterwards belong to nobody.
pub fn read(
    section: &mut Section<'_>,
    own: &Own<'_>,
    keys: &mut BTreeMap<String, Source>,
    limits: ReadLimits,
) -> ReadConfig {
    let untrusted = section.choice(
        "recall_untrusted",
        Untrusted::Always,
        &[("always", Untrusted::Always), ("ask", Untrusted::Ask)],
    );
    let distance = section.float("recall_distance", DISTANCE, 0.0..=1.0);
    let mut readers = Vec::new();
    let (mut agents, mut workspaces) = (BTreeSet::new(), BTreeSet::new());
    let mut sections = section.sections("read");
    let too_many = sections.len() > READERS_MAX;
    if too_many {
        for extra in sections.drain(READERS_MAX..) {
            // One mistake is enough.
            forget(extra);
        }
    }
    for mut reader in sections {
        let agent = name(&mut reader, "agent");
        let workspace = name(&mut reader, "workspace");
        if agent == own.agent && !agent.is_empty() {
            reader.problem(
                "agent",
                "is this agent itself; its own workspaces need no reader",
            );
        } else if agent == own.owner && !agent.is_empty() {
            reader.problem("agent", "is the owner's peer, not an agent's");
        } else if OWN_NAMES.contains(&agent.as_str()) {
            reader.problem(
                "agent",
                "must not be `own`, `untrusted` or `fleet`: ask_memory has these names",
            );
        } else if !agent.is_empty() && !agents.insert(agent.clone()) {
            reader.problem("agent", "is another reader's name too");
        }
        if !workspace.is_empty()
            && (own.workspaces.contains(&workspace.as_str())
                || !workspaces.insert(workspace.clone()))
        {
            reader.problem(
                "workspace",
                "must differ from this agent's own and from every other reader's",
            );
        }
        let trust = reader.choice(
            "trust",
            Trust::Untrusted,
            &Trust::ALL.map(|trust| (trust.name(), trust)),
        );
        let class = reader.choice(
            "class",
            Class::Private,
            &Class::ALL.map(|class| (class.name(), class)),
        );
        readers.push(ReaderConfig {
            key: keys.remove(&agent),
            agent,
            workspace,
            label: Label::new(class, trust),
        });
    }
    if too_many {
        section.problem("read", &format!("may be there {READERS_MAX} times at most"));
    }
    ReadConfig {
        readers,
        untrusted,
        distance_milli: milli(distance),
        limits,
    }
}

fn name(section: &mut Section<'_>, key: &str) -> String {
    let found = section.required(key).unwrap_or_default();
    if !found.is_empty() && !is_name(&found) {
        section.problem(
            key,
            "must be 1 to 512 of a-z, A-Z, 0-9, '-' and '_', or Honcho refuses it",
        );
    }
    found
}

fn forget(mut section: Section<'_>) {
    for key in ["agent", "workspace", "trust", "class"] {
        let _ = section.string(key);
    }
}

/// A share from 0 to 1 in thousandths.
fn milli(share: f64) -> u16 {
    // Within the bounds that were checked, so nothing is lost.
    (0..=1000_u16)
        .find(|milli| f64::from(*milli) >= share * 1000.0 - 0.5)
        .unwrap_or(1000)
}
