//! `bxctl memory purge` as its owner runs it: the real daemons, the real command, kill -9 in between.

use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use bxcore::connect::Client;
use bxtest::{
    fleet::{Ended, Fleet, Setup},
    look, program, wait_for,
};
use bxwire::{SessionId, links::turns};

const BIKE: &str = "remember that my bike is blue";
const RAIN: &str = "note that rain is expected on the quince tree";

fn fleet() -> Fleet {
    let setup = Setup {
        names: &["garden"],
        ..Setup::default()
    };
    Fleet::start_as(setup).expect("a fleet")
}

/// The session and whether it was replied to.
fn say(fleet: &Fleet, session: Option<&SessionId>, text: &str) -> (Option<SessionId>, bool) {
    let asked = fleet.agents[0].ask(session.cloned(), format!("key {}", text.len()), text);
    let (session, ended) = asked.run();
    (session, matches!(ended, Ended::Replied { .. }))
}

fn bxctl(fleet: &Fleet, arguments: &[&str]) -> Output {
    Command::new(program("bxctl"))
        .arg("--home")
        .arg(fleet.agents[0].home())
        .args(arguments)
        .output()
        .expect("bxctl")
}

fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The files of the agent that hold the words.
fn files_with(folder: &Path, words: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                let bytes = std::fs::read(&path).unwrap_or_default();
                if bytes.windows(words.len()).any(|at| at == words.as_bytes()) {
                    found.push(path.display().to_string());
                }
            }
        }
    }
    found
}

/// A session with an entry, a note and three turns, all of it sent.
fn spoken(fleet: &Fleet) -> SessionId {
    let (session, replied) = say(fleet, None, BIKE);
    let session = session.expect("a session");
    assert!(replied);
    for text in [RAIN, "what do you know about my bike?"] {
        assert!(say(fleet, Some(&session), text).1, "{text}");
    }
    let trusted = fleet.agents[0].trusted();
    wait_for("everything to be sent", || {
        let waits = |sync: &bxwire::links::control::Sync| {
            let open = |w: &bxwire::links::control::WorkspaceSync| w.waiting + w.in_doubt;
            sync.workspaces.iter().map(open).sum::<u64>() > 0 || !sync.undecided.is_empty()
        };
        let sync = look::sync(fleet, 0).ok()?;
        let sent = look::messages(fleet, &trusted).len() >= 6;
        (sent && !waits(&sync)).then_some(())
    });
    session
}

/// Nothing but the entry is anywhere, and the entry is the owner's.
fn until_gone(fleet: &Fleet) {
    let trusted = fleet.agents[0].trusted();
    wait_for("the purge", || {
        let left = look::messages(fleet, &trusted).len()
            + look::whole(fleet, &trusted).matches("quince").count();
        (left == 0 && look::whole(fleet, &trusted).contains("bike is blue")).then_some(())
    });
    wait_for("the index without it", || {
        files_with(fleet.agents[0].home(), "quince")
            .is_empty()
            .then_some(())
    });
}

#[test]
fn a_purge_shows_asks_and_takes_a_session_out_of_every_file_and_workspace() {
    let fleet = fleet();
    let session = spoken(&fleet);
    let id = session.as_str();
    let asked = bxctl(&fleet, &["memory", "purge", id]);
    let text = shown(&asked);
    assert_eq!(asked.status.code(), Some(1), "{text}");
    for line in [
        "empties its 3 turns",
        "takes back the note n2",
        "keeps u1",
        "add --yes",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!files_with(fleet.agents[0].home(), "quince").is_empty());

    let done = bxctl(&fleet, &["memory", "purge", id, "--yes"]);
    assert!(done.status.success(), "{}", shown(&done));
    until_gone(&fleet);
    let listed = shown(&bxctl(&fleet, &["session", "list"]));
    assert!(listed.contains("purged"), "{listed}");
    for again in [
        &["memory", "purge", id][..],
        &["memory", "purge", id, "--yes"],
    ] {
        let again = bxctl(&fleet, again);
        let text = shown(&again);
        assert!(text.contains("there is nothing to purge"), "{text}");
        assert!(again.status.success() && !text.contains("keeps"), "{text}");
    }
    let (_, replied) = say(&fleet, Some(&session), "go on");
    assert!(!replied, "a purged session takes no more turns");
    let recalled = shown(&bxctl(&fleet, &["memory", "recall", "quince"]));
    assert!(!recalled.contains("rain is expected"), "{recalled}");
    let unknown = bxctl(
        &fleet,
        &["memory", "purge", "20260131-abcdefghijkl", "--yes"],
    );
    assert!(!unknown.status.success(), "{}", shown(&unknown));
}

#[test]
fn a_purge_that_lost_memoryd_on_the_way_is_finished_when_it_is_back() {
    let mut fleet = fleet();
    let session = spoken(&fleet);
    fleet.kill(0, "memoryd");
    // Nothing is emptied while nobody could do the rest.
    let refused = bxctl(&fleet, &["memory", "purge", session.as_str(), "--yes"]);
    assert_eq!(refused.status.code(), Some(69), "{}", shown(&refused));
    assert!(!shown(&bxctl(&fleet, &["session", "list"])).contains("purged"));
    // Killed after the first half.
    let first = turns::Request::PurgeSession { session };
    let socket = fleet.agents[0].dirs().turns_socket();
    let mut client = Client::<turns::Turns>::connect(&socket, Duration::from_secs(20)).unwrap();
    assert_eq!(client.call(&first).unwrap(), turns::TurnEvent::Done {});
    fleet.agents[0].start("memoryd").expect("memoryd");
    until_gone(&fleet);
}

#[test]
fn a_purge_outlives_an_outage_and_a_kill_of_everything() {
    let mut fleet = fleet();
    let session = spoken(&fleet);
    fleet.stop_honcho();
    let done = bxctl(&fleet, &["memory", "purge", session.as_str(), "--yes"]);
    assert!(done.status.success(), "{}", shown(&done));
    let daemons = ["loopd", "memoryd", "brokerd"];
    for daemon in daemons {
        fleet.kill(0, daemon);
    }
    for daemon in daemons {
        fleet.agents[0].start(daemon).expect("a start");
    }
    fleet.start_honcho().expect("Honcho");
    until_gone(&fleet);
}
