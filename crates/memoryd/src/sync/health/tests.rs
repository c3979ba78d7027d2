//! The looks of a day as values: what is asked and what each answer means.

use bxwire::{ItemId, Label, SessionId};

use super::*;
use crate::sync::{
    config::tests::config,
    ledger::{Decided, Line, SentStep, StepRef, tests::opened_with},
    naming::HonchoSession,
};

const DAY_MS: u64 = 86_400_000;

struct Sent {
    health: Health,
    ledger: Ledger,
    spaces: BTreeMap<Role, Space>,
}

impl Sent {
    fn new() -> Self {
        let ledger = opened_with(None);
        Self {
            health: Health::new(&ledger),
            ledger,
            spaces: Role::ALL.map(|role| (role, Space::default())).into(),
        }
    }

    fn item(&mut self, item: ItemId, step: Step, id: &str, at: Millis) {
        let from: SessionId = "20260131-abcdefghijkl".parse().unwrap();
        let decided = Decided {
            at,
            item: item.clone(),
            skip: None,
            session: Some(HonchoSession {
                name: from.to_string(),
                speakers: vec!["owner".into()],
            }),
            from: Some(from),
            steps: vec![step.clone()],
            log: Label::PRIVATE,
            broker: None,
            speaker: None,
            made: None,
        };
        self.ledger.apply(&Line::Decided(decided)).unwrap();
        let sent = SentStep {
            step: StepRef { item, step: 0 },
            ids: vec![id.into()],
            found: false,
        };
        let place = self.ledger.place(&sent.step).unwrap();
        let steps = vec![sent];
        self.ledger.apply(&Line::Sent { at, steps }).unwrap();
        self.health.sent(&place, &step, at);
    }

    fn turn(&mut self, turn: u64, at: Millis) {
        let session = "20260131-abcdefghijkl".parse().unwrap();
        let step = Step::Messages {
            role: Role::Trusted,
            peer: "owner".into(),
        };
        self.item(
            ItemId::Turn { session, turn },
            step,
            &format!("m{turn}"),
            at,
        );
    }

    fn conclusion(&mut self, edit: u64, at: Millis) {
        let step = Step::Conclude {
            peer: "owner".into(),
            slot: format!("u{edit}"),
            change: 0,
            from: None,
        };
        self.item(
            ItemId::Edit(bxwire::EditId(edit)),
            step,
            &format!("c{edit}"),
            at,
        );
    }

    fn next(&mut self, now: Millis) -> Option<Request> {
        self.health.next(&config(), &self.ledger, &self.spaces, now)
    }

    /// Makes every look that is due; what was asked, and what began and ended.
    fn looks(
        &mut self,
        now: Millis,
        answer: impl Fn(&Request) -> Result<Answer, Failure>,
    ) -> (Vec<Request>, Vec<Warning>, Vec<Warning>) {
        let (mut asked, mut began, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(request) = self.next(now) {
            assert_eq!(self.next(now).as_ref(), Some(&request), "asking again");
            let result = answer(&request);
            let (more, fewer) =
                self.health
                    .answered(&request, result, &config(), &self.ledger, now);
            began.extend(more);
            ended.extend(fewer);
            asked.push(request);
        }
        (asked, began, ended)
    }
}

const QUEUE: Queue = Queue {
    pending: 0,
    derives: true,
};

/// Everything is there, and `derived` was made of it.
fn well(request: &Request, derived: &[&str]) -> Result<Answer, Failure> {
    Ok(match request {
        Request::Queue { .. } => Answer::Queue(QUEUE),
        Request::FindMessages { names, .. } => {
            let id = match names[0].parse().unwrap() {
                ItemId::Turn { turn, .. } => format!("m{turn}"),
                ItemId::Edit(edit) => format!("m{}", edit.0),
            };
            Answer::Messages(vec![(names[0].clone(), 0, id)])
        }
        Request::Standing { ids, .. } => Answer::Conclusions(ids.clone()),
        _ => Answer::Conclusions(derived.iter().map(|id| (*id).to_owned()).collect()),
    })
}

fn at(days: u64) -> Millis {
    Millis(0).plus_ms(days * DAY_MS)
}

#[test]
fn nothing_is_looked_at_without_a_send_and_then_once_a_day() {
    let mut sent = Sent::new();
    assert_eq!(
        (sent.next(at(9)), sent.health.wake(&sent.spaces)),
        (None, None)
    );
    sent.turn(1, at(10));
    let (asked, began, _) = sent.looks(at(10), |request| well(request, &[]));
    assert_eq!((asked.len(), began), (2, Vec::new()), "{asked:?}");
    assert_eq!(sent.health.wake(&sent.spaces), None, "idle means asleep");
    sent.turn(2, at(10).plus_ms(5));
    assert_eq!(sent.next(at(10).plus_ms(5)), None);
    assert_eq!(sent.health.wake(&sent.spaces), Some(at(11)));
    assert!(sent.next(at(11)).is_some());
}

#[test]
fn a_workspace_that_does_not_answer_is_left_alone() {
    let mut sent = Sent::new();
    sent.turn(1, at(1));
    sent.spaces.get_mut(&Role::Trusted).unwrap().probe = true;
    assert_eq!(
        (sent.next(at(1)), sent.health.wake(&sent.spaces)),
        (None, None)
    );
    sent.spaces.get_mut(&Role::Trusted).unwrap().probe = false;
    let lost = Failure::Later {
        status: 429,
        after_s: None,
    };
    let (asked, ..) = sent.looks(at(1), |_| Err(lost));
    assert_eq!(asked.len(), 1, "the rest waits for the next send");
    assert_eq!(sent.next(at(5)), None);
}

#[test]
fn what_was_sent_last_and_is_missing_is_told_once_and_so_is_its_end() {
    let mut sent = Sent::new();
    sent.turn(1, at(1));
    let none = |request: &Request| match request {
        Request::FindMessages { .. } => Ok(Answer::Messages(Vec::new())),
        other => well(other, &["d1"]),
    };
    let missing = Warning::LastMissing(Role::Trusted);
    assert_eq!(sent.looks(at(1), none).1, [missing]);
    sent.turn(2, at(2));
    assert_eq!(sent.looks(at(2), none).1, []);
    assert!(sent.health.warnings().any(|warning| *warning == missing));
    sent.turn(3, at(3));
    let (_, began, ended) = sent.looks(at(3), |request| well(request, &["d1"]));
    assert_eq!((began, ended), (vec![], vec![missing]));
}

#[test]
fn a_day_of_turns_of_which_nothing_came_is_told_unless_the_server_says_so_itself() {
    for (derived, derives, want) in [
        (vec!["c1"], true, true),
        (vec!["c1", "theirs"], true, false),
        (vec![], true, true),
        (vec![], false, false),
    ] {
        let mut sent = Sent::new();
        sent.turn(1, at(1));
        sent.conclusion(1, at(1));
        let answer = |request: &Request| match request {
            Request::Queue { .. } => Ok(Answer::Queue(Queue { derives, ..QUEUE })),
            other => well(other, &derived),
        };
        assert_eq!(sent.looks(at(1), answer).1, [], "a day has not passed");
        sent.turn(2, at(2));
        let since = Warning::NothingDerived { since: at(1) };
        let want = if want { vec![since] } else { vec![] };
        assert_eq!(sent.looks(at(2), answer).1, want, "{derived:?} {derives}");
    }
}

#[test]
fn more_than_a_fifth_of_the_conclusions_gone_is_told() {
    for (gone, want) in [(2, false), (3, true)] {
        let mut sent = Sent::new();
        for edit in 1..=10 {
            sent.conclusion(edit, at(1));
        }
        let (_, began, _) = sent.looks(at(1), |request| match request {
            Request::Standing { ids, .. } if ids.len() > 1 => Ok(Answer::Conclusions(
                ids.iter().skip(gone).cloned().collect(),
            )),
            other => well(other, &[]),
        });
        let want = want.then_some(Warning::ConclusionsGone { gone, of: 10 });
        assert_eq!(began, want.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_conclusion_that_was_taken_back_is_not_missed() {
    let mut sent = Sent::new();
    sent.conclusion(1, at(1));
    let of = StepRef {
        item: ItemId::Edit(bxwire::EditId(1)),
        step: 0,
    };
    let step = Step::Unconclude { of };
    sent.item(ItemId::Edit(bxwire::EditId(2)), step, "", at(1));
    let (asked, began, _) = sent.looks(at(1), |request| well(request, &[]));
    assert_eq!(
        asked,
        [Request::Queue {
            role: Role::Trusted
        }]
    );
    assert_eq!(began, []);
}
