//! Starting: configuration, a second daemon, sockets.

use model_local::{Behaviour, Options, Reply};

use crate::world::*;

fn last_words(config: &str) -> (Option<i32>, String) {
    let world = unstarted(Behaviour::Script(vec![]), Options::default(), "");
    world.home.configure("loopd", config);
    let ended = world.home.try_start("loopd", |_| {}).unwrap_err();
    (ended.status.code(), ended.stderr)
}

#[test]
fn mistakes_in_the_configuration_are_all_named_and_stop_it() {
    let (code, words) =
        last_words("[model]\nurl = \"m:8080\"\nmax_token = 5\n[limits]\nmodel_calls_max = 0\n");
    assert_eq!(code, Some(78));
    for part in [":2:", ":3:", ":5:", "config-invalid"] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn a_key_that_cannot_be_read_stops_it() {
    let (code, words) = last_words(
        "[model]\nurl = \"http://127.0.0.1:1\"\n[secrets.model]\nfile = \"/nonexistent/key\"\n",
    );
    assert_eq!(code, Some(78));
    assert!(words.contains("secret-unavailable"), "{words}");
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let world = world(vec![Reply::text("Here.")]);
    let ended = world.home.try_start("loopd", |_| {}).unwrap_err();
    assert_eq!(ended.status.code(), Some(74));
    assert!(ended.stderr.contains("state-locked"), "{}", ended.stderr);
    assert_eq!(world.say("one").1, "Here.");
}

#[test]
fn without_a_model_configured_turns_fail_and_say_so() {
    let mut world = unstarted(Behaviour::Script(vec![]), Options::default(), "");
    world.home.configure("loopd", "");
    world.start();
    let events = world.run(&turn("k1", None, "one"));
    let (reason, runbook) = failure(&events);
    assert!(reason.contains("no model server is configured"));
    assert_eq!(runbook, "model-unreachable");
}

#[test]
fn a_wrong_configuration_at_sighup_keeps_the_old_one() {
    let world = world(vec![Reply::text("Still here.")]);
    let right = std::fs::read_to_string(world.home.dirs.config_file("loopd")).unwrap();
    world.home.configure("loopd", "[model]\n");
    world.daemon().signal("HUP");
    bxtest::wait_for("its complaint", || {
        world.daemon().log().contains("kept the old").then_some(())
    });
    let older = || {
        let notices = world.status().notices.into_iter();
        let mut older = notices.filter(|notice| notice.text.contains("older than the file"));
        older.next().map(|notice| notice.text)
    };
    let said = older().expect("a notice");
    assert!(said.contains("loopd.toml:1:"), "{said}");
    world.home.configure("loopd", &right);
    world.daemon().signal("HUP");
    bxtest::wait_for("the file to run", || older().is_none().then_some(()));
    assert_eq!(world.say("one").1, "Still here.");
}

#[test]
fn another_configuration_file_can_be_named() {
    let world = unstarted(Behaviour::Script(vec![]), Options::default(), "");
    let home = &world.home;
    let file = home.path().join("other.toml");
    std::fs::write(&file, "nonsense = 1\n").unwrap();
    let started = home.try_start("loopd", |command| {
        command.arg("--config").arg(&file);
    });
    let ended = started.unwrap_err();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.stderr);
    assert!(ended.stderr.contains("other.toml:1:"), "{}", ended.stderr);
}
