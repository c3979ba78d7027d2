//! Keys go to their own workspace, by file, and are shown nowhere; neither is any text.

use std::{fs, os::unix::fs::PermissionsExt};

use bxcore::connect::Client;
use bxtest::wait_for;
use bxwire::{
    Audience, Label,
    links::{
        control::SyncAction,
        memory::{self, Before},
        memory_tools::{AskMemory, MemoryTools, Recall, Reply, Request},
    },
};
use honcho_local::{Fault, Rule};

use crate::{
    facts::{caller, search},
    world::{ANSWER_MS_MAX, Said, UNTRUSTED, World, owner, session},
};

const TRUSTED_KEY: &str = "canary-key-of-the-trusted-workspace";

fn with_key(world: &mut World) -> std::path::PathBuf {
    let path = world.home.path().join("trusted.key");
    fs::write(&path, format!("{TRUSTED_KEY}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    world.extra = format!("[secrets.honcho_trusted]\nfile = \"{}\"\n", path.display());
    world.configure();
    path
}

#[test]
fn a_key_goes_to_its_own_workspace_only_and_a_file_of_ronchos_is_not_read() {
    let mut world = World::stopped("");
    with_key(&mut world);
    // The harness sets HOME to this folder.
    let folder = world.home.path().join(".config/roncho");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("roncho.toml"),
        "api_key = \"canary-of-another-program\"\n",
    )
    .unwrap();
    world.start();
    world.turn(&session(1), 1);
    world.broker_says(&session(2), UNTRUSTED);
    world.turn(&session(2), 1);
    world.settle();
    let requests = world.honcho().controls().requests();
    assert!(requests.len() > 6);
    for request in requests {
        let bearer = format!("Bearer {TRUSTED_KEY}");
        let whole = format!("{} {}", request.path, request.body);
        let want = whole.contains("b-trusted").then_some(bearer);
        assert_eq!(request.authorization, want, "{whole}");
    }
    world.stop();
    assert!(!world.said.contains("canary"), "{}", world.said);
}

#[test]
fn a_refused_key_stops_its_workspace_alone_until_it_is_read_again() {
    let mut world = World::stopped("");
    let path = with_key(&mut world);
    world.start();
    world
        .honcho()
        .controls()
        .add(Rule::new(Fault::RefuseKey).path("*b-trusted*"));
    world.turn(&session(1), 1);
    let sync = world.until("a refused key", |sync| sync.workspaces[0].wait.is_some());
    let wait = sync.workspaces[0].wait.clone().unwrap();
    assert_eq!(
        (wait.runbook.as_str(), wait.next),
        ("honcho-key-refused", None)
    );
    world.broker_says(&session(2), UNTRUSTED);
    world.turn(&session(2), 1);
    world.until("the other workspace", |sync| sync.workspaces[1].sent == 1);
    world.honcho().controls().clear();
    fs::write(&path, "another-key\n").unwrap();
    world.daemon().signal("HUP");
    world.settle();
    let requests = world.honcho().controls().requests();
    assert_eq!(
        requests.last().unwrap().authorization.as_deref(),
        Some("Bearer another-key")
    );
    world.stop();
    assert_eq!(
        world.said.matches("refuses the key").count(),
        1,
        "{}",
        world.said
    );
    assert!(!world.said.contains(TRUSTED_KEY));
}

/// The keys that recall, ask_memory, facts and context ask with, in this order.
fn asked_with(world: &World) -> Vec<Option<String>> {
    let controls = world.honcho().controls();
    controls.forget_requests();
    let recall = Request::Recall {
        caller: caller(),
        arguments: Recall::of("drum"),
    };
    let ask_memory = Request::AskMemory {
        caller: caller(),
        arguments: AskMemory {
            question: "swan".into(),
            workspaces: Vec::new(),
            reasoning: None,
        },
    };
    let facts = Request::Facts {
        caller: caller(),
        arguments: search("kettle"),
    };
    for request in [recall, ask_memory, facts] {
        let path = world.home.dirs.memory_tools_socket();
        let mut client = Client::<MemoryTools>::connect(&path, ANSWER_MS_MAX).expect("memoryd");
        client.send(&request).expect("sent");
        while let Reply::Progress { .. } = client.recv().expect("an answer") {}
    }
    world.memory(&memory::Request::Context(Before {
        session: session(1),
        text: "lantern".into(),
        label: Label::PRIVATE,
        audience: Audience::Owner {},
        speaker: Some(owner()),
        source: "chat".into(),
    }));
    let requests = controls.requests();
    let with = |word: &str| {
        let mut asked = requests.iter();
        let found = asked.find(|request| request.body["query"] == word)?;
        found.authorization.clone()
    };
    ["drum", "swan", "kettle", "lantern"].map(with).into()
}

#[test]
fn everybody_who_reads_takes_a_new_key() {
    let mut world = World::stopped("[honcho.context]\nanswer_ms_max = 8000\n");
    let write = |world: &World, key: &str| {
        for role in ["trusted", "fleet"] {
            let path = world.home.path().join(role);
            fs::write(&path, format!("{key}-of-{role}")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
    };
    let want = |key: &str| {
        let bearer = |role| Some(format!("Bearer {key}-of-{role}"));
        ["fleet", "trusted", "trusted", "trusted"].map(bearer)
    };
    write(&world, "an-old-key");
    for role in ["trusted", "fleet"] {
        let path = world.home.path().join(role).display().to_string();
        world.extra += &format!("[secrets.honcho_{role}]\nfile = \"{path}\"\n");
    }
    world.configure();
    world.start();
    assert_eq!(asked_with(&world), want("an-old-key"));
    write(&world, "a-new-key");
    world.daemon().signal("HUP");
    wait_for("the new keys", || {
        (asked_with(&world) == want("a-new-key")).then_some(())
    });
}

#[test]
fn no_memory_text_and_no_answers_text_is_in_any_log_or_status() {
    let mut world = World::new();
    let refuse = |status| Fault::Status {
        status,
        retry_after: None,
        commit: false,
    };
    // A refusal echoes what was sent; garbage and cut bodies end in decoding errors that quote them.
    for fault in [refuse(422), Fault::Garbage, Fault::CutBody, refuse(500)] {
        world
            .honcho()
            .controls()
            .add(Rule::new(fault).on("POST", "*/messages").times(1));
    }
    let said = Said {
        text: Some("canary-text-of-a-person".into()),
        reply: Some("canary-text-of-the-agent".into()),
        ..Said::default()
    };
    world.turn_of(&session(1), 1, &said);
    world.turn_of(&session(1), 2, &said);
    world.tool(
        &session(1),
        Label::PRIVATE,
        r#"{"op":"add","about":"user","text":"canary-text-of-memory"}"#,
    );
    world.settle();
    let shown = format!(
        "{:?} {:?} {:?}",
        world.sync(SyncAction::Show {}),
        world.why("e1"),
        world.why(&format!("{}/1", session(1)))
    );
    assert!(!shown.contains("canary"), "{shown}");
    let ledger = world.home.dirs.state_of("memoryd").join("honcho.jsonl");
    assert!(!fs::read_to_string(ledger).unwrap().contains("canary"));
    world.stop();
    assert!(!world.said.contains("canary"), "{}", world.said);
}

#[test]
fn a_wrong_section_stops_memoryd_with_every_mistake() {
    let world = World::stopped("");
    world.home.configure(
        "memoryd",
        "[honcho]\nurl = \"nonsense\"\nagent = \"a.b\"\nowner = \"owner\"\ntrusted = \"t\"\nuntrusted = \"t\"\n",
    );
    let ended = world.home.try_start("memoryd", |_| {}).unwrap_err();
    assert_eq!(ended.status.code(), Some(78));
    for part in [
        "honcho.url",
        "honcho.agent",
        "honcho.fleet",
        "honcho.untrusted",
        "honcho-config-invalid",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

#[test]
fn a_ledger_that_was_damaged_is_named_and_nothing_is_sent() {
    let mut world = World::new();
    world.turn(&session(1), 1);
    world.settle();
    world.stop();
    let path = world.home.dirs.state_of("memoryd").join("honcho.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let cases = [
        (
            "a changed bit",
            whole.replacen("decided", "decidee", 1),
            "file-corrupt",
        ),
        (
            "a bad middle line",
            whole.replacen('\n', "\nnonsense\n", 1),
            "file-corrupt",
        ),
        (
            "a line that is gone",
            whole.split_inclusive('\n').skip(1).collect(),
            "file-corrupt",
        ),
        (
            "a newer line",
            whole.clone() + &bxcore::sealed::seal(r#"{"type":"folded"}"#) + "\n",
            "file-newer",
        ),
    ];
    for (name, text, entry) in cases {
        fs::write(&path, &text).unwrap();
        let ended = world.home.try_start("memoryd", |_| {}).unwrap_err();
        assert!(
            ended.stderr.contains("honcho.jsonl line "),
            "{name}: {}",
            ended.stderr
        );
        assert!(ended.stderr.contains(entry), "{name}: {}", ended.stderr);
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            text,
            "{name}: it is left as it was"
        );
    }
    // A torn last line is cut off, and what it said is found out again.
    fs::write(
        &path,
        whole.trim_end().rsplit_once('\n').unwrap().0.to_owned() + "\n{\"type\":\"se",
    )
    .unwrap();
    world.start();
    world.settle();
    assert_eq!(world.messages("b-trusted").len(), 2);
}

#[test]
fn a_journal_that_lost_a_decided_edit_stops_memoryd_before_its_number_is_given_again() {
    let mut world = World::new();
    let options = world.stop_honcho();
    let add = r#"{"op":"add","about":"user","text":"The goat is tall."}"#;
    world.tool(&session(1), Label::PRIVATE, add);
    world.until("a waiting edit", |sync| sync.workspaces[0].waiting == 1);
    world.kill();
    let journal = world.home.dirs.state_of("memoryd").join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    fs::remove_file(&journal).unwrap();
    let ended = world.home.try_start("memoryd", |_| {}).unwrap_err();
    assert!(
        ended.stderr.contains("does not hold e1"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("file-corrupt"), "{}", ended.stderr);
    fs::write(&journal, whole).unwrap();
    world.start();
    world.start_honcho(options);
    world.settle();
    assert_eq!(world.conclusions("b-trusted"), ["owner: The goat is tall."]);
}
