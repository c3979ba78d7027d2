//! The other end misbehaves: Honcho's answers are lost, late or too big at any request of the day, and honcho-local,
//! the program, is killed at any of its calls. The day ends the same.

use std::sync::Arc;

use honcho_local::{Fault, Rule};

use crate::{
    honcho::Honcho,
    outcome::EndOfDay,
    shim::{Call, Point, When},
    sweep::{self, Case},
    world::World,
};

/// In a short day every so many requests one is answered wrongly.
const ONE_IN: usize = 4;

fn faults() -> [(&'static str, Fault); 5] {
    let more_than_the_cap = 9 * 1024 * 1024;
    [
        ("not carried out and dropped", Fault::DropBefore),
        ("carried out and dropped", Fault::CommitAndDrop),
        (
            "carried out, never answered",
            Fault::NeverAnswer { commit: true },
        ),
        (
            "answered with more than the cap",
            Fault::Huge {
                bytes: more_than_the_cap,
            },
        ),
        ("answered with a body cut short", Fault::CutBody),
    ]
}

fn every(short: usize) -> usize {
    if sweep::is_long() { 1 } else { short }
}

#[test]
fn whichever_request_is_answered_wrongly_the_day_ends_the_same() {
    let day = Arc::new(sweep::chosen().1);
    let mut world = World::new(Honcho::here(), sweep::never());
    world.live(&day);
    let requests = world
        .honcho
        .server()
        .map_or(0, |server| server.controls().requests().len());
    let wanted = EndOfDay::of(&mut world);
    let mut cases = Vec::new();
    for (at, (what, fault)) in faults().into_iter().enumerate() {
        for request in (at % every(ONE_IN)..requests).step_by(every(ONE_IN)) {
            let (day, fault) = (Arc::clone(&day), fault.clone());
            cases.push(Case {
                name: format!("request {} {what}", request + 1),
                live: Box::new(move || {
                    let honcho = Honcho::here();
                    let rule = Rule::new(fault.clone()).after(request as u64).times(1);
                    let controls = honcho.server().map(|server| server.controls().clone());
                    controls
                        .iter()
                        .for_each(|controls| controls.add(rule.clone()));
                    let mut world = World::new(honcho, sweep::never());
                    world.live(&day);
                    let asked = controls.map_or_else(Vec::new, |controls| controls.requests());
                    let met = asked
                        .iter()
                        .any(|asked| asked.fault.as_ref() == Some(&fault));
                    (EndOfDay::of(&mut world), met)
                }),
            });
        }
    }
    let test = "whichever_request_is_answered_wrongly_the_day_ends_the_same";
    sweep::all(test, &wanted, &sweep::asked_for(cases));
}

/// Sends and the syncs of its file.
fn chosen(call: &Call) -> Vec<When> {
    match call.call.as_str() {
        "send" | "fsync" => vec![When::Before, When::After],
        _ if sweep::is_long() => vec![When::Before, When::Half],
        _ => Vec::new(),
    }
}

#[test]
fn whenever_honcho_local_is_killed_the_day_ends_the_same() {
    let day = Arc::new(sweep::chosen().1);
    let wanted = sweep::undisturbed(&day).0;
    let mut world = World::new(Honcho::program(None), sweep::never());
    world.live(&day);
    let calls = world.honcho.calls();
    assert_eq!(EndOfDay::of(&mut world).differs_from(&wanted), None);
    let points = sweep::points(&calls, chosen);
    let cases = points
        .into_iter()
        .step_by(every(ONE_IN))
        .map(|point: Point| {
            let day = Arc::clone(&day);
            Case {
                name: point.to_string(),
                live: Box::new(move || {
                    let mut world =
                        World::new(Honcho::program(Some(point.clone())), sweep::never());
                    world.live(&day);
                    let met = world.honcho.calls().iter().any(|call| call.hit);
                    (EndOfDay::of(&mut world), met)
                }),
            }
        });
    let test = "whenever_honcho_local_is_killed_the_day_ends_the_same";
    sweep::all(test, &wanted, &sweep::asked_for(cases.collect()));
}
