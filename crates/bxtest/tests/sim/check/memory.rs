//! What memory holds and Honcho holds of it agree: entries, facts, the card.

use super::*;

impl World {
    /// What memory holds and Honcho was told of is still there.
    pub(super) fn check_standing(&self, ledger: &Ledger) {
        let conclusions = &self.honcho.spaces[&Role::Trusted].conclusions;
        for id in ledger.standing(usize::MAX) {
            let there = |found: &&Conclusion| found.id == id && !found.deleted;
            assert!(
                conclusions.iter().any(|found| there(&found)),
                "{id} stands for something and is gone"
            );
        }
    }

    /// What was taken out of memory is not in the trusted workspace any more, unless taking it out is shown as
    /// failed or waits for what is in doubt.
    pub(super) fn check_undone(&self, outbox: &Outbox) {
        let mut live = BTreeMap::<&str, Option<&str>>::new();
        for edit in &self.edits {
            for change in &edit.changes {
                live.insert(change.subject(), memoryd::sync::prepare::new_text(change));
            }
        }
        let ledger = outbox.ledger();
        let settled = |id: &str| {
            let takes = |step: &Step| match step {
                Step::Unconclude { of } => matches!(ledger.state(of),
                    Some(StepState::Sent { ids, .. }) if ids.iter().any(|known| known == id)),
                _ => false,
            };
            ledger.entries().all(|entry| {
                let steps = entry.decided.steps.iter().zip(&entry.states);
                steps
                    .into_iter()
                    .all(|(step, state)| !takes(step) || matches!(state, StepState::Sent { .. }))
            })
        };
        for found in &self.honcho.spaces[&Role::Trusted].conclusions {
            let derived = found.content.starts_with(DERIVED);
            if found.deleted || found.content == COMMON || derived || !settled(&found.id) {
                continue;
            }
            if self.stays(Role::Trusted, &found.session) {
                continue;
            }
            let doubt = |step: &StepRef| outbox.in_doubt(step);
            let doubtful = ledger.entries().any(|entry| {
                let steps = (0..entry.states.len()).map(|step| StepRef {
                    item: entry.decided.item.clone(),
                    step,
                });
                steps.into_iter().any(|step| doubt(&step))
            });
            assert!(
                doubtful || live.values().any(|text| *text == Some(&found.content)),
                "`{}` was undone and is still there",
                found.content
            );
        }
    }

    /// Of equal conclusions each stands for a note of its own.
    pub(super) fn check_common(&self, outbox: &Outbox) {
        let ledger = outbox.ledger();
        let ids = |step: &StepRef| match ledger.state(step) {
            Some(StepState::Sent { ids, .. }) => ids.clone(),
            _ => Vec::new(),
        };
        let notes = self.memory.contents().notes().iter();
        let mut may: Vec<_> = notes
            .filter_map(|note| ledger.slot(&note.id))
            .flat_map(ids)
            .collect();
        let mut open = false;
        for entry in ledger.entries() {
            for (step, state) in entry.decided.steps.iter().zip(&entry.states) {
                match (step, state) {
                    (_, StepState::Sent { .. }) => {}
                    (Step::Unconclude { of }, _) => may.extend(ids(of)),
                    (Step::Conclude { .. }, StepState::Trying(_) | StepState::Failed { .. }) => {
                        open = true;
                    }
                    _ => {}
                }
            }
        }
        for found in &self.honcho.spaces[&Role::Trusted].conclusions {
            let stands = found.content == COMMON
                && !found.deleted
                && !self.stays(Role::Trusted, &found.session);
            assert!(
                !stands || open || may.contains(&found.id),
                "{} stands for no note any more",
                found.id
            );
        }
    }

    /// Each note of the fleet's that was taken out of memory is taken back there, once, and no other is: as a reader
    /// sees it, who knows notes by their names.
    pub(super) fn check_retracted(&self, outbox: &Outbox) {
        let ledger = outbox.ledger();
        let (mut noted, mut retracted) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        for (session, stored) in self.honcho.messages(Role::Fleet) {
            let message = &stored.message;
            let Some(of) = &message.retracts else {
                let known = noted.entry((session, &message.name));
                let (first, count) = known.or_insert((message, 0));
                *count += 1;
                let (one, other) = ((&first.item, first.part), (&message.item, message.part));
                assert_eq!(one, other, "two notes have one name");
                continue;
            };
            let begins = if of.moved { "moved: " } else { "retracted: " };
            let text = message.content.strip_prefix(begins).expect("its beginning");
            retracted.entry((session, &of.name)).or_default().push(text);
        }
        for (name, (message, count)) in noted {
            let (item, text) = (&message.item, &message.content);
            let this = StepRef {
                item: item.clone(),
                step: message.part,
            };
            let Some(Step::Note { slot, .. }) = ledger.step(&this) else {
                panic!("{item} is no note");
            };
            // Written last by this edit: a redo writes it anew.
            let writes =
                |change: &Change| matches!(change, Change::Noted { note, .. } if note == slot);
            let last = self
                .edits
                .iter()
                .rfind(|edit| edit.changes.iter().any(writes));
            let held = self.memory.contents().note(slot).is_some();
            let live = held && last.is_some_and(|edit| ItemId::Edit(edit.id) == *item);
            // Not sent: shown as failed, in doubt, or its words became secret.
            let waiting = ledger.entries().flat_map(|entry| {
                let steps = entry.decided.steps.iter().zip(&entry.states);
                steps.filter(|(step, state)| {
                    matches!(step, Step::Retract { of } if *of == this)
                        && !matches!(state, StepState::Sent { .. })
                })
            });
            let gone = usize::from(!live);
            let back = retracted.remove(&name).unwrap_or_default();
            let fits = back.iter().all(|said| said == text || *said == "[purged]");
            let again = self.retried.contains(item);
            assert!(
                fits && back.len() <= gone && (again || back.len() + waiting.count() >= gone),
                "`{text}` of {item} is there {count} times, held: {live}, taken back: {back:?}"
            );
        }
        assert!(
            retracted.is_empty(),
            "taken back and not there: {retracted:?}"
        );
    }

    /// What Honcho concluded and was forgotten is gone, and what was brought back is there once, unless a step
    /// about it is shown as failed, withdrawn or in doubt.
    pub(super) fn check_forgotten(&self, outbox: &Outbox) {
        let ledger = outbox.ledger();
        let mut facts = BTreeMap::new();
        for change in self.edits.iter().flat_map(|edit| &edit.changes) {
            match change {
                Change::Forgot {
                    fact, text, from, ..
                } => facts.insert(fact, (text, from, 0)),
                Change::Restored {
                    fact, text, from, ..
                } => facts.insert(fact, (text, from, 1)),
                _ => None,
            };
        }
        // Nobody knows any more what a purged one said.
        facts.retain(|_, (text, ..)| !is_marker(text));
        for (fact, (text, from, want)) in facts {
            let about = |step: &Step| match step {
                Step::Forget { slot, .. } | Step::Conclude { slot, .. } => slot == fact,
                Step::Unconclude { of } => matches!(ledger.step(of),
                    Some(Step::Conclude { slot, .. }) if slot == fact),
                _ => false,
            };
            let settled = ledger.entries().all(|entry| {
                let steps = entry.decided.steps.iter().zip(&entry.states);
                steps.into_iter().all(|(step, state)| {
                    !about(step) || matches!(state, StepState::Sent { .. } | StepState::Cancelled)
                })
            });
            // Of an excluded source Honcho is told nothing.
            let want = match ledger.maker(fact) {
                Some(_) => want,
                None => 1,
            };
            let found = &self.honcho.spaces[&Role::Trusted].conclusions;
            let there = found
                .iter()
                .filter(|found| !found.deleted && found.content == *text)
                .count();
            // What was concluded from a purged session went with it, unless it was written again.
            let purged = from
                .as_ref()
                .is_some_and(|from| self.is_of_purged(from.as_str()));
            assert!(
                !settled || there == want || (purged && there == 0),
                "{fact} is there {there} times"
            );
        }
    }

    /// No card is on its way that is older than one that was sent.
    pub fn check_newest_card(&self) {
        let ledger = self.outbox.as_ref().map(Outbox::ledger);
        let mut trying = None;
        for entry in ledger.into_iter().flat_map(Ledger::entries) {
            for (step, state) in entry.decided.steps.iter().zip(&entry.states) {
                match (step, state) {
                    (Step::Card { .. }, StepState::Trying(_)) => trying = Some(&entry.decided.item),
                    (Step::Card { .. }, StepState::Sent { .. }) => {
                        assert_eq!(trying, None, "{} was sent already", entry.decided.item);
                    }
                    _ => {}
                }
            }
        }
    }

    /// The card is the last one that was sent, or one after it of which nobody knows whether it arrived.
    pub(super) fn check_card(&self, ledger: &Ledger) {
        let mut may = vec![Vec::new()];
        for entry in ledger.entries() {
            let steps = entry.decided.steps.iter().zip(&entry.states);
            for (step, state) in steps {
                let (Step::Card { change, .. }, ItemId::Edit(id)) = (step, &entry.decided.item)
                else {
                    continue;
                };
                let edit = self.edits.iter().find(|edit| edit.id == *id);
                let change = edit.and_then(|edit| edit.changes.get(*change));
                let card = change.and_then(memoryd::sync::prepare::new_card);
                let card = card.expect("a card").to_vec();
                match state {
                    StepState::Sent { .. } => may = vec![card],
                    StepState::Failed { .. } | StepState::Withdrawn => may.push(card),
                    // Its words were purged while nobody knew whether they had arrived.
                    StepState::Cancelled if card.iter().any(|line| is_marker(line)) => {
                        may.push(card);
                    }
                    _ => {}
                }
            }
        }
        let card = &self.honcho.spaces[&Role::Trusted].card;
        // A purge takes the words of an older card out of the journal, also of one that Honcho was left with.
        let is = |may: &Vec<String>| {
            let lines = may.iter().zip(card);
            may.len() == card.len()
                && lines.into_iter().all(|(may, line)| {
                    let purged = match line.strip_prefix("card of ") {
                        Some(id) => *may == format!("[purged {id}]"),
                        // Of all cards, so whoever had it first.
                        None => is_marker(may),
                    };
                    may == line || purged
                })
        };
        assert!(may.iter().any(is), "the card is {card:?} and not {may:?}");
    }
}
