//! What a session's label is over every short run, what is kept of what raised it, and the lines of the file.

use bxwire::{Class, Trust};

use super::*;

const SECRET: Label = Label::new(Class::Secret, Trust::Trusted);

fn session(n: u8) -> SessionId {
    SessionId::new("20260131", [n; 12]).unwrap()
}

fn cause(source: &str, label: Label) -> Cause {
    Cause {
        source: source.into(),
        label,
    }
}

/// Every run of `steps` changes over all labels, each written or not.
fn runs(steps: usize) -> Vec<Vec<(Label, bool)>> {
    let mut runs = vec![Vec::new()];
    for _ in 0..steps {
        runs = runs
            .iter()
            .flat_map(|run| {
                Label::all().flat_map(move |label| {
                    [true, false].map(|written| [&run[..], &[(label, written)]].concat())
                })
            })
            .collect();
    }
    runs
}

#[test]
fn a_session_nobody_saw_is_private_clean_and_not_seen() {
    let labels = Labels::default();
    let state = labels.state(&session(1));
    assert_eq!(
        (state.class, state.untrusted, state.seen),
        (Class::Private, false, false)
    );
    assert_eq!(labels, Labels::default());
}

#[test]
fn first_sight_has_a_line_even_when_nothing_is_raised() {
    let mut labels = Labels::default();
    let joined = labels.join(&session(1), Label::default(), &[]);
    assert!(matches!(&joined.record, Some(Record::Seen { label, .. }) if *label == START));
    assert!(!labels.state(&session(1)).seen, "not before it is durable");
    labels.commit(&joined);
    assert!(labels.state(&session(1)).seen);
    assert_eq!(labels.join(&session(1), Label::PRIVATE, &[]).record, None);
}

#[test]
fn over_every_short_run_no_label_falls_and_the_disk_is_enough() {
    for run in runs(3) {
        let (mut live, mut disk) = (Labels::default(), Labels::default());
        for (label, written) in &run {
            let before = live.label(&session(1));
            let joined = live.join(&session(1), *label, &[cause("x", *label)]);
            let released = match (&joined.record, written) {
                (Some(record), true) => {
                    disk.replay(record);
                    live.commit(&joined);
                    true
                }
                (Some(_), false) => {
                    live.failed(&joined);
                    false
                }
                (None, _) => {
                    live.commit(&joined);
                    true
                }
            };
            let after = live.label(&session(1));
            assert!(after.covers(before) && after.covers(*label), "{run:?}");
            if released {
                assert!(disk.state(&session(1)).seen, "{run:?}");
                assert_eq!(disk.label(&session(1)), after, "{run:?}");
            }
        }
        if run.iter().all(|(_, written)| *written) {
            assert_eq!(live, disk, "{run:?}");
        }
    }
}

#[test]
fn a_failed_line_comes_again_with_its_causes() {
    let mut labels = Labels::default();
    let first = labels.join(&session(1), Label::PRIVATE, &[]);
    labels.commit(&first);
    let letter = cause("read_file inbox/letter.txt", Label::UNLABELLED);
    let lost = labels.join(
        &session(1),
        Label::UNLABELLED,
        std::slice::from_ref(&letter),
    );
    labels.failed(&lost);
    assert!(labels.state(&session(1)).untrusted);
    let again = labels.join(&session(1), Label::PRIVATE, &[]);
    assert!(
        matches!(&again.record, Some(Record::Raised { label, causes, .. })
            if *label == Label::UNLABELLED && *causes == [letter]),
        "{again:?}"
    );
}

#[test]
fn a_cause_with_a_higher_label_than_the_result_counts() {
    let labels = Labels::default();
    let joined = labels.join(&session(1), Label::PRIVATE, &[cause("x", SECRET)]);
    assert_eq!(joined.label, SECRET);
}

#[test]
fn causes_are_bounded_distinct_and_one_plain_line_each() {
    let mut labels = Labels::default();
    let many: Vec<_> = (0..CAUSES_MAX + 9)
        .map(|n| {
            cause(
                &format!("file {n}\u{1b}[31m\nred {}", "x".repeat(300)),
                SECRET,
            )
        })
        .collect();
    let joined = labels.join(&session(1), SECRET, &many);
    labels.commit(&joined);
    let (causes, more) = labels.causes(&session(1));
    assert_eq!((causes.len(), more), (CAUSES_MAX, 9));
    for cause in causes {
        assert!(cause.source.chars().count() <= SOURCE_CHARS_MAX);
        assert!(!cause.source.contains(['\u{1b}', '\n']));
    }
    let again = labels.join(&session(1), SECRET, &many[..CAUSES_MAX]);
    assert_eq!(again.record, None);
    // What there is no room for is counted, on the disk too.
    let mut disk = Labels::default();
    disk.replay(joined.record.as_ref().unwrap());
    let further = labels.join(&session(1), SECRET, &many[CAUSES_MAX..][..1]);
    labels.commit(&further);
    disk.replay(further.record.as_ref().unwrap());
    assert_eq!(labels.causes(&session(1)).1, 10);
    assert_eq!(labels, disk);
}

#[test]
fn what_comes_later_is_kept_though_it_raises_nothing_more() {
    let (mut labels, mut disk) = (Labels::default(), Labels::default());
    let letter = cause("read_file inbox/letter.txt", Label::UNLABELLED);
    let note = cause("recall read a fleet note by kitchen", Label::UNLABELLED);
    let own = cause("memory note", Label::PRIVATE);
    for causes in [
        vec![letter.clone()],
        vec![own, note.clone(), note.clone()],
        vec![note.clone(), letter.clone()],
    ] {
        let joined = labels.join(&session(1), Label::UNLABELLED, &causes);
        joined
            .record
            .iter()
            .for_each(|record| disk.replay(&read(record)));
        labels.commit(&joined);
    }
    assert_eq!(labels.causes(&session(1)), (vec![letter, note], 0));
    assert_eq!(labels, disk);
}

#[test]
fn loopds_word_is_a_cause_only_where_nothing_else_was_one() {
    let mut labels = Labels::default();
    let letter = cause("read_file inbox/letter.txt", Label::UNLABELLED);
    let read = labels.join(
        &session(1),
        Label::UNLABELLED,
        std::slice::from_ref(&letter),
    );
    labels.commit(&read);
    let heard = labels.heard(&session(1), Label::UNLABELLED, "the log");
    assert_eq!((heard.record, heard.causes), (None, Vec::new()));
    let heard = labels.heard(&session(1), SECRET, "the log");
    labels.commit(&heard);
    let both = vec![letter, cause("the log", SECRET)];
    assert_eq!(labels.causes(&session(1)), (both, 0));
}

#[test]
fn a_lost_line_of_a_later_cause_comes_again() {
    let mut labels = Labels::default();
    for n in 0..2 {
        let causes = [cause(&format!("file {n}"), SECRET)];
        let joined = labels.join(&session(1), SECRET, &causes);
        match n {
            0 => labels.commit(&joined),
            _ => labels.failed(&joined),
        }
    }
    let again = labels.join(&session(1), Label::PRIVATE, &[]);
    assert!(
        matches!(&again.record, Some(Record::Raised { causes, .. })
            if *causes == [cause("file 1", SECRET)]),
        "{again:?}"
    );
}

/// As it is after a line on the disk.
fn read(record: &Record) -> Record {
    read_line(&serde_json::to_string(record).unwrap()).unwrap()
}

#[test]
fn sessions_are_counted() {
    let mut labels = Labels::default();
    for (n, label) in [(1, Label::PRIVATE), (2, Label::UNLABELLED), (3, SECRET)] {
        let joined = labels.join(&session(n), label, &[]);
        labels.commit(&joined);
    }
    let counts = labels.counts();
    assert_eq!((counts.seen, counts.untrusted, counts.secret), (3, 1, 1));
}

#[test]
fn lines_of_older_programs_which_repeat_every_cause_read_as_they_did() {
    let letter = r#"{"source":"letter","label":{"class":"private","untrusted":true}}"#;
    let plan = r#"{"source":"plan","label":{"class":"secret","untrusted":false}}"#;
    let head = format!(
        r#""v":1,"at":"2026-01-31T10:00:00.000Z","session":"{}""#,
        session(1)
    );
    let seen = format!(
        r#"{{"type":"seen",{head},"label":{{"class":"private","untrusted":true}},"causes":[{letter}]}}"#
    );
    let raised = format!(
        r#"{{"type":"raised",{head},"label":{{"class":"secret","untrusted":true}},"causes":[{letter},{plan}]}}"#
    );
    let mut labels = Labels::default();
    for line in [seen, raised] {
        labels.replay(&read_line(&line).unwrap());
    }
    let causes = vec![cause("letter", Label::UNLABELLED), cause("plan", SECRET)];
    assert_eq!(labels.causes(&session(1)), (causes.clone(), 0));
    let again = labels.join(&session(1), Label::PRIVATE, &causes);
    assert_eq!(again.record, None);
}

#[test]
fn lines_of_today_and_tomorrow() {
    let record = Record::Raised {
        session: session(1),
        label: Label::UNLABELLED,
        causes: vec![cause("x", Label::UNLABELLED)],
        more: 0,
    };
    let line = serde_json::to_string(&record).unwrap();
    assert!(
        !line.contains("more"),
        "as it was before there was such a member"
    );
    assert_eq!(read_line(&line), Ok(record));
    let newer = |line: &str| read_line(line) == Err(BadLine::Newer);
    assert!(newer(r#"{"type":"lowered"}"#));
    assert!(newer(&line.replacen('{', r#"{"v":2,"#, 1)));
    assert!(read_line(&line.replacen('{', r#"{"v":1,"later":7,"#, 1)).is_ok());
    for bad in ["", "{}", "[]", r#"{"type":"seen"}"#, "not json"] {
        assert!(matches!(read_line(bad), Err(BadLine::Corrupt(_))), "{bad}");
    }
}
