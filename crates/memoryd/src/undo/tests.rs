//! Undo in each state, and `forget`.

use super::*;

const AT: &str = "2026-02-01T10:00:00.000Z";

fn edit(n: u64, changes: Vec<Change>) -> Edit {
    let at = format!("2026-01-{n:02}T10:00:00.000Z");
    Edit::of_owner(EditId(n), "add", changes, &at)
}

fn added(entry: &str, text: &str) -> Change {
    Change::Added {
        about: About::User,
        entry: entry.into(),
        text: text.into(),
    }
}

fn replaced(entry: &str, before: &str, after: &str) -> Change {
    Change::Replaced {
        about: About::User,
        entry: entry.into(),
        before: before.into(),
        after: after.into(),
    }
}

/// e1 adds u1, e2 changes it, e3 notes n3 as untrusted.
fn memory() -> Memory {
    let mut memory = Memory::default();
    memory.apply(edit(1, vec![added("u1", "tea")])).unwrap();
    memory
        .apply(edit(2, vec![replaced("u1", "tea", "coffee")]))
        .unwrap();
    let note = Change::Noted {
        note: "n3".into(),
        text: "from a page".into(),
    };
    let untrusted = Edit {
        label: Label::UNLABELLED,
        ..edit(3, vec![note])
    };
    memory.apply(untrusted).unwrap();
    memory
}

fn take_back(memory: &mut Memory, id: u64) -> Result<EditId, Denied> {
    let edit = undo(memory, EditId(id), &Rules::default(), AT)?;
    let made = edit.id;
    memory.apply(edit).unwrap();
    Ok(made)
}

#[test]
fn an_undo_puts_back_what_was() {
    let mut memory = memory();
    take_back(&mut memory, 2).unwrap();
    assert_eq!(memory.contents().text_of("u1"), Some("tea"));
    take_back(&mut memory, 1).unwrap();
    assert_eq!(memory.contents().text_of("u1"), None);
}

#[test]
fn an_unknown_edit_and_a_second_undo_have_their_answers() {
    let mut memory = memory();
    assert_eq!(
        take_back(&mut memory, 9),
        Err(Denied::UnknownEdit(EditId(9)))
    );
    assert_eq!(
        take_back(&mut memory, 0),
        Err(Denied::UnknownEdit(EditId(0)))
    );
    let by = take_back(&mut memory, 2).unwrap();
    let twice = Denied::AlreadyUndone {
        edit: EditId(2),
        by,
    };
    assert_eq!(take_back(&mut memory, 2), Err(twice));
}

#[test]
fn undoing_an_undo_is_a_redo_and_it_can_go_on() {
    let mut memory = memory();
    let first = take_back(&mut memory, 2).unwrap();
    let redo = take_back(&mut memory, first.0).unwrap();
    assert_eq!(memory.contents().text_of("u1"), Some("coffee"));
    assert_eq!(memory.undone_by(EditId(2)), None);
    assert_eq!(memory.undone_by(first), Some(redo));
    // The redo can be undone: then the first undo is in force again.
    let third = take_back(&mut memory, redo.0).unwrap();
    assert_eq!(memory.contents().text_of("u1"), Some("tea"));
    assert_eq!(memory.undone_by(EditId(2)), Some(first));
    assert_eq!(memory.undone_by(first), None);
    assert_eq!(memory.undone_by(redo), Some(third));
    // And what was redone can be undone anew.
    let mut memory = self::memory();
    let first = take_back(&mut memory, 2).unwrap();
    take_back(&mut memory, first.0).unwrap();
    let again = take_back(&mut memory, 2).unwrap();
    assert_eq!(memory.undone_by(EditId(2)), Some(again));
    assert_eq!(memory.contents().text_of("u1"), Some("tea"));
}

#[test]
fn an_entry_that_has_changed_since_is_shown_both_ways() {
    let mut memory = memory();
    let changed = |now: &str| Denied::ChangedSince {
        edit: EditId(1),
        subject: "u1".into(),
        then: "tea".into(),
        now: now.into(),
    };
    assert_eq!(take_back(&mut memory, 1), Err(changed("coffee")));
    let gone = edit(4, removal(memory.contents(), "u1"));
    memory.apply(gone).unwrap();
    assert_eq!(take_back(&mut memory, 1), Err(changed("not in memory")));
}

#[test]
fn a_redo_of_an_untrusted_note_is_untrusted() {
    let mut memory = memory();
    let undone = take_back(&mut memory, 3).unwrap();
    let redo = take_back(&mut memory, undone.0).unwrap();
    assert_eq!(memory.edit(redo).unwrap().label, Label::UNLABELLED);
    assert_eq!(
        memory.contents().note("n3").unwrap().label,
        Label::UNLABELLED
    );
}

#[test]
fn an_undo_keeps_within_the_bound_of_identity() {
    let rules = Rules {
        identity_chars_max: 8,
        ..Rules::default()
    };
    let mut memory = Memory::default();
    memory.apply(edit(1, vec![added("u1", "four")])).unwrap();
    memory
        .apply(edit(2, removal(memory.contents(), "u1")))
        .unwrap();
    memory.apply(edit(3, vec![added("u3", "sixsix")])).unwrap();
    assert!(matches!(
        undo(&memory, EditId(2), &rules, AT),
        Err(Denied::IdentityFull { chars: 10, max: 8 })
    ));
}

#[test]
fn several_changes_are_undone_last_first() {
    let mut memory = memory();
    let both = edit(
        4,
        vec![
            replaced("u1", "coffee", "water"),
            replaced("u1", "water", "milk"),
        ],
    );
    memory.apply(both).unwrap();
    take_back(&mut memory, 4).unwrap();
    assert_eq!(memory.contents().text_of("u1"), Some("coffee"));
}

#[test]
fn forget_takes_the_one_that_is_meant() {
    let mut memory = memory();
    let moved = Change::Moved {
        about: About::User,
        entry: "u1".into(),
        text: "coffee".into(),
    };
    memory.apply(edit(4, vec![moved])).unwrap();
    let ids = |denied| match denied {
        Err(Denied::NoMatch(ids) | Denied::Ambiguous(ids)) => ids,
        other => panic!("{other:?}"),
    };
    assert_eq!(ids(forget(&memory, "nothing like it", AT)), ["n3", "u1"]);
    assert_eq!(ids(forget(&memory, "f", AT)), ["n3", "u1"]);
    assert!(forget(&memory, " ", AT).is_err());
    for words in ["n3", "A PAGE"] {
        let edit = forget(&memory, words, AT).unwrap();
        assert_eq!(edit.changes[0].subject(), "n3");
    }
    // What was moved to the notes is forgotten there, and an undo puts it back there.
    let edit = forget(&memory, "u1", AT).unwrap();
    let id = edit.id;
    memory.apply(edit).unwrap();
    assert_eq!(memory.contents().text_of("u1"), None);
    take_back(&mut memory, id.0).unwrap();
    assert_eq!(
        memory.contents().note("u1").map(|note| note.moved),
        Some(Some(About::User))
    );
}
