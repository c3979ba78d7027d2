//! Names of Honcho peers, sessions and fleet messages. Pure; called by `decide`'s callers, `mirror` and `ledger`.

use bxwire::{SessionId, Speaker};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::config::HonchoConfig;

/// Longest name Honcho takes, in characters.
/// Source: recorded, `crates/honcho-local/fixtures/recorded/06-workspace-bad-id.json`.
pub const NAME_CHARS_MAX: usize = 512;

/// A Honcho session: its name, and the speakers who are its members beside the agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HonchoSession {
    pub name: String,
    pub speakers: Vec<String>,
}

/// Bytes of the hash that a message's name shows, as twice as many digits.
const OPAQUE_BYTES: usize = 8;

/// A name that tells nothing of what it is of to whoever lacks the key.
#[must_use]
pub fn opaque(key: &str, of: &str) -> String {
    // Cut short, it cannot be extended to that of a longer text; the keys of one ledger are equally long.
    let hash = Sha256::new().chain_update(key).chain_update(of).finalize();
    let digits = hash.iter().take(OPAQUE_BYTES);
    digits.map(|byte| format!("{byte:02x}")).collect()
}

/// Whether Honcho takes a name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// The peer that a speaker's words come from: the owner's for the owner's own names and nobody else's; for
/// anybody else realm and name, so written that no two meet. `None`: the name makes no peer.
#[must_use]
pub fn peer(config: &HonchoConfig, speaker: &Speaker) -> Option<String> {
    if config.owner_speakers.contains(speaker) {
        return Some(config.owner.clone());
    }
    let lower = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte)
            })
    };
    // A dash or dot in the realm could make two pairs meet, so a realm is letters and digits.
    let realm_fits = !speaker.realm.is_empty()
        && speaker
            .realm
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !realm_fits || !lower(&speaker.name) {
        return None;
    }
    let name: String = speaker
        .name
        .chars()
        .map(|c| match c {
            '.' => '_',
            '_' => 'U',
            other => other,
        })
        .collect();
    Some(format!("{}-{name}", speaker.realm)).filter(|name| is_name(name))
}

/// The Honcho session that the next item of a Boxmaker session goes to. It follows from the last one alone:
/// a speaker who is new starts the next, holding everybody so far.
#[must_use]
pub fn follow(
    last: Option<&HonchoSession>,
    session: &SessionId,
    speaker: Option<&str>,
) -> HonchoSession {
    let Some(last) = last else {
        return HonchoSession {
            name: session.to_string(),
            speakers: speaker.map(str::to_owned).into_iter().collect(),
        };
    };
    match speaker {
        Some(new) if !last.speakers.iter().any(|known| known == new) => {
            let mut speakers = last.speakers.clone();
            speakers.push(new.into());
            HonchoSession {
                name: format!("{session}-{}", number(last, session) + 1),
                speakers,
            }
        }
        _ => last.clone(),
    }
}

/// 1 for `<id>`, 3 for `<id>-3`.
fn number(last: &HonchoSession, session: &SessionId) -> u64 {
    last.name
        .strip_prefix(session.as_str())
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|count| count.parse().ok())
        .unwrap_or(1)
}

/// The session that a Honcho session's name stands for, if it is one of ours.
#[must_use]
pub fn of_session(name: &str) -> Option<SessionId> {
    name.parse().ok().or_else(|| {
        let (id, count) = name.rsplit_once('-')?;
        count.parse::<u64>().ok()?;
        id.parse().ok()
    })
}

/// The session of edits that were made in none: the owner's, by command or by hand.
#[must_use]
pub fn owner_session(config: &HonchoConfig) -> HonchoSession {
    HonchoSession {
        name: format!("{}-owner", config.agent),
        speakers: vec![config.owner.clone()],
    }
}

/// A session's place in the fleet workspace: the agent alone is in it, so no speaker starts another.
#[must_use]
pub fn fleet_session(config: &HonchoConfig, session: Option<&SessionId>) -> HonchoSession {
    HonchoSession {
        name: session.map_or_else(|| format!("{}-owner", config.agent), SessionId::to_string),
        speakers: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::config::tests::config;

    fn speaker(realm: &str, name: &str) -> Speaker {
        Speaker {
            realm: realm.into(),
            name: name.into(),
        }
    }

    #[test]
    fn only_the_configured_owner_is_the_owner() {
        let config = config();
        assert_eq!(
            peer(&config, &speaker("local", "owner")).as_deref(),
            Some("owner")
        );
        for impostor in ["owner", "boxmaker"] {
            let named = peer(&config, &speaker("home", impostor)).unwrap();
            assert_eq!(named, format!("home-{impostor}"));
        }
    }

    #[test]
    fn no_two_speakers_meet() {
        let config = config();
        let names = [
            "a.b", "a_b", "a-b", "ab", "aub", "a..b", "a__b", "a._b", "a_.b",
        ];
        let mut peers: Vec<_> = names
            .iter()
            .map(|name| peer(&config, &speaker("home", name)).unwrap())
            .collect();
        peers.sort();
        peers.dedup();
        assert_eq!(peers.len(), names.len());
        assert!(peers.iter().all(|peer| is_name(peer)));
        for odd in ["", "A", "a b", "ä", "a/b", "UPPER"] {
            assert_eq!(peer(&config, &speaker("home", odd)), None, "{odd}");
        }
        assert_eq!(peer(&config, &speaker("ho-me", "a")), None);
    }

    #[test]
    fn a_new_speaker_starts_the_next_session_with_everybody_so_far() {
        let id: SessionId = "20260131-abcdefghijkl".parse().unwrap();
        let first = follow(None, &id, Some("owner"));
        assert_eq!(first.name, id.to_string());
        assert_eq!(follow(Some(&first), &id, Some("owner")), first);
        assert_eq!(follow(Some(&first), &id, None), first);
        let second = follow(Some(&first), &id, Some("home-b"));
        assert_eq!(second.name, format!("{id}-2"));
        assert_eq!(second.speakers, ["owner", "home-b"]);
        let third = follow(Some(&second), &id, Some("home-c"));
        assert_eq!(third.name, format!("{id}-3"));
        assert_eq!(follow(Some(&third), &id, Some("owner")), third);
    }

    #[test]
    fn an_edit_before_the_first_turn_leaves_room_for_the_turns_speaker() {
        let id: SessionId = "20260131-abcdefghijkl".parse().unwrap();
        let nobody = follow(None, &id, None);
        assert!(nobody.speakers.is_empty());
        assert_eq!(
            follow(Some(&nobody), &id, Some("owner")).name,
            format!("{id}-2")
        );
    }
}
