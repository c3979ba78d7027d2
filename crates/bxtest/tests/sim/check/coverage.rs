//! Counts of what a run met, so that one that met nothing proves nothing.

use super::*;

/// What the runs together came across.
#[derive(Debug, Default)]
pub struct Coverage {
    happened: BTreeMap<&'static str, u64>,
    faults: BTreeMap<&'static str, u64>,
    skipped: BTreeMap<SkipReason, u64>,
    ended: BTreeMap<&'static str, u64>,
    sent: BTreeMap<Role, u64>,
}

impl Coverage {
    pub fn add(&mut self, world: &World) {
        for (what, count) in &world.counts {
            *self.happened.entry(what).or_default() += count;
        }
        for (fault, count) in &world.honcho.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        let Some(outbox) = &world.outbox else { return };
        for entry in outbox.ledger().entries() {
            if let Some(reason) = entry.decided.skip {
                *self.skipped.entry(reason).or_default() += 1;
            }
            let purges = |step: &Step| matches!(step, Step::DeleteSession { .. });
            let purge = entry.decided.steps.iter().any(purges);
            for (step, state) in entry.states.iter().enumerate() {
                if purge && matches!(state, StepState::Sent { .. }) {
                    let what = match purges(&entry.decided.steps[step]) {
                        true => "session deleted",
                        false => "kept and written again",
                    };
                    *self.ended.entry(what).or_default() += 1;
                }
                let (name, sent) = match state {
                    StepState::Waiting => ("waiting", false),
                    StepState::Trying(_) => ("in doubt", false),
                    StepState::Sent { found: true, .. } => ("found after doubt", true),
                    StepState::Sent { .. } => ("sent", true),
                    StepState::Failed { .. } => ("failed", false),
                    StepState::Withdrawn => ("withdrawn", false),
                    StepState::Cancelled => ("cancelled", false),
                };
                *self.ended.entry(name).or_default() += 1;
                let step = StepRef {
                    item: entry.decided.item.clone(),
                    step,
                };
                if let Some(place) = outbox.ledger().place(&step).filter(|_| sent) {
                    *self.sent.entry(place.role).or_default() += 1;
                }
            }
        }
    }

    /// A simulation that meets nothing proves nothing.
    pub fn is_enough(&self) {
        for role in Role::ALL {
            assert!(
                self.sent.get(&role).is_some_and(|count| *count >= 50),
                "{self:?}"
            );
        }
        for end in [
            "sent",
            "found after doubt",
            "withdrawn",
            "cancelled",
            "session deleted",
            "kept and written again",
        ] {
            assert!(
                self.ended.get(end).is_some_and(|count| *count >= 10),
                "{end}: {self:?}"
            );
        }
        for reason in [
            SkipReason::NotReplied,
            SkipReason::NotInteractive,
            SkipReason::Empty,
            SkipReason::NoSpeaker,
            SkipReason::Excluded,
            SkipReason::SecretClass,
            SkipReason::SecretText,
        ] {
            assert!(self.skipped.contains_key(&reason), "{reason:?}: {self:?}");
        }
        for what in [
            "fact forgotten",
            "card replaced",
            "card after card",
            "noted twice",
            "several removed",
            "undo refused",
            "brokerd's file lost",
            "result lost by loopd",
        ] {
            assert!(
                self.happened.get(what).is_some_and(|count| *count >= 20),
                "{what}: {self:?}"
            );
        }
        assert!(self.happened.contains_key("the owner decided"), "{self:?}");
        assert!(self.faults.len() >= 10, "{self:?}");
        assert!(self.happened.len() >= 8, "{self:?}");
    }
}
