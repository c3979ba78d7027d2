//! Lives a day once for each point, several at a time, and compares each end with that of the undisturbed day. Says
//! what differs, where it was, and how to repeat it.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    day::{self, Event},
    honcho::Honcho,
    outcome::EndOfDay,
    shim::{Call, Point, When},
    world::{Points, World},
};

/// Days lived at a time: they mostly wait for disks and holds.
const JOBS: usize = 8;
/// Failures shown whole.
const SHOWN_MAX: usize = 3;
/// In so many days one point may not be met: with two threads a retry comes or does not come.
const MISSED_ONE_IN: usize = 20;
/// And as many besides: memoryd looks at what it sent when it has nothing else to do, once a start and workspace,
/// and a day that is disturbed may leave it no such moment.
const MISSED_LOOKS_MAX: usize = 3;

/// Which day, by `BX_DAY`.
pub fn chosen() -> (&'static str, Vec<Event>) {
    match std::env::var("BX_DAY").as_deref() {
        Err(_) | Ok("short") => ("short", day::short()),
        Ok("long") => ("long", day::long()),
        Ok(other) => panic!("BX_DAY is short or long, not {other}"),
    }
}

pub fn is_long() -> bool {
    chosen().0 == "long"
}

/// The day as it is when nothing happens to it, and every call that memoryd makes in it.
pub fn undisturbed(day: &[Event]) -> (EndOfDay, Vec<Call>) {
    let mut world = World::new(Honcho::here(), never());
    world.live(day);
    assert!(world.ends.is_empty(), "{:?}", world.ends);
    // The start at the end of the day is no part of it.
    let mut calls = world.calls();
    let mut seen = std::collections::HashSet::new();
    calls.retain(|call| seen.insert(call.clone()));
    (EndOfDay::of(&mut world), calls)
}

pub fn never() -> Points {
    Box::new(|_| None)
}

/// This point at the first start, nothing after it.
pub fn once(point: &Point) -> Points {
    let point = point.clone();
    Box::new(move |starts| (starts == 0).then(|| point.clone()))
}

/// A point for every call that `choose` has something for.
pub fn points(calls: &[Call], choose: impl Fn(&Call) -> Vec<When>) -> Vec<Point> {
    let every = calls.iter().flat_map(|call| {
        let at = |when| Point::new(when, &call.call, &call.target, call.number);
        choose(call).into_iter().map(at).collect::<Vec<_>>()
    });
    every.collect()
}

/// One way to live the day, by a name that repeats it.
pub struct Case {
    pub name: String,
    pub live: Box<dyn Fn() -> (EndOfDay, bool) + Send + Sync>,
}

/// A day for each point that `choose` gives for a call of memoryd.
pub fn sweep(test: &str, choose: impl Fn(&Call) -> Vec<When>) {
    let day = Arc::new(chosen().1);
    let (wanted, calls) = undisturbed(&day);
    let cases = points(&calls, choose).into_iter().map(|point| {
        let day = Arc::clone(&day);
        Case {
            name: point.to_string(),
            live: Box::new(move || {
                let mut world = World::new(Honcho::here(), once(&point));
                world.live(&day);
                let met = world.calls().iter().any(|call| call.hit);
                (EndOfDay::of(&mut world), met)
            }),
        }
    });
    all(test, &wanted, &asked_for(cases.collect()));
}

/// Lives all of them and compares.
///
/// # Panics
/// When any ends otherwise than `wanted`.
pub fn all(test: &str, wanted: &EndOfDay, cases: &[Case]) {
    // One test at a time: more days at once would only make each request slower than the holds allow for.
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (next, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else {
                        return;
                    };
                    if number % 100 == 0 {
                        println!("{number} of {} days", cases.len());
                    }
                    let problem = match panic::catch_unwind(AssertUnwindSafe(|| (case.live)())) {
                        Ok((end, met)) => {
                            missed.fetch_add(usize::from(!met), Ordering::Relaxed);
                            end.differs_from(wanted)
                        }
                        Err(panic) => Some(words(panic.as_ref())),
                    };
                    if let Some(problem) = problem {
                        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                        failures.push((case.name.clone(), problem));
                    }
                }
            });
        }
    });
    let failures = failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    drop(turn);
    let day = chosen().0;
    if !failures.is_empty() {
        let names: Vec<_> = failures.iter().map(|(name, _)| name.as_str()).collect();
        let mut text = format!(
            "{} of {} days ended otherwise: {names:?}\n",
            names.len(),
            cases.len()
        );
        for (name, problem) in failures.iter().take(SHOWN_MAX) {
            text += &format!(
                "\n{name}; to repeat:\n  BX_DAY={day} BX_POINT='{name}' cargo test -p bxtest --test crash {test}\n{problem}\n"
            );
        }
        panic!("{text}");
    }
    let missed = missed.into_inner();
    println!("{} days, {missed} of them without their point", cases.len());
    assert!(
        !cases.is_empty() && missed <= cases.len() / MISSED_ONE_IN + MISSED_LOOKS_MAX,
        "{missed} of {} points were not met",
        cases.len()
    );
}

/// Those whose name is `BX_POINT`, if it is set.
pub fn asked_for(mut cases: Vec<Case>) -> Vec<Case> {
    if let Ok(name) = std::env::var("BX_POINT") {
        cases.retain(|case| case.name == name);
    }
    cases
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked")
        .to_owned()
}
