//! The two-run check. Two runs of one script differ only in the bytes of what is untrusted, or of what is secret, and
//! a model that is the attacker's does whatever those bytes tell it; what leaves for a workspace that must not depend
//! on them is the same in both, to the byte. `docs/threats.md` says what is compared and what is not.

mod life;
mod model;
mod script;
mod sent;

use std::collections::BTreeSet;

use bxwire::Class;
use memoryd::sync::{config::Role, request::Request};

use crate::{Seed, seeds};
use life::{Bytes, Life};
use script::{Kind, Script, Source};
use sent::Sent;

/// One seed of so many makes a pair: its runs take longer than one with checks.
const SEEDS_PER_PAIR: u64 = 6;

/// What must not depend on what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Law {
    /// Requests to the trusted workspace, on untrusted bytes.
    Trust,
    /// Requests to any workspace, on secret bytes.
    Class,
}

impl Law {
    fn holds_for(self, role: Role) -> bool {
        self == Self::Class || role == Role::Trusted
    }

    /// Two runs' bytes.
    fn bytes(self, seed: u64) -> [Bytes; 2] {
        [1, 2].map(|run| match self {
            Self::Trust => Bytes {
                letters: seed * 2 + run,
                vaults: seed,
            },
            Self::Class => Bytes {
                letters: seed,
                vaults: seed * 2 + run,
            },
        })
    }
}

/// What the pairs together met.
#[derive(Debug, Default)]
struct Met {
    pairs: usize,
    compared: usize,
    conclusions: usize,
    deletions: usize,
    cards: usize,
    /// Pairs in which what may depend on the bytes did.
    differed: usize,
    /// Requests that are missing in one run, since a session that searched had another label there.
    suppressed: usize,
    /// Requests of runs with accidents.
    with_faults: usize,
}

/// Requests of `one` that `other` lacks: only those of a session that searched, and whose label is higher there.
fn compare(law: Law, one: &Life, other: &Life, met: &mut Met) {
    let (ours, theirs) = (one.sent(), other.sent());
    // Made sure of as often as memoryd was started: once is enough to compare.
    let ours = counted(law, &ours);
    let theirs = counted(law, &theirs);
    met.compared += ours.len();
    for (sent, nth) in &ours {
        if theirs.contains(&(sent.clone(), *nth)) {
            continue;
        }
        let excused = sent.of.as_ref().is_some_and(|(session, turn)| {
            // A place is made sure of for the first turn that goes there, whichever that is.
            let mut turns = turn.map_or(1..=one.turns(session), |turn| turn..=turn);
            let higher = turns.any(|turn| {
                let (here, there) = (one.label(session, turn), other.label(session, turn));
                there != here && there.covers(here)
            });
            one.kind(session) == Kind::Searching && higher
        });
        assert!(
            excused,
            "it leaves for {:?} in one run alone: {}",
            sent.role, sent.what
        );
        met.suppressed += 1;
    }
}

/// Requests with which of their likes each is; what is only made sure of, once.
fn counted(law: Law, sent: &[Sent]) -> BTreeSet<(Sent, usize)> {
    let mut counted = BTreeSet::new();
    for sent in sent.iter().filter(|sent| law.holds_for(sent.role)) {
        let mut nth = 0;
        while !counted.insert((sent.clone(), nth)) && !is_ensured(sent) {
            nth += 1;
        }
    }
    counted
}

fn is_ensured(sent: &Sent) -> bool {
    ["Workspace", "Repair", "Peer", "Session"]
        .iter()
        .any(|kind| sent.what.starts_with(kind))
}

/// A run with accidents sends nothing that the run without did not. It may send less, and what was decided late may
/// be in the untrusted workspace instead of the trusted one.
fn compare_faulty(law: Law, faulty: &Life, calm: &Life, met: &mut Met) {
    let calm: BTreeSet<_> = calm.sent().into_iter().collect();
    for sent in faulty.sent() {
        if law.holds_for(sent.role) && !is_ensured(&sent) {
            let clean = Sent {
                role: Role::Trusted,
                ..sent.clone()
            };
            let late = sent.role == Role::Untrusted && calm.contains(&clean);
            assert!(
                late || calm.contains(&sent),
                "it leaves for {:?} only when things go wrong: {}",
                sent.role,
                sent.what
            );
            met.with_faults += 1;
        }
    }
}

/// What is asked after is what was written, or would have been.
fn compare_asked(law: Law, life: &Life, calm: &Life) {
    let sent = calm.sent();
    for (role, begins) in life.asked() {
        assert!(
            !law.holds_for(role) || sent.iter().any(|sent| sent.what.starts_with(&begins)),
            "it is asked after in {role:?}, and nobody wrote it: {begins}"
        );
    }
}

/// No letter's own word is in what goes to the trusted workspace, and no vault's anywhere, in any form.
fn check_canaries(script: &Script, bytes: Bytes, life: &Life) {
    let secret: String = format!("{:?}", life.world.requests);
    let trusted = life.world.requests.iter();
    let trusted: Vec<_> = trusted
        .filter(|request| request.role() == Role::Trusted)
        .collect();
    let trusted = format!("{trusted:?}");
    for act in &script.acts {
        let script::Act::Open(_, source) = act else {
            continue;
        };
        let (all, what) = match source {
            Source::Page(_) => continue,
            Source::Letter(_) => (&trusted, "the trusted workspace"),
            Source::Vault(_) => (&secret, "a workspace"),
        };
        let text = bytes.text(*source);
        let canary = text.rsplit(' ').next().expect("a word");
        // First letters and choice of words are no form that can be told from others'.
        for form in [0, 1, 2, 6] {
            let form = model::FORMS[form](canary);
            assert!(!all.contains(&form), "`{form}` of `{text}` is in {what}");
        }
    }
}

fn check(law: Law) {
    let mut met = Met::default();
    let all = seeds();
    let chosen = |seed: &u64| all.len() == 1 || seed % SEEDS_PER_PAIR == 1;
    for seed in all.iter().copied().filter(chosen) {
        let _seed = Seed(seed);
        let script = Script::new(seed);
        let bytes = law.bytes(seed);
        let [one, other] = bytes.map(|bytes| Life::run(&script, bytes, None));
        compare(law, &one, &other, &mut met);
        compare(law, &other, &one, &mut met);
        check_canaries(&script, bytes[0], &one);
        let faulty = Life::run(&script, bytes[1], Some(seed));
        compare_faulty(law, &faulty, &other, &mut met);
        for (life, calm) in [(&one, &one), (&other, &other), (&faulty, &other)] {
            compare_asked(law, life, calm);
        }
        met.pairs += 1;
        met.differed += usize::from(is_told(law, &one, &other));
        for request in &one.world.requests {
            met.conclusions += usize::from(matches!(request, Request::Conclude { .. }));
            met.deletions += usize::from(matches!(request, Request::Unconclude { .. }));
            met.cards += usize::from(matches!(request, Request::SetCard { .. }));
        }
    }
    println!("{law:?}: {met:?}");
    if std::env::var_os("BX_SEED").is_none() {
        assert!(met.differed * 2 > met.pairs, "{met:?}");
        assert!(met.compared > met.pairs * 50, "{met:?}");
        assert!(
            met.conclusions > met.pairs && met.deletions > 0 && met.cards > 0,
            "{met:?}"
        );
        assert!(
            met.suppressed > 0 && met.with_faults > met.pairs * 20,
            "{met:?}"
        );
    }
}

/// Whether what may depend on the bytes does: what goes elsewhere, or what memory holds.
fn is_told(law: Law, one: &Life, other: &Life) -> bool {
    let told = |life: &Life| match law {
        Law::Trust => {
            let sent = life.sent().into_iter();
            let others = sent.filter(|sent| sent.role != Role::Trusted);
            others.map(|sent| sent.what).collect::<Vec<_>>()
        }
        Law::Class => {
            let edits = life.world.edits.iter();
            let secret = edits.filter(|edit| edit.label.class == Class::Secret);
            secret.map(|edit| format!("{:?}", edit.changes)).collect()
        }
    };
    told(one) != told(other)
}

#[test]
fn no_request_to_the_trusted_workspace_depends_on_untrusted_bytes() {
    check(Law::Trust);
}

#[test]
fn no_request_to_any_workspace_depends_on_secret_bytes() {
    check(Law::Class);
}

/// Beside the end-to-end test of the same attack, which has forty clean sessions and everything that is real.
#[test]
fn at_06_in_simulation_a_plant_met_after_a_thousand_clean_sessions_changes_no_trusted_byte() {
    const CLEAN_SESSIONS: usize = 1_000;
    let script = Script::dormant(CLEAN_SESSIONS);
    let bytes = Law::Trust.bytes(6);
    let [one, other] = bytes.map(|bytes| Life::run(&script, bytes, None));
    let mut met = Met::default();
    compare(Law::Trust, &one, &other, &mut met);
    compare(Law::Trust, &other, &one, &mut met);
    assert!(is_told(Law::Trust, &one, &other), "the plant does nothing");
    for (life, bytes) in [(&one, bytes[0]), (&other, bytes[1])] {
        check_canaries(&script, bytes, life);
        let plant = bytes.text(Source::Letter(0));
        for (at, session) in life.world.sessions.iter().enumerate() {
            let label = life.label(&session.id, session.turns);
            let clean = life.kind(&session.id) == Kind::Clean;
            assert_eq!(label.is_untrusted(), !clean, "session {at}");
            assert_eq!(
                life.read(at).concat().contains(&plant),
                !clean,
                "session {at}"
            );
        }
    }
    assert!(
        met.compared >= 4 * CLEAN_SESSIONS && met.suppressed == 0,
        "{met:?}"
    );
}
