//! Honcho away, busy, refusing or too slow: everything waits, nothing is lost, everything goes out once, in
//! order.

use std::time::{Duration, Instant};

use bxcore::clock::Millis;
use bxwire::links::control::SyncAction;
use honcho_local::{Fault, Rule};

use crate::world::{Said, World, session};

const TRUSTED: &str = "b-trusted";

#[test]
fn an_outage_sends_everything_once_it_ends_in_order_and_in_batches() {
    let mut world = World::new();
    let options = world.stop_honcho();
    for turn in 1..=60 {
        world.turn(&session(1), turn);
    }
    let sync = world.until("sixty waiting turns", |sync| {
        sync.workspaces[0].waiting == 60
    });
    let wait = sync.workspaces[0].wait.clone().expect("a reason to wait");
    assert_eq!(
        (wait.reason.as_str(), wait.runbook.as_str()),
        ("connection refused", "honcho-unreachable")
    );
    world.start_honcho(options);
    world.sync(SyncAction::Now {});
    world.settle();
    let id = session(1);
    let want: Vec<_> = (1..=60)
        .flat_map(|turn| {
            [
                format!("{id} owner: words {turn}"),
                format!("{id} boxmaker: reply {turn}"),
            ]
        })
        .collect();
    assert_eq!(world.messages(TRUSTED), want);
    let requests = world.honcho().controls().requests();
    let posts = requests
        .iter()
        .filter(|request| request.path.ends_with("/messages"))
        .count();
    assert!(posts <= 2, "{posts} requests for sixty turns");
    world.stop();
    let outages = world.said.matches("does not take what is sent").count();
    assert_eq!(
        outages, 1,
        "the start of an outage is logged once: {}",
        world.said
    );
    assert_eq!(world.said.matches("Honcho answers again").count(), 1);
}

#[test]
fn a_restart_sends_nothing_twice() {
    let mut world = World::new();
    for turn in 1..=3 {
        world.turn(&session(1), turn);
    }
    world.settle();
    for _ in 0..3 {
        world.kill();
        world.start();
    }
    world.turn(&session(1), 4);
    world.settle();
    assert_eq!(world.messages(TRUSTED).len(), 8);
}

#[test]
fn a_refused_turn_is_marked_failed_and_its_neighbours_go_on() {
    let mut world = World::new();
    let options = world.stop_honcho();
    world.turn(&session(1), 1);
    // Honcho's operator can set a lower limit than the usual one: only the long turn is refused.
    let long = Said {
        text: Some("x".repeat(500)),
        ..Said::default()
    };
    world.turn_of(&session(1), 2, &long);
    world.turn(&session(1), 3);
    world.until("three waiting turns", |sync| {
        sync.workspaces[0].waiting == 3
    });
    world.start_honcho(options);
    let refuse = Fault::Status {
        status: 422,
        retry_after: None,
        commit: false,
    };
    // The batch is refused, then the second of the three that are tried alone.
    let controls = world.honcho().controls();
    controls.add(Rule::new(refuse.clone()).on("POST", "*/messages").times(1));
    controls.add(Rule::new(refuse).on("POST", "*/messages").after(1).times(1));
    world.sync(SyncAction::Now {});
    let sync = world.settle();
    let id = session(1);
    assert_eq!(sync.failed.len(), 1, "{sync:?}");
    assert_eq!(sync.failed[0].item.to_string(), format!("{id}/2"));
    assert_eq!(sync.failed[0].status, Some(422));
    let turns: Vec<_> = world.messages(TRUSTED);
    assert_eq!(turns.len(), 4);
    assert!(turns[2].ends_with("words 3"));
    // The owner's retry.
    world.sync(SyncAction::RetryAll {});
    let sync = world.settle();
    assert!(sync.failed.is_empty());
    assert_eq!(world.messages(TRUSTED).len(), 6);
}

#[test]
fn busy_is_later_and_not_refused() {
    let world = World::new();
    for status in [408, 425, 429] {
        let busy = Fault::Status {
            status,
            retry_after: Some(1),
            commit: false,
        };
        world
            .honcho()
            .controls()
            .add(Rule::new(busy).on("POST", "*/messages").times(1));
    }
    world.turn(&session(1), 1);
    let sync = world.settle();
    assert!(sync.failed.is_empty());
    assert_eq!(world.messages(TRUSTED).len(), 2);
}

#[test]
fn a_busy_server_is_left_alone_for_as_long_as_it_asks() {
    let mut world = World::stopped("");
    let url = world.honcho().url();
    world.home.configure(
        "memoryd",
        &format!(
            "[honcho]\nurl = \"{url}\"\nagent = \"boxmaker\"\nowner = \"owner\"\ntrusted = \"b-trusted\"\n\
             untrusted = \"b-untrusted\"\nfleet = \"fleet\"\n[limits]\nhoncho_retry_ms_min = 40\n"
        ),
    );
    world.start();
    let busy = Fault::Status {
        status: 429,
        retry_after: Some(300),
        commit: false,
    };
    for (method, path) in [("POST", "*/messages"), ("GET", "*/queue/status")] {
        let rule = Rule::new(busy.clone()).on(method, path).times(1);
        world.honcho().controls().add(rule);
    }
    world.turn(&session(1), 1);
    let asked_at = Millis::now();
    world.until("the wait that was asked for", |sync| {
        let waits = sync
            .workspaces
            .iter()
            .filter_map(|workspace| workspace.wait.as_ref());
        let next = waits
            .filter_map(|wait| Millis::parse(wait.next.as_deref()?))
            .max();
        // Far beyond the usual backoff of the first tries.
        next.is_some_and(|next| next.since(asked_at) > 200_000)
    });
    world.sync(SyncAction::Now {});
    world.settle();
    assert_eq!(world.messages(TRUSTED).len(), 2);
}

#[test]
fn a_stop_in_the_middle_of_a_request_ends_at_once_and_leaves_it_in_doubt() {
    let mut world = World::new();
    world.turn_without_answer(&session(1), 1);
    let before = Instant::now();
    world.stop();
    assert!(before.elapsed() < Duration::from_secs(5));
    world.start();
    world.settle();
    assert_eq!(world.messages(TRUSTED).len(), 2);
}

#[test]
fn a_wiped_honcho_is_made_sure_of_again() {
    let world = World::new();
    world.turn(&session(1), 1);
    world.settle();
    world
        .honcho()
        .controls()
        .add(Rule::new(Fault::Forget).times(1));
    // Messages would make the session anew without its members' flags; conclusions find nobody.
    world.tool(
        &session(1),
        bxwire::Label::PRIVATE,
        r#"{"op":"add","about":"user","text":"The bike is blue."}"#,
    );
    world.settle();
    assert_eq!(world.conclusions(TRUSTED), ["owner: The bike is blue."]);
}

#[test]
fn a_server_that_knows_no_workspaces_is_an_outage_with_a_reason() {
    let world = World::new();
    let not_found = Fault::Status {
        status: 404,
        retry_after: None,
        commit: false,
    };
    world
        .honcho()
        .controls()
        .add(Rule::new(not_found).on("POST", "/v3/workspaces"));
    world.turn(&session(1), 1);
    let sync = world.until("a reason", |sync| sync.workspaces[0].wait.is_some());
    let wait = sync.workspaces[0].wait.clone().unwrap();
    assert!(wait.reason.contains("404"), "{wait:?}");
    assert!(wait.next.is_some());
    world.honcho().controls().clear();
    world.settle();
    assert_eq!(world.messages(TRUSTED).len(), 2);
}

#[test]
fn a_poisoned_turn_is_failed_once_later_ones_went_through() {
    let world = World::new();
    let poison = Fault::Status {
        status: 500,
        retry_after: None,
        commit: false,
    };
    let id = session(1);
    let path = format!("*/sessions/{id}/messages");
    world
        .honcho()
        .controls()
        .add(Rule::new(poison).on("POST", &path));
    world.turn(&id, 1);
    world.until("a turn in doubt", |sync| sync.workspaces[0].in_doubt == 1);
    for n in 2..20 {
        world.turn(&session(n), 1);
    }
    let sync = world.until("the poisoned one to be failed", |sync| {
        sync.failed.len() == 1
    });
    assert_eq!(sync.failed[0].item.to_string(), format!("{id}/1"));
    assert_eq!(sync.failed[0].why, "server-error");
    world.settle();
    assert_eq!(world.messages(TRUSTED).len(), 2 * 18);
}
