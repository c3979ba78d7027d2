//! What is known of one workspace in this run: whether it answers, what was made sure of, when to try again.
//! Pure; part of `outbox`.

use std::{collections::BTreeSet, time::Duration};

use bxcore::clock::Millis;

use super::{config::SyncLimits, naming::HonchoSession, request::Failure};

/// Calls that fail together: messages are taken while conclusions are not, when the embedding provider is
/// down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    Messages,
    Conclusions,
}

/// A workspace that does not answer, or a lane that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    pub since: Millis,
    /// In fixed words.
    pub reason: &'static str,
    pub status: Option<u16>,
    pub tries: u64,
    pub next: Millis,
}

/// Something that need not be made again in this run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Made {
    Workspace,
    Peer(String),
    Session(String, Vec<String>),
}

/// One workspace.
#[derive(Debug, Clone, Default)]
pub struct Space {
    pub outage: Option<Outage>,
    pub messages: Option<Outage>,
    pub conclusions: Option<Outage>,
    /// Nothing is written before a read was answered.
    pub probe: bool,
    /// Since when its key is refused, and with what status.
    pub key_refused: Option<(Millis, u16)>,
    /// Its configuration is not what it must be, and could not be repaired.
    pub misconfigured: bool,
    made: BTreeSet<Made>,
}

impl Space {
    pub fn lane(&mut self, lane: Lane) -> &mut Option<Outage> {
        match lane {
            Lane::Messages => &mut self.messages,
            Lane::Conclusions => &mut self.conclusions,
        }
    }

    /// When something of a lane may be tried: now, later, or only when the owner acts (`Err(None)`).
    ///
    /// # Errors
    /// The time to try again.
    pub fn ready(&self, lane: Lane, now: Millis) -> Result<(), Option<Millis>> {
        if self.key_refused.is_some() {
            return Err(None);
        }
        let of_lane = match lane {
            Lane::Messages => &self.messages,
            Lane::Conclusions => &self.conclusions,
        };
        let next = [&self.outage, of_lane]
            .into_iter()
            .flatten()
            .map(|outage| outage.next)
            .max();
        match next {
            Some(next) if next > now => Err(Some(next)),
            _ => Ok(()),
        }
    }

    /// What a session's place still needs, in the order in which it must be made.
    #[must_use]
    pub fn missing(&self, agent: &str, peers: &[String], session: &HonchoSession) -> Option<Made> {
        let mut members = session.speakers.clone();
        members.sort();
        let peers = peers.iter().chain(&session.speakers);
        std::iter::once(Made::Workspace)
            .chain(std::iter::once(Made::Peer(agent.into())))
            .chain(peers.map(|peer| Made::Peer(peer.clone())))
            .chain(std::iter::once(Made::Session(
                session.name.clone(),
                members,
            )))
            .find(|made| !self.made.contains(made))
    }

    pub fn made(&mut self, made: Made) {
        self.made.insert(made);
    }

    pub fn unmade(&mut self, made: &Made) {
        self.made.remove(made);
    }

    /// Honcho may have been wiped: everything is made sure of again.
    pub fn forget(&mut self) {
        self.made.clear();
    }

    /// Every wait ends, and a refused key is tried again.
    pub fn try_now(&mut self, now: Millis) {
        for outage in [&mut self.outage, &mut self.messages, &mut self.conclusions]
            .into_iter()
            .flatten()
        {
            outage.next = now;
        }
        self.key_refused = None;
    }
}

/// Notes one more failure; the wait doubles up to its bound, give or take a quarter. Whether this one began
/// the outage.
pub fn failed(
    outage: &mut Option<Outage>,
    failure: Failure,
    limits: &SyncLimits,
    random: &mut u64,
    now: Millis,
) -> bool {
    let began = outage.is_none();
    let outage = outage.get_or_insert(Outage {
        since: now,
        reason: failure.kind(),
        status: failure.status(),
        tries: 0,
        next: now,
    });
    outage.reason = failure.kind();
    outage.status = failure.status();
    outage.tries += 1;
    let asked_for = match failure {
        Failure::Later {
            after_s: Some(after),
            ..
        } => after
            .saturating_mul(1_000)
            .min(SyncLimits::ms(limits.retry_ms_max)),
        _ => 0,
    };
    outage.next = now.plus_ms(backoff(outage.tries, limits, random).max(asked_for));
    began
}

/// How long to wait after so many failures, in milliseconds.
pub fn backoff(tries: u64, limits: &SyncLimits, random: &mut u64) -> u64 {
    let ms = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let doublings = u32::try_from(tries.saturating_sub(1))
        .unwrap_or(u32::MAX)
        .min(30);
    let wait = ms(limits.retry_ms_min)
        .saturating_mul(1_u64 << doublings)
        .min(ms(limits.retry_ms_max));
    // xorshift64: spreads agents that failed together; nothing depends on its quality.
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let quarter = wait / 4;
    let spread = if quarter == 0 {
        0
    } else {
        *random % (2 * quarter)
    };
    (wait - quarter + spread).min(ms(limits.retry_ms_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_bound() {
        let limits = SyncLimits::default();
        let mut random = 7;
        let mut before = 0;
        for tries in 1..=40 {
            let wait = backoff(tries, &limits, &mut random);
            assert!(wait <= 600_000, "{tries}: {wait}");
            assert!(wait >= before / 2, "{tries}: {wait} after {before}");
            before = wait;
        }
        assert!(before >= 450_000);
        assert!(backoff(1, &limits, &mut random) <= 6_250);
    }

    #[test]
    fn a_busy_server_is_left_alone_for_as_long_as_it_asks_up_to_the_bound() {
        let limits = SyncLimits::default();
        let wait = |after_s| {
            let (mut outage, mut random) = (None, 7);
            let busy = Failure::Later {
                status: 429,
                after_s,
            };
            failed(&mut outage, busy, &limits, &mut random, Millis(0));
            outage.unwrap().next.0
        };
        assert!(wait(None) <= 6_250);
        assert_eq!(wait(Some(90)), 90_000);
        assert!((3_750..=6_250).contains(&wait(Some(0))));
        for long in [601, 3_600, u64::MAX] {
            assert_eq!(wait(Some(long)), 600_000);
        }
    }

    #[test]
    fn things_are_made_in_order_and_a_larger_session_again() {
        let mut space = Space::default();
        let session = |speakers: &[&str]| HonchoSession {
            name: "s".into(),
            speakers: speakers.iter().map(|name| (*name).to_owned()).collect(),
        };
        let mut order = Vec::new();
        while let Some(made) = space.missing("agent", &[], &session(&["owner"])) {
            order.push(made.clone());
            space.made(made);
        }
        let peer = |name: &str| Made::Peer(name.into());
        let members = vec!["owner".to_owned()];
        let want = [
            Made::Workspace,
            peer("agent"),
            peer("owner"),
            Made::Session("s".into(), members),
        ];
        assert_eq!(order, want);
        assert!(
            space
                .missing("agent", &[], &session(&["owner", "b"]))
                .is_some()
        );
        space.forget();
        assert_eq!(
            space.missing("agent", &[], &session(&[])),
            Some(Made::Workspace)
        );
    }
}
