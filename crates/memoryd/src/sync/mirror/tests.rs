//! Edits and the steps they become, on a ledger that takes each line in.

use bxwire::{Label, SessionId};

use super::*;
use crate::{
    edit::KeptLocal,
    sync::{
        config::tests::config,
        ledger::{SentStep, tests::opened_with},
    },
};

const BRIEF: EditBrief = EditBrief {
    secret_text: false,
    excluded: false,
    authors: Vec::new(),
};

struct Bench {
    config: HonchoConfig,
    ledger: Ledger,
    next: u64,
}

impl Bench {
    fn new() -> Self {
        Self {
            config: config(),
            ledger: opened_with(None),
            next: 1,
        }
    }

    fn edit(&mut self, label: Label, undoes: Option<u64>, changes: Vec<Change>) -> Edit {
        let id = EditId(self.next);
        self.next += 1;
        Edit {
            id,
            at: "2026-01-31T10:00:00.000Z".into(),
            by: By::Session {
                session: session(),
                turn: 1,
                speaker: "local/owner".parse().ok(),
                call: None,
            },
            what: "test".into(),
            changes,
            undoes: undoes.map(EditId),
            label,
            kept_local: None,
            files: Vec::new(),
        }
    }

    /// Decides an edit and gives its steps.
    fn decide(&mut self, edit: &Edit) -> Decided {
        let lines = decide_edit(&self.config, &self.ledger, edit, &BRIEF, Millis(1));
        for line in &lines {
            self.ledger.apply(line).unwrap();
        }
        match lines.last() {
            Some(Line::Decided(decided)) => decided.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn make(&mut self, label: Label, undoes: Option<u64>, changes: Vec<Change>) -> Decided {
        let edit = self.edit(label, undoes, changes);
        self.decide(&edit)
    }

    fn sent(&mut self, edit: u64) {
        let item = ItemId::Edit(EditId(edit));
        let steps = self.ledger.entry(&item).unwrap().states.len();
        for step in 0..steps {
            let sent = SentStep {
                step: StepRef {
                    item: item.clone(),
                    step,
                },
                ids: vec![format!("id-{edit}-{step}")],
                found: false,
            };
            let line = Line::Sent {
                at: Millis(2),
                steps: vec![sent],
            };
            self.ledger.apply(&line).unwrap();
        }
    }
}

fn session() -> SessionId {
    "20260131-abcdefghijkl".parse().unwrap()
}

fn of(edit: u64) -> StepRef {
    StepRef {
        item: ItemId::Edit(EditId(edit)),
        step: 0,
    }
}

fn added(entry: &str) -> Change {
    Change::Added {
        about: About::User,
        entry: entry.into(),
        text: "t".into(),
    }
}

fn noted(note: &str) -> Change {
    Change::Noted {
        note: note.into(),
        text: "t".into(),
    }
}

fn conclude(peer: &str, slot: &str, change: usize) -> Step {
    Step::Conclude {
        peer: peer.into(),
        slot: slot.into(),
        change,
        from: None,
    }
}

const CLEAN: Label = Label::PRIVATE;

#[test]
fn identity_add_is_a_conclusion_of_whom_it_is_about() {
    let mut bench = Bench::new();
    let decided = bench.make(CLEAN, None, vec![added("u1")]);
    assert_eq!(decided.steps, [conclude("owner", "u1", 0)]);
    assert_eq!(decided.session.unwrap().name, session().to_string());
    let agent = Change::Added {
        about: About::Agent,
        entry: "a2".into(),
        text: "t".into(),
    };
    let decided = bench.make(CLEAN, None, vec![agent]);
    assert_eq!(decided.steps, [conclude("boxmaker", "a2", 0)]);
}

#[test]
fn identity_replace_deletes_the_old_conclusion_and_makes_the_new_one() {
    let mut bench = Bench::new();
    bench.make(CLEAN, None, vec![added("u1")]);
    bench.sent(1);
    let replaced = Change::Replaced {
        about: About::User,
        entry: "u1".into(),
        before: "t".into(),
        after: "s".into(),
    };
    let decided = bench.make(CLEAN, None, vec![replaced]);
    let want = [Step::Unconclude { of: of(1) }, conclude("owner", "u1", 0)];
    assert_eq!(decided.steps, want);
}

#[test]
fn a_dropped_entry_loses_its_conclusion_and_a_moved_one_keeps_it() {
    let mut bench = Bench::new();
    bench.make(CLEAN, None, vec![added("u1")]);
    bench.make(CLEAN, None, vec![added("u2")]);
    bench.sent(1);
    bench.sent(2);
    let fate = |entry: &str| (About::User, entry.to_owned(), "t".to_owned());
    let (about, entry, text) = fate("u1");
    let dropped = Change::Dropped { about, entry, text };
    let (about, entry, text) = fate("u2");
    let moved = Change::Moved { about, entry, text };
    let decided = bench.make(CLEAN, None, vec![dropped.clone(), moved.clone()]);
    assert_eq!(decided.steps, [Step::Unconclude { of: of(1) }]);
    bench.sent(3);
    // Its undo writes the dropped one again and leaves the moved one alone.
    let undone = vec![dropped.reversed(), moved.reversed()];
    let decided = bench.make(CLEAN, Some(3), undone);
    assert_eq!(decided.steps, [conclude("owner", "u1", 0)]);
}

#[test]
fn a_trusted_note_is_a_conclusion_and_an_untrusted_one_a_message_in_the_fleet() {
    let mut bench = Bench::new();
    let trusted = bench.make(CLEAN, None, vec![noted("n1")]);
    assert_eq!(trusted.steps, [conclude("boxmaker", "n1", 0)]);
    let untrusted = bench.make(Label::UNLABELLED, None, vec![noted("n2")]);
    let want = Step::Note {
        slot: "n2".into(),
        change: 0,
        from: None,
    };
    assert_eq!(untrusted.steps, [want]);
    assert!(untrusted.session.unwrap().speakers.is_empty());
}

#[test]
fn a_fact_is_a_conclusion_about_the_owner_and_never_goes_to_the_fleet() {
    let mut bench = Bench::new();
    let fact = bench.make(CLEAN, None, vec![noted("f1")]);
    assert_eq!(fact.steps, [conclude("owner", "f1", 0)]);
    let untrusted = bench.make(Label::UNLABELLED, None, vec![noted("f2")]);
    assert_eq!(untrusted.skip, Some(SkipReason::NothingToSend));
    bench.sent(1);
    let undo = bench.make(CLEAN, Some(1), vec![noted("f1").reversed()]);
    assert_eq!(undo.steps, [Step::Unconclude { of: of(1) }]);
    let redo = bench.make(CLEAN, Some(3), vec![noted("f1")]);
    assert_eq!(redo.steps, [conclude("owner", "f1", 0)]);
}

fn forgot(n: u64) -> Change {
    Change::Forgot {
        fact: format!("d{n}"),
        id: "x".into(),
        text: "t".into(),
        from: Some(session()),
    }
}

fn forget(n: u64) -> Step {
    Step::Forget {
        slot: format!("d{n}"),
        id: "x".into(),
    }
}

#[test]
fn a_fact_of_honchos_own_is_deleted_written_again_and_deleted_again() {
    let mut bench = Bench::new();
    let decided = bench.make(CLEAN, None, vec![forgot(1)]);
    assert_eq!(decided.steps, [forget(1)]);
    assert_eq!(decided.session.unwrap().name, "boxmaker-owner");
    bench.sent(1);
    let undo = bench.make(CLEAN, Some(1), vec![forgot(1).reversed()]);
    assert_eq!(undo.steps, [conclude("owner", "d1", 0)]);
    assert_eq!(undo.from, Some(session()), "whose words they are");
    bench.sent(2);
    let redo = bench.make(CLEAN, Some(2), vec![forgot(1)]);
    assert_eq!(redo.steps, [Step::Unconclude { of: of(2) }]);
    bench.sent(3);
    let undo = bench.make(CLEAN, Some(3), vec![forgot(1).reversed()]);
    assert_eq!(undo.steps, [conclude("owner", "d1", 0)]);
    // What was not deleted yet needs no writing.
    bench.make(CLEAN, None, vec![forgot(5)]);
    let undo = bench.make(CLEAN, Some(5), vec![forgot(5).reversed()]);
    assert_eq!(undo.skip, Some(SkipReason::NothingToSend));
    assert_eq!(bench.ledger.state(&of(5)), Some(&StepState::Cancelled));
    let redo = bench.make(CLEAN, Some(6), vec![forgot(5)]);
    assert_eq!(redo.steps, [forget(5)]);
}

fn carded(n: u64) -> Change {
    let card = |line: &str, from| crate::edit::Card {
        lines: vec![line.into()],
        from,
    };
    Change::Carded {
        card: format!("c{n}"),
        before: card("old", None),
        after: card("new", Some(session())),
    }
}

#[test]
fn a_card_is_replaced_in_one_place_and_undone_only_when_it_went() {
    let mut bench = Bench::new();
    let step = |n: u64| Step::Card {
        slot: format!("c{n}"),
        change: 0,
    };
    let decided = bench.make(CLEAN, None, vec![carded(1)]);
    assert_eq!(
        (decided.steps, decided.from),
        (vec![step(1)], Some(session()))
    );
    assert_eq!(decided.session.unwrap().name, "boxmaker-owner");
    bench.sent(1);
    let undo = bench.make(CLEAN, Some(1), vec![carded(1).reversed()]);
    assert_eq!(
        (undo.steps, undo.from),
        (vec![step(1)], None),
        "Honcho's own"
    );
    // Not sent yet: the redo takes it back, and Honcho keeps the new one.
    let redo = bench.make(CLEAN, Some(2), vec![carded(1)]);
    assert_eq!(redo.skip, Some(SkipReason::NothingToSend));
    assert_eq!(bench.ledger.state(&of(2)), Some(&StepState::Cancelled));
    let undo = bench.make(CLEAN, Some(3), vec![carded(1).reversed()]);
    assert_eq!(undo.steps, [step(1)]);
    // What was kept here goes nowhere by undo and redo.
    let mut flagged = bench.edit(CLEAN, None, vec![carded(5)]);
    flagged.kept_local = Some(KeptLocal::Flagged);
    assert_eq!(bench.decide(&flagged).skip, Some(SkipReason::Flagged));
    let mut undo = bench.edit(CLEAN, Some(5), vec![carded(5).reversed()]);
    undo.by = By::Owner {};
    assert_eq!(bench.decide(&undo).skip, Some(SkipReason::NothingToSend));
    let untrusted = bench.make(Label::UNLABELLED, None, vec![carded(7)]);
    assert_eq!(untrusted.skip, Some(SkipReason::NothingToSend));
}

#[test]
fn a_withdrawn_card_is_not_sent_by_undo_and_redo_but_the_old_one_is_put_back() {
    let mut bench = Bench::new();
    bench.make(CLEAN, None, vec![carded(1)]);
    let withdrawn = Line::Withdrawn {
        at: Millis(3),
        step: of(1),
    };
    bench.ledger.apply(&withdrawn).unwrap();
    let redo = bench.make(CLEAN, Some(99), vec![carded(1)]);
    assert_eq!(redo.skip, Some(SkipReason::NothingToSend));
    // A try of it may have arrived.
    let undo = bench.make(CLEAN, Some(1), vec![carded(1).reversed()]);
    assert_eq!(undo.steps.len(), 1);
}

#[test]
fn flagged_secret_and_untrusted_identity_go_nowhere() {
    let mut bench = Bench::new();
    let mut flagged = bench.edit(Label::UNLABELLED, None, vec![noted("n1")]);
    flagged.kept_local = Some(KeptLocal::Flagged);
    assert_eq!(bench.decide(&flagged).skip, Some(SkipReason::Flagged));
    let secret = Label::new(bxwire::Class::Secret, bxwire::Trust::Trusted);
    let decided = bench.make(secret, None, vec![noted("n2")]);
    assert_eq!(decided.skip, Some(SkipReason::SecretClass));
    let decided = bench.make(Label::UNLABELLED, None, vec![added("u3")]);
    assert_eq!(decided.skip, Some(SkipReason::NothingToSend));
}

#[test]
fn an_undo_cancels_what_was_not_sent_and_reverses_what_was() {
    let mut bench = Bench::new();
    bench.make(CLEAN, None, vec![added("u1")]);
    let undo = bench.make(CLEAN, Some(1), vec![added("u1").reversed()]);
    assert_eq!(undo.skip, Some(SkipReason::NothingToSend));
    assert_eq!(bench.ledger.state(&of(1)), Some(&StepState::Cancelled));
    // Redo, sent, and undone again.
    bench.make(CLEAN, Some(2), vec![added("u1")]);
    bench.sent(3);
    let undo = bench.make(CLEAN, Some(3), vec![added("u1").reversed()]);
    assert_eq!(undo.steps, [Step::Unconclude { of: of(3) }]);
}

#[test]
fn an_undo_brings_back_words_as_their_own_sessions() {
    let other: SessionId = "20260131-zzzzzzzzzzzz".parse().unwrap();
    let replaced = Change::Replaced {
        about: About::User,
        entry: "u1".into(),
        before: "t".into(),
        after: "s".into(),
    };
    let replaced_elsewhere = |bench: &mut Bench| {
        let mut edit = bench.edit(CLEAN, None, vec![replaced.clone()]);
        edit.by = By::Session {
            session: other.clone(),
            turn: 1,
            speaker: "local/owner".parse().ok(),
            call: None,
        };
        bench.decide(&edit);
    };
    let undo = |bench: &mut Bench| {
        let mut undo = bench.edit(CLEAN, Some(2), vec![replaced.reversed()]);
        undo.by = By::Owner {};
        let brief = EditBrief {
            authors: vec![(0, EditId(1))],
            ..BRIEF
        };
        let lines = decide_edit(&bench.config, &bench.ledger, &undo, &brief, Millis(1));
        match lines.last() {
            Some(Line::Decided(decided)) => decided.clone(),
            other => panic!("{other:?}"),
        }
    };
    let wrote = |decided: &Decided| {
        let from = |step: &Step| match step {
            Step::Conclude { from, .. } => Some(from.clone()),
            _ => None,
        };
        decided.steps.iter().find_map(from)
    };
    let mut bench = Bench::new();
    bench.make(CLEAN, None, vec![added("u1")]);
    bench.sent(1);
    replaced_elsewhere(&mut bench);
    bench.sent(2);
    assert_eq!(wrote(&undo(&mut bench)), Some(Some(session())));
    // Words that were withdrawn stay here, whoever replaced them since.
    let mut bench = Bench::new();
    bench.make(CLEAN, None, vec![added("u1")]);
    let withdrawn = Line::Withdrawn {
        at: Millis(1),
        step: of(1),
    };
    bench.ledger.apply(&withdrawn).unwrap();
    replaced_elsewhere(&mut bench);
    bench.sent(2);
    assert_eq!(wrote(&undo(&mut bench)), None);
}

#[test]
fn an_undo_of_what_failed_cancels_it() {
    for change in [added("u1"), noted("n1"), forgot(1)] {
        let mut bench = Bench::new();
        bench.make(CLEAN, None, vec![change.clone()]);
        let failed = Line::Failed {
            at: Millis(2),
            step: of(1),
            kind: "refused".into(),
            status: Some(422),
        };
        bench.ledger.apply(&failed).unwrap();
        let undo = bench.make(CLEAN, Some(1), vec![change.reversed()]);
        assert_eq!(undo.skip, Some(SkipReason::NothingToSend), "{change:?}");
        let state = bench.ledger.state(&of(1));
        assert_eq!(state, Some(&StepState::Cancelled), "{change:?}");
        assert_eq!(bench.ledger.failed().count(), 0);
    }
}

#[test]
fn an_undo_of_what_is_in_doubt_waits_behind_it() {
    let mut bench = Bench::new();
    bench.make(CLEAN, None, vec![added("u1")]);
    let sending = Line::Sending {
        at: Millis(1),
        steps: vec![of(1)],
    };
    bench.ledger.apply(&sending).unwrap();
    let undo = bench.make(CLEAN, Some(1), vec![added("u1").reversed()]);
    assert_eq!(undo.steps, [Step::Unconclude { of: of(1) }]);
    assert_eq!(bench.ledger.place(&of(1)), bench.ledger.place(&of(2)));
}

#[test]
fn an_untrusted_note_undone_is_retracted_and_redone_never_becomes_trusted() {
    let mut bench = Bench::new();
    bench.make(Label::UNLABELLED, None, vec![noted("n1")]);
    bench.sent(1);
    let undo = bench.make(CLEAN, Some(1), vec![noted("n1").reversed()]);
    assert_eq!(undo.steps, [Step::Retract { of: of(1) }]);
    bench.sent(2);
    let redo = bench.make(CLEAN, Some(2), vec![noted("n1")]);
    let want = Step::Note {
        slot: "n1".into(),
        change: 0,
        from: None,
    };
    assert_eq!(redo.steps, [want]);
    // What was withdrawn or excluded is not sent by way of undo and redo either.
    let kept = bench.make(CLEAN, None, vec![added("u9")]);
    let withdrawn = Line::Withdrawn {
        at: Millis(3),
        step: of(4),
    };
    bench.ledger.apply(&withdrawn).unwrap();
    assert_eq!(kept.steps.len(), 1);
    bench.make(CLEAN, Some(4), vec![added("u9").reversed()]);
    let redo = bench.make(CLEAN, Some(5), vec![added("u9")]);
    assert_eq!(redo.skip, Some(SkipReason::NothingToSend));
    bench.make(CLEAN, Some(99), vec![added("u10")]);
    assert!(
        bench.ledger.maker("u10").is_none(),
        "it was never to go anywhere"
    );
    // What is brought back is asked about its own session before it goes.
    bench.make(CLEAN, None, vec![added("u11")]);
    bench.make(CLEAN, Some(8), vec![added("u11").reversed()]);
    let mut back = bench.edit(CLEAN, Some(9), vec![added("u11")]);
    back.by = By::Owner {};
    assert_eq!(bench.decide(&back).from, Some(session()));
    // A note that was kept here is not sent by way of undo and redo either.
    let mut flagged = bench.edit(Label::UNLABELLED, None, vec![noted("n2")]);
    flagged.kept_local = Some(KeptLocal::Flagged);
    bench.decide(&flagged);
    bench.make(CLEAN, Some(11), vec![noted("n2").reversed()]);
    let redo = bench.make(CLEAN, Some(12), vec![noted("n2")]);
    assert_eq!(redo.skip, Some(SkipReason::NothingToSend));
}

#[test]
fn what_a_purge_keeps_is_kept_also_when_a_crash_took_half_of_its_decision() {
    let mut bench = Bench::new();
    bench.make(CLEAN, None, vec![added("u1")]);
    let purged = Change::Purged { session: session() };
    let kept = Change::Kept {
        about: About::User,
        entry: "u1".into(),
        text: "t".into(),
    };
    let mut purge = bench.edit(CLEAN, None, vec![purged, kept]);
    purge.by = By::Owner {};
    let lines = decide_edit(&bench.config, &bench.ledger, &purge, &BRIEF, Millis(1));
    let [cancelled @ Line::Cancelled { .. }, Line::Decided(decided)] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    bench.ledger.apply(cancelled).unwrap();
    assert_eq!(bench.decide(&purge).steps, decided.steps);
    assert!(decided.steps.contains(&conclude("owner", "u1", 1)));
}
