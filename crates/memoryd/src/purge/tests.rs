//! What a purge takes out and what it leaves, on edits as the planners make them.

use bxwire::{Audience, Label, Speaker, links::memory_tools::Caller};

use super::*;
use crate::{
    edit::Card,
    plan::{self, Rules},
    undo,
};
use bxsanitize::Refuser;

const AT: &str = "2026-01-31T10:00:00.000Z";

fn session(n: u8) -> SessionId {
    SessionId::new("20260131", [n; 12]).unwrap()
}

struct Bench {
    memory: Memory,
}

impl Bench {
    fn new() -> Self {
        Self {
            memory: Memory::default(),
        }
    }

    fn make(&mut self, edit: Edit) -> EditId {
        let id = edit.id;
        self.memory.apply(edit).unwrap();
        id
    }

    /// The owner's turn in a session.
    fn tool(&mut self, of: u8, json: &str) -> EditId {
        let caller = Caller {
            session: session(of),
            turn: 1,
            call: "abc".parse().unwrap(),
            label: Label::PRIVATE,
            speaker: Some(Speaker {
                realm: "local".into(),
                name: "owner".into(),
            }),
            audience: Audience::Owner {},
        };
        let op = serde_json::from_str(json).unwrap();
        let refuser = Refuser::new(&[]);
        let rules = Rules::default();
        self.make(plan::plan(&self.memory, &op, &caller, &rules, &refuser, AT).unwrap())
    }

    fn undo(&mut self, edit: EditId) -> Result<EditId, Denied> {
        let undo = undo::undo(&self.memory, edit, &Rules::default(), AT)?;
        Ok(self.make(undo))
    }

    /// Purges, and takes the texts out as the store does.
    fn purge(&mut self, of: u8) -> Edit {
        let edit = plan(&self.memory, &session(of), AT).unwrap();
        self.make(edit.clone());
        self.blank();
        edit
    }

    fn blank(&mut self) {
        let before = self.memory.contents().clone();
        if let Some(edits) = blanked(self.memory.edits()) {
            self.memory = Memory::of(edits).unwrap();
        }
        assert_eq!(blanked(self.memory.edits()), None, "once is enough");
        for about in [About::User, About::Agent] {
            assert_eq!(self.memory.contents().entries(about), before.entries(about));
        }
        assert_eq!(self.memory.contents().notes(), before.notes());
    }

    fn holds(&self, text: &str) -> bool {
        format!("{:?}", self.memory).contains(text)
    }
}

fn add(text: &str) -> String {
    format!(r#"{{"op":"add","about":"user","text":"{text}"}}"#)
}

fn replace(id: &str, text: &str) -> String {
    format!(r#"{{"op":"replace","about":"user","id":"{id}","text":"{text}"}}"#)
}

fn note(text: &str) -> String {
    format!(r#"{{"op":"note","text":"{text}"}}"#)
}

#[test]
fn notes_go_identity_stays_and_another_session_is_as_it_was() {
    let mut bench = Bench::new();
    bench.tool(1, &add("kept entry"));
    bench.tool(1, &note("gone note"));
    bench.tool(2, &note("other note"));
    let purge = bench.purge(1);
    assert!(!bench.holds("gone note"));
    assert!(bench.holds("kept entry") && bench.holds("other note"));
    assert_eq!(bench.memory.contents().notes().len(), 1);
    assert_eq!(bench.memory.purged(&session(1)), Some(purge.id));
    assert_eq!(bench.memory.purged(&session(2)), None);
    let kept = |change: &Change| matches!(change, Change::Kept { entry, .. } if entry == "u1");
    assert!(purge.changes.iter().any(kept));
}

#[test]
fn texts_that_stand_no_longer_go_wherever_an_edit_repeats_them() {
    let mut bench = Bench::new();
    let first = bench.tool(1, &add("first words"));
    bench.tool(2, &replace("u1", "second words"));
    let removed = bench.tool(1, &note("removed note"));
    bench.undo(removed).unwrap();
    bench.undo(first).unwrap_err();
    bench.purge(1);
    for gone in ["first words", "removed note"] {
        assert!(!bench.holds(gone), "{gone}");
    }
    assert!(bench.holds("second words"));
}

#[test]
fn the_same_words_of_somebody_else_stay() {
    let mut bench = Bench::new();
    bench.tool(1, &note("the same words"));
    bench.tool(2, &note("the same words"));
    bench.purge(1);
    assert_eq!(bench.memory.contents().notes().len(), 1);
    assert!(bench.holds("the same words"));
    assert_eq!(bench.memory.contents().notes()[0].id, "n2");
}

#[test]
fn a_promoted_note_is_the_owners_and_stays_until_the_owner_takes_it_back() {
    let mut bench = Bench::new();
    let noted = bench.tool(1, &note("the quince is ripe"));
    let index = usize::try_from(noted.0 - 1).unwrap();
    // Promoting needs a note that is held back.
    let mut edits = bench.memory.edits().to_vec();
    edits[index].label = Label::UNLABELLED;
    bench.memory = Memory::of(edits).unwrap();
    let promote = |bench: &mut Bench| {
        let refuser = Refuser::new(&[]);
        let rules = Rules::default();
        let edit = crate::review::promote(&bench.memory, "n1", &rules, &refuser, AT).unwrap();
        bench.make(edit)
    };
    let promoted = promote(&mut bench);
    bench.undo(promoted).unwrap();
    let promoted = promote(&mut bench);
    let kept = bench.purge(1);
    assert!(bench.holds("the quince is ripe"));
    let own = format!("n{}", promoted.0);
    let keeps = |change: &Change| matches!(change, Change::Kept { entry, .. } if *entry == own);
    assert!(kept.changes.iter().any(keeps), "{kept:?}");
    // The first promotion's copy stands nowhere any more.
    let first = &bench.memory.edits()[1].changes;
    assert!(!format!("{first:?}").contains("quince"), "{first:?}");
}

/// A note of a session that is held back, and the owner's promotion of it.
fn promoted(bench: &mut Bench, of: u8, text: &str) -> EditId {
    let noted = bench.tool(of, &note(text));
    let mut edits = bench.memory.edits().to_vec();
    edits.last_mut().unwrap().label = Label::UNLABELLED;
    bench.memory = Memory::of(edits).unwrap();
    let (refuser, rules, named) = (Refuser::new(&[]), Rules::default(), noted.to_string());
    let edit = crate::review::promote(&bench.memory, &named, &rules, &refuser, AT).unwrap();
    bench.make(edit)
}

#[test]
fn a_promotion_is_undone_after_the_purge_and_goes_with_another() {
    let mut bench = Bench::new();
    let promoted = promoted(&mut bench, 1, "the quince is ripe");
    bench.purge(1);
    // Kept as the owner's, however often.
    assert!(plan(&bench.memory, &session(1), AT).is_err());
    let undone = bench.undo(promoted).unwrap();
    assert_eq!(bench.memory.contents().notes(), []);
    let redone = bench.undo(undone).unwrap();
    assert_eq!(bench.memory.contents().notes().len(), 1);
    assert!(plan(&bench.memory, &session(1), AT).is_err());
    bench.undo(redone).unwrap();
    assert!(bench.holds("the quince is ripe"));
    let again = plan(&bench.memory, &session(1), AT).unwrap();
    let besides = besides(&bench.memory, &session(1), &again);
    let line = "takes 1 text that stands no longer out of the journal";
    assert_eq!(besides, [line]);
    bench.purge(1);
    assert!(!bench.holds("the quince is ripe"));
}

#[test]
fn an_older_text_of_what_stays_is_named_before_it_goes() {
    let mut bench = Bench::new();
    bench.tool(1, &add("old words"));
    bench.tool(1, &replace("u1", "new words"));
    bench.tool(1, &note("gone note"));
    let planned = plan(&bench.memory, &session(1), AT).unwrap();
    let line = "takes 1 text that stands no longer out of the journal";
    assert_eq!(besides(&bench.memory, &session(1), &planned), [line]);
    bench.purge(1);
    assert!(bench.holds("new words") && !bench.holds("old words"));
}

#[test]
fn an_entry_that_is_gone_whole_does_not_come_back_in_part() {
    let mut bench = Bench::new();
    bench.tool(1, &add("old words"));
    let fates = r#"{"op":"consolidate","entries":[{"id":"u1","fate":"note"}]}"#;
    bench.tool(2, fates);
    let forgotten = undo::forget(&bench.memory, "u1", AT).unwrap();
    let forgotten = bench.make(forgotten);
    bench.purge(1);
    assert_eq!(bench.undo(forgotten), Err(Denied::Purged(forgotten)));
}

#[test]
fn nothing_purged_comes_back_by_an_undo_or_a_redo() {
    let mut bench = Bench::new();
    let noted = bench.tool(1, &note("gone note"));
    let added = bench.tool(1, &add("old words"));
    let replaced = bench.tool(2, &replace("u2", "new words"));
    let purge = bench.purge(1).id;
    assert!(matches!(
        bench.undo(noted),
        Err(Denied::ChangedSince { .. })
    ));
    assert_eq!(bench.undo(purge), Err(Denied::Purged(purge)));
    assert_eq!(bench.undo(replaced), Err(Denied::Purged(replaced)));
    assert!(bench.undo(added).is_err());
}

#[test]
fn what_was_kept_and_then_removed_goes_with_another_purge() {
    let mut bench = Bench::new();
    bench.tool(1, &add("kept entry"));
    bench.purge(1);
    let again = plan(&bench.memory, &session(1), AT);
    assert!(matches!(again, Err(Denied::Argument(_))), "{again:?}");
    let removed = undo::forget(&bench.memory, "u1", AT).unwrap();
    bench.make(removed);
    assert!(bench.holds("kept entry"));
    bench.purge(1);
    assert!(!bench.holds("kept entry"));
    assert!(plan(&bench.memory, &session(1), AT).is_err());
}

#[test]
fn a_session_without_edits_is_purged_once() {
    let mut bench = Bench::new();
    let purge = bench.purge(1);
    assert_eq!(purge.changes.len(), 1);
    assert!(plan(&bench.memory, &session(1), AT).is_err());
}

/// An edit as a session's tool call makes it.
fn made(bench: &mut Bench, of: u8, change: Change) -> EditId {
    let id = bench.memory.next_id();
    bench.make(Edit {
        id,
        at: AT.into(),
        by: By::Session {
            session: session(of),
            turn: 1,
            speaker: None,
            call: None,
        },
        what: "test".into(),
        changes: vec![change],
        undoes: None,
        label: Label::PRIVATE,
        kept_local: None,
        files: Vec::new(),
    })
}

fn forgot(fact: &str, text: &str, from: Option<u8>) -> Change {
    Change::Forgot {
        fact: fact.into(),
        id: "V1StGXR8Z5jdHi6BmyT90".into(),
        text: text.into(),
        from: from.map(session),
    }
}

#[test]
fn a_forgotten_fact_of_the_session_goes_whoever_forgot_it_and_one_brought_back_stays() {
    let mut bench = Bench::new();
    let gone = made(&mut bench, 2, forgot("h1", "gone fact", Some(1)));
    let back = made(&mut bench, 2, forgot("h2", "brought back", Some(1)));
    bench.undo(back).unwrap();
    made(&mut bench, 2, forgot("h3", "another's fact", Some(2)));
    let planned = plan(&bench.memory, &session(1), AT).unwrap();
    let want = [
        "ends the undo of e1, which forgot h1",
        "keeps h2, which e3 brought back: brought back",
    ];
    assert_eq!(besides(&bench.memory, &session(1), &planned), want);
    bench.purge(1);
    assert!(!bench.holds("gone fact"));
    assert!(bench.holds("brought back") && bench.holds("another's fact"));
    assert_eq!(bench.undo(gone), Err(Denied::Purged(gone)));
}

#[test]
fn an_older_card_of_the_session_goes_and_the_card_as_it_is_stays() {
    let card = |line: &str, from: Option<u8>| Card {
        lines: vec![line.into()],
        from: from.map(session),
    };
    let mut bench = Bench::new();
    let first = Change::Carded {
        card: "c1".into(),
        before: card("Honcho's own line", None),
        after: card("gone line", Some(1)),
    };
    made(&mut bench, 1, first);
    let second = Change::Carded {
        card: "c2".into(),
        before: card("gone line", Some(1)),
        after: card("the line now", Some(1)),
    };
    let second = made(&mut bench, 1, second);
    let planned = plan(&bench.memory, &session(1), AT).unwrap();
    let want = [
        "keeps the owner's card, which e2 wrote: the line now",
        "takes 1 text that stands no longer out of the journal",
    ];
    assert_eq!(besides(&bench.memory, &session(1), &planned), want);
    bench.purge(1);
    assert!(!bench.holds("gone line"));
    assert!(bench.holds("the line now") && bench.holds("Honcho's own line"));
    assert_eq!(bench.undo(second), Err(Denied::Purged(second)));
}

#[test]
fn only_what_stands_for_a_purged_text_is_a_marker() {
    assert!(is_marker("[purged e7]"));
    for text in [
        "[purged e]",
        "[purged 7]",
        "x [purged e7]",
        "[purged e7",
        "",
    ] {
        assert!(!is_marker(text), "{text}");
    }
}
