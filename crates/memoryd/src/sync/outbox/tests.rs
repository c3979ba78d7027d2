//! Cards in the outbox: their order and their end.

use bxwire::{Class, EditId, Label};

use super::*;
use crate::{
    edit::{By, Card},
    sync::{config::tests::config, ledger::tests::opened_with, status},
};

fn carded(n: u64) -> Edit {
    let card = |line: String| Card {
        lines: vec![line],
        from: None,
    };
    Edit {
        id: EditId(n),
        at: "2026-01-31T10:00:00.000Z".into(),
        by: By::Owner {},
        what: "profile".into(),
        changes: vec![Change::Carded {
            card: format!("c{n}"),
            before: card("old".into()),
            after: card(format!("card {n}")),
        }],
        undoes: None,
        label: Label::PRIVATE,
        kept_local: None,
        files: Vec::new(),
    }
}

/// An outbox with so many cards to send.
fn with_cards(count: u64) -> Outbox {
    let mut outbox = Outbox::new(config(), opened_with(None), 1);
    let brief = EditBrief {
        secret_text: false,
        excluded: false,
        authors: Vec::new(),
    };
    for n in 1..=count {
        outbox.edit_made(carded(n), brief.clone());
    }
    outbox
}

/// Does everything up to the next card or wait.
fn run(outbox: &mut Outbox, now: Millis) -> Task {
    loop {
        let outcome = match outbox.next(now) {
            Task::Append(_) => Outcome::Appended,
            Task::AskBroker(_) => Outcome::Broker(Some(SessionState {
                class: Class::Private,
                untrusted: false,
                seen: true,
            })),
            Task::Load(steps) => {
                let load = |step: &StepRef| Ok(Load::Card(vec![step.item.to_string()]));
                Outcome::Loaded(steps.iter().map(load).collect())
            }
            Task::Call(request) => match *request {
                Request::SetCard { .. } => return Task::Call(request),
                Request::Workspace { .. } => {
                    Outcome::Called(Ok(Answer::Workspace { all_off: false }))
                }
                _ => Outcome::Called(Ok(Answer::Done)),
            },
            wait @ Task::Wait(_) => return wait,
        };
        outbox.done(outcome, now);
    }
}

#[test]
fn a_card_without_an_answer_is_waited_for_before_any_other_goes() {
    let mut outbox = with_cards(2);
    let card = |task: Task| match task {
        Task::Call(request) => match *request {
            Request::SetCard { lines, .. } => Some(lines[0].clone()),
            _ => None,
        },
        _ => None,
    };
    let begun = Millis(1_000_000);
    assert_eq!(card(run(&mut outbox, begun)).as_deref(), Some("e1"));
    let lost = Failure::Unknown {
        kind: "timeout",
        status: None,
    };
    outbox.done(Outcome::Called(Err(lost)), begun);
    let hold = SyncLimits::ms(config().limits.hold_conclusions_ms);
    // The outage's wait is long over, and the first request may yet be carried out.
    let task = run(&mut outbox, begun.plus_ms(hold - 1));
    assert_eq!(task, Task::Wait(Some(begun.plus_ms(hold))));
    let of = |item: &str| StepRef {
        item: item.parse().unwrap(),
        step: 0,
    };
    assert!(!outbox.in_doubt(&of("e1")), "it is simply tried again");
    let then = begun.plus_ms(hold);
    assert_eq!(card(run(&mut outbox, then)).as_deref(), Some("e1"));
    outbox.done(Outcome::Called(Ok(Answer::Done)), then);
    assert_eq!(card(run(&mut outbox, then)).as_deref(), Some("e2"));
}

#[test]
fn a_card_that_honcho_never_takes_is_failed_once_others_go_through() {
    let mut outbox = with_cards(1);
    let error = Failure::Unknown {
        kind: "server error",
        status: Some(500),
    };
    let mut now = Millis(1_000_000);
    for _ in 0..2 * SERVER_ERRORS_MAX {
        now = now.plus_ms(1_000_000);
        if matches!(run(&mut outbox, now), Task::Call(_)) {
            outbox.done(Outcome::Called(Err(error)), now);
        }
        // Something else of the same kind goes through meanwhile.
        *outbox.successes.entry((Role::Trusted, false)).or_default() += 1;
    }
    let _ = run(&mut outbox, now);
    let failed: Vec<_> = outbox.ledger().failed().collect();
    assert_eq!(
        failed.len(),
        1,
        "{:?}",
        outbox.ledger().counts(Role::Trusted)
    );
}

#[test]
fn what_a_look_before_a_send_tells_counts_for_what_waits_in_that_session() {
    let session: SessionId = "20260131-abcdefghijkl".parse().unwrap();
    let brief = |turn| TurnBrief {
        session: session.clone(),
        turn,
        facts: TurnFacts {
            outcome: bxwire::log::Outcome::Replied,
            origin: bxwire::Origin::Interactive,
            who: decide::Who::Known,
            content: decide::Content::Plain,
            before_opening: false,
            log: Label::PRIVATE,
            broker_results: true,
            broker: None,
            owner: None,
        },
        peer: Some("owner".into()),
        speaker: None,
    };
    let says = |seen| {
        Outcome::Broker(Some(SessionState {
            class: Class::Private,
            untrusted: false,
            seen,
        }))
    };
    let mut outbox = Outbox::new(config(), opened_with(None), 1);
    let now = Millis(1);
    // As far as the next question to brokerd.
    let asked = |outbox: &mut Outbox| {
        loop {
            let outcome = match outbox.next(now) {
                Task::Append(_) => Outcome::Appended,
                Task::Call(request) => Outcome::Called(Ok(match *request {
                    Request::Workspace { .. } => Answer::Workspace { all_off: false },
                    _ => Answer::Done,
                })),
                Task::AskBroker(_) => return,
                other => panic!("{other:?}"),
            };
            outbox.done(outcome, now);
        }
    };
    outbox.turn_ended(brief(1));
    asked(&mut outbox);
    outbox.done(says(true), now);
    asked(&mut outbox);
    // The look before the send is on its way when the second turn ends.
    outbox.turn_ended(brief(2));
    outbox.done(says(false), now);
    outbox.ask_again();
    // A tool call had brokerd see the session anew.
    asked(&mut outbox);
    outbox.done(says(true), now);
    let waits: Vec<_> = outbox.undecided().map(|(_, reason)| reason).collect();
    assert_eq!(waits, [Some(WaitReason::BrokerForgot)]);
}

#[test]
fn a_ledger_that_cannot_be_written_is_said_in_status_and_why() {
    let mut outbox = with_cards(1);
    let now = Millis(1);
    let told = |outbox: &Outbox| {
        let why = status::why(outbox, &"e1".parse().unwrap(), Vec::new());
        (status::notices(outbox, now).len(), why.facts[0].1.clone())
    };
    assert_eq!(told(&outbox).0, 0);
    while !outbox.appends_fail() {
        let outcome = match outbox.next(now) {
            Task::Append(_) => Outcome::AppendFailed,
            other => panic!("{other:?}"),
        };
        outbox.done(outcome, now);
    }
    let (notices, decision) = told(&outbox);
    assert_eq!(notices, 1);
    assert_eq!(decision, "none yet: the ledger cannot be written");
}
