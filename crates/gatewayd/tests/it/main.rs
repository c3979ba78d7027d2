//! The real program: what it answers, what it refuses, how it ends.

use std::time::Duration;

use bxcore::connect::{Client, ClientError};
use bxtest::{Home, wait_for};
use bxwire::links::control::{Control, Reply, Request};

const WAIT: Duration = Duration::from_secs(10);

fn client(home: &Home) -> Client<Control> {
    Client::connect(&home.dirs.control_socket("gatewayd"), WAIT).unwrap()
}

#[test]
fn it_says_that_it_connects_to_nothing() {
    let home = Home::new();
    let daemon = home.start("gatewayd");
    let Reply::Status(status) = client(&home).call(&Request::Status {}).unwrap() else {
        panic!("not a status");
    };
    assert_eq!(
        (status.daemon.as_str(), status.pid),
        ("gatewayd", daemon.pid())
    );
    assert_eq!(
        status.facts,
        [("chat servers".to_owned(), "none configured".to_owned())]
    );
    let ended = daemon.stop();
    assert!(ended.status.success(), "{ended:?}");
    assert!(!home.dirs.control_socket("gatewayd").exists());
}

#[test]
fn what_belongs_to_another_daemon_is_refused_and_it_goes_on() {
    let home = Home::new();
    let _daemon = home.start("gatewayd");
    let mut client = client(&home);
    let refused = client.call(&Request::MemoryShow {}).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(refused) if refused.kind == "not-mine"));
    assert!(matches!(
        client.call(&Request::Status {}),
        Ok(Reply::Status(_))
    ));
}

#[test]
fn a_chat_server_in_the_configuration_stops_the_start() {
    let home = Home::new();
    home.configure(
        "gatewayd",
        "[mattermost]\nurl = \"x\"\n[limits]\nidle = 3\n",
    );
    let ended = home.try_start("gatewayd", |_| {}).unwrap_err();
    assert_eq!(ended.status.code(), Some(78));
    for part in [
        "gatewayd.toml:1: `mattermost`",
        ":4: `limits.idle`",
        "#config-invalid",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

#[test]
fn a_second_one_on_the_same_state_is_refused() {
    let home = Home::new();
    let _first = home.start("gatewayd");
    let second = home.try_start("gatewayd", |_| {}).unwrap_err();
    assert!(second.stderr.contains("#state-locked"), "{}", second.stderr);
}

#[test]
fn a_reload_says_what_is_wrong_and_goes_on() {
    let home = Home::new();
    let daemon = home.start("gatewayd");
    home.configure("gatewayd", "nonsense = 1\n");
    daemon.signal("HUP");
    wait_for("the mistake in the log", || {
        daemon
            .log()
            .contains("`nonsense` is not a key")
            .then_some(())
    });
    let notices = || match client(&home).call(&Request::Status {}) {
        Ok(Reply::Status(status)) => status.notices,
        other => panic!("{other:?}"),
    };
    let said = notices();
    assert!(said[0].text.contains("`nonsense` is not a key"), "{said:?}");
    home.configure("gatewayd", "");
    daemon.signal("HUP");
    wait_for("the file to be right", || {
        notices().is_empty().then_some(())
    });
}

#[test]
fn another_configuration_file_can_be_named() {
    let home = Home::new();
    let file = home.path().join("other.toml");
    std::fs::write(&file, "nonsense = 1\n").unwrap();
    let started = home.try_start("gatewayd", |command| {
        command.arg("--config").arg(&file);
    });
    let ended = started.unwrap_err();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.stderr);
    assert!(ended.stderr.contains("other.toml:1:"), "{}", ended.stderr);
}
