//! `[honcho]`, its keys and its limits. Every mistake is reported with its line (`honcho-config-invalid`).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bxcore::{config::Section, runbook, secrets::Source};
use bxwire::Speaker;
use serde::{Deserialize, Serialize};

use super::naming::is_name;
use crate::{
    fleet::config::{self as reading, ReadConfig, ReadLimits},
    knowledge::config::{self as knowledge, ContextConfig},
};

/// Which of the agent's three workspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Trusted,
    Untrusted,
    Fleet,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Trusted, Self::Untrusted, Self::Fleet];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Untrusted => "untrusted",
            Self::Fleet => "fleet",
        }
    }
}

/// What the owner configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HonchoConfig {
    pub url: String,
    /// The agent's peer.
    pub agent: String,
    /// The owner's peer.
    pub owner: String,
    /// Who the owner is, and nobody else.
    pub owner_speakers: Vec<Speaker>,
    /// Honcho's names of the three workspaces.
    pub trusted: String,
    pub untrusted: String,
    pub fleet: String,
    /// Speakers whose turns, and edits made in them, are never synced.
    pub exclude_speakers: Vec<Speaker>,
    /// Clients and channels that are never synced.
    pub exclude_sources: Vec<String>,
    /// Where each workspace's key is, if it has one.
    pub keys: BTreeMap<Role, Source>,
    pub limits: SyncLimits,
    /// Whom this agent reads, and how.
    pub read: ReadConfig,
    /// What is said before a turn.
    pub context: ContextConfig,
    /// The tools over memory that the model gets, besides `memory` itself.
    pub tools: BTreeSet<&'static str>,
}

impl HonchoConfig {
    /// Honcho's name of a workspace.
    #[must_use]
    pub fn workspace(&self, role: Role) -> &str {
        match role {
            Role::Trusted => &self.trusted,
            Role::Untrusted => &self.untrusted,
            Role::Fleet => &self.fleet,
        }
    }

    /// Whether nothing of a turn leaves this machine, by its speaker or by the client or channel it came through.
    /// `source` is `None` when nobody knows it: where sources are excluded, it may be one of them.
    #[must_use]
    pub fn excludes(&self, speaker: Option<&Speaker>, source: Option<&str>) -> bool {
        let speaker = speaker.is_some_and(|speaker| self.exclude_speakers.contains(speaker));
        let source = match source {
            Some(source) => self.exclude_sources.iter().any(|known| known == source),
            None => !self.exclude_sources.is_empty(),
        };
        speaker || source
    }
}

/// Waits of the sync worker; keys under `[limits]` with these defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncLimits {
    pub connect_ms_max: Duration,
    /// Without a byte from Honcho.
    pub read_ms_max: Duration,
    /// A whole request, however slowly its answer drips.
    pub request_ms_max: Duration,
    pub retry_ms_min: Duration,
    pub retry_ms_max: Duration,
    pub hold_messages_ms: Duration,
    pub hold_conclusions_ms: Duration,
    /// Older than this, a conclusion that is not there may have been removed by dreaming.
    pub doubt_ms_max: Duration,
    pub broker_ms_max: Duration,
    /// The day of the health checks: how often they are made at most, and how long nothing may be derived.
    pub health_ms: Duration,
}

impl Default for SyncLimits {
    fn default() -> Self {
        Self {
            connect_ms_max: Duration::from_secs(5),
            read_ms_max: Duration::from_secs(30),
            request_ms_max: Duration::from_secs(90),
            retry_ms_min: Duration::from_secs(5),
            retry_ms_max: Duration::from_secs(600),
            hold_messages_ms: Duration::from_secs(60),
            hold_conclusions_ms: Duration::from_secs(180),
            doubt_ms_max: Duration::from_secs(6 * 3600),
            broker_ms_max: Duration::from_secs(5),
            health_ms: Duration::from_secs(24 * 3600),
        }
    }
}

impl SyncLimits {
    #[must_use]
    pub fn ms(wait: Duration) -> u64 {
        u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
    }

    /// Reads the keys, all optional.
    #[must_use]
    pub fn of(section: &mut Section<'_>) -> Self {
        let usual = Self::default();
        let mut ms = |key: &str, usual: Duration| {
            section.millis(key, u64::try_from(usual.as_millis()).unwrap_or(u64::MAX))
        };
        Self {
            connect_ms_max: ms("honcho_connect_ms_max", usual.connect_ms_max),
            read_ms_max: ms("honcho_read_ms_max", usual.read_ms_max),
            request_ms_max: ms("honcho_request_ms_max", usual.request_ms_max),
            retry_ms_min: ms("honcho_retry_ms_min", usual.retry_ms_min),
            retry_ms_max: ms("honcho_retry_ms_max", usual.retry_ms_max),
            hold_messages_ms: ms("honcho_hold_messages_ms", usual.hold_messages_ms),
            hold_conclusions_ms: ms("honcho_hold_conclusions_ms", usual.hold_conclusions_ms),
            doubt_ms_max: ms("honcho_doubt_ms_max", usual.doubt_ms_max),
            broker_ms_max: ms("broker_state_ms_max", usual.broker_ms_max),
            health_ms: ms("honcho_health_ms", usual.health_ms),
        }
    }
}

/// Reads `[honcho]`; `secrets` are the sections `[secrets.…]`. `None`: there is no section, and Honcho does not
/// exist; or mistakes were reported.
pub fn read(
    root: &mut Section<'_>,
    owner_speakers: &[Speaker],
    secrets: &BTreeMap<String, Source>,
    limits: SyncLimits,
    read_limits: ReadLimits,
) -> Option<HonchoConfig> {
    let before = root.mistakes();
    let mut keys = BTreeMap::new();
    let mut reader_keys = BTreeMap::new();
    for (name, source) in secrets {
        let role = Role::ALL
            .into_iter()
            .find(|role| *name == format!("honcho_{}", role.name()));
        if let Some(role) = role {
            keys.insert(role, source.clone());
        } else if let Some(agent) = name.strip_prefix(reading::KEY_PREFIX) {
            reader_keys.insert(agent.to_owned(), source.clone());
        } else {
            root.problem(
                "secrets",
                &format!(
                    "has `{name}`, a key for a workspace that is not configured (known: \
                     honcho_trusted, honcho_untrusted, honcho_fleet, honcho_read_AGENT)"
                ),
            );
        }
    }
    let Some(mut section) = root.section("honcho") else {
        if !keys.is_empty() || !reader_keys.is_empty() {
            root.problem(
                "secrets",
                "has keys for Honcho, but there is no [honcho] section",
            );
            root.blame(runbook::HONCHO_CONFIG_INVALID);
        }
        return None;
    };
    let url = section.required("url").unwrap_or_default();
    if !url.is_empty() && !bxcore::url::is_origin(&url) {
        section.problem(
            "url",
            "must be http://HOST[:PORT] or https://HOST[:PORT], without a path",
        );
    }
    let mut name = |key: &str| {
        let found = section.required(key).unwrap_or_default();
        if !found.is_empty() && !is_name(&found) {
            section.problem(
                key,
                "must be 1 to 512 of a-z, A-Z, 0-9, '-' and '_', or Honcho refuses it",
            );
        }
        found
    };
    let agent = name("agent");
    let owner = name("owner");
    let trusted = name("trusted");
    let untrusted = name("untrusted");
    let fleet = name("fleet");
    let mut speakers = |key: &str| {
        let mut found = Vec::new();
        for text in section.strings(key) {
            match text.parse() {
                Ok(speaker) => found.push(speaker),
                Err(_) => section.problem(key, "must hold speakers written as \"realm/name\""),
            }
        }
        found
    };
    let exclude_speakers = speakers("exclude_speakers");
    let exclude_sources = section.strings("exclude_sources");
    if !agent.is_empty() && agent == owner {
        section.problem("agent", "must differ from `owner`: they are two peers");
    }
    let realms = owner_speakers
        .iter()
        .map(|speaker| speaker.realm.as_str())
        .chain(["local"]);
    for realm in realms.collect::<std::collections::BTreeSet<_>>() {
        for (key, value) in [("agent", &agent), ("owner", &owner)] {
            if value.starts_with(&format!("{realm}-")) {
                section.problem(key, &format!("must not begin with the realm `{realm}-`: a speaker could then be taken for it"));
            }
        }
    }
    for (key, value, others) in [
        ("untrusted", &untrusted, vec![&trusted]),
        ("fleet", &fleet, vec![&trusted, &untrusted]),
    ] {
        if !value.is_empty() && others.contains(&value) {
            section.problem(key, "must name a workspace of its own");
        }
    }
    let own = reading::Own {
        agent: &agent,
        owner: &owner,
        workspaces: [&trusted, &untrusted, &fleet],
    };
    let read = reading::read(&mut section, &own, &mut reader_keys, read_limits);
    let context = knowledge::context(&mut section);
    let tools = knowledge::tools(&mut section);
    drop(section);
    for agent in reader_keys.keys() {
        root.problem(
            "secrets",
            &format!("has a key for reading `{agent}`, but no [[honcho.read]] names that agent"),
        );
    }
    if root.mistakes() > before {
        root.blame(runbook::HONCHO_CONFIG_INVALID);
        return None;
    }
    Some(HonchoConfig {
        url,
        agent,
        owner,
        owner_speakers: owner_speakers.to_vec(),
        trusted,
        untrusted,
        fleet,
        exclude_speakers,
        exclude_sources,
        keys,
        limits,
        read,
        context,
        tools,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use bxcore::{config::ConfigError, report::Actionable};

    use super::*;

    pub(crate) const GOOD: &str = r#"
[honcho]
url = "http://127.0.0.1:8000"
agent = "boxmaker"
owner = "owner"
trusted = "boxmaker-trusted"
untrusted = "boxmaker-untrusted"
fleet = "fleet"
"#;

    fn parse(text: &str) -> Result<Option<HonchoConfig>, ConfigError> {
        let owner = "local/owner".parse().unwrap();
        bxcore::config::parse(Path::new("memoryd.toml"), text, |root| {
            let secrets = root
                .named_sections("secrets")
                .into_iter()
                .filter_map(|(name, mut section)| Some((name, Source::of(&mut section)?)))
                .collect();
            read(
                root,
                &[owner],
                &secrets,
                SyncLimits::default(),
                ReadLimits::default(),
            )
        })
    }

    pub(crate) fn config() -> HonchoConfig {
        parse(GOOD).unwrap().unwrap()
    }

    #[test]
    fn no_section_means_no_honcho() {
        assert_eq!(parse("").unwrap(), None);
    }

    #[test]
    fn each_mistake_is_named_with_the_runbook_entry() {
        let cases = [
            (
                "url = \"http://127.0.0.1:8000\"",
                "url = \"ftp://x\"",
                "`honcho.url` must be",
            ),
            (
                "agent = \"boxmaker\"",
                "agent = \"box.maker\"",
                "`honcho.agent` must be 1 to 512",
            ),
            (
                "agent = \"boxmaker\"",
                "agent = \"owner\"",
                "must differ from `owner`",
            ),
            (
                "agent = \"boxmaker\"",
                "agent = \"local-x\"",
                "must not begin with the realm",
            ),
            (
                "fleet = \"fleet\"",
                "fleet = \"boxmaker-trusted\"",
                "a workspace of its own",
            ),
            (
                "fleet = \"fleet\"",
                "flet = \"fleet\"",
                "`honcho.flet` is not a key here",
            ),
            ("fleet = \"fleet\"", "", "`honcho.fleet` is missing"),
            (
                "fleet = \"fleet\"",
                "fleet = \"fleet\"\n[secrets.honcho_other]\nfile = \"/x\"",
                "a key for a workspace that is not configured",
            ),
            (
                "fleet = \"fleet\"",
                "fleet = \"fleet\"\nexclude_speakers = [\"nobody\"]",
                "\"realm/name\"",
            ),
        ];
        for (from, to, want) in cases {
            let error = parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(want), "{to}: {error}");
            assert_eq!(
                error.runbook(),
                Some(runbook::HONCHO_CONFIG_INVALID),
                "{to}"
            );
        }
    }
}
