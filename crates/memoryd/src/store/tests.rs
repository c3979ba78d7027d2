//! The store on a real folder: crash states told by hash, hand edits, a disk that refuses.

use std::fs;

use bxwire::Label;

use super::*;
use crate::edit::{By, Change};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> Store {
        Store::open(self.0.path(), Rules::default(), Refuser::new(&[])).unwrap()
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.path().join(file)).unwrap_or_default()
    }

    fn put(&self, file: &str, text: &str) {
        fs::write(self.0.path().join(file), text).unwrap();
    }
}

fn add(store: &Store, text: &str) -> Result<Written, WriteError> {
    store.write(|memory, _, _, at| {
        let id = memory.next_id();
        Ok(Edit {
            id,
            at: at.into(),
            by: By::Owner {},
            what: "add".into(),
            changes: vec![Change::Added {
                about: About::User,
                entry: format!("u{}", id.0),
                text: text.into(),
            }],
            undoes: None,
            label: Label::PRIVATE,
            kept_local: None,
            files: Vec::new(),
        })
    })
}

#[test]
fn an_edit_is_in_the_journal_and_in_the_file() {
    let folder = Folder::new();
    let store = folder.open();
    let written = add(&store, "tea").unwrap();
    assert!(written.behind.is_empty());
    assert_eq!(folder.read("user.md"), "# About the owner\n\n- tea ^u1\n");
    let change = &written.edit.files[0];
    assert_eq!((change.before.as_str(), change.after.len()), ("", 64));
    drop(store);
    let store = folder.open();
    assert_eq!(store.last_edit(), EditId(1));
    assert_eq!(store.edit(EditId(1)), Some(written.edit.clone()));
    assert_eq!(store.edits_after(EditId(0)), [written.edit]);
    assert_eq!(store.edits_after(EditId(1)), []);
    assert!(store.held().is_empty() && store.notices().is_empty());
}

#[test]
fn a_crash_between_line_and_file_is_redone_at_start() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "tea").unwrap();
    let before = folder.read("user.md");
    add(&store, "chess").unwrap();
    let after = folder.read("user.md");
    drop(store);
    folder.put("user.md", &before);
    let store = folder.open();
    assert_eq!(folder.read("user.md"), after);
    assert!(store.held().is_empty());
    drop(store);
    // The very first write of a file, too.
    let folder = Folder::new();
    add(&folder.open(), "tea").unwrap();
    fs::remove_file(folder.0.path().join("user.md")).unwrap();
    folder.open();
    assert_eq!(folder.read("user.md"), before);
}

#[test]
fn a_hand_edit_is_held_until_it_is_accepted() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "tea").unwrap();
    let by_hand = "- tea ^u1\n- by hand\n";
    folder.put("user.md", by_hand);
    assert_eq!(store.held(), ["user.md"]);
    let refused = add(&store, "chess").unwrap_err();
    assert!(matches!(refused, WriteError::Denied(Denied::Held(_))));
    assert_eq!(folder.read("user.md"), by_hand);
    let preview = store.accept(false).unwrap();
    assert_eq!(preview.lines, ["user.md: adds: by hand"]);
    assert_eq!(preview.written, None);
    assert_eq!(store.last_edit(), EditId(1));
    let accepted = store.accept(true).unwrap();
    assert_eq!(accepted.written.unwrap().edit.id, EditId(2));
    assert_eq!(
        folder.read("user.md"),
        "# About the owner\n\n- tea ^u1\n- by hand ^u2\n"
    );
    assert!(store.held().is_empty());
    add(&store, "chess").unwrap();
    let nothing = store.accept(true).unwrap();
    assert_eq!(nothing.written, None);
}

#[test]
fn what_was_changed_again_after_it_was_shown_is_not_accepted_unseen() {
    let folder = Folder::new();
    let store = folder.open();
    folder.put("user.md", "- seen\n");
    store.accept(false).unwrap();
    folder.put("user.md", "- not seen\n");
    assert!(matches!(store.accept(true), Err(WriteError::Denied(_))));
    assert_eq!(store.last_edit(), EditId(0));
    store.accept(false).unwrap();
    store.accept(true).unwrap();
    assert!(folder.read("user.md").contains("not seen ^u1"));
}

#[test]
fn a_crash_after_an_accepted_line_is_redone_too() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "tea").unwrap();
    let by_hand = "- tea ^u1\n- by hand\n";
    folder.put("user.md", by_hand);
    store.accept(true).unwrap();
    let after = folder.read("user.md");
    drop(store);
    folder.put("user.md", by_hand);
    folder.open();
    assert_eq!(folder.read("user.md"), after);
}

#[test]
fn files_that_were_never_journalled_or_were_removed_are_held() {
    let folder = Folder::new();
    folder.put("memory.md", "- written first\n");
    fs::create_dir(folder.0.path().join("notes")).unwrap();
    folder.put("notes/2026-01.md", "- a note\n");
    let store = folder.open();
    assert_eq!(store.held(), ["memory.md", "notes/2026-01.md"]);
    add(&store, "tea").unwrap();
    add(&store, "chess").unwrap();
    store.accept(true).unwrap();
    assert_eq!(store.held(), Vec::<String>::new());
    fs::remove_file(folder.0.path().join("user.md")).unwrap();
    assert_eq!(store.held(), ["user.md"]);
    let lines = store.accept(false).unwrap().lines;
    assert_eq!(lines.len(), 2, "{lines:?}");
    let notices = store.notices();
    assert_eq!(notices[0].runbook.as_deref(), Some("hand-edit-held"));
}

#[test]
fn a_file_put_back_by_hand_while_we_run_is_a_hand_edit() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "tea").unwrap();
    let before = folder.read("user.md");
    add(&store, "chess").unwrap();
    folder.put("user.md", &before);
    assert_eq!(store.held(), ["user.md"]);
}

#[test]
fn a_file_that_cannot_be_written_is_written_later() {
    let folder = Folder::new();
    let store = folder.open();
    // A folder in the file's temporary place.
    let blocked = folder.0.path().join("user.md.new");
    fs::create_dir(&blocked).unwrap();
    let written = add(&store, "tea").unwrap();
    assert_eq!(written.behind, ["user.md"]);
    assert_eq!(store.notices()[0].runbook.as_deref(), Some("append-failed"));
    let refused = add(&store, "chess").unwrap_err();
    assert!(matches!(refused, WriteError::File { .. }));
    fs::remove_dir(&blocked).unwrap();
    assert!(store.notices().is_empty());
    assert!(folder.read("user.md").contains("tea ^u1"));
    add(&store, "chess").unwrap();
}
