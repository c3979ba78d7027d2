//! Starting, configuration, and the control socket.

use bxcore::connect::ClientError;
use bxtest::wait_for;
use bxwire::links::{control, tools::CallOutcome};

use crate::world::{Call, World, session};

#[test]
fn every_mistake_of_the_configuration_is_shown_at_once() {
    let world = World::new("");
    world.configure(
        "[[root]]\nname = \"Inbox\"\npath = \"inbox\"\n[[root]]\nname = \"etc\"\npath = \"/none\"\n\
         [tools.read_file]\npolicy = \"maybe\"\n[limits]\ncall_ms_max = \"long\"\n",
    );
    let ended = world.home.try_start("brokerd", |_| {}).unwrap_err();
    assert_eq!(ended.status.code(), Some(78));
    for place in [
        "5 mistakes",
        ":2: ",
        ":3: ",
        ":6: ",
        ":8: ",
        ":10: ",
        "#config-invalid",
    ] {
        assert!(ended.stderr.contains(place), "{place}: {}", ended.stderr);
    }
}

#[test]
fn a_root_behind_a_link_or_around_the_state_stops_the_start() {
    let world = World::new("");
    let link = world.home.path().join("link");
    std::os::unix::fs::symlink("/etc", &link).unwrap();
    let real = world.home.path().join("real");
    std::fs::create_dir_all(real.join("docs")).unwrap();
    let around = world.home.path().join("around");
    std::os::unix::fs::symlink(&real, &around).unwrap();
    let through = around.join("docs");
    for path in [&link, &through, world.home.path(), &world.home.dirs.state] {
        std::fs::create_dir_all(&world.home.dirs.state).unwrap();
        world.configure(&format!("[[root]]\nname = \"x\"\npath = {path:?}\n"));
        let ended = world.home.try_start("brokerd", |_| {}).unwrap_err();
        assert_eq!(ended.status.code(), Some(78), "{}", path.display());
        assert!(ended.stderr.contains("brokerd.toml:3: `root.path`"));
        assert!(ended.stderr.contains("#root-refused"), "{}", ended.stderr);
        if *path == through {
            let write = format!(
                "write {}",
                real.join("docs").canonicalize().unwrap().display()
            );
            assert!(ended.stderr.contains(&write), "{}", ended.stderr);
        }
    }
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let world = World::new("");
    let _first = world.start();
    let ended = world.home.try_start("brokerd", |_| {}).unwrap_err();
    assert_eq!(ended.status.code(), Some(74));
    assert!(ended.stderr.contains("#state-locked"), "{}", ended.stderr);
    let answer = world.call(&Call::read(&session(1), "inbox/letter.txt"));
    assert_eq!(answer.outcome, CallOutcome::Done);
}

#[test]
fn sockets_left_by_a_kill_are_taken_over() {
    let world = World::new("");
    world.start().kill();
    assert!(world.home.dirs.tools_socket().exists());
    let _daemon = world.start();
    assert!(!world.state(&session(1)).seen);
}

#[test]
fn a_reload_takes_a_right_file_and_keeps_the_old_one_otherwise() {
    let world = World::new("");
    let daemon = world.start();
    let text = std::fs::read_to_string(world.home.dirs.config_file("brokerd")).unwrap();
    let reload = |text: &str, said: &str| {
        world.configure(text);
        daemon.signal("HUP");
        wait_for(said, || daemon.log().contains(said).then_some(()));
    };
    let letter = Call::read(&session(1), "inbox/letter.txt");
    reload("[tools.none]\n", "kept the old configuration");
    assert_eq!(world.call(&letter).outcome, CallOutcome::Done);
    let notices = world.status().notices;
    let entry = notices[0].runbook.as_deref();
    assert_eq!(entry, Some("config-invalid"), "{notices:?}");
    let deny = format!("{text}\n[tools.read_file]\npolicy = \"deny\"\n");
    reload(&deny, "took the configuration over");
    assert_eq!(world.call(&letter).outcome, CallOutcome::Denied);
    assert!(world.status().notices.is_empty());
}

#[test]
fn status_counts_and_nothing_else_is_answered() {
    let world = World::new("[tools.memory]\npolicy = \"ask\"");
    let daemon = world.start();
    world.call(&Call::read(&session(1), "inbox/letter.txt"));
    world.call(&Call::read(&session(2), "vault/plan.txt"));
    let status = world.status();
    assert_eq!(
        (status.daemon.as_str(), status.pid),
        ("brokerd", daemon.pid())
    );
    let facts = [
        ("sessions seen", "2"),
        ("sessions untrusted", "1"),
        ("sessions secret", "1"),
        (
            "tools",
            "memory (ask), recall, ask_memory, facts, read_file, list_files",
        ),
        ("roots", "inbox (private, untrusted), vault (secret, clean)"),
        ("appends", "work"),
    ];
    assert_eq!(
        status.facts,
        facts.map(|(n, v)| (n.to_owned(), v.to_owned()))
    );
    let other = world.control(&control::Request::MemoryShow {});
    assert!(matches!(other, Err(ClientError::Refused(refused)) if refused.kind == "not-mine"));
}

#[test]
fn another_configuration_file_can_be_named() {
    let world = World::new("");
    let home = &world.home;
    let file = home.path().join("other.toml");
    std::fs::write(&file, "nonsense = 1\n").unwrap();
    let started = home.try_start("brokerd", |command| {
        command.arg("--config").arg(&file);
    });
    let ended = started.unwrap_err();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.stderr);
    assert!(ended.stderr.contains("other.toml:1:"), "{}", ended.stderr);
}
