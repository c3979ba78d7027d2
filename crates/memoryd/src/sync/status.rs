//! What `bxctl memory sync` and `why` show, made from the outbox. Pure; never a text, never a key.

use std::collections::BTreeMap;

use bxcore::{clock::Millis, runbook};
use bxwire::{
    ItemId,
    links::control::{ItemNote, Notice, Sync, Wait, Why, WhyStep, WorkspaceSync},
};

use super::{
    config::Role,
    decide::WaitReason,
    ledger::{Entry, Step, StepRef, StepState},
    outbox::Outbox,
    space::Outage,
};

/// An hour: turns that wait for longer are worth a warning.
const WAITING_MS_MAX: u64 = 3_600_000;

/// Everything `bxctl memory sync` shows.
#[must_use]
pub fn sync(outbox: &Outbox, now: Millis) -> Sync {
    let mut sync = Sync {
        configured: true,
        workspaces: Role::ALL
            .iter()
            .map(|role| workspace(outbox, *role))
            .collect(),
        undecided: outbox
            .undecided()
            .filter_map(|(item, reason)| {
                let reason = reason?;
                Some(ItemNote {
                    item,
                    why: reason.words().into(),
                    status: None,
                    runbook: match reason {
                        WaitReason::BrokerAway => runbook::BROKER_STATE_UNAVAILABLE,
                        WaitReason::BrokerForgot => runbook::SESSION_NOT_SEEN,
                    }
                    .anchor()
                    .into(),
                })
            })
            .collect(),
        failed: Vec::new(),
        in_doubt: Vec::new(),
        skipped: Vec::new(),
    };
    let mut skipped = BTreeMap::<_, u64>::new();
    let mut oldest = BTreeMap::<Role, Millis>::new();
    for entry in outbox.ledger().entries() {
        if let Some(reason) = entry.decided.skip {
            *skipped.entry(reason).or_default() += 1;
        }
        let mut failed = None;
        let mut doubt = false;
        for (step, state) in steps(entry) {
            let Some(place) = outbox.ledger().place(&step) else {
                continue;
            };
            let counts = &mut sync.workspaces[place.role as usize];
            counts.decided += 1;
            match state {
                _ if outbox.in_doubt(&step) => {
                    counts.in_doubt += 1;
                    doubt = true;
                }
                StepState::Waiting | StepState::Trying(_) => {
                    counts.waiting += 1;
                    oldest.entry(place.role).or_insert(entry.decided.at);
                }
                StepState::Sent { .. } => counts.sent += 1,
                StepState::Failed { kind, status } => {
                    counts.failed += 1;
                    failed = Some((kind.clone(), *status));
                }
                StepState::Withdrawn => counts.withdrawn += 1,
                StepState::Cancelled => counts.cancelled += 1,
            }
        }
        let note = |why: String, status, entry_of: runbook::Runbook| ItemNote {
            item: entry.decided.item.clone(),
            why,
            status,
            runbook: entry_of.anchor().into(),
        };
        if let Some((kind, status)) = failed {
            sync.failed
                .push(note(kind, status, runbook::HONCHO_SEND_REFUSED));
        }
        if doubt {
            sync.in_doubt.push(note(
                "nobody knows yet whether it arrived".into(),
                None,
                runbook::HONCHO_IN_DOUBT,
            ));
        }
    }
    for (role, since) in oldest {
        sync.workspaces[role as usize].oldest_waiting_s = Some(now.since(since) / 1000);
    }
    sync.skipped = skipped
        .into_iter()
        .map(|(reason, count)| (reason.words().into(), count))
        .collect();
    sync
}

fn workspace(outbox: &Outbox, role: Role) -> WorkspaceSync {
    WorkspaceSync {
        role: role.name().into(),
        name: outbox.config().workspace(role).into(),
        decided: 0,
        waiting: 0,
        sent: 0,
        failed: 0,
        in_doubt: 0,
        withdrawn: 0,
        cancelled: 0,
        oldest_waiting_s: None,
        wait: wait(outbox, role),
    }
}

/// Why nothing is sent to a workspace now; the reason that lasts longest.
fn wait(outbox: &Outbox, role: Role) -> Option<Wait> {
    let space = outbox.space(role);
    if let Some((since, _)) = space.key_refused {
        return Some(Wait {
            reason: "the key is refused".into(),
            since: since.to_string(),
            tries: 1,
            next: None,
            runbook: runbook::HONCHO_KEY_REFUSED.anchor().into(),
        });
    }
    let shown = |outage: &Outage, entry: runbook::Runbook| Wait {
        reason: match outage.status {
            Some(status) => format!("{} (HTTP {status})", outage.reason),
            None => outage.reason.into(),
        },
        since: outage.since.to_string(),
        tries: outage.tries,
        next: Some(outage.next.to_string()),
        runbook: entry.anchor().into(),
    };
    let honcho = [&space.outage, &space.messages, &space.conclusions]
        .into_iter()
        .flatten()
        .max_by_key(|outage| outage.next);
    if let Some(outage) = honcho {
        let entry = if space.misconfigured {
            runbook::HONCHO_WORKSPACE_CONFIG
        } else {
            runbook::HONCHO_UNREACHABLE
        };
        return Some(shown(outage, entry));
    }
    outbox
        .broker_outage()
        .map(|outage| shown(outage, runbook::BROKER_STATE_UNAVAILABLE))
}

fn steps(entry: &Entry) -> impl Iterator<Item = (StepRef, &StepState)> {
    entry.states.iter().enumerate().map(|(step, state)| {
        let step = StepRef {
            item: entry.decided.item.clone(),
            step,
        };
        (step, state)
    })
}

/// Every item with a failed step.
#[must_use]
pub fn failed(outbox: &Outbox) -> Vec<ItemId> {
    outbox
        .ledger()
        .entries()
        .filter(|entry| {
            entry
                .states
                .iter()
                .any(|state| matches!(state, StepState::Failed { .. }))
        })
        .map(|entry| entry.decided.item.clone())
        .collect()
}

/// How an item was decided and where it is now. `facts` are what is known of it here.
#[must_use]
pub fn why(outbox: &Outbox, item: &ItemId, mut facts: Vec<(String, String)>) -> Why {
    let mut fact = |name: &str, value: String| facts.push((name.into(), value));
    let Some(entry) = outbox.ledger().entry(item) else {
        let waiting = outbox.undecided().find(|(waiting, _)| waiting == item);
        fact(
            "decision",
            match waiting {
                Some((_, Some(reason))) => format!("none yet: {}", reason.words()),
                Some((_, None)) => "none yet".into(),
                None => "none: it ended before Honcho was set up, or just now".into(),
            },
        );
        return Why {
            item: item.clone(),
            facts,
            steps: Vec::new(),
        };
    };
    let decided = &entry.decided;
    fact("decided", decided.at.to_string());
    fact("label, by the log", decided.log.to_string());
    if let Some(state) = decided.broker {
        let trust = if state.untrusted {
            "untrusted"
        } else {
            "clean"
        };
        let seen = if state.seen { "" } else { ", not seen" };
        fact(
            "label, by brokerd",
            format!("{}, {trust}{seen}", state.class.name()),
        );
    }
    fact(
        "decision",
        match (decided.skip, roles(outbox, entry).as_slice()) {
            (Some(reason), _) => format!("nowhere: {}", reason.words()),
            (None, roles) => format!("the {} workspace", roles.join(" and the ")),
        },
    );
    let steps = steps(entry)
        .map(|(step, state)| WhyStep {
            what: outbox.ledger().step(&step).map_or_else(String::new, what),
            state: match state {
                _ if outbox.in_doubt(&step) => "in doubt".into(),
                StepState::Waiting => "waiting".into(),
                StepState::Trying(_) => "sending".into(),
                StepState::Sent { found, .. } => {
                    let mut shown = String::from("sent");
                    if *found {
                        shown += ", found there after a try without an answer";
                    }
                    if let Some(by) = taken_back(outbox, &step) {
                        shown += &format!(", then taken back by {by}");
                    }
                    shown
                }
                StepState::Failed { kind, status } => match status {
                    Some(status) => format!("failed: {kind} (HTTP {status})"),
                    None => format!("failed: {kind}"),
                },
                StepState::Withdrawn => "withdrawn: the session became secret first".into(),
                StepState::Cancelled => "cancelled before it was sent".into(),
            },
            place: outbox
                .ledger()
                .place(&step)
                .map_or_else(String::new, |place| {
                    let workspace = outbox.config().workspace(place.role);
                    format!("workspace {workspace}, session {}", place.session)
                }),
            ids: match state {
                StepState::Sent { ids, .. } => ids.clone(),
                _ => Vec::new(),
            },
        })
        .collect();
    Why {
        item: item.clone(),
        facts,
        steps,
    }
}

/// The item that deleted or retracted, at Honcho, what this step made there.
fn taken_back(outbox: &Outbox, made: &StepRef) -> Option<ItemId> {
    let takes = |(step, state): &(StepRef, &StepState)| {
        let of = match outbox.ledger().step(step) {
            Some(Step::Unconclude { of } | Step::Retract { of }) => of,
            _ => return false,
        };
        of == made && matches!(state, StepState::Sent { .. })
    };
    let mut steps = outbox.ledger().entries().flat_map(steps);
    steps.find(takes).map(|(step, _)| step.item)
}

fn roles(outbox: &Outbox, entry: &Entry) -> Vec<&'static str> {
    let mut roles: Vec<_> = steps(entry)
        .filter_map(|(step, _)| outbox.ledger().place(&step))
        .map(|place| place.role.name())
        .collect();
    roles.dedup();
    roles
}

fn what(step: &Step) -> String {
    match step {
        Step::Messages { peer, .. } => format!("messages of {peer} and the agent"),
        Step::Conclude { peer, .. } => format!("conclusion about {peer}"),
        Step::Unconclude { of } => format!("delete the conclusion of {}", of.item),
        Step::Note { .. } => "note to the fleet".into(),
        Step::Retract { of } => format!("retract the note of {}", of.item),
    }
}

/// What a person should know without asking for it.
#[must_use]
pub fn notices(outbox: &Outbox, now: Millis) -> Vec<Notice> {
    let sync = sync(outbox, now);
    let mut notices = Vec::new();
    let mut notice = |text: String, entry: &str| {
        notices.push(Notice {
            text,
            runbook: Some(entry.into()),
        });
    };
    for workspace in &sync.workspaces {
        if let Some(wait) = &workspace.wait
            && workspace.waiting + workspace.in_doubt > 0
        {
            notice(
                format!(
                    "{} for the {} workspace: {}",
                    counted(
                        workspace.waiting + workspace.in_doubt,
                        "item waits",
                        "items wait"
                    ),
                    workspace.role,
                    wait.reason
                ),
                &wait.runbook,
            );
        } else if workspace
            .oldest_waiting_s
            .is_some_and(|s| s * 1000 > WAITING_MS_MAX)
        {
            notice(
                format!(
                    "items have waited for over an hour for the {} workspace",
                    workspace.role
                ),
                runbook::HONCHO_UNREACHABLE.anchor(),
            );
        }
    }
    if !sync.failed.is_empty() {
        notice(
            format!(
                "Honcho refused {}",
                counted(sync.failed.len() as u64, "item", "items")
            ),
            runbook::HONCHO_SEND_REFUSED.anchor(),
        );
    }
    if !sync.undecided.is_empty() {
        notice(
            counted(
                sync.undecided.len() as u64,
                "turn cannot be decided",
                "turns cannot be decided",
            ),
            &sync.undecided[0].runbook,
        );
    }
    notices
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
