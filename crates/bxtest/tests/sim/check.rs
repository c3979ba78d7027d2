//! The guarantees, looked for in what Honcho really holds and in what the disks really say.

mod coverage;
mod end;
mod memory;
mod purged;

use std::collections::BTreeMap;

use bxwire::{Class, EditId, ItemId, Label, Origin, SessionId, links::memory_tools::About, log};
use memoryd::edit::Change;
use memoryd::memory::{Contents, Memory, Note, is_fact};
use memoryd::purge::is_marker;
use memoryd::sync::{
    config::Role,
    decide::SkipReason,
    health::Warning,
    ledger::{Entry, Ledger, Step, StepRef, StepState},
    outbox::Outbox,
};

use crate::{
    honcho::{Conclusion, DERIVED},
    world::{COMMON, World},
};
pub use coverage::Coverage;

impl World {
    /// After every step.
    pub fn check(&mut self) {
        self.check_labels();
        self.check_trusted();
        self.check_once();
    }

    /// G4: no label falls, whoever restarts; and what left a daemon is never above what it says.
    fn check_labels(&mut self) {
        for session in &self.sessions {
            let in_log = log::session_label(&session.records);
            assert!(
                in_log.covers(session.truth),
                "loopd's log says {in_log}, the session read {}",
                session.truth
            );
            let (log_floor, broker_floor) = self
                .floor
                .entry(session.id.clone())
                .or_insert((in_log, Label::default()));
            assert!(in_log.covers(*log_floor), "loopd's label fell");
            *log_floor = in_log;
            if let Some(broker) = &self.broker {
                let label = broker.label(&session.id);
                // What was raised in memory alone may be lost with it; what was released may not.
                let lost = self.lost.get(&session.id).copied().unwrap_or(0);
                let released = session
                    .records
                    .iter()
                    .skip(lost)
                    .filter(|record| {
                        matches!(
                            record.body,
                            log::Body::ToolResult {
                                from_broker: true,
                                ..
                            }
                        )
                    })
                    .filter_map(|record| record.body.label())
                    .fold(Label::default(), Label::join);
                assert!(label.covers(released), "brokerd forgot what it released");
                assert!(label.covers(*broker_floor), "brokerd's durable label fell");
                *broker_floor = broker_floor.join(released);
            }
        }
    }

    fn truth_of_turn(&self, session: &SessionId, turn: u64) -> Label {
        let found = self.sessions.iter().find(|found| found.id == *session);
        let (truth, released) = *found
            .and_then(|found| found.truth_at.get(&turn))
            .expect("a turn that has ended");
        match self.lost.contains_key(session) {
            true => truth, // What brokerd alone knew went with its file.
            false => truth.join(released),
        }
    }

    fn truth_of(&self, item: &ItemId) -> Label {
        match item {
            ItemId::Turn { session, turn } => self.truth_of_turn(session, *turn),
            ItemId::Edit(id) => self.edit_truth[id],
        }
    }

    /// G1: what is in the trusted workspace was clean and at most private; nothing secret is anywhere.
    fn check_trusted(&self) {
        for role in Role::ALL {
            for (_, stored) in self.honcho.messages(role) {
                let truth = self.truth_of(&stored.message.item);
                assert!(
                    truth.class < Class::Secret,
                    "{:?} was secret",
                    stored.message.item
                );
                assert!(
                    role != Role::Trusted || !truth.is_untrusted(),
                    "{:?} is in the trusted workspace",
                    stored.message.item
                );
            }
        }
        for conclusion in &self.honcho.spaces[&Role::Trusted].conclusions {
            if conclusion.content == COMMON || conclusion.content.starts_with(DERIVED) {
                continue; // Whose it is, the ledger says: `check_ids`; Honcho's own are nobody's.
            }
            let truth = self.truth_of(&ItemId::Edit(edit_of(&conclusion.content)));
            assert!(
                truth.class < Class::Secret && !truth.is_untrusted(),
                "{} is in the trusted workspace",
                conclusion.content
            );
        }
        for line in &self.honcho.spaces[&Role::Trusted].card {
            if let Some(id) = line.strip_prefix("card of ") {
                let truth = self.truth_of(&id.parse().expect("an edit"));
                assert!(
                    truth.class < Class::Secret && !truth.is_untrusted(),
                    "`{line}` is on the card"
                );
            }
        }
        for role in [Role::Untrusted, Role::Fleet] {
            assert!(self.honcho.spaces[&role].card.is_empty());
            assert!(self.honcho.spaces[&role].conclusions.is_empty());
        }
    }

    /// G6: nothing is there twice, and G5: nothing was decided twice (the ledger refuses to read it).
    fn check_once(&self) {
        for ((role, item, part), count) in self.honcho.counts() {
            assert!(
                count == 1 || self.retried.contains(&item),
                "{item} part {part} is {count} times in {role:?}"
            );
        }
        let Some(outbox) = &self.outbox else { return };
        // Shown as not deleted: a redo writes it beside that.
        let left = |id: &String| {
            let ledger = outbox.ledger();
            let takes = |entry: &Entry| {
                let again = self.retried.contains(&entry.decided.item);
                let steps = entry.decided.steps.iter().zip(&entry.states);
                steps.into_iter().any(|(step, state)| {
                    matches!(step, Step::Unconclude { of }
                        if matches!(ledger.state(of), Some(StepState::Sent { ids, .. }) if ids.contains(id)))
                        && (again || matches!(state, StepState::Failed { .. }))
                })
            };
            ledger.entries().any(takes)
        };
        let mut conclusions = BTreeMap::<_, Vec<_>>::new();
        for found in &self.honcho.spaces[&Role::Trusted].conclusions {
            let same = conclusions.entry((&found.content, &found.session));
            same.or_default()
                .extend((!found.deleted).then_some(&found.id));
        }
        for ((content, session), ids) in conclusions {
            // The journal has no text of a purge's notes from then on, Honcho until it is told.
            if self.is_of_purged(session) {
                continue;
            }
            let of_edits = |edit: &&memoryd::edit::Edit| {
                let texts = edit
                    .changes
                    .iter()
                    .filter_map(memoryd::sync::prepare::new_text);
                texts
                    .into_iter()
                    .any(|text| text == content || is_marker(text))
            };
            let most = if content == COMMON {
                self.edits.iter().filter(of_edits).count()
            } else {
                1
            };
            let count = ids.len();
            assert!(
                count <= most || ids.into_iter().filter(|id| !left(id)).count() <= most,
                "`{content}` is {count} times in {session}"
            );
        }
    }
}

/// The edit whose text a conclusion is: `entry of e7`.
fn edit_of(content: &str) -> EditId {
    content
        .rsplit(' ')
        .next()
        .and_then(|id| id.parse().ok())
        .expect("a text of this world's")
}
