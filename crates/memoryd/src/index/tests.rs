//! The index on a real file: tables by label, catching up, rebuilding.

use bxwire::{
    Class, Origin, Trust,
    links::memory_tools::About,
    log::{Body, Outcome, Record},
};

use super::*;
use crate::{
    edit::{By, Change, Edit},
    memory::Memory,
};

struct World {
    folder: tempfile::TempDir,
    logs: Logs,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sessions = folder.path().join("sessions");
        fs::create_dir(&sessions).unwrap();
        Self {
            folder,
            logs: Logs::new(sessions),
        }
    }

    fn index(&self) -> Index {
        let index = Index::at(&self.path());
        index.last_edit().unwrap();
        index
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("index.sqlite")
    }

    fn say(&self, session: &SessionId, turn: u64, label: Label, text: &str) {
        let path = self.logs.folder().join(format!("{session}.jsonl"));
        let bodies = [
            Body::User {
                turn,
                key: "k".into(),
                text: text.into(),
                speaker: None,
                origin: Origin::Interactive,
                label,
                source: None,
            },
            Body::Assistant {
                turn,
                text: format!("answer about {text}"),
                reasoning: None,
                calls: Vec::new(),
            },
            Body::TurnEnd {
                turn,
                outcome: Outcome::Replied,
                usage: None,
                reason: None,
                runbook: None,
            },
        ];
        let mut text = fs::read_to_string(&path).unwrap_or_default();
        for body in bodies {
            let record = Record {
                seq: 1,
                at: "2026-01-31T10:00:00.000Z".into(),
                body,
            };
            text += &(serde_json::to_string(&record).unwrap() + "\n");
        }
        fs::write(&path, text).unwrap();
    }
}

fn session(tail: &str) -> SessionId {
    format!("20260131-{tail:a<12}").parse().unwrap()
}

fn found(index: &Index, label: Label, words: &str) -> Vec<String> {
    let rows = index
        .search(label, words, Millis(i64::MIN), Millis(i64::MAX), 50)
        .unwrap();
    rows.into_iter().map(|row| row.marked).collect()
}

fn take_all(index: &Index, world: &World) {
    let errors = index
        .take_logs(&world.logs, &AtomicBool::new(false))
        .unwrap();
    assert!(errors.errors.is_empty());
}

fn edit(memory: &mut Memory, label: Label, changes: Vec<Change>) -> EditId {
    let id = memory.next_id();
    let edit = Edit {
        id,
        at: "2026-01-31T10:00:00.000Z".into(),
        by: By::Owner {},
        what: "note".into(),
        changes,
        undoes: None,
        label,
        kept_local: None,
        files: Vec::new(),
    };
    memory.apply(edit).unwrap();
    id
}

/// Takes in the last edit of memory, as the service does.
fn take(index: &Index, memory: &Memory) -> bool {
    let edit = memory.edits().last().unwrap();
    let subjects = edit
        .changes
        .iter()
        .map(|change| change.subject().to_owned())
        .collect();
    let rows = of_memory(memory.contents(), Some(&subjects));
    index.take_edit(edit.id, &subjects, &rows).unwrap()
}

fn take_memory(index: &Index, memory: &Memory) {
    let last = EditId(memory.edits().len() as u64);
    index
        .take_memory(last, &of_memory(memory.contents(), None))
        .unwrap();
    assert_eq!(index.last_edit().unwrap(), last);
}

fn noted(id: &str, text: &str) -> Change {
    Change::Noted {
        note: id.into(),
        text: text.into(),
    }
}

#[test]
fn a_turn_is_in_the_table_of_its_label_only() {
    let world = World::new();
    let index = world.index();
    for (at, label) in Label::all().enumerate() {
        world.say(
            &session(&format!("s{at}")),
            1,
            label,
            &format!("apples {at}"),
        );
    }
    take_all(&index, &world);
    for (at, label) in Label::all().enumerate() {
        let rows = found(&index, label, "apple");
        assert_eq!(rows.len(), 2, "{label}: {rows:?}");
        assert!(rows[0].contains(&at.to_string()));
    }
}

#[test]
fn rows_of_other_labels_never_change_the_order_of_clean_ones() {
    let world = World::new();
    let index = world.index();
    let clean = session("clean");
    let texts = [
        "apples and pears and plums",
        "apples",
        "apples apples in a long text about gardens",
        "pears",
    ];
    for (at, text) in texts.iter().enumerate() {
        world.say(&clean, at as u64 + 1, Label::PRIVATE, text);
    }
    take_all(&index, &world);
    let query = "apples OR pears OR gardens";
    let before = found(&index, Label::PRIVATE, query);
    assert_eq!(before.len(), 8);
    for (at, label) in Label::all()
        .filter(|label| *label != Label::PRIVATE)
        .enumerate()
    {
        for n in 1..40 {
            world.say(
                &session(&format!("o{at}x{n}")),
                1,
                label,
                "apples gardens gardens",
            );
        }
    }
    take_all(&index, &world);
    assert_eq!(found(&index, Label::PRIVATE, query), before);
}

#[test]
fn only_what_is_new_is_taken_in() {
    let world = World::new();
    let index = world.index();
    let one = session("one");
    world.say(&one, 1, Label::PRIVATE, "apples");
    index.take_session(&world.logs, &one).unwrap();
    index.take_session(&world.logs, &one).unwrap();
    take_all(&index, &world);
    assert_eq!(index.rows().unwrap(), 2);
    world.say(&one, 2, Label::PRIVATE, "pears");
    take_all(&index, &world);
    assert_eq!(index.rows().unwrap(), 4);
    // A shorter log, as after a restore, is read anew; one that is gone is forgotten.
    fs::remove_file(world.logs.folder().join(format!("{one}.jsonl"))).unwrap();
    world.say(&one, 1, Label::PRIVATE, "plums");
    take_all(&index, &world);
    assert_eq!(found(&index, Label::PRIVATE, "apples OR pears").len(), 0);
    assert_eq!(found(&index, Label::PRIVATE, "plums").len(), 2);
    fs::remove_file(world.logs.folder().join(format!("{one}.jsonl"))).unwrap();
    take_all(&index, &world);
    assert_eq!(index.rows().unwrap(), 0);
}

#[test]
fn a_bad_log_keeps_no_other_back() {
    let world = World::new();
    let index = world.index();
    fs::write(
        world
            .logs
            .folder()
            .join(format!("{}.jsonl", session("bad"))),
        "nonsense\n",
    )
    .unwrap();
    world.say(&session("good"), 1, Label::PRIVATE, "apples");
    let errors = index
        .take_logs(&world.logs, &AtomicBool::new(false))
        .unwrap();
    assert_eq!(errors.errors.len(), 1);
    assert_eq!(found(&index, Label::PRIVATE, "apples").len(), 2);
}

#[test]
fn edits_come_and_go_with_memory() {
    let world = World::new();
    let index = world.index();
    let mut memory = Memory::default();
    let secret = Label::new(Class::Secret, Trust::Trusted);
    let entry = |text: &str| Change::Added {
        about: About::User,
        entry: "u1".into(),
        text: text.into(),
    };
    let steps: [(Label, Vec<Change>, &str, usize, usize); 6] = [
        (Label::PRIVATE, vec![entry("apples")], "apples", 1, 0),
        (secret, vec![noted("n2", "apples")], "apples", 1, 1),
        (
            Label::PRIVATE,
            vec![noted("n2", "apples").reversed()],
            "apples",
            1,
            0,
        ),
        // The note that comes back by the owner's hand is as secret as it was.
        (Label::PRIVATE, vec![noted("n2", "apples")], "apples", 1, 1),
        (
            Label::PRIVATE,
            vec![Change::Replaced {
                about: About::User,
                entry: "u1".into(),
                before: "apples".into(),
                after: "pears".into(),
            }],
            "pears",
            1,
            0,
        ),
        (
            Label::PRIVATE,
            vec![entry("pears").reversed()],
            "pears OR apples",
            0,
            1,
        ),
    ];
    for (label, changes, words, clean, hidden) in steps {
        let id = edit(&mut memory, label, changes);
        assert!(take(&index, &memory));
        assert_eq!(
            found(&index, Label::PRIVATE, words).len(),
            clean,
            "{id} {words}"
        );
        assert_eq!(found(&index, secret, words).len(), hidden, "{id} {words}");
    }
}

#[test]
fn missing_edits_are_taken_in_without_harm_to_turns() {
    let world = World::new();
    let index = world.index();
    world.say(&session("one"), 1, Label::PRIVATE, "plums");
    take_all(&index, &world);
    let mut memory = Memory::default();
    edit(&mut memory, Label::PRIVATE, vec![noted("n1", "apples")]);
    edit(&mut memory, Label::PRIVATE, vec![noted("n2", "pears")]);
    assert!(!take(&index, &memory));
    take_memory(&index, &memory);
    assert_eq!(
        found(&index, Label::PRIVATE, "apples OR pears OR plums").len(),
        4
    );
    take_memory(&index, &memory);
    assert_eq!(index.rows().unwrap(), 4);
    // After a restore the journal is shorter.
    let mut older = Memory::default();
    edit(&mut older, Label::PRIVATE, vec![noted("n1", "figs")]);
    take_memory(&index, &older);
    assert_eq!(found(&index, Label::PRIVATE, "apples OR pears").len(), 0);
    assert_eq!(found(&index, Label::PRIVATE, "figs OR plums").len(), 3);
}

#[test]
fn a_broken_file_and_another_version_are_rebuilt() {
    let world = World::new();
    world.say(&session("one"), 1, Label::PRIVATE, "apples");
    let filled = |index: &Index| {
        assert!(index.take_stale());
        assert!(!index.take_stale());
        take_all(index, &world);
        assert_eq!(found(index, Label::PRIVATE, "apples").len(), 2);
    };
    let index = world.index();
    filled(&index);
    drop(index);
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(world.path()).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    assert!(!world.index().take_stale());
    fs::write(
        world.path(),
        "this is no database, and it is long enough to be seen as none",
    )
    .unwrap();
    filled(&world.index());
    let other = Connection::open(world.path()).unwrap();
    other.pragma_update(None, "user_version", 99).unwrap();
    drop(other);
    filled(&world.index());
}

#[test]
fn threads_that_are_told_of_the_same_turn_take_it_once() {
    let world = World::new();
    let index = world.index();
    let one = session("one");
    for turn in 1..=20 {
        world.say(&one, turn, Label::PRIVATE, "apples");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| index.take_session(&world.logs, &one).unwrap());
            }
        });
        assert_eq!(index.rows().unwrap(), turn * 2);
    }
}

#[test]
fn what_sqlite_says_is_said_once() {
    let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
    let said = Some("database or disk is full".to_owned());
    let error = IndexError::Sqlite {
        path: "index.sqlite".into(),
        source: Sqlite(rusqlite::Error::SqliteFailure(full, said)),
    };
    assert_eq!(
        bxcore::report::line(&error, None),
        "cannot use the index index.sqlite: database or disk is full"
    );
}
