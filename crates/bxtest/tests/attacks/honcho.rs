//! Attacks on what leaves for Honcho, and by what Honcho answers.

use std::{fs, os::unix::fs::PermissionsExt};

use bxtest::{
    fleet::{DAEMONS, OWNER, Setup},
    look, wait_for,
};
use bxwire::{
    ItemId,
    links::control::{self, SyncAction},
};
use honcho_local::{Fault, Rule};
use serde_json::{Value, json};

use crate::{hostile::Hostile, world::*};

/// Letters and digits alone, full-width ones as themselves: a key broken up is whole again.
fn squeezed(text: &str) -> String {
    let plain = |c: char| match u32::from(c) {
        wide @ 0xff01..=0xff5e => char::from_u32(wide - 0xfee0).unwrap_or(c),
        _ => c,
    };
    text.chars()
        .map(plain)
        .filter(char::is_ascii_alphanumeric)
        .collect()
}

#[test]
fn at_13_a_key_broken_up_in_any_way_reaches_no_request() {
    let body = "aZ3kQ9xLm2Vt7RcWbN5yP8dFhJ4sTgUeKqXo";
    let key = format!("ghp_{body}");
    let (half, rest) = key.split_at(20);
    let wide: String = key
        .chars()
        .map(|c| char::from_u32(u32::from(c) + 0xfee0).expect("a wide letter"))
        .collect();
    let every = |between: &str| {
        let letters: Vec<String> = key.chars().map(String::from).collect();
        letters.join(between)
    };
    let long = "tea and toast ".repeat(1_785);
    let rows = [
        ("as it is", key.clone(), "I see."),
        ("zero width", every("\u{200b}"), "I see."),
        ("soft hyphens", every("\u{ad}"), "I see."),
        ("escapes", every("\u{1b}[31m"), "I see."),
        ("selectors", every("\u{fe0f}"), "I see."),
        ("bidirectional", every("\u{202e}"), "I see."),
        ("full width", wide, "I see."),
        (
            "at the border of two parts",
            format!("{long}{key}"),
            "I see.",
        ),
        ("in two messages", half.to_owned(), rest),
        ("in the reply", "what is it".to_owned(), &key),
    ];
    let mut world = World::one();
    for (name, text, reply) in &rows {
        let said = world.turn(&Turn {
            text: &format!("it is {text}"),
            reply,
            ..Turn::default()
        });
        world.settle();
        let why = world.why(GARDEN, &said.item);
        assert!(why.steps.is_empty(), "{name}: {why:?}");
        // Half a key is no key, and a note has no room for a text in two parts.
        let is_whole = *reply == "I see." && text.len() < 8_000;
        if is_whole {
            let calls = [note(&format!("it is {text}")), remember(text)];
            for result in world.say(None, "note it", &calls).results {
                assert!(result.contains("sees a secret"), "{name}: {result}");
            }
        }
    }
    let requests = world.fleet.server().controls().requests();
    let requests: String = requests
        .iter()
        .map(|request| format!("{} {:?} {}", request.path, request.query, request.body))
        .collect();
    for place in [world.fleet.honcho().to_string(), requests] {
        assert!(!squeezed(&place).contains(body), "a key left");
    }
    let journal =
        fs::read_to_string(world.state(GARDEN, "memory/journal.jsonl")).expect("a journal");
    assert!(!squeezed(&journal).contains(body));
    assert!(
        world.trusted(GARDEN).contains("note it"),
        "nothing is sent at all"
    );
}

#[test]
fn at_18_an_undo_of_an_item_in_doubt_leaves_nothing_and_sends_nothing_twice() {
    for fault in [Fault::CommitAndDrop, Fault::DropBefore] {
        let mut world = World::one();
        world.say(None, "hello", &[]);
        world.settle();
        let controls = world.fleet.server().controls();
        controls.add(
            Rule::new(fault.clone())
                .on("POST", "*/conclusions")
                .times(1),
        );
        // It cannot be looked up either, so nobody knows for as long as the test likes.
        let away = Fault::Status {
            status: 503,
            retry_after: None,
            commit: false,
        };
        controls.add(Rule::new(away).on("POST", "*/conclusions/list"));
        world.say(None, "keep it", &[remember("my kayak is red")]);
        let edit = look::edits(&world.fleet, GARDEN).expect("memoryd")[0].edit;
        let in_doubt = |world: &World| {
            let doubts = world.sync(GARDEN).in_doubt;
            doubts.iter().any(|note| note.item == ItemId::Edit(edit))
        };
        wait_for("a doubt", || in_doubt(&world).then_some(()));
        world.control(
            GARDEN,
            &control::Request::MemoryUndo {
                edit,
                confirm: true,
            },
        );
        assert!(in_doubt(&world), "{fault:?}: known before the undo");
        controls_clear(&world);
        world.sync_now(GARDEN);
        world.settle();
        assert!(world.identity(GARDEN).is_empty());
        let trusted = world.agent(GARDEN).trusted();
        assert_eq!(world.conclusions(&trusted), [], "{fault:?}");
        let tries = world
            .fleet
            .server()
            .controls()
            .requests()
            .into_iter()
            .filter(|request| request.method == "POST" && request.path.ends_with("/conclusions"))
            .count();
        assert_eq!(tries, 1, "{fault:?}");
        let sync = world.sync(GARDEN);
        assert!(
            sync.failed.is_empty() && sync.in_doubt.is_empty(),
            "{sync:?}"
        );
    }
}

#[test]
fn at_19_an_answer_with_ids_of_something_else_is_no_answer_and_deletes_nobodys_fact() {
    let mut world = World::one();
    world.say(None, "keep it", &[remember("my boat is green")]);
    world.settle();
    let trusted = world.agent(GARDEN).trusted();
    let dump = world.fleet.honcho();
    let known = dump[&trusted]["conclusions"][0]["id"]
        .as_str()
        .expect("an id");
    let edits = [
        known.to_owned(),
        "../../../kitchen-trusted/conclusions/x".to_owned(),
        "x?force=true".to_owned(),
        "x\n{\"type\":\"sent\"}".to_owned(),
        String::new(),
    ];
    for (n, id) in edits.into_iter().enumerate() {
        let body = json!([{
            "id": id, "content": "x", "observer_id": OWNER, "observed_id": OWNER, "session_id": "s",
            "created_at": "2026-01-31T10:00:00Z",
        }]);
        let says = Fault::Says {
            body: body.to_string(),
        };
        let rule = Rule::new(says).on("POST", "*/conclusions").times(1);
        world.fleet.server().controls().add(rule);
        let fact = format!("my kayak is red {n}");
        world.say(None, "keep it", &[remember(&fact)]);
        world.settle();
        // It was not believed, and looked up: once it is there, under an id of its own.
        let there = world.conclusions(&trusted);
        assert_eq!(
            there.iter().filter(|(_, text)| *text == fact).count(),
            1,
            "{there:?}"
        );
        let edit = look::edits(&world.fleet, GARDEN).expect("memoryd")[0].edit;
        world.control(
            GARDEN,
            &control::Request::MemoryUndo {
                edit,
                confirm: true,
            },
        );
        world.settle();
        let left = [(OWNER.to_owned(), "my boat is green".to_owned())];
        assert_eq!(world.conclusions(&trusted), left);
    }
    for request in world.fleet.server().controls().requests() {
        assert!(!request.path.contains("kitchen"), "{}", request.path);
    }
    world.restart(GARDEN, &["memoryd"]);
    world.settle();
}

#[test]
fn at_19_an_answer_with_ids_of_other_messages_is_no_answer_and_nothing_is_lost() {
    let mut world = World::one();
    world.say(None, "hello", &[]);
    world.settle();
    let trusted = world.agent(GARDEN).trusted();
    let known = look::messages(&world.fleet, &trusted);
    let known = known[0]["id"].as_str().expect("an id").to_owned();
    let rows = [
        [known, "m2".to_owned()],
        ["m1".to_owned(), "m1".to_owned()],
        [
            "m1".to_owned(),
            "../../../kitchen-trusted/sessions/x".to_owned(),
        ],
        ["m1".to_owned(), "m2\n{\"type\":\"sent\"}".to_owned()],
    ];
    for (n, ids) in rows.into_iter().enumerate() {
        let message = |id: String| {
            json!({
                "id": id, "content": "x", "peer_id": OWNER, "session_id": "s", "workspace_id": trusted,
                "metadata": {}, "created_at": "2026-01-31T10:00:00Z", "token_count": 1,
            })
        };
        let body = json!(ids.map(message)).to_string();
        let rule = Rule::new(Fault::Says { body })
            .on("POST", "*/messages")
            .times(1);
        world.fleet.server().controls().add(rule);
        let text = format!("words number {n}");
        let said = world.say(None, &text, &[]);
        world.settle();
        // It was not believed, and looked up; then it was sent, and has the ids that Honcho gave it.
        let there = look::messages(&world.fleet, &trusted);
        assert_eq!(
            look::said(&world.fleet, &trusted, OWNER, &text),
            1,
            "{there:?}"
        );
        let why = world.why(GARDEN, &said.item);
        let ids: Vec<_> = why.steps.iter().flat_map(|step| &step.ids).collect();
        assert_eq!(ids.len(), 2, "{why:?}");
        for id in ids {
            let mut all = there.iter();
            assert!(
                all.any(|message| message["id"] == id.as_str()),
                "{id}: {why:?}"
            );
        }
    }
    for request in world.fleet.server().controls().requests() {
        assert!(!request.path.contains("kitchen"), "{}", request.path);
    }
    world.restart(GARDEN, &["memoryd"]);
    world.settle();
}

#[test]
fn at_19_bodies_of_two_megabytes_and_answers_that_drip_hold_up_nobody_and_send_nothing_twice() {
    let mut world = World::with(Setup {
        names: &["garden"],
        limits: "honcho_read_ms_max = 500\nhoncho_request_ms_max = 1000\nrecall_source_ms_max = 500\n\
                 ask_memory_chat_ms_max = 500\n",
        ..Setup::default()
    });
    world.note_by("mallory", "e1", "an umbrella");
    let huge = Fault::Huge {
        bytes: 2 * 1024 * 1024,
    };
    for (n, fault) in [huge, Fault::Drip { every_ms: 300 }]
        .into_iter()
        .enumerate()
    {
        let controls = world.fleet.server().controls();
        for (method, path) in [("POST", "*/messages"), ("POST", "*/conclusions")] {
            controls.add(Rule::new(fault.clone()).on(method, path).times(1));
        }
        for path in ["*/search", "*/chat", "*/query"] {
            controls.add(Rule::new(fault.clone()).on("POST", path).times(3));
        }
        let text = format!("words number {n}");
        let said = world.say(
            None,
            &text,
            &[
                remember(&format!("my boat is number {n}")),
                recall("umbrella"),
                ("ask_memory", json!({"question": "umbrella?"})),
            ],
        );
        assert!(
            said.results[1].contains("unavailable"),
            "{}",
            said.results[1]
        );
        let asked = &said.results[2];
        assert!(asked.contains("own: unavailable"), "{asked}");
        assert!(
            !said.label.is_untrusted(),
            "what was not read marks nothing"
        );
        world.settle();
        let trusted = world.agent(GARDEN).trusted();
        assert_eq!(look::said(&world.fleet, &trusted, OWNER, &text), 1);
        let fact = format!("my boat is number {n}");
        assert_eq!(look::concluded(&world.fleet, &trusted, OWNER, &fact), 1);
        controls_clear(&world);
    }
}

fn controls_clear(world: &World) {
    world.fleet.server().controls().clear();
}

/// A key file, and the folder it goes away with.
fn key_file(key: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    fs::write(&path, key).expect("a key");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    let name = path.display().to_string();
    (folder, name)
}

fn keyed(honcho: &Hostile, key: &str) -> World {
    let honcho = honcho.url();
    let sections: String = ["trusted", "untrusted", "fleet"]
        .iter()
        .map(|role| format!("[secrets.honcho_{role}]\nfile = \"{key}\"\n"))
        .collect();
    World::with(Setup {
        names: &["garden"],
        honcho: Some(honcho),
        memoryd: Box::new(move |_| sections.clone()),
        ..Setup::default()
    })
}

/// Everything that asks Honcho for something.
fn busy(world: &mut World) {
    let said = world.say(
        None,
        "all at once: canary-of-words",
        &[
            remember("canary-of-a-fact"),
            recall("umbrella"),
            ("ask_memory", json!({"question": "umbrella?"})),
            ("facts", json!({"op": "search", "query": "umbrella"})),
            ("facts", json!({"op": "snapshot"})),
            ("facts", json!({"op": "profile"})),
        ],
    );
    world.say(Some(&said.session), "and again: canary-of-words", &[]);
    wait_for("a decision", || {
        world.is_decided(GARDEN, &said.item).then_some(())
    });
    world.sync_now(GARDEN);
}

#[test]
fn at_19_a_redirect_to_another_host_is_not_followed_and_the_key_stays() {
    const KEY: &str = "honcho-key-of-the-garden-7f3a";
    let (_folder, key) = key_file(KEY);
    let other = Hostile::start(|_| "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".into());
    let away = other.url();
    let honcho = Hostile::start(move |number| {
        let status = [301, 302, 303, 307, 308][number % 5];
        format!(
            "HTTP/1.1 {status} Elsewhere\r\nlocation: {away}/v3/workspaces\r\ncontent-length: 0\r\n\
             connection: close\r\n\r\n"
        )
    });
    let mut world = keyed(&honcho, &key);
    busy(&mut world);
    wait_for("each kind of redirect", || {
        (honcho.heads().len() >= 12).then_some(())
    });
    assert!(
        honcho.heads().iter().any(|head| head.contains(KEY)),
        "no key was used"
    );
    assert_eq!(other.heads(), Vec::<String>::new());
    let sync = world.sync(GARDEN);
    let sent: u64 = sync.workspaces.iter().map(|workspace| workspace.sent).sum();
    assert_eq!(sent, 0, "{sync:?}");
}

#[test]
fn at_20_what_a_422_echoes_is_in_no_log_status_or_textless_file() {
    const KEY: &str = "canary-key-of-honcho-9d1e";
    let (_folder, key) = key_file(KEY);
    let body = json!({"detail": [{"loc": ["body", "canary-of-a-place"], "msg": format!("{KEY} canary-of-words"),
                       "input": "canary-of-a-fact", "type": "canary"}]})
    .to_string();
    let length = body.len();
    let honcho = Hostile::start(move |_| {
        format!(
            "HTTP/1.1 422 canary-of-a-reason\r\ncontent-type: application/json\r\nx-canary: canary\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
    });
    let mut world = keyed(&honcho, &key);
    busy(&mut world);
    wait_for("refusals", || (honcho.heads().len() >= 8).then_some(()));
    assert!(
        honcho.heads().iter().any(|head| head.contains(KEY)),
        "no key was used"
    );
    let mut shown = format!("{:?}", world.sync(GARDEN));
    for daemon in DAEMONS {
        let status = world
            .agent(GARDEN)
            .control(daemon, &control::Request::Status {});
        shown += &format!("{status:?}");
        shown += &world.agent(GARDEN).log(daemon);
    }
    let edit = look::edits(&world.fleet, GARDEN).expect("memoryd")[0].edit;
    shown += &format!("{:?}", world.why(GARDEN, &ItemId::Edit(edit)));
    let retry = control::Request::MemorySync {
        action: SyncAction::RetryAll {},
    };
    shown += &format!("{:?}", world.control(GARDEN, &retry));
    for file in bxtest::kept::TEXTLESS {
        shown += &fs::read_to_string(world.state(GARDEN, file)).expect("a file");
    }
    // What the model is told of it is in fixed words too.
    for chat in world.fleet.model().chats() {
        for message in chat.body["messages"].as_array().into_iter().flatten() {
            if message["role"] == "tool" && !is_ours(message) {
                shown += message["content"].as_str().unwrap_or_default();
            }
        }
    }
    assert!(shown.len() > 1_000);
    assert!(!shown.contains("canary"), "{shown}");
}

/// The memory tool repeats what the model itself wrote.
fn is_ours(message: &Value) -> bool {
    message["content"]
        .as_str()
        .is_some_and(|text| text.contains("canary-of-a-fact") && text.contains("e1"))
}
