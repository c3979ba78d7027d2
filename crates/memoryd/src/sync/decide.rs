//! Where a turn or an edit goes, if anywhere. Pure: facts in, a decision out; called by `outbox` with what
//! brokerd and the log say. Only this module can vouch that both labels were clean.

use bxwire::{
    Class, Label, Origin, Trust,
    links::{control::OwnerDecision, session_state::SessionState},
    log::Outcome,
};
use serde::{Deserialize, Serialize};

use crate::edit::KeptLocal;

/// Proof that brokerd's and loopd's labels were both clean and at most private. Only this module makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clean(());

/// Everything a turn's decision depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnFacts {
    pub outcome: Outcome,
    pub origin: Origin,
    pub who: Who,
    pub content: Content,
    /// It ended before the ledger was opened.
    pub before_opening: bool,
    /// loopd's label of the session at the turn's end.
    pub log: Label,
    /// The log holds a result that brokerd gave, so brokerd must have seen the session.
    pub broker_results: bool,
    /// brokerd's word; `None`: it did not answer.
    pub broker: Option<SessionState>,
    /// The owner's word on a session that brokerd cannot vouch for.
    pub owner: Option<OwnerDecision>,
}

/// Whose words the turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Nobody, or several people.
    Nobody,
    /// A person whose name makes no peer.
    Unnameable,
    /// A speaker or a source the owner excluded.
    Excluded,
    Known,
}

/// What the texts are, as far as a decision needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Plain,
    /// The words or the reply are missing.
    Empty,
    /// A secret rule matches.
    Secret,
    MaybeSecret,
    /// More parts than a turn may have.
    TooLong,
    /// The owner had them removed.
    Purged,
}

/// What becomes of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Trusted(Clean),
    Untrusted,
    Skip(SkipReason),
    Wait(WaitReason),
}

/// Why an item goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    NotReplied,
    NotInteractive,
    Empty,
    BeforeOpening,
    NoSpeaker,
    Excluded,
    SecretClass,
    SecretText,
    MaybeSecret,
    TooLong,
    Flagged,
    /// An edit with nothing to tell Honcho.
    NothingToSend,
    /// The owner said so.
    Owner,
    /// The owner had its texts removed before.
    Purged,
}

impl SkipReason {
    /// The words a person reads.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NotReplied => "the turn failed, was cancelled or was interrupted",
            Self::NotInteractive => "the turn was not a person's",
            Self::Empty => "there were no words, or no reply",
            Self::BeforeOpening => "it ended before Honcho was set up",
            Self::NoSpeaker => "it was not one known person's words",
            Self::Excluded => "its speaker or source is excluded",
            Self::SecretClass => "the session is secret",
            Self::SecretText => "a secret rule matches its text",
            Self::MaybeSecret => "its text may hold a key",
            Self::TooLong => "it is too long",
            Self::Flagged => "its text reads like instructions",
            Self::NothingToSend => "it changes nothing in Honcho",
            Self::Owner => "the owner decided so",
            Self::Purged => "its session was purged",
        }
    }
}

/// Why nothing can be decided yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// brokerd did not answer.
    BrokerAway,
    /// brokerd gave results in this session and now says it has never seen it.
    BrokerForgot,
}

impl WaitReason {
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::BrokerAway => "brokerd does not answer",
            Self::BrokerForgot => "brokerd has not seen a session that it gave results in",
        }
    }
}

/// Where a turn goes. A reason to keep it here comes before every reason to wait, since it cannot go away.
#[must_use]
pub fn decide(facts: &TurnFacts) -> Decision {
    if let Some(reason) = keep(facts) {
        return Decision::Skip(reason);
    }
    let Some(broker) = facts.broker else {
        return Decision::Wait(WaitReason::BrokerAway);
    };
    if broker.class == Class::Secret {
        return Decision::Skip(SkipReason::SecretClass);
    }
    if facts.owner == Some(OwnerDecision::Untrusted) {
        return Decision::Untrusted;
    }
    if facts.broker_results && !broker.seen {
        return Decision::Wait(WaitReason::BrokerForgot);
    }
    match (broker.untrusted, facts.log.trust) {
        (false, Trust::Trusted) => Decision::Trusted(Clean(())),
        (true, _) | (_, Trust::Untrusted) => Decision::Untrusted,
    }
}

/// Reasons that hold whatever brokerd says.
fn keep(facts: &TurnFacts) -> Option<SkipReason> {
    if facts.before_opening {
        return Some(SkipReason::BeforeOpening);
    }
    if facts.outcome != Outcome::Replied {
        return Some(SkipReason::NotReplied);
    }
    if facts.origin != Origin::Interactive {
        return Some(SkipReason::NotInteractive);
    }
    match facts.who {
        Who::Nobody | Who::Unnameable => return Some(SkipReason::NoSpeaker),
        Who::Excluded => return Some(SkipReason::Excluded),
        Who::Known => {}
    }
    if facts.log.class == Class::Secret {
        return Some(SkipReason::SecretClass);
    }
    if facts.owner == Some(OwnerDecision::Skip) {
        return Some(SkipReason::Owner);
    }
    match facts.content {
        Content::Plain => None,
        Content::Empty => Some(SkipReason::Empty),
        Content::Secret => Some(SkipReason::SecretText),
        Content::MaybeSecret => Some(SkipReason::MaybeSecret),
        Content::TooLong => Some(SkipReason::TooLong),
        Content::Purged => Some(SkipReason::Purged),
    }
}

/// Everything an edit's decision depends on. Its label was joined from both daemons when it was journalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditFacts {
    pub label: Label,
    pub kept_local: Option<KeptLocal>,
    pub excluded: bool,
    pub before_opening: bool,
    pub secret_text: bool,
}

/// Where an edit's new texts go. What it takes back goes wherever those texts are, whatever this says.
#[must_use]
pub fn decide_edit(facts: &EditFacts) -> Decision {
    let skip = |reason| Decision::Skip(reason);
    if facts.before_opening {
        return skip(SkipReason::BeforeOpening);
    }
    if facts.label.class == Class::Secret {
        return skip(SkipReason::SecretClass);
    }
    if facts.excluded {
        return skip(SkipReason::Excluded);
    }
    if facts.secret_text {
        return skip(SkipReason::SecretText);
    }
    match facts.kept_local {
        Some(KeptLocal::Flagged) => return skip(SkipReason::Flagged),
        Some(KeptLocal::MaybeSecret) => return skip(SkipReason::MaybeSecret),
        None => {}
    }
    match facts.label.trust {
        Trust::Trusted => Decision::Trusted(Clean(())),
        Trust::Untrusted => Decision::Untrusted,
    }
}

/// What brokerd's word just before a send means for an item that was decided when brokerd said `then`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLook {
    Send,
    /// Secret now: not sent, though it was decided before.
    Withdraw,
    Wait(WaitReason),
}

/// The look just before a send.
#[must_use]
pub fn last_look(seen_then: bool, now: Option<SessionState>) -> LastLook {
    match now {
        None => LastLook::Wait(WaitReason::BrokerAway),
        Some(state) if state.class == Class::Secret => LastLook::Withdraw,
        Some(state) if seen_then && !state.seen => LastLook::Wait(WaitReason::BrokerForgot),
        Some(_) => LastLook::Send,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const CLEAN: TurnFacts = TurnFacts {
        outcome: Outcome::Replied,
        origin: Origin::Interactive,
        who: Who::Known,
        content: Content::Plain,
        before_opening: false,
        log: Label::PRIVATE,
        broker_results: false,
        broker: Some(SEEN),
        owner: None,
    };
    const SEEN: SessionState = SessionState {
        class: Class::Private,
        untrusted: false,
        seen: true,
    };
    const UNSEEN: SessionState = SessionState {
        seen: false,
        ..SEEN
    };

    #[test]
    fn the_table_row_for_row() {
        let trusted = Decision::Trusted(Clean(()));
        let skip = Decision::Skip;
        let rows = [
            ("clean, private", CLEAN, trusted),
            (
                "clean, public",
                TurnFacts {
                    log: Label::new(Class::Public, Trust::Trusted),
                    broker: Some(SessionState {
                        class: Class::Public,
                        ..SEEN
                    }),
                    ..CLEAN
                },
                trusted,
            ),
            (
                "untrusted by the log",
                TurnFacts {
                    log: Label::UNLABELLED,
                    ..CLEAN
                },
                Decision::Untrusted,
            ),
            (
                "untrusted by brokerd",
                TurnFacts {
                    broker: Some(SessionState {
                        untrusted: true,
                        ..SEEN
                    }),
                    ..CLEAN
                },
                Decision::Untrusted,
            ),
            (
                "secret by brokerd",
                TurnFacts {
                    broker: Some(SessionState {
                        class: Class::Secret,
                        ..SEEN
                    }),
                    ..CLEAN
                },
                skip(SkipReason::SecretClass),
            ),
            (
                "secret by the log",
                TurnFacts {
                    log: Label::new(Class::Secret, Trust::Trusted),
                    ..CLEAN
                },
                skip(SkipReason::SecretClass),
            ),
            (
                "no speaker",
                TurnFacts {
                    who: Who::Nobody,
                    ..CLEAN
                },
                skip(SkipReason::NoSpeaker),
            ),
            (
                "a key in the text",
                TurnFacts {
                    content: Content::Secret,
                    ..CLEAN
                },
                skip(SkipReason::SecretText),
            ),
            (
                "brokerd away",
                TurnFacts {
                    broker: None,
                    ..CLEAN
                },
                Decision::Wait(WaitReason::BrokerAway),
            ),
            (
                "no tool call was made",
                TurnFacts {
                    broker: Some(UNSEEN),
                    ..CLEAN
                },
                trusted,
            ),
            (
                "brokerd lost its state",
                TurnFacts {
                    broker: Some(UNSEEN),
                    broker_results: true,
                    ..CLEAN
                },
                Decision::Wait(WaitReason::BrokerForgot),
            ),
            (
                "the owner's way out",
                TurnFacts {
                    broker: Some(UNSEEN),
                    broker_results: true,
                    owner: Some(OwnerDecision::Untrusted),
                    ..CLEAN
                },
                Decision::Untrusted,
            ),
        ];
        for (name, facts, want) in rows {
            assert_eq!(decide(&facts), want, "{name}");
        }
    }

    /// Every combination of facts.
    pub(crate) fn all() -> Vec<TurnFacts> {
        let mut all = vec![CLEAN];
        let mut each = |change: &dyn Fn(TurnFacts) -> Vec<TurnFacts>| {
            all = all.iter().copied().flat_map(change).collect();
        };
        each(&|f| {
            Outcome::ALL
                .map(|outcome| TurnFacts { outcome, ..f })
                .into()
        });
        each(&|f| Origin::ALL.map(|origin| TurnFacts { origin, ..f }).into());
        each(&|f| {
            [Who::Nobody, Who::Unnameable, Who::Excluded, Who::Known]
                .map(|who| TurnFacts { who, ..f })
                .into()
        });
        each(&|f| {
            use Content::{Empty, MaybeSecret, Plain, Secret, TooLong};
            [Plain, Empty, Secret, MaybeSecret, TooLong]
                .map(|content| TurnFacts { content, ..f })
                .into()
        });
        each(&|f| {
            [false, true]
                .map(|before_opening| TurnFacts {
                    before_opening,
                    ..f
                })
                .into()
        });
        each(&|f| Label::all().map(|log| TurnFacts { log, ..f }).collect());
        each(&|f| {
            [false, true]
                .map(|broker_results| TurnFacts {
                    broker_results,
                    ..f
                })
                .into()
        });
        each(&|f| {
            let mut states = vec![None];
            for label in Label::all() {
                for seen in [false, true] {
                    states.push(Some(SessionState {
                        class: label.class,
                        untrusted: label.is_untrusted(),
                        seen,
                    }));
                }
            }
            states
                .into_iter()
                .map(|broker| TurnFacts { broker, ..f })
                .collect()
        });
        each(&|f| {
            [
                None,
                Some(OwnerDecision::Untrusted),
                Some(OwnerDecision::Skip),
            ]
            .map(|owner| TurnFacts { owner, ..f })
            .into()
        });
        all
    }

    /// How far from the trusted workspace a decision is; waiting is no decision.
    fn distance(decision: Decision) -> Option<u8> {
        match decision {
            Decision::Trusted(_) => Some(0),
            Decision::Untrusted => Some(1),
            Decision::Skip(_) => Some(2),
            Decision::Wait(_) => None,
        }
    }

    #[test]
    fn over_every_combination_only_a_doubly_clean_turn_is_trusted() {
        for facts in all() {
            match decide(&facts) {
                Decision::Trusted(_) => {
                    let broker = facts.broker.expect("brokerd answered");
                    assert!(
                        !broker.untrusted && broker.class <= Class::Private,
                        "{facts:?}"
                    );
                    assert!(!facts.log.is_untrusted(), "{facts:?}");
                    assert!(facts.log.class <= Class::Private, "{facts:?}");
                    assert!(broker.seen || !facts.broker_results, "{facts:?}");
                    assert!(facts.owner.is_none(), "{facts:?}");
                }
                Decision::Untrusted => {
                    let broker = facts.broker.expect("brokerd answered");
                    assert!(
                        broker.class.max(facts.log.class) <= Class::Private,
                        "{facts:?}"
                    );
                }
                Decision::Skip(_) | Decision::Wait(_) => {}
            }
        }
    }

    #[test]
    fn over_every_combination_a_higher_label_never_moves_a_turn_towards_trusted() {
        for facts in all() {
            let now = decide(&facts);
            for label in Label::all() {
                let raised = TurnFacts {
                    log: facts.log.join(label),
                    broker: facts.broker.map(|state| SessionState {
                        class: state.class.max(label.class),
                        untrusted: state.untrusted || label.is_untrusted(),
                        ..state
                    }),
                    ..facts
                };
                if let (Some(now), Some(later)) = (distance(now), distance(decide(&raised))) {
                    assert!(later >= now, "{facts:?} {raised:?}");
                }
            }
        }
    }

    #[test]
    fn an_edit_follows_its_own_label() {
        let base = EditFacts {
            label: Label::PRIVATE,
            kept_local: None,
            excluded: false,
            before_opening: false,
            secret_text: false,
        };
        assert!(matches!(decide_edit(&base), Decision::Trusted(_)));
        let untrusted = EditFacts {
            label: Label::UNLABELLED,
            ..base
        };
        assert_eq!(decide_edit(&untrusted), Decision::Untrusted);
        let flagged = EditFacts {
            kept_local: Some(KeptLocal::Flagged),
            ..untrusted
        };
        assert_eq!(decide_edit(&flagged), Decision::Skip(SkipReason::Flagged));
        let secret = EditFacts {
            label: Label::new(Class::Secret, Trust::Trusted),
            ..base
        };
        assert_eq!(
            decide_edit(&secret),
            Decision::Skip(SkipReason::SecretClass)
        );
    }

    #[test]
    fn the_last_look_stops_what_became_secret_and_waits_for_a_broker_that_forgot() {
        assert_eq!(last_look(true, Some(SEEN)), LastLook::Send);
        assert_eq!(last_look(false, Some(UNSEEN)), LastLook::Send);
        assert_eq!(
            last_look(true, Some(UNSEEN)),
            LastLook::Wait(WaitReason::BrokerForgot)
        );
        assert_eq!(
            last_look(true, None),
            LastLook::Wait(WaitReason::BrokerAway)
        );
        let secret = SessionState {
            class: Class::Secret,
            ..SEEN
        };
        assert_eq!(last_look(true, Some(secret)), LastLook::Withdraw);
    }
}
