//! A backlog of several sessions: each session's turns in order, few requests, nothing twice.

use bxwire::links::{control::SyncAction, memory};

use crate::world::{Said, World, session};

const SESSIONS: u8 = 10;
const TURNS: u64 = 40;
const ALL: u64 = SESSIONS as u64 * TURNS;

#[test]
fn a_backlog_over_many_sessions_drains_in_order_with_a_request_for_forty_turns() {
    let mut world = World::new();
    let options = world.stop_honcho();
    for turn in 1..=TURNS {
        for n in 0..SESSIONS {
            world.log(&session(n), turn, &Said::default());
        }
    }
    for n in 0..SESSIONS {
        // The last one stands for all before it.
        world.memory(&memory::Request::SessionUpdated {
            session: session(n),
            turn: TURNS,
        });
    }
    world.until("the backlog", |sync| sync.workspaces[0].waiting == ALL);
    world.start_honcho(options);
    world.sync(SyncAction::Now {});
    let sync = world.settle();
    assert_eq!(sync.workspaces[0].sent, ALL);

    let messages = world.messages("b-trusted");
    assert_eq!(messages.len() as u64, 2 * ALL);
    for n in 0..SESSIONS {
        let id = session(n).to_string();
        let found = messages.iter().filter(|line| line.starts_with(&id));
        let want = (1..=TURNS).flat_map(|turn| {
            [
                format!("{id} owner: words {turn}"),
                format!("{id} boxmaker: reply {turn}"),
            ]
        });
        assert!(found.cloned().eq(want), "{id} is out of order");
    }
    let requests = world.honcho().controls().requests();
    let posts = requests
        .iter()
        .filter(|request| request.path.ends_with("/messages"))
        .count() as u64;
    assert!(posts * 40 <= ALL, "{posts} requests for {ALL} turns");
}
