//! How a turn ended, as its log tells it. Called by `turn` when a key comes again; takes values only.

use bxwire::{
    links::turns::TurnEvent,
    log::{Body, Outcome, Record, session_label},
};

/// The turn that a key began.
#[must_use]
pub fn turn_of(records: &[Record], wanted: &str) -> Option<u64> {
    records.iter().find_map(|record| match &record.body {
        Body::User { turn, key, .. } if key == wanted => Some(*turn),
        _ => None,
    })
}

/// The event that ended a turn.
#[must_use]
pub fn of(records: &[Record], wanted: u64) -> TurnEvent {
    let end = records
        .iter()
        .position(|record| matches!(&record.body, Body::TurnEnd { turn, .. } if *turn == wanted));
    let until = end.map_or(records, |end| &records[..=end]);
    match end.map(|end| &records[end].body) {
        Some(Body::TurnEnd {
            outcome: Outcome::Replied,
            ..
        }) => {
            let text = until.iter().rev().find_map(|record| match &record.body {
                Body::Assistant { turn, text, .. } if *turn == wanted => Some(text.clone()),
                _ => None,
            });
            TurnEvent::Reply {
                text: text.unwrap_or_default(),
                label: session_label(until),
            }
        }
        Some(Body::TurnEnd {
            reason, runbook, ..
        }) => TurnEvent::Failed {
            reason: reason
                .clone()
                .unwrap_or_else(|| "the turn had no reply".into()),
            runbook: runbook.clone().unwrap_or_else(interrupted),
        },
        _ => TurnEvent::Failed {
            reason: "the turn has no end".into(),
            runbook: interrupted(),
        },
    }
}

fn interrupted() -> String {
    bxcore::runbook::TURN_INTERRUPTED.anchor().into()
}
