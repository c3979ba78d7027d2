//! What lines add up to, which fit, and how they are written.

use bxwire::Label;

use super::*;

fn opened() -> Ledger {
    opened_with(Some("a key"))
}

/// A ledger with its first line alone.
pub fn opened_with(key: Option<&str>) -> Ledger {
    let mut ledger = Ledger::default();
    let line = Line::Opened {
        at: Millis(0),
        installation: "i".into(),
        key: key.map(str::to_owned),
    };
    ledger.apply(&line).unwrap();
    ledger
}

fn turn(n: u64) -> Decided {
    let from: SessionId = "20260131-abcdefghijkl".parse().unwrap();
    Decided {
        at: Millis(1),
        item: ItemId::Turn {
            session: from.clone(),
            turn: n,
        },
        skip: None,
        session: Some(HonchoSession {
            name: from.to_string(),
            speakers: vec!["owner".into()],
        }),
        from: Some(from),
        steps: vec![Step::Messages {
            role: Role::Trusted,
            peer: "owner".into(),
        }],
        log: Label::PRIVATE,
        broker: None,
        speaker: None,
        made: None,
    }
}

fn step(decided: &Decided) -> StepRef {
    StepRef {
        item: decided.item.clone(),
        step: 0,
    }
}

#[test]
fn what_is_decided_waits_until_it_is_sent() {
    let mut ledger = opened();
    let (one, two) = (turn(1), turn(2));
    ledger.apply(&Line::Decided(one.clone())).unwrap();
    ledger.apply(&Line::Decided(two.clone())).unwrap();
    let place = ledger.place(&step(&one)).unwrap();
    let open: Vec<_> = ledger.open_at(&place).map(|(_, step)| step).collect();
    assert_eq!(open, [step(&one), step(&two)]);
    let sent = Line::Sent {
        at: Millis(2),
        steps: vec![SentStep {
            step: step(&one),
            ids: vec!["m1".into()],
            found: false,
        }],
    };
    ledger.apply(&sent).unwrap();
    assert_eq!(ledger.open_at(&place).count(), 1);
    assert_eq!(ledger.last_sent(Role::Trusted), Some(&step(&one)));
    assert_eq!(ledger.turns_since(), Some(Millis(2)));
    assert!(ledger.knows("m1") && !ledger.knows("m"));
    let counts = ledger.counts(Role::Trusted);
    assert_eq!((counts.decided, counts.open, counts.sent), (2, 1, 1));
    let failed = Line::Failed {
        at: Millis(3),
        step: step(&two),
        kind: "refused".into(),
        status: Some(422),
    };
    ledger.apply(&failed).unwrap();
    assert_eq!(ledger.failed().collect::<Vec<_>>(), [&step(&two)]);
    let again = Line::Requeued {
        at: Millis(4),
        step: step(&two),
    };
    ledger.apply(&again).unwrap();
    let counts = ledger.counts(Role::Trusted);
    assert_eq!(
        (counts.open, counts.failed, ledger.failed().count()),
        (1, 0, 0)
    );
}

#[test]
fn a_line_that_does_not_fit_is_refused() {
    let sent = Line::Withdrawn {
        at: Millis(0),
        step: step(&turn(1)),
    };
    assert_eq!(Ledger::default().apply(&sent), Err(Misfit::NotOpened));
    let mut ledger = opened();
    assert_eq!(ledger.apply(&sent), Err(Misfit::UnknownStep));
    ledger.apply(&Line::Decided(turn(1))).unwrap();
    assert_eq!(
        ledger.apply(&Line::Decided(turn(1))),
        Err(Misfit::DecidedTwice)
    );
}

#[test]
fn a_decision_with_a_later_kind_of_step_is_newer_to_older_programs_and_reads_back() {
    let forget = Step::Forget {
        slot: "d1".into(),
        id: "x".into(),
    };
    let card = Step::Card {
        slot: "c1".into(),
        change: 0,
    };
    let delete = Step::DeleteSession {
        role: Role::Fleet,
        session: "s".into(),
    };
    for step in [forget, card, delete] {
        let mut decided = turn(1);
        decided.steps.push(step);
        let line = Line::Decided(decided);
        let text = written(&line);
        assert!(text.starts_with(r#"{"type":"decided2","#), "{text}");
        assert_eq!(parse(&text).unwrap(), line);
    }
    let known = Line::Decided(turn(1));
    assert!(written(&known).starts_with(r#"{"type":"decided","#));
    assert_eq!(parse(&written(&known)).unwrap(), known);
}

/// A ledger with two notes that edit `n` wrote, the second of which was taken back, and then came back; and what its
/// four messages are called.
fn names(mut ledger: Ledger, n: u64) -> Vec<String> {
    let of = |n, step| StepRef {
        item: ItemId::Edit(bxwire::EditId(n)),
        step,
    };
    let note = |n: u64, part: usize| Step::Note {
        slot: format!("n{n}-{part}"),
        change: part,
        from: None,
    };
    let edits = [
        (n, vec![note(n, 0), note(n, 1)]),
        (n + 1, vec![Step::Retract { of: of(n, 1) }]),
        (n + 2, vec![note(n, 1)]),
    ];
    for (edit, steps) in edits {
        let item = ItemId::Edit(bxwire::EditId(edit));
        let decided = Decided {
            item,
            steps,
            ..turn(1)
        };
        ledger.apply(&Line::Decided(decided)).unwrap();
    }
    let all = [of(n, 0), of(n, 1), of(n + 1, 0), of(n + 2, 0)];
    all.iter().map(|step| ledger.name(step)).collect()
}

#[test]
fn a_fleet_messages_name_is_its_own_and_tells_nothing_of_other_sessions_edits() {
    let known = names(opened(), 1);
    let distinct: BTreeSet<_> = known.iter().collect();
    assert_eq!(distinct.len(), 4, "{known:?}");
    let hex = |name: &String| name.len() == 16 && name.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(known.iter().all(hex), "{known:?}");
    // Ten edits of other sessions later, and in a second reading of the ledger.
    assert_eq!(names(opened(), 11), known);
    assert_ne!(names(opened_with(Some("another")), 1), known);
}

#[test]
fn a_ledger_without_a_key_is_read_and_tells_notes_apart_all_the_same() {
    let line =
        parse(r#"{"type":"opened","at":"1970-01-01T00:00:00Z","installation":"i"}"#).unwrap();
    let mut ledger = Ledger::default();
    ledger.apply(&line).unwrap();
    assert_eq!(names(ledger, 7), ["e7", "e7-1", "e8", "e9"]);
}

#[test]
fn a_session_is_held_until_each_held_turn_is_decided() {
    let mut ledger = opened();
    let session: SessionId = "20260131-abcdefghijkl".parse().unwrap();
    let held = Line::Held {
        at: Millis(1),
        session: session.clone(),
        turns: vec![2, 3],
    };
    ledger.apply(&held).unwrap();
    for n in [1, 2] {
        ledger.apply(&Line::Decided(turn(n))).unwrap();
        assert!(ledger.held(&session).is_some(), "{n}");
    }
    ledger.apply(&Line::Decided(turn(3))).unwrap();
    assert_eq!(ledger.held(&session), None);
}

#[test]
fn an_older_card_is_not_sent_after_a_newer_one() {
    let mut ledger = opened();
    let replaced = |n| Decided {
        item: ItemId::Edit(bxwire::EditId(n)),
        steps: vec![Step::Card {
            slot: format!("c{n}"),
            change: 0,
        }],
        ..turn(1)
    };
    let (one, two) = (replaced(1), replaced(2));
    for decided in [&one, &two] {
        ledger.apply(&Line::Decided(decided.clone())).unwrap();
    }
    assert_eq!(ledger.card_open(), Some(&two.item));
    let sent = |decided: &Decided| Line::Sent {
        at: Millis(2),
        steps: vec![SentStep {
            step: step(decided),
            ids: Vec::new(),
            found: false,
        }],
    };
    assert!(!ledger.is_old_card(&step(&one)));
    assert_eq!(ledger.card_whose(), None);
    ledger.apply(&sent(&two)).unwrap();
    assert_eq!(ledger.card_whose(), two.from.as_ref());
    assert_eq!(ledger.card_open(), Some(&one.item));
    assert!(ledger.is_old_card(&step(&one)) && !ledger.is_old_card(&step(&two)));
    assert_eq!(ledger.last_sent(Role::Trusted), None, "nothing to look for");
}

#[test]
fn a_line_reads_back_and_a_newer_kind_is_newer() {
    for line in [
        Line::Decided(turn(1)),
        Line::Sending {
            at: Millis(5),
            steps: vec![step(&turn(1))],
        },
        Line::Failed {
            at: Millis(5),
            step: step(&turn(1)),
            kind: "refused".into(),
            status: Some(422),
        },
        Line::Held {
            at: Millis(5),
            session: "20260131-abcdefghijkl".parse().unwrap(),
            turns: vec![1, 2],
        },
    ] {
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(parse(&text).unwrap(), line, "{text}");
    }
    use bxcore::append::BadLine;
    assert_eq!(parse(r#"{"type":"folded"}"#), Err(BadLine::Newer));
    assert!(matches!(
        parse(r#"{"type":"sent"}"#),
        Err(BadLine::Corrupt(_))
    ));
    assert!(matches!(parse("nonsense"), Err(BadLine::Corrupt(_))));
}

#[test]
fn a_place_is_doomed_until_the_last_of_its_deletions_is_done() {
    let mut ledger = opened();
    let place = Place {
        role: Role::Trusted,
        session: "s".into(),
    };
    let deletion = |n| Decided {
        steps: vec![Step::DeleteSession {
            role: place.role,
            session: place.session.clone(),
        }],
        ..turn(n)
    };
    for n in [1, 2] {
        ledger.apply(&Line::Decided(deletion(n))).unwrap();
    }
    for n in [1, 2] {
        assert!(ledger.is_doomed(&place));
        let sent = Line::Sent {
            at: Millis(2),
            steps: vec![SentStep {
                step: step(&deletion(n)),
                ids: Vec::new(),
                found: false,
            }],
        };
        ledger.apply(&sent).unwrap();
    }
    assert!(!ledger.is_doomed(&place));
    let step = step(&deletion(1));
    let at = Millis(3);
    ledger.apply(&Line::Requeued { at, step }).unwrap();
    assert!(ledger.is_doomed(&place));
}

#[test]
fn what_arrives_in_a_session_that_is_about_to_be_deleted_is_not_looked_for() {
    let mut ledger = opened();
    let sent = |decided: &Decided| Line::Sent {
        at: Millis(3),
        steps: vec![SentStep {
            step: step(decided),
            ids: vec!["m1".into()],
            found: false,
        }],
    };
    let flying = turn(1);
    ledger.apply(&Line::Decided(flying.clone())).unwrap();
    let steps = vec![step(&flying)];
    let at = Millis(2);
    ledger.apply(&Line::Sending { at, steps }).unwrap();
    let place = ledger.place(&step(&flying)).unwrap();
    let deletion = Decided {
        steps: vec![Step::DeleteSession {
            role: place.role,
            session: place.session,
        }],
        ..turn(2)
    };
    ledger.apply(&Line::Decided(deletion.clone())).unwrap();
    ledger.apply(&sent(&flying)).unwrap();
    assert_eq!(ledger.last_sent(Role::Trusted), None);
    ledger.apply(&sent(&deletion)).unwrap();
    assert_eq!(ledger.last_sent(Role::Trusted), None);
}
