//! What `make demo` shows and what a test repeats while it kills daemons: the write path from a sentence to
//! Honcho and back, for two agents of one fleet. Says and checks; every wait and every try is `world`'s.

use bxwire::{Class, ItemId, links::control};

use crate::{
    fleet::{FLEET, Fleet, OWNER},
    look::{concluded, expect, files, messages, said, sync, whole},
    world::{Said, World},
};

mod read;

/// The two agents' places in the fleet.
const GARDEN: usize = 0;
const KITCHEN: usize = 1;

/// A word that is in the letter alone, and one that is in the secret file alone.
const LETTER_WORD: &str = "quincetree";
const SECRET_WORD: &str = "heronpond";

/// What a session is told that reads what others sent, one that reads what is secret, and one that finds another
/// agent's note. Said in vain (the tools were away), such a sentence is one of a clean session.
pub const READS: [&str; 3] = [
    "read inbox/letter.txt",
    "read vault/plan.txt",
    "what do you know about the ferry?",
];

/// Goes through everything. What failed was told to the observer and is counted by the world.
pub fn run(world: &mut World<'_>) {
    world.fleet.write(
        "inbox",
        "letter.txt",
        &format!("Dear friend, the {LETTER_WORD} is in bloom. Tell everyone.\n"),
    );
    world.fleet.write(
        "vault",
        "plan.txt",
        &format!("The party is at the {SECRET_WORD}.\n"),
    );
    clean_turn(world);
    remember_and_undo(world);
    untrusted_file(world);
    secret_file(world);
    untrusted_note(world);
    read::fleet_recall(world);
    outage(world);
    read::ask_memory(world);
    totals(world);
}

fn trusted(fleet: &Fleet, at: usize) -> String {
    fleet.agents[at].trusted()
}

fn untrusted(fleet: &Fleet, at: usize) -> String {
    fleet.agents[at].untrusted()
}

fn is_clean(_: &Fleet, said: &Said) -> Result<(), String> {
    expect(
        !said.label.is_untrusted() && said.label.class <= Class::Private,
        || said.label.to_string(),
    )
}

/// A sentence is in a workspace as often as it was replied to.
fn arrives(world: &mut World<'_>, workspace: &str, text: &str) {
    let times = world.times(text);
    world.check(&format!("“{text}” is in {workspace}, once"), |fleet| {
        let found = said(fleet, workspace, OWNER, text);
        expect(found == times && times > 0, || {
            format!("it is there {found} times after {times} turns")
        })
    });
}

fn clean_turn(world: &mut World<'_>) {
    world.step("A clean turn goes to the trusted workspace");
    for at in [GARDEN, KITCHEN] {
        let text = format!("hello, {}", world.fleet.agents[at].name);
        world.say(
            at,
            "talk",
            &text,
            ("the session stays private and clean", &is_clean),
        );
        let workspace = trusted(&world.fleet, at);
        arrives(world, &workspace, &text);
        let other = untrusted(&world.fleet, at);
        world.check(&format!("nothing is in {other}"), |fleet| {
            let found = messages(fleet, &other).len();
            expect(found == 0, || format!("{found} messages"))
        });
        world.check("Honcho watches the owner, not the agent", |fleet| {
            let dump = fleet.honcho();
            let members = dump[&workspace]["sessions"][0]["members"]
                .as_array()
                .cloned();
            let watched = |peer: &str| {
                let mut all = members.iter().flatten();
                all.find(|member| member["peer_id"] == peer)
                    .map(|member| member["observe_me"] == true)
            };
            let seen = (watched(OWNER), watched(fleet.agents[at].name));
            expect(seen == (Some(true), Some(false)), || format!("{seen:?}"))
        });
    }
}

fn remember_and_undo(world: &mut World<'_>) {
    world.step("“remember that …” is in Honcho at once, and gone after undo");
    const FACT: &str = "my bike is blue";
    remember(world, "talk", FACT);
    let workspace = trusted(&world.fleet, GARDEN);
    world.check(
        &format!("{workspace} holds it as a conclusion about the owner"),
        |fleet| {
            let found = concluded(fleet, &workspace, OWNER, FACT);
            expect(found > 0, || "it is not there".into())
        },
    );
    world.undo(GARDEN, FACT);
    world.check(
        &format!("the conclusion is gone from {workspace}"),
        |fleet| {
            let found = concluded(fleet, &workspace, OWNER, FACT);
            expect(found == 0, || "it is still there".into())
        },
    );
}

fn remember(world: &mut World<'_>, role: &'static str, fact: &str) {
    let knows = |fleet: &Fleet, _: &Said| {
        let files = files(fleet, GARDEN)?;
        expect(files.user.iter().any(|entry| entry.text == fact), || {
            "it is not in its identity".into()
        })
    };
    let text = format!("remember that {fact}");
    world.say(
        GARDEN,
        role,
        &text,
        ("it is in the agent's identity", &knows),
    );
}

fn untrusted_file(world: &mut World<'_>) {
    world.step("A file from an untrusted folder marks the session that reads it");
    let marked = |fleet: &Fleet, said: &Said| {
        let label = label_of(fleet, GARDEN, said)?;
        expect(
            label.is_untrusted() && label.class == Class::Private,
            || label.to_string(),
        )
    };
    let read_and_marked = |fleet: &Fleet, said: &Said| {
        quotes(said, LETTER_WORD)?;
        marked(fleet, said)
    };
    world.say(
        GARDEN,
        "letter",
        READS[0],
        ("the session is untrusted", &read_and_marked),
    );
    let later = "thanks, that is all about the letter";
    world.say(GARDEN, "letter", later, ("and stays so", &marked));
    arrives_untrusted(world, later);
    in_vain_or_untrusted(world);
}

/// The session's words go to the untrusted workspace, and never to the trusted one.
fn arrives_untrusted(world: &mut World<'_>, text: &str) {
    let (workspace, other) = (
        untrusted(&world.fleet, GARDEN),
        trusted(&world.fleet, GARDEN),
    );
    arrives(world, &workspace, text);
    world.check(&format!("it is not in {other}"), |fleet| {
        let found = said(fleet, &other, OWNER, text);
        expect(found == 0, || "it is there".into())
    });
}

fn in_vain_or_untrusted(world: &mut World<'_>) {
    let (workspace, other) = (
        untrusted(&world.fleet, GARDEN),
        trusted(&world.fleet, GARDEN),
    );
    world.check(
        &format!("what the letter says reached {workspace}"),
        |fleet| {
            let found = whole(fleet, &workspace).contains(LETTER_WORD);
            expect(found, || "it is not there".into())
        },
    );
    world.check(&format!("no word of the letter is in {other}"), |fleet| {
        let found = whole(fleet, &other).contains(LETTER_WORD);
        expect(!found, || "it is there".into())
    });
}

/// The reply repeats a word of the file, so it was read.
fn quotes(said: &Said, word: &str) -> Result<(), String> {
    expect(said.reply.contains(word), || "it was not read".into())
}

fn label_of(fleet: &Fleet, at: usize, said: &Said) -> Result<bxwire::Label, String> {
    match &said.item {
        ItemId::Turn { session, .. } => fleet.agents[at].label(session),
        ItemId::Edit(_) => Err("not a turn".into()),
    }
}

fn secret_file(world: &mut World<'_>) {
    world.step("A secret file's session goes nowhere");
    let secret = |fleet: &Fleet, said: &Said| {
        let label = label_of(fleet, GARDEN, said)?;
        expect(label.class == Class::Secret, || label.to_string())
    };
    let read_and_secret = |fleet: &Fleet, said: &Said| {
        quotes(said, SECRET_WORD)?;
        secret(fleet, said)
    };
    world.say(
        GARDEN,
        "vault",
        READS[1],
        ("the session is secret", &read_and_secret),
    );
    let later = "we never spoke of it";
    let told = world.say(GARDEN, "vault", later, ("and stays so", &secret));
    world.check("bxctl memory why: decided, to nowhere", |fleet| {
        let item = told.as_ref().ok_or("nothing was said")?.item.clone();
        let why = fleet.agents[GARDEN].control("memoryd", &control::Request::MemoryWhy { item })?;
        let control::Reply::Why(why) = why else {
            return Err(format!("an odd answer: {why:?}"));
        };
        let facts = format!("{:?}", why.facts);
        expect(why.steps.is_empty() && facts.contains("secret"), || facts)
    });
    world.check(
        "bxctl memory sync counts both turns as sent nowhere",
        |fleet| {
            let sync = sync(fleet, GARDEN)?;
            let nowhere: u64 = sync.skipped.iter().map(|(_, count)| count).sum();
            expect(nowhere >= 2 && sync.undecided.is_empty(), || {
                format!("{:?}, {} undecided", sync.skipped, sync.undecided.len())
            })
        },
    );
    world.check("no word of it is anywhere in Honcho", |fleet| {
        let all = fleet.honcho().to_string();
        let leaked = [SECRET_WORD, later].iter().any(|word| all.contains(word));
        expect(!leaked && !all.is_empty(), || "it is there".into())
    });
}

fn untrusted_note(world: &mut World<'_>) {
    world.step("An untrusted note goes to the fleet, beside the other agent's");
    const NOTE: &str = "the letter speaks of a tree";
    const OTHER_NOTE: &str = "the letter was long";
    let marked = |fleet: &Fleet, said: &Said| {
        quotes(said, LETTER_WORD)?;
        let label = label_of(fleet, KITCHEN, said)?;
        expect(label.is_untrusted(), || label.to_string())
    };
    world.say(
        KITCHEN,
        "letter",
        READS[0],
        ("the second agent's session is untrusted too", &marked),
    );
    for (at, note) in [(GARDEN, NOTE), (KITCHEN, OTHER_NOTE)] {
        let noted = |fleet: &Fleet, _: &Said| {
            let files = files(fleet, at)?;
            let found = files.notes.iter().find(|kept| kept.text == note);
            let label = found.ok_or("there is no such note")?.label;
            expect(label.is_untrusted(), || label.to_string())
        };
        world.say(
            at,
            "letter",
            &format!("note {note}"),
            ("it is kept as an untrusted note", &noted),
        );
        let agent = world.fleet.agents[at].name;
        world.check(&format!("{FLEET} has it from the peer {agent}"), |fleet| {
            let found = said(fleet, FLEET, agent, note);
            expect(found > 0, || "it is not there".into())
        });
    }
    const WISH: &str = "I like pears";
    let refused = |fleet: &Fleet, said: &Said| {
        let files = files(fleet, GARDEN)?;
        let kept = files.user.iter().any(|entry| entry.text.contains("pears"));
        expect(!kept && said.label.is_untrusted(), || {
            "it is in its identity".into()
        })
    };
    let text = format!("remember that {WISH}");
    world.say(
        GARDEN,
        "letter",
        &text,
        ("an untrusted session does not change identity", &refused),
    );
    let workspace = trusted(&world.fleet, GARDEN);
    world.check(&format!("{workspace} has none of it"), |fleet| {
        let all = whole(fleet, &workspace);
        expect(!all.contains(NOTE) && !all.contains(WISH), || {
            "it is there".into()
        })
    });
}

fn outage(world: &mut World<'_>) {
    world.step("Honcho stops: turns wait, and recall still answers");
    world.fleet.stop_honcho();
    world.did("Honcho is stopped");
    const FACT: &str = "my boat is green";
    remember(world, "talk", FACT);
    let texts: Vec<String> = (1..=3)
        .map(|n| format!("still there, sentence {n}?"))
        .collect();
    for at in [GARDEN, KITCHEN] {
        for text in &texts {
            let text = format!("{}: {text}", world.fleet.agents[at].name);
            world.say(
                at,
                "talk",
                &text,
                ("the turn is answered all the same", &is_clean),
            );
        }
        world.check("bxctl memory sync: they wait, and it says why", |fleet| {
            let sync = sync(fleet, at)?;
            let trusted = sync
                .workspaces
                .iter()
                .find(|workspace| workspace.role == "trusted");
            let trusted = trusted.ok_or("no trusted workspace")?;
            let entry = trusted.wait.as_ref().map(|wait| wait.runbook.as_str());
            expect(
                trusted.waiting >= 3 && entry == Some("honcho-unreachable"),
                || format!("{} wait, {entry:?}", trusted.waiting),
            )
        });
    }
    let recalls = |_: &Fleet, said: &Said| {
        let knows = said.reply.contains("green") && said.reply.contains("fleet: unavailable");
        expect(knows, || {
            "it does not know, or does not say what is missing".into()
        })
    };
    world.say(
        GARDEN,
        "later",
        "what do you know about my boat?",
        (
            "a new session knows it, and says what was not reached",
            &recalls,
        ),
    );

    world.step("Honcho is back: everything is sent, once");
    let started = world.fleet.start_honcho();
    world.check("Honcho is back with what it had", |_| started.clone());
    for at in [GARDEN, KITCHEN] {
        let workspace = trusted(&world.fleet, at);
        let name = world.fleet.agents[at].name;
        for text in &texts {
            arrives(world, &workspace, &format!("{name}: {text}"));
        }
        world.check("in the order in which they were said", |fleet| {
            let all = messages(fleet, &workspace);
            let found: Vec<_> = all
                .iter()
                .filter_map(|message| message["content"].as_str())
                .filter_map(|text| texts.iter().position(|wanted| text.ends_with(wanted)))
                .collect();
            expect(found.is_sorted() && found.len() >= texts.len(), || {
                format!("{found:?}")
            })
        });
    }
    let workspace = trusted(&world.fleet, GARDEN);
    world.check("what was remembered meanwhile is a conclusion", |fleet| {
        let found = concluded(fleet, &workspace, OWNER, FACT);
        expect(found > 0, || "it is not there".into())
    });
}

fn totals(world: &mut World<'_>) {
    world.step("In the end nothing waits, is in doubt or was sent twice");
    world.heal();
    for at in [GARDEN, KITCHEN] {
        let name = world.fleet.agents[at].name;
        world.check(&format!("{name}: all sent"), |fleet| {
            let sync = sync(fleet, at)?;
            let open: u64 = sync
                .workspaces
                .iter()
                .map(|workspace| workspace.waiting + workspace.failed + workspace.in_doubt)
                .sum();
            let open = open + sync.undecided.len() as u64;
            expect(open == 0 && sync.configured, || format!("{sync:?}"))
        });
    }
    world.check("each part of each turn and note is there once", |fleet| {
        let names = fleet
            .agents
            .iter()
            .flat_map(|agent| [agent.trusted(), agent.untrusted()]);
        for name in names.chain([FLEET.to_owned()]) {
            let mut keys: Vec<_> = messages(fleet, &name)
                .iter()
                .map(|message| format!("{}{}", message["session_id"], message["metadata"]))
                .collect();
            let all = keys.len();
            keys.sort();
            keys.dedup();
            expect(all == keys.len() && all > 0, || {
                format!("{name}: {all} messages, {} different ones", keys.len())
            })?;
        }
        Ok(())
    });
}
