//! Notes and entries through edits and their undos, and ids.

use super::*;

fn edit(n: u64, changes: Vec<Change>) -> Edit {
    Edit {
        id: EditId(n),
        at: format!("2026-01-{n:02}T10:00:00.000Z"),
        by: By::Owner {},
        what: "add".into(),
        changes,
        undoes: None,
        label: Label::PRIVATE,
        kept_local: None,
        files: Vec::new(),
    }
}

fn noted(n: u64) -> Change {
    Change::Noted {
        note: format!("n{n}"),
        text: "x".into(),
    }
}

#[test]
fn a_note_taken_back_and_put_again_keeps_its_time_and_its_label() {
    let mut memory = Memory::default();
    let first = Edit {
        label: Label::UNLABELLED,
        kept_local: Some(KeptLocal::Flagged),
        ..edit(1, vec![noted(1)])
    };
    memory.apply(first).unwrap();
    let before = memory.contents().note("n1").unwrap().clone();
    memory.apply(edit(2, vec![noted(1).reversed()])).unwrap();
    assert_eq!(memory.contents().note("n1"), None);
    memory.apply(edit(3, vec![noted(1)])).unwrap();
    assert_eq!(memory.contents().note("n1"), Some(&before));
}

#[test]
fn what_is_put_back_stands_where_it_stood() {
    let added = |n: u64| Change::Added {
        about: About::User,
        entry: format!("u{n}"),
        text: format!("t{n}"),
    };
    let mut memory = Memory::default();
    for n in 1..=3 {
        memory.apply(edit(n, vec![added(n)])).unwrap();
    }
    let before: Vec<_> = ids(&memory);
    memory.apply(edit(4, vec![added(2).reversed()])).unwrap();
    memory.apply(edit(5, vec![added(2)])).unwrap();
    assert_eq!(ids(&memory), before);
}

fn ids(memory: &Memory) -> Vec<String> {
    let entries = memory.contents().entries(About::User);
    entries.iter().map(|entry| entry.id.clone()).collect()
}

#[test]
fn a_change_that_does_not_fit_names_both_texts() {
    let mut memory = Memory::default();
    memory.apply(edit(1, vec![noted(1)])).unwrap();
    let wrong = Change::Unnoted {
        note: "n1".into(),
        text: "y".into(),
    };
    let misfit = memory.preview(&edit(2, vec![wrong])).unwrap_err();
    assert_eq!(misfit.wanted.as_deref(), Some("y"));
    assert_eq!(misfit.found.as_deref(), Some("x"));
    assert!(memory.preview(&edit(2, vec![noted(1)])).is_err());
}

#[test]
fn ids_sort_by_number() {
    let mut ids = ["u10", "u7-2", "u7", "u7-10", "u2"];
    ids.sort_by_key(|id| order(id));
    assert_eq!(ids, ["u2", "u7", "u7-2", "u7-10", "u10"]);
}
