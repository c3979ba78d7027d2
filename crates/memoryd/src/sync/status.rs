//! What `bxctl memory sync` and `why` show, made from the outbox. Pure; never a text, never a key.

use std::collections::BTreeSet;

use bxcore::{clock::Millis, runbook};
use bxwire::{
    ItemId, SessionId,
    links::control::{Health, ItemNote, Notice, Sync, Wait, Why, WhyStep, WorkspaceSync},
};

use super::{
    config::Role,
    decide::WaitReason,
    ledger::{Entry, Place, Step, StepRef, StepState},
    outbox::Outbox,
    space::Outage,
};

/// An hour: turns that wait for longer are worth a warning.
const WAITING_MS_MAX: u64 = 3_600_000;

/// Everything `bxctl memory sync` shows. Looks at what is open or failed, never at all that was ever sent.
#[must_use]
pub fn sync(outbox: &Outbox, now: Millis) -> Sync {
    let ledger = outbox.ledger();
    let mut workspaces: Vec<_> = Role::ALL
        .iter()
        .map(|role| workspace(outbox, *role))
        .collect();
    let mut in_doubt = BTreeSet::new();
    for place in ledger.open_places() {
        let counts = &mut workspaces[place.role as usize];
        for (_, step) in ledger.open_at(place) {
            if outbox.in_doubt(&step) {
                counts.waiting -= 1;
                counts.in_doubt += 1;
                in_doubt.insert(step.item);
            } else if let Some(entry) = ledger.entry(&step.item) {
                let age = now.since(entry.decided.at) / 1000;
                let oldest = counts.oldest_waiting_s.unwrap_or(0);
                counts.oldest_waiting_s = Some(oldest.max(age));
            }
        }
    }
    let note = |item: ItemId, why: String, status, entry: runbook::Runbook| ItemNote {
        item,
        why,
        status,
        runbook: entry.anchor().into(),
    };
    let undecided = outbox.undecided().filter_map(|(item, reason)| {
        let reason = reason?;
        let entry = match reason {
            WaitReason::BrokerAway => runbook::BROKER_STATE_UNAVAILABLE,
            WaitReason::BrokerForgot => runbook::SESSION_NOT_SEEN,
        };
        Some(note(item, reason.words().into(), None, entry))
    });
    let failed = ledger
        .failed()
        .filter_map(|step| match ledger.state(step)? {
            StepState::Failed { kind, status } => Some(note(
                step.item.clone(),
                kind.clone(),
                *status,
                runbook::HONCHO_SEND_REFUSED,
            )),
            _ => None,
        });
    let doubtful = "nobody knows yet whether it arrived";
    Sync {
        configured: true,
        undecided: undecided.collect(),
        failed: failed.collect(),
        in_doubt: in_doubt
            .into_iter()
            .map(|item| note(item, doubtful.into(), None, runbook::HONCHO_IN_DOUBT))
            .collect(),
        skipped: ledger
            .skipped()
            .map(|(reason, count)| (reason.words().into(), count))
            .collect(),
        workspaces,
        health: health(outbox),
    }
}

fn health(outbox: &Outbox) -> Option<Health> {
    let health = outbox.health();
    let warnings: Vec<_> = health
        .warnings()
        .map(|warning| Notice {
            text: warning.text(),
            runbook: Some(warning.runbook().anchor().into()),
        })
        .collect();
    let queue = health.queue();
    if queue.is_none() && warnings.is_empty() {
        return None;
    }
    Some(Health {
        asked_at: queue.map(|(at, _)| at.to_string()),
        pending: queue.map(|(_, queue)| queue.pending),
        derives: queue.map(|(_, queue)| queue.derives),
        warnings,
    })
}

fn workspace(outbox: &Outbox, role: Role) -> WorkspaceSync {
    let counts = outbox.ledger().counts(role);
    WorkspaceSync {
        role: role.name().into(),
        name: outbox.config().workspace(role).into(),
        decided: counts.decided,
        waiting: counts.open,
        sent: counts.sent,
        failed: counts.failed,
        in_doubt: 0,
        withdrawn: counts.withdrawn,
        cancelled: counts.cancelled,
        oldest_waiting_s: None,
        wait: wait(outbox, role),
    }
}

/// Why nothing is sent to a workspace now; the reason that lasts longest.
fn wait(outbox: &Outbox, role: Role) -> Option<Wait> {
    let space = outbox.space(role);
    let key_refused = space.key_refused;
    // An outage that nothing waits for is nobody's: it is not tried again either.
    if outbox.ledger().counts(role).open == 0 && key_refused.is_none() {
        return None;
    }
    if let Some((since, _)) = key_refused {
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
        // Before that time: it is tried at once.
        next: Some(outage.next.max(outage.since).to_string()),
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
    let items: BTreeSet<_> = outbox.ledger().failed().map(|step| &step.item).collect();
    items.into_iter().cloned().collect()
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
                None if outbox.appends_fail() => "none yet: the ledger cannot be written".into(),
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

/// The item that deleted or retracted, at Honcho, what this step made there, or the session it stood in.
fn taken_back(outbox: &Outbox, made: &StepRef) -> Option<ItemId> {
    let ledger = outbox.ledger();
    let place = ledger.place(made)?;
    let takes = |(step, state): &(StepRef, &StepState)| {
        let this = match ledger.step(step) {
            Some(Step::Unconclude { of } | Step::Retract { of }) => of == made,
            Some(Step::DeleteSession { role, session }) => {
                *role == place.role && *session == place.session && step.item != made.item
            }
            _ => false,
        };
        this && matches!(state, StepState::Sent { .. })
    };
    // What takes it back was decided after it.
    let later = ledger
        .entries()
        .skip_while(|entry| entry.decided.item != made.item);
    let mut steps = later.flat_map(steps);
    steps.find(takes).map(|(step, _)| step.item)
}

fn roles(outbox: &Outbox, entry: &Entry) -> Vec<&'static str> {
    let mut roles = Vec::new();
    for place in steps(entry).filter_map(|(step, _)| outbox.ledger().place(&step)) {
        let role = place.role.name();
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    roles
}

fn what(step: &Step) -> String {
    match step {
        Step::Messages { peer, .. } => format!("messages of {peer} and the agent"),
        Step::Conclude { peer, .. } => format!("conclusion about {peer}"),
        Step::Unconclude { of } => format!("delete the conclusion of {}", of.item),
        Step::Note { .. } => "note to the fleet".into(),
        Step::Retract { of } => format!("retract the note of {}", of.item),
        Step::Forget { id, .. } => format!("delete {id}, which Honcho had concluded"),
        Step::Card { .. } => "the owner's card".into(),
        Step::DeleteSession { .. } => "delete the session and all in it".into(),
    }
}

/// What a purge of the session deletes in Honcho, a line each.
#[must_use]
pub fn places(outbox: &Outbox, session: &SessionId) -> Vec<String> {
    let ledger = outbox.ledger();
    let line = |place: &Place| {
        let workspace = outbox.config().workspace(place.role);
        format!(
            "deletes the session {} in the workspace {workspace}",
            place.session
        )
    };
    ledger.places(session).map(line).collect()
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
    if outbox.appends_fail() {
        notice(
            "the ledger cannot be written: nothing is decided, sent or deleted at Honcho".into(),
            runbook::APPEND_FAILED.anchor(),
        );
    }
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
                "{} not sent",
                counted(sync.failed.len() as u64, "item was", "items were")
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
    notices.extend(sync.health.into_iter().flat_map(|health| health.warnings));
    notices
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
