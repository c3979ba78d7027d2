//! From Honcho's id, as another agent's recall shows it, back to what made it.

use bxwire::{
    Label,
    links::control::{Reply, Request},
};

use crate::world::{Said, World, session};

fn found(world: &World, id: &str) -> Reply {
    world.control(&Request::MemoryWhyFound { id: id.into() })
}

#[test]
fn an_id_of_honchos_leads_to_the_turn_or_edit_and_its_label() {
    let mut world = World::new();
    world.turn(&session(1), 1);
    let edit = world.tool(
        &session(2),
        Label::UNLABELLED,
        r#"{"op":"note","text":"the gate creaks"}"#,
    );
    world.settle();
    let id_in = |workspace: &str| {
        let dump = world.dump(workspace);
        let id = dump["sessions"][0]["messages"][0]["id"].as_str();
        id.expect("a message").to_owned()
    };
    let (turn, note) = (id_in("b-trusted"), id_in("fleet"));
    for (id, want) in [
        (turn.clone(), format!("{}/1", session(1))),
        (format!("boxmaker:{turn}"), format!("{}/1", session(1))),
        (format!("fleet:{note}"), edit.to_string()),
    ] {
        let Reply::Why(why) = found(&world, &id) else {
            panic!("{id} is not found");
        };
        assert_eq!(why.item.to_string(), want);
        assert!(why.steps.iter().any(|step| id.ends_with(&step.ids[0])));
        let told = why
            .facts
            .iter()
            .any(|(name, _)| name == "label, by the log");
        assert!(told, "{why:?}");
    }
    for id in ["fleet:V1StGXR8_Z5jdHi6B-myT", "", ":", "\"ids\""] {
        assert!(matches!(found(&world, id), Reply::Refused(_)), "{id}");
    }
    world.stop();
}

#[test]
fn a_turn_that_quotes_an_id_of_this_machines_own_is_sent_and_one_with_another_stays() {
    let mut world = World::new();
    world.turn(&session(1), 1);
    world.settle();
    let dump = world.dump("b-trusted");
    let id = dump["sessions"][0]["messages"][0]["id"].as_str();
    let id = id.expect("a message").to_owned();
    let other = String::from("4YUGjWGoXRV0ttPWSwC34");
    for (n, quoted) in [(2, &id), (3, &other)] {
        let said = Said {
            text: Some(format!("what is `{quoted}`?")),
            ..Said::default()
        };
        world.turn_of(&session(n), 1, &said);
    }
    world.settle();
    let Reply::Review { held, .. } = world.control(&Request::MemoryReview {}) else {
        panic!("no review");
    };
    let held: Vec<_> = held.iter().map(|held| held.what.as_str()).collect();
    assert_eq!(held, [format!("{}/1", session(3))]);
    world.stop();
}
