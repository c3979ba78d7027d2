//! The part of the scenario that reads: another agent's note and Honcho's own answers. Part of `scenario`.

use bxwire::ItemId;

use super::{GARDEN, KITCHEN, READS, label_of, quotes};
use crate::{
    fleet::{FLEET, Fleet},
    look::{expect, files, said},
    world::{Said, World},
};

/// One agent notes something untrusted, the other finds it.
pub(super) fn fleet_recall(world: &mut World<'_>) {
    world.step("The other agent finds the fleet's note, and its session says why it is marked");
    const NOTE: &str = "the ferry leaves from pier seven";
    let noted = |fleet: &Fleet, _: &Said| {
        let files = files(fleet, GARDEN)?;
        let kept = files.notes.iter().any(|kept| kept.text == NOTE);
        expect(kept, || "there is no such note".into())
    };
    let text = format!("note {NOTE}");
    world.say(
        GARDEN,
        "letter",
        &text,
        ("the first agent notes something untrusted", &noted),
    );
    let garden = world.fleet.agents[GARDEN].name;
    world.check(&format!("{FLEET} has it"), |fleet| {
        let found = said(fleet, FLEET, garden, NOTE);
        expect(found > 0, || "it is not there".into())
    });
    let clean = |fleet: &Fleet, said: &Said| {
        let label = label_of(fleet, KITCHEN, said)?;
        expect(!label.is_untrusted(), || label.to_string())
    };
    world.say(
        KITCHEN,
        "umbrella",
        "what do you know about my umbrella?",
        (
            "a note that has nothing to do with it marks nothing",
            &clean,
        ),
    );
    let found = |fleet: &Fleet, said: &Said| {
        quotes(said, "pier seven")?;
        let label = label_of(fleet, KITCHEN, said)?;
        expect(label.is_untrusted(), || label.to_string())
    };
    let told = world.say(
        KITCHEN,
        "ferry",
        READS[2],
        ("the second agent finds it and is untrusted", &found),
    );
    world.told(
        "its user is told why, once",
        told.as_ref(),
        &format!("this session is now untrusted: recall read a fleet note by {garden}"),
    );
    world.check(
        "bxctl session label names the note and its writer",
        |fleet| {
            let ItemId::Turn { session, .. } = &told.as_ref().ok_or("nothing was found")?.item
            else {
                return Err("not a turn".into());
            };
            let (_, causes) = fleet.agents[KITCHEN].label_and_causes(session)?;
            let want = format!("recall read a fleet note by {garden}");
            let named = causes.iter().any(|cause| cause.source.starts_with(&want));
            expect(named, || format!("{causes:?}"))
        },
    );
}

/// Honcho is asked for an answer.
pub(super) fn ask_memory(world: &mut World<'_>) {
    world.step("ask_memory answers from the agent's own trusted workspace");
    let knows = |fleet: &Fleet, said: &Said| {
        quotes(said, "green")?;
        let label = label_of(fleet, GARDEN, said)?;
        expect(!label.is_untrusted(), || label.to_string())
    };
    world.say(
        GARDEN,
        "question",
        "ask memory: what colour is my boat?",
        ("Honcho knows it, and the session stays clean", &knows),
    );
}
