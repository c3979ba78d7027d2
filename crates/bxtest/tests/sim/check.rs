//! The guarantees, looked for in what Honcho really holds and in what the disks really say.

use std::collections::BTreeMap;

use bxwire::{Class, EditId, ItemId, Label, Origin, SessionId, links::memory_tools::About, log};
use memoryd::edit::Change;
use memoryd::memory::{Contents, Memory, Note};
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
        let mut conclusions = BTreeMap::<_, usize>::new();
        for found in &self.honcho.spaces[&Role::Trusted].conclusions {
            *conclusions
                .entry((&found.content, &found.session))
                .or_default() += usize::from(!found.deleted);
        }
        for ((content, session), count) in conclusions {
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
            assert!(count <= most, "`{content}` is {count} times in {session}");
        }
    }

    /// Once everything works for long enough.
    pub fn check_end(&mut self) {
        self.check();
        let outbox = self.outbox.as_ref().expect("memoryd runs");
        let ledger = outbox.ledger();
        assert_eq!(outbox.undecided().count(), 0, "turns are undecided");
        // Every turn and edit has its decision.
        for session in &self.sessions {
            for turn in session.truth_at.keys() {
                let item = ItemId::Turn {
                    session: session.id.clone(),
                    turn: *turn,
                };
                assert!(ledger.entry(&item).is_some(), "{item} was never decided");
            }
        }
        for edit in &self.edits {
            assert!(
                ledger.entry(&ItemId::Edit(edit.id)).is_some(),
                "{} was lost",
                edit.id
            );
        }
        for entry in ledger.entries() {
            let item = &entry.decided.item;
            for (index, state) in entry.states.iter().enumerate() {
                let step = StepRef {
                    item: item.clone(),
                    step: index,
                };
                let role = ledger.place(&step).expect("a place").role;
                match state {
                    StepState::Waiting | StepState::Trying(_) => {
                        // Messages can be looked up for ever.
                        let conclusion =
                            matches!(entry.decided.steps[index], Step::Conclude { .. });
                        assert!(
                            (conclusion && outbox.in_doubt(&step))
                                || waits_for_doubt(outbox, &step),
                            "{item} still waits"
                        );
                    }
                    StepState::Sent { ids, .. } => {
                        let place = ledger.place(&step).expect("a place");
                        for id in ids {
                            if self.is_of_purged(&place.session) {
                                continue;
                            }
                            assert!(
                                self.is_there(role, id),
                                "{item} is recorded as sent and is not there"
                            );
                        }
                    }
                    StepState::Failed { .. } | StepState::Withdrawn | StepState::Cancelled => {}
                }
            }
            self.check_decision(entry);
        }
        self.check_order();
        self.check_ids(ledger);
        self.check_undone(outbox);
        self.check_forgotten(outbox);
        self.check_card(ledger);
        self.check_purged();
        self.check_standing(ledger);
        self.check_health();
    }

    /// Whether a Honcho session is one of a session that was purged.
    fn is_of_purged(&self, session: &str) -> bool {
        let purged = self.sessions.iter().filter(|session| session.purged);
        purged
            .into_iter()
            .any(|purged| session.starts_with(purged.id.as_str()))
    }

    /// What memory holds and Honcho was told of is still there.
    fn check_standing(&self, ledger: &Ledger) {
        let conclusions = &self.honcho.spaces[&Role::Trusted].conclusions;
        for id in ledger.standing(usize::MAX) {
            let there = |found: &&Conclusion| found.id == id && !found.deleted;
            assert!(
                conclusions.iter().any(|found| there(&found)),
                "{id} stands for something and is gone"
            );
        }
    }

    /// Nothing of a purged session is anywhere, but for what was kept.
    fn check_purged(&self) {
        for role in Role::ALL {
            for (session, stored) in self.honcho.messages(role) {
                let item = &stored.message.item;
                let of_purged = match item {
                    ItemId::Turn { session, .. } => self.is_of_purged(session.as_str()),
                    ItemId::Edit(_) => false,
                };
                assert!(
                    !of_purged && !self.is_of_purged(session),
                    "{item} is in {role:?} though its session was purged"
                );
            }
            for found in &self.honcho.spaces[&role].conclusions {
                assert!(
                    found.deleted || !self.is_of_purged(&found.session),
                    "`{}` is there though its session was purged",
                    found.content
                );
            }
        }
    }

    /// Nothing was lost here, so nothing is said to be; that nothing is derived is said unless Honcho says it.
    fn check_health(&self) {
        let outbox = self.outbox.as_ref().expect("memoryd runs");
        for warning in outbox.health().warnings() {
            assert!(
                matches!(warning, Warning::NothingDerived { .. }) && !self.honcho.says_so,
                "{warning:?}"
            );
        }
    }

    /// G1 and G5: a decision is never cleaner than one made at once would have been, and a trusted one names
    /// two daemons that both said so.
    fn check_decision(&self, entry: &Entry) {
        let decided = &entry.decided;
        let item = &decided.item;
        if decided.skip.is_some() {
            return;
        }
        let truth = self.truth_of(item);
        assert!(
            decided.log.class < Class::Secret,
            "{item} was secret by the log"
        );
        if let ItemId::Turn { .. } = item {
            let broker = decided.broker.expect("brokerd's word");
            let clean = !broker.untrusted && !decided.log.is_untrusted();
            assert!(broker.class < Class::Secret, "{item} was secret by brokerd");
            self.check_turn(entry);
            let trusted = |step: &Step| {
                matches!(
                    step,
                    Step::Messages {
                        role: Role::Trusted,
                        ..
                    }
                )
            };
            assert!(
                clean || !decided.steps.iter().any(trusted),
                "{item} was clean by one alone"
            );
        }
        for step in &decided.steps {
            let trusted = matches!(
                step,
                Step::Messages {
                    role: Role::Trusted,
                    ..
                } | Step::Conclude { .. }
                    | Step::Card { .. }
            );
            assert!(
                !trusted || (!truth.is_untrusted() && truth.class < Class::Secret),
                "{item} was decided cleaner than it was"
            );
        }
        if let Some(speaker) = &decided.speaker {
            assert!(
                !self.config.exclude_speakers.contains(speaker),
                "{item} was excluded"
            );
        }
        let source = |id: &SessionId| self.sessions.iter().find(|found| found.id == *id);
        if let Some(session) = decided.from.as_ref().and_then(source) {
            let excluded = self
                .config
                .exclude_sources
                .iter()
                .any(|name| name == session.source);
            // It may take back what others had sent.
            let takes =
                |step: &Step| matches!(step, Step::Unconclude { .. } | Step::Retract { .. });
            assert!(
                !excluded || decided.steps.iter().all(takes),
                "{item} came from an excluded source"
            );
        }
    }

    /// A turn that goes somewhere was a person's and had its reply, and brokerd knew its session or the owner
    /// decided.
    fn check_turn(&self, entry: &Entry) {
        let ItemId::Turn { session, turn } = &entry.decided.item else {
            return;
        };
        let found = self.sessions.iter().find(|found| found.id == *session);
        let found = found.expect("a session");
        let of_turn = |record: &&log::Record| record.body.turn() == Some(*turn);
        for record in found.records.iter().filter(of_turn) {
            match &record.body {
                log::Body::User { origin, .. } => assert_eq!(*origin, Origin::Interactive),
                log::Body::TurnEnd { outcome, .. } => assert_eq!(*outcome, log::Outcome::Replied),
                _ => {}
            }
        }
        let trusted = |step: &Step| {
            matches!(
                step,
                Step::Messages {
                    role: Role::Trusted,
                    ..
                }
            )
        };
        let owner = self.owner_said.contains(session) && !entry.decided.steps.iter().any(trusted);
        let seen = entry.decided.broker.is_some_and(|broker| broker.seen);
        assert!(
            seen || owner || !found.had_results(*turn),
            "{session}/{turn} was decided though brokerd had forgotten its session"
        );
    }

    /// A purged session's log has no words any more.
    pub fn check_blank(&self, at: usize) {
        for record in &self.sessions[at].records {
            let line = serde_json::to_string(record).expect("a line");
            for words in [
                "words of",
                "reply to",
                "what a tool read",
                "what memory says",
                "what was said",
            ] {
                assert!(!line.contains(words), "`{words}` is in a purged log");
            }
        }
    }

    /// A purge takes a session's notes out of memory and leaves the rest as it was; the journal has no text of the
    /// session's but what memory still holds.
    pub fn check_taken_out(&self, session: &SessionId, before: &Memory) {
        let (was, is) = (before.contents(), self.memory.contents());
        let facts = |contents: &Contents| {
            let back = contents.forgotten().filter(|(_, fact)| fact.back);
            back.map(|(_, fact)| fact.text.clone()).collect::<Vec<_>>()
        };
        let texts = |contents: &Contents| {
            let entries = contents.entries(About::User).iter();
            entries.map(|entry| entry.text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(texts(was), texts(is), "a purge changed identity");
        assert_eq!(facts(was), facts(is), "a purge changed the facts");
        let own = |note: &&Note| note.by.session() == Some(session);
        assert_eq!(is.notes().iter().filter(own).count(), 0, "notes stay");
        let others =
            |contents: &Contents| contents.notes().iter().filter(|note| !own(note)).count();
        assert_eq!(others(was), others(is), "notes of others went");
        let card = is.carded().and_then(|edit| self.memory.edit(edit));
        let lines = card.into_iter().flat_map(|edit| &edit.changes);
        let lines: Vec<_> = lines
            .filter_map(memoryd::sync::prepare::new_card)
            .flatten()
            .cloned()
            .collect();
        let kept: Vec<_> = [texts(is), facts(is), lines].concat();
        let journal = serde_json::to_string(&self.edits).expect("a journal");
        for edit in &self.edits {
            if edit.by.session() == Some(session) {
                let id = edit.id;
                for text in ["entry of", "note of", "second note of", "card of"] {
                    let text = format!("{text} {id}");
                    assert!(
                        kept.contains(&text) || !journal.contains(&format!("\"{text}\"")),
                        "`{text}` is in the journal though its session was purged"
                    );
                }
            }
        }
        for found in &self.honcho.spaces[&Role::Trusted].conclusions {
            let of_it = found.derived && found.session.starts_with(session.as_str());
            assert!(
                !of_it
                    || kept.contains(&found.content)
                    || !journal.contains(&format!("\"{}\"", found.content)),
                "`{}` is in the journal though its session was purged",
                found.content
            );
        }
    }

    /// What was taken out of memory is not in the trusted workspace any more, unless taking it out is shown as
    /// failed or waits for what is in doubt.
    fn check_undone(&self, outbox: &Outbox) {
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

    /// What Honcho concluded and was forgotten is gone, and what was brought back is there once, unless a step
    /// about it is shown as failed, withdrawn or in doubt.
    fn check_forgotten(&self, outbox: &Outbox) {
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

    /// The card is the last one that was sent, or one after it of which nobody knows whether it arrived.
    fn check_card(&self, ledger: &Ledger) {
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
                    let purged = line
                        .rsplit_once(' ')
                        .map(|(_, id)| format!("[purged {id}]"));
                    may == line || purged.as_ref() == Some(may)
                })
        };
        assert!(may.iter().any(is), "the card is {card:?} and not {may:?}");
    }

    /// No id of Honcho's stands for two steps.
    fn check_ids(&self, ledger: &Ledger) {
        let mut known = std::collections::BTreeSet::new();
        for entry in ledger.entries() {
            for state in &entry.states {
                if let StepState::Sent { ids, .. } = state {
                    for id in ids {
                        assert!(known.insert(id), "{id} is recorded for two steps");
                    }
                }
            }
        }
    }

    fn is_there(&self, role: Role, id: &str) -> bool {
        let message = self
            .honcho
            .messages(role)
            .any(|(_, stored)| stored.id == id);
        let space = &self.honcho.spaces[&role];
        message || space.conclusions.iter().any(|found| found.id == id)
    }

    /// Within a Honcho session turns are in order, but for those the owner had tried again.
    fn check_order(&self) {
        for role in Role::ALL {
            let mut last = BTreeMap::<&str, u64>::new();
            for (session, stored) in self.honcho.messages(role) {
                if let ItemId::Turn { turn, .. } = stored.message.item
                    && !self.retried.contains(&stored.message.item)
                {
                    let before = last.insert(session, turn).unwrap_or(0);
                    assert!(before <= turn, "turn {turn} after {before} in {session}");
                }
            }
        }
    }
}

/// A step that takes back what nobody knows to be there waits with it.
fn waits_for_doubt(outbox: &Outbox, step: &StepRef) -> bool {
    match outbox.ledger().step(step) {
        Some(Step::Unconclude { of } | Step::Retract { of }) => outbox.in_doubt(of),
        _ => false,
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
