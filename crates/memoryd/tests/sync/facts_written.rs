//! The tool `facts`, as far as it changes what Honcho holds: a fact is forgotten and brought back, and what goes for
//! the card as well; `cards` has the rest of that.

use bxtest::wait_for;
use bxwire::{
    Class, EditId, Label, Trust,
    links::{
        control,
        memory_tools::{Caller, FactsOp},
    },
};
use honcho_local::{Fault, Rule};

use crate::{
    context::conclude,
    facts::{caller, conclude_op, denied, done, search},
    world::{World, owner, session, speaker},
};

fn forget(id: &str) -> FactsOp {
    FactsOp::Forget { id: id.into() }
}

pub fn profile(lines: &[&str]) -> FactsOp {
    let lines = lines.iter().map(|line| (*line).to_owned());
    FactsOp::Profile {
        card: Some(lines.collect()),
    }
}

/// The edit of a call that was carried out.
pub fn made(world: &World, arguments: FactsOp) -> EditId {
    done(world, caller(), arguments).2.expect("an edit")
}

/// The id that search shows for the first fact it finds.
fn found(world: &World, query: &str) -> String {
    let (text, ..) = done(world, caller(), search(query));
    let line = text.lines().next().expect("a line");
    let id = line.split("own:").nth(1).expect("an id");
    format!("own:{id}")
}

/// What Honcho holds about the owner, as `level: text`.
fn held(world: &World) -> Vec<String> {
    let dump = world.dump("b-trusted");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let conclusions = dump["conclusions"].as_array().into_iter().flatten();
    let mut held: Vec<_> = conclusions
        .filter(|found| text(&found["observed_id"]) == "owner")
        .map(|found| format!("{}: {}", text(&found["level"]), text(&found["content"])))
        .collect();
    held.sort();
    held
}

fn until_held(world: &World, want: &[&str]) {
    wait_for("the facts", || (held(world) == want).then_some(()));
}

pub fn card(world: &World) -> Vec<String> {
    let dump = world.dump("b-trusted");
    let peers = dump["peers"].as_array().into_iter().flatten();
    let mut owner = peers.filter(|peer| peer["id"] == "owner");
    let lines = owner.next().map(|owner| owner["cards"]["owner"].clone());
    let lines = lines.as_ref().and_then(|lines| lines.as_array());
    let lines = lines.into_iter().flatten();
    lines
        .filter_map(|line| line.as_str().map(str::to_owned))
        .collect()
}

pub fn until_card(world: &World, want: &[&str]) {
    wait_for("the card", || (card(world) == want).then_some(()));
}

/// Replaces the card as Honcho's own deriver does.
pub fn honcho_makes(world: &World, lines: &[&str]) {
    let url = world.honcho().url();
    let card = serde_json::json!({ "peer_card": lines });
    ureq::put(format!("{url}/v3/workspaces/b-trusted/peers/owner/card"))
        .header("content-type", "application/json")
        .send(card.to_string())
        .expect("it is stored");
    until_card(world, lines);
}

/// What undoing would do, or why it is not done.
pub fn preview(world: &World, edit: EditId) -> String {
    let undo = control::Request::MemoryUndo {
        edit,
        confirm: false,
    };
    match world.control(&undo) {
        control::Reply::Change { lines, .. } => lines.join("\n"),
        control::Reply::Refused(refused) => refused.message,
        other => panic!("{other:?}"),
    }
}

/// Requests of this kind that Honcho got.
pub fn asked(world: &World, method: &str, part: &str) -> usize {
    let requests = world.honcho().controls().requests();
    let fits =
        |request: &&honcho_local::Record| request.method == method && request.path.contains(part);
    requests.iter().filter(fits).count()
}

pub const BOAT: &str = "owner rows a green boat";

#[test]
fn what_honcho_concluded_is_forgotten_brought_back_and_forgotten_again() {
    let world = World::new();
    conclude(&world, "owner", BOAT);
    conclude(&world, "owner", "owner collects stamps");
    let id = found(&world, "green boat");
    let (text, label, edit) = done(&world, caller(), forget(&id));
    assert_eq!(
        (text.as_str(), label),
        (
            "Done (e1): forgot d1, a fact about the owner.",
            Label::PRIVATE
        )
    );
    assert_eq!(edit, Some(EditId(1)));
    until_held(&world, &["explicit: owner collects stamps"]);
    let again = denied(&world, caller(), forget(&id));
    assert!(again.contains("d1 is forgotten already"), "{again}");
    world.settle();
    let why = world.why("e1");
    let honchos = id.trim_start_matches("own:");
    assert_eq!(
        why.steps[0].what,
        format!("delete {honchos}, which Honcho had concluded")
    );
    assert_eq!(why.steps[0].state, "sent");
    // The undo says what it comes to.
    let shown = preview(&world, EditId(1));
    assert!(
        shown.contains("written again as an explicit fact: owner rows a green boat"),
        "{shown}"
    );
    world.undo(EditId(1));
    let both = [
        "explicit: owner collects stamps",
        "explicit: owner rows a green boat",
    ];
    until_held(&world, &both);
    world.settle();
    // What was written again is the same fact, under Honcho's new id; the redo deletes it too.
    let new = found(&world, "green boat");
    assert_ne!(new, id);
    world.undo(EditId(2));
    until_held(&world, &["explicit: owner collects stamps"]);
    world.undo(EditId(3));
    until_held(&world, &both);
    world.settle();
    let new = found(&world, "green boat");
    let (text, ..) = done(&world, caller(), forget(&new));
    assert_eq!(text, "Done (e5): forgot d1, a fact about the owner.");
    until_held(&world, &["explicit: owner collects stamps"]);
}

#[test]
fn what_honcho_holds_again_is_forgotten_again() {
    let mut world = World::new();
    conclude(&world, "owner", BOAT);
    let id = found(&world, "green boat");
    made(&world, conclude_op("owner plays the oboe"));
    let both = [
        "explicit: owner plays the oboe",
        "explicit: owner rows a green boat",
    ];
    until_held(&world, &both);
    world.settle();
    let oboe = found(&world, "oboe");
    // Honcho's file, as it is brought back later.
    let file = world.home.path().join("honcho.sqlite");
    let kept = world.home.path().join("kept.sqlite");
    let options = world.stop_honcho();
    std::fs::copy(&file, &kept).expect("a copy");
    world.start_honcho(options);
    world.sync(control::SyncAction::Now {});
    made(&world, forget(&id));
    made(&world, forget("f1"));
    until_held(&world, &[]);
    world.settle();
    let options = world.stop_honcho();
    for journal in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(world.home.path().join(format!("honcho.sqlite{journal}")));
    }
    std::fs::copy(&kept, &file).expect("it is there again");
    world.start_honcho(options);
    until_held(&world, &both);
    world.sync(control::SyncAction::Now {});
    // By Honcho's id and by memory's own.
    let (text, ..) = done(&world, caller(), forget("d2"));
    assert_eq!(text, "Done (e4): forgot d4, a fact about the owner.");
    until_held(&world, &both[..1]);
    let (text, ..) = done(&world, caller(), forget(&oboe));
    assert_eq!(text, "Done (e5): forgot d5, a fact about the owner.");
    until_held(&world, &[]);
    world.settle();
    for id in [&id, "d4"] {
        let again = denied(&world, caller(), forget(id));
        assert!(again.contains("is forgotten already"), "{again}");
    }
    // One undo writes it once.
    world.undo(EditId(4));
    until_held(&world, &both[1..]);
    world.settle();
    let (text, ..) = done(&world, caller(), forget(&found(&world, "green boat")));
    assert_eq!(text, "Done (e7): forgot d4, a fact about the owner.");
    until_held(&world, &[]);
}

#[test]
fn what_is_about_to_be_deleted_is_forgotten_once() {
    let world = World::new();
    conclude(&world, "owner", BOAT);
    let id = found(&world, "green boat");
    let controls = world.honcho().controls();
    controls.add(Rule::new(Fault::NeverAnswer { commit: false }).on("DELETE", "*/conclusions/*"));
    made(&world, forget(&id));
    for id in [&id, "d1"] {
        let again = denied(&world, caller(), forget(id));
        assert!(again.contains("d1 is forgotten already"), "{again}");
    }
    controls.clear();
    until_held(&world, &[]);
}

#[test]
fn what_this_agent_wrote_is_removed_from_memory_too() {
    let world = World::new();
    made(&world, conclude_op("owner plays the oboe"));
    until_held(&world, &["explicit: owner plays the oboe"]);
    let (text, ..) = done(&world, caller(), forget("f1"));
    assert_eq!(text, "Done (e2): took back the note f1.");
    until_held(&world, &[]);
    world.undo(EditId(2));
    until_held(&world, &["explicit: owner plays the oboe"]);
    world.settle();
    // By Honcho's id it is the same note.
    let (text, ..) = done(&world, caller(), forget(&found(&world, "oboe")));
    assert_eq!(text, "Done (e4): took back the note f1.");
    until_held(&world, &[]);
    world.settle();
    let added = "{\"op\":\"add\",\"about\":\"user\",\"text\":\"owner has a cat\"}";
    world.tool(&session(1), Label::PRIVATE, added);
    world.settle();
    let (text, ..) = done(&world, caller(), forget(&found(&world, "cat")));
    assert_eq!(
        text,
        "Done (e6): removed u5 from what you know of the owner."
    );
    until_held(&world, &[]);
}

#[test]
fn only_the_owners_clean_turns_forget_or_replace_and_nothing_is_asked_for_others() {
    let world = World::new();
    conclude(&world, "owner", BOAT);
    let id = found(&world, "green boat");
    world.honcho().controls().forget_requests();
    let secret = Label::new(Class::Secret, Trust::Trusted);
    let rows = [
        (Label::UNLABELLED, Some(owner()), "read text from outside"),
        (secret, Some(owner()), "session is secret"),
        (
            Label::PRIVATE,
            Some(speaker("chat", "guest")),
            "only the owner",
        ),
        (Label::PRIVATE, None, "only the owner"),
    ];
    for (label, speaker, want) in rows {
        for op in [forget(&id), forget("f1"), profile(&["rows"])] {
            let caller = Caller {
                label,
                speaker: speaker.clone(),
                ..caller()
            };
            let text = denied(&world, caller, op);
            assert!(text.contains(want), "{text}");
            let of_it = text.contains("forget") && text.contains("replace");
            assert!(
                of_it && !text.contains("conclude") && !text.contains("`note`"),
                "{text}"
            );
        }
    }
    assert_eq!(asked(&world, "POST", "/conclusions"), 0);
    assert_eq!(asked(&world, "GET", "/card"), 0);
    assert_eq!(held(&world), ["explicit: owner rows a green boat"]);
}

#[test]
fn what_cannot_be_forgotten_has_its_answer() {
    let mut world = World::new();
    conclude(&world, "owner", BOAT);
    conclude(&world, "boxmaker", "the boat needs paint");
    let dump = world.dump("b-trusted");
    let conclusions = dump["conclusions"].as_array().expect("conclusions");
    let of = |peer: &str| {
        let found = conclusions
            .iter()
            .find(|found| found["observed_id"] == peer);
        found
            .and_then(|found| found["id"].as_str())
            .expect("one")
            .to_owned()
    };
    let rows = [
        (of("boxmaker"), "not a fact about the owner"),
        (
            "own:V1StGXR8_Z5jdHi6B-myT".into(),
            "no fact about the owner has that id",
        ),
        ("f99".into(), "no fact about the owner has that id"),
        ("../peers".into(), "no fact about the owner has that id"),
        (String::new(), "no fact about the owner has that id"),
    ];
    for (id, want) in rows {
        let text = denied(&world, caller(), forget(&id));
        assert!(text.contains(want), "{id}: {text}");
    }
    made(&world, conclude_op("owner plays the oboe"));
    world.settle();
    let boat = of("owner");
    let parked = world.stop_honcho();
    for op in [forget(&boat), profile(&["rows"])] {
        let text = denied(&world, caller(), op);
        assert!(text.contains("Honcho does not answer now"), "{text}");
    }
    // What is memory's own needs no Honcho.
    made(&world, forget("f1"));
    world.start_honcho(parked);
    until_held(&world, &["explicit: owner rows a green boat"]);
}

#[test]
fn a_fact_that_holds_a_key_is_deleted_and_its_text_is_not_kept() {
    let mut world = World::new();
    let key = format!("AKIA{}", "Z7Q2M4X6W3B5N7K5");
    conclude(&world, "owner", &format!("owner uses the key {key}"));
    let (text, ..) = done(&world, caller(), forget(&found(&world, "uses the key")));
    assert!(
        text.contains("cannot be undone") && !text.contains(&key),
        "{text}"
    );
    until_held(&world, &[]);
    let refused = preview(&world, EditId(1));
    assert!(refused.contains("its text was not kept"), "{refused}");
    world.stop();
    let journal = world.home.dirs.state_of("memoryd").join("journal.jsonl");
    let journal = std::fs::read_to_string(journal).expect("a journal");
    assert!(
        !journal.contains(&key) && journal.contains("\"forgot\""),
        "{journal}"
    );
}

#[test]
fn an_excluded_source_forgets_and_replaces_nothing_at_honcho() {
    let world = World::with("exclude_sources = [\"chat\"]\n");
    world.turn(&session(1), 1);
    conclude(&world, "owner", BOAT);
    let dump = world.dump("b-trusted");
    let id = dump["conclusions"][0]["id"].as_str().expect("an id");
    world.honcho().controls().forget_requests();
    for op in [forget(id), profile(&["Lives in Oslo"])] {
        let text = denied(&world, caller(), op);
        assert!(
            text.contains("excluded this turn's speaker or channel"),
            "{text}"
        );
    }
    assert_eq!(asked(&world, "POST", "/conclusions"), 0);
    assert_eq!(asked(&world, "GET", "/card"), 0);
    // What is memory's own is forgotten here.
    made(&world, conclude_op("owner plays the oboe"));
    made(&world, forget("f1"));
}

#[test]
fn a_lost_answer_is_tried_again_and_never_in_doubt() {
    let world = World::new();
    conclude(&world, "owner", BOAT);
    let id = found(&world, "green boat");
    let controls = world.honcho().controls();
    controls.add(Rule::new(Fault::CommitAndDrop).on("PUT", "*/card").times(1));
    controls.add(
        Rule::new(Fault::CommitAndDrop)
            .on("DELETE", "*/conclusions/*")
            .times(1),
    );
    made(&world, profile(&["Lives in Oslo"]));
    made(&world, forget(&id));
    let mut doubted = false;
    world.until("both to be sent", |sync| {
        doubted |= sync.workspaces[0].in_doubt > 0;
        sync.workspaces[0].sent == 2
    });
    assert!(!doubted);
    assert_eq!(asked(&world, "PUT", "/card"), 2);
    assert_eq!(asked(&world, "DELETE", "/conclusions/"), 2);
    assert_eq!((card(&world).len(), held(&world).len()), (1, 0));
}

#[test]
fn a_crash_between_journal_and_send_sends_each_once() {
    let mut world = World::new();
    conclude(&world, "owner", BOAT);
    let id = found(&world, "green boat");
    world.stop_broker(); // The card waits for brokerd's word, and what is behind it for the card.
    made(&world, profile(&["Lives in Oslo"]));
    made(&world, forget(&id));
    world.kill();
    assert_eq!(asked(&world, "PUT", "/card"), 0);
    world.start_broker();
    world.start();
    until_held(&world, &[]);
    until_card(&world, &["Lives in Oslo"]);
    world.settle();
    assert_eq!(asked(&world, "PUT", "/card"), 1);
    assert_eq!(asked(&world, "DELETE", "/conclusions/"), 1);
    // The ledger reads again.
    world.kill();
    world.start();
    assert_eq!(world.settle().workspaces[0].sent, 2);
}

#[test]
fn an_undo_before_the_send_leaves_honcho_as_it_is() {
    let mut world = World::new();
    conclude(&world, "owner", BOAT);
    let id = found(&world, "green boat");
    world.stop_broker();
    made(&world, profile(&["Lives in Oslo"]));
    made(&world, forget(&id));
    world.undo(EditId(2));
    world.undo(EditId(1));
    world.start_broker();
    world.sync(control::SyncAction::Now {});
    let sync = world.settle();
    assert_eq!(sync.workspaces[0].cancelled, 2, "{sync:?}");
    assert_eq!(found(&world, "green boat"), id, "it was never touched");
    assert_eq!(asked(&world, "PUT", "/card"), 0);
    // Redone, it is still the fact itself that goes.
    world.undo(EditId(3));
    until_held(&world, &[]);
}
