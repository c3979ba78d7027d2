//! `memoryd.toml`. Called at start and on SIGHUP.

use std::{collections::BTreeMap, path::Path};

use bxcore::{
    config::{self, ConfigError, Section},
    listen,
    secrets::{Secret, SecretError, Source},
};
use bxsanitize::Refuser;

use crate::{
    fleet::config::{KEY_PREFIX, ReadLimits},
    plan::Rules,
    recall,
    sync::config::{HonchoConfig, Role, SyncLimits},
};

/// Everything the owner configured.
#[derive(Debug)]
pub struct Config {
    pub rules: Rules,
    pub listen: listen::Limits,
    pub recall: recall::Limits,
    /// Where each `[secrets.NAME]` is.
    pub secrets: BTreeMap<String, Source>,
    /// `[honcho]`; without it nothing is ever sent.
    pub honcho: Option<HonchoConfig>,
}

/// What the configured secrets hold.
pub struct Keys {
    all: BTreeMap<String, Secret>,
    /// Those of Honcho's workspaces.
    pub workspaces: BTreeMap<Role, Secret>,
    /// Those of the workspaces of agents that are read, by agent.
    pub readers: BTreeMap<String, Secret>,
}

impl Keys {
    /// Refuses every one of them, whatever it is for.
    #[must_use]
    pub fn refuser(&self) -> Refuser {
        let keys: Vec<&str> = self.all.values().map(Secret::expose).collect();
        Refuser::new(&keys)
    }
}

impl Config {
    /// Reads the file; a missing one is an empty one.
    ///
    /// # Errors
    /// [`ConfigError`] with every mistake.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        config::load(path, Self::read)
    }

    fn read(root: &mut Section<'_>) -> Self {
        let mut rules = Rules::default();
        let names = root.strings("owner_speakers");
        if !names.is_empty() {
            rules.owner_speakers = names.iter().filter_map(|name| name.parse().ok()).collect();
            if rules.owner_speakers.len() < names.len() {
                root.problem("owner_speakers", "must hold speakers as \"realm/name\"");
            }
        }
        let mut listen = listen::Limits::default();
        let mut recall = recall::Limits::default();
        let mut sync = SyncLimits::default();
        let mut reading = ReadLimits::default();
        if let Some(mut limits) = root.section("limits") {
            listen = listen::Limits::of(&mut limits);
            sync = SyncLimits::of(&mut limits);
            reading = ReadLimits::of(&mut limits);
            let mut size = |key, usual: usize, most| {
                usize::try_from(limits.number(key, usual as u64, 1..=most)).unwrap_or(usual)
            };
            rules.identity_chars_max =
                size("identity_chars_max", rules.identity_chars_max, 100_000);
            rules.note_chars_max = size("note_chars_max", rules.note_chars_max, 100_000);
            recall.hits_max = size("recall_hits_max", recall.hits_max, 100);
            recall.hits = size("recall_hits", recall.hits, 100);
            recall.snippet_chars_max =
                size("recall_snippet_chars_max", recall.snippet_chars_max, 5_000);
        }
        let mut secrets = BTreeMap::new();
        for (name, mut section) in root.named_sections("secrets") {
            secrets.extend(Source::of(&mut section).map(|source| (name, source)));
        }
        let honcho =
            crate::sync::config::read(root, &rules.owner_speakers, &secrets, sync, reading);
        if let Some(honcho) = &honcho {
            recall.untrusted = honcho.read.untrusted;
        }
        Self {
            rules,
            listen,
            recall,
            secrets,
            honcho,
        }
    }

    /// Reads every secret.
    ///
    /// # Errors
    /// The first [`SecretError`].
    pub fn load_keys(&self) -> Result<Keys, SecretError> {
        let load = |name: &String, source: &Source| Ok((name.clone(), source.load(name)?));
        let all = self
            .secrets
            .iter()
            .map(|(name, source)| load(name, source))
            .collect::<Result<BTreeMap<_, _>, _>>()?;
        let named = |role: &Role| {
            let key = all.get(&format!("honcho_{}", role.name()))?;
            Some((*role, key.clone()))
        };
        let workspaces = Role::ALL.iter().filter_map(named).collect();
        let of_reader = |(name, key): (&String, &Secret)| {
            let agent = name.strip_prefix(KEY_PREFIX)?;
            Some((agent.to_owned(), key.clone()))
        };
        let readers = all.iter().filter_map(of_reader).collect();
        Ok(Keys {
            all,
            workspaces,
            readers,
        })
    }
}

#[cfg(test)]
mod tests {
    use bxwire::Speaker;

    use super::*;

    fn read(text: &str) -> Result<Config, ConfigError> {
        config::parse(Path::new("memoryd.toml"), text, Config::read)
    }

    #[test]
    fn an_empty_file_has_the_usual_values() {
        let config = read("").unwrap();
        assert_eq!(config.rules, Rules::default());
        assert_eq!(config.recall, recall::Limits::default());
    }

    #[test]
    fn each_key_is_read() {
        let config = read(
            "owner_speakers = [\"local/owner\", \"chat/robin\"]\n[limits]\nidentity_chars_max = 10\n\
             note_chars_max = 20\nrecall_hits = 2\nrecall_hits_max = 3\nrecall_snippet_chars_max = 40\n\
             connections_max = 5\n",
        )
        .unwrap();
        let robin = Speaker {
            realm: "chat".into(),
            name: "robin".into(),
        };
        assert!(config.rules.is_owner(Some(&robin)));
        assert!(!config.rules.is_owner(None));
        assert_eq!(config.rules.identity_chars_max, 10);
        assert_eq!(config.rules.note_chars_max, 20);
        assert_eq!(config.recall.hits, 2);
        assert_eq!(config.recall.hits_max, 3);
        assert_eq!(config.recall.snippet_chars_max, 40);
        assert_eq!(config.listen.connections_max, 5);
    }

    #[test]
    fn mistakes_are_named() {
        for text in [
            "owner_speakers = [\"robin\"]",
            "owner_speakers = [\"local/\"]",
            "owner_speakers = \"local/owner\"",
            "owners = []",
            "[limits]\nnote_chars_max = 0",
            "[secrets.x]\nfile = \"a\"\nenv = \"B\"",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
