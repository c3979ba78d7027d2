//! memoryd, the real program, killed at every write, fsync, rename, connect and send of a scripted day, and started
//! again: the day ends as it does when nobody kills it. `BX_DAY=long` is the day of `make crash`; `BX_POINT` repeats
//! one point.

mod day;
mod disk;
mod honcho;
mod outcome;
mod shim;
mod stand_in;
mod sweep;
mod world;

use shim::{Call, When};
use sweep::{Case, sweep};
use world::{Points, World};

fn is_cut(call: &Call) -> bool {
    ["write", "send"].contains(&call.call.as_str())
}

#[test]
fn two_undisturbed_days_end_the_same() {
    let day = sweep::chosen().1;
    let (first, _) = sweep::undisturbed(&day);
    let (second, _) = sweep::undisturbed(&day);
    assert_eq!(second.differs_from(&first), None);
}

#[test]
fn killed_before_or_after_any_call_the_day_ends_the_same() {
    sweep(
        "killed_before_or_after_any_call_the_day_ends_the_same",
        |call| {
            // In a short day only where nothing follows at once on the same thread: killed before the sync is
            // killed after the write.
            let after = match call.call.as_str() {
                "send" | "connect" | "rename" => true,
                "fsync" => call.target.ends_with(".jsonl") && call.target.starts_with("memory/"),
                _ => false,
            };
            if after || sweep::is_long() {
                vec![When::Before, When::After]
            } else {
                vec![When::Before]
            }
        },
    );
}

#[test]
fn killed_in_the_middle_of_a_write_the_day_ends_the_same() {
    sweep(
        "killed_in_the_middle_of_a_write_the_day_ends_the_same",
        |call| {
            let local = call.target.ends_with(".sock") && !sweep::is_long();
            if is_cut(call) && !local {
                vec![When::Half]
            } else {
                Vec::new()
            }
        },
    );
}

/// Killed at a call a little later in each life, also while it recovers.
#[test]
fn killed_again_and_again_the_day_ends_the_same() {
    let day = sweep::chosen().1;
    let wanted = sweep::undisturbed(&day).0;
    let mut cases = Vec::new();
    for when in [When::Before, When::After, When::Half] {
        for later in [1, 2, 5] {
            let day = day.clone();
            cases.push(Case {
                name: format!("{} {later} calls later each time", when.name()),
                live: Box::new(move || {
                    let points: Points = Box::new(move |starts| {
                        let number = 1 + later * starts as u64;
                        Some(shim::Point::new(when, "any", "any", number))
                    });
                    let mut world = World::new(honcho::Honcho::here(), points);
                    world.live(&day);
                    let killed = world.ends.len() > 5;
                    (outcome::EndOfDay::of(&mut world), killed)
                }),
            });
        }
    }
    let test = "killed_again_and_again_the_day_ends_the_same";
    sweep::all(test, &wanted, &sweep::asked_for(cases));
}
