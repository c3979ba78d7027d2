//! `up` with the real daemons and stand-ins: starts, refuses, ends with everything it started.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use bxtest::wait_for;

use crate::fakes::{Ran, World};

/// An `up --no-chat` that is ready. Killed when dropped.
struct Up {
    child: Child,
    said: Vec<String>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Up {
    fn start(world: &World, more: &[&str]) -> Self {
        let arguments = [&["up", "--no-chat"], more].concat();
        let mut child = world.command(&arguments).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut up = Self {
            child,
            said: Vec::new(),
            stderr,
        };
        while !up
            .said
            .last()
            .is_some_and(|line| line.starts_with("everything is ready"))
        {
            let mut line = String::new();
            let read = up.stderr.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended: {:?}", up.said);
            up.said.push(line);
        }
        up
    }

    /// The place a part said.
    fn place(&self, part: &str) -> Option<&str> {
        let mut words = self.said.iter().filter_map(|line| line.split_once(' '));
        Some(words.find(|(name, _)| *name == part)?.1.trim())
    }

    fn end(mut self) -> (Option<i32>, String) {
        let status = wait_for("up to end", || self.child.try_wait().unwrap());
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        (status.code(), rest)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// The processes that an `up` of this home started and that still run.
fn running(world: &World) -> Vec<u32> {
    let ours = format!("NOTIFY_SOCKET={}/", world.home.dirs.run.display());
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        String::from_utf8_lossy(&environment)
            .contains(&ours)
            .then_some(pid)
    })
    .collect()
}

fn pid(world: &World, daemon: &str) -> u32 {
    let Ran { stdout, .. } = world.bxctl(&["status", "--json"]);
    let values = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let found = values
        .into_iter()
        .find(|v: &serde_json::Value| v["daemon"] == daemon);
    u32::try_from(found.unwrap()["pid"].as_u64().unwrap()).unwrap()
}

#[test]
fn a_first_run_configures_starts_and_ends_everything() {
    let world = World::new();
    let up = Up::start(&world, &[]);
    for part in ["model-local", "honcho-local"] {
        assert!(
            up.place(part).unwrap().starts_with("http://127.0.0.1:"),
            "{part}"
        );
    }
    let status = world.bxctl(&["status"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    assert_eq!(running(&world).len(), 6);
    let model = up.place("model-local").unwrap().to_owned();
    let written = std::fs::read_to_string(world.home.dirs.config_file("loopd")).unwrap();
    assert!(written.contains(&model), "{written}");

    let second = world.bxctl(&["up", "--no-chat"]);
    assert_eq!(second.code, Some(77), "{second:?}");
    assert!(second.stderr.contains("#state-locked"), "{second:?}");
    assert_eq!(running(&world).len(), 6);

    signal("TERM", up.child.id());
    let (code, rest) = up.end();
    assert_eq!(code, Some(0), "{rest}");
    assert_eq!(running(&world), [0; 0]);
}

#[test]
fn two_signals_at_once_end_it_in_peace_and_a_later_one_kills() {
    let world = World::new();
    let mut up = Up::start(&world, &[]);
    let stuck = pid(&world, "loopd");
    signal("STOP", stuck);
    signal("TERM", up.child.id());
    let asked = Instant::now();
    signal("TERM", up.child.id());
    let status = wait_for("up to end", || {
        // The one that counts, and a stopped daemon hears nothing else.
        signal("TERM", up.child.id());
        up.child.try_wait().unwrap()
    });
    assert!(asked.elapsed() >= Duration::from_millis(500));
    let (code, rest) = up.end();
    assert_eq!((status.code(), code), (Some(0), Some(0)), "{rest}");
    assert!(!rest.contains("in time"), "{rest}");
    assert!(rest.contains("loopd killed, as you asked again"), "{rest}");
    assert_eq!(running(&world), [0; 0]);
}

#[test]
fn a_typed_sentence_is_remembered_and_found() {
    let world = World::new();
    let input = "remember that my bike is blue\nwhat do you know about my bike?\n";
    let ran = world.bxctl_reading(&["up"], input);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let found = ran
        .stdout
        .lines()
        .filter(|line| line.contains("bike is blue"));
    assert!(found.count() >= 2, "{ran:?}");
    assert_eq!(running(&world), [0; 0]);
}

#[test]
fn when_a_part_dies_all_end_and_its_name_is_said() {
    let world = World::new();
    let up = Up::start(&world, &[]);
    signal("KILL", pid(&world, "brokerd"));
    let (code, rest) = up.end();
    assert_eq!(code, Some(69), "{rest}");
    assert!(
        rest.contains("brokerd was ended") && rest.contains("brokerd.log"),
        "{rest}"
    );
    assert_eq!(running(&world), [0; 0]);
}

#[test]
fn a_part_that_cannot_start_shows_its_last_words_and_its_page() {
    let world = World::new();
    world.home.configure("brokerd", "nonsense = 1\n");
    let ran = world.bxctl(&["up", "--no-chat"]);
    assert_eq!(ran.code, Some(78), "{ran:?}");
    for part in [
        "`nonsense` is not a key",
        "brokerd ended",
        "bxctl runbook config-invalid",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
    assert_eq!(running(&world), [0; 0]);
}

#[test]
fn what_a_killed_up_left_is_ended_by_the_next() {
    let world = World::new();
    let first = Up::start(&world, &[]);
    signal("KILL", first.child.id());
    drop(first);
    assert_eq!(running(&world).len(), 6);
    let second = Up::start(&world, &[]);
    assert!(second.said[0].contains("left running"), "{:?}", second.said);
    assert_eq!(running(&world).len(), 6);
    signal("INT", second.child.id());
    assert_eq!(second.end().0, Some(0));
    assert_eq!(running(&world), [0; 0]);
}

#[test]
fn a_daemon_somebody_else_started_is_left_alone() {
    let world = World::new();
    let gatewayd = world.home.start("gatewayd");
    let ran = world.bxctl(&["up", "--no-chat"]);
    assert_eq!(ran.code, Some(77), "{ran:?}");
    let pid = format!(
        "gatewayd already runs on this home (pid {})",
        gatewayd.pid()
    );
    assert!(ran.stderr.contains(&pid), "{ran:?}");
    assert!(gatewayd.stop().status.success());
}

#[test]
fn a_model_server_given_by_url_takes_the_stand_ins_place() {
    let world = World::new();
    let mut server = Command::new(bxtest::program("model-local"))
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = line.trim().strip_prefix("listening on ").unwrap();
    let up = Up::start(&world, &["--model-url", url]);
    assert_eq!(up.place("model"), Some(url));
    assert_eq!(running(&world).len(), 5);
    let ran = world.bxctl(&["chat", "--once", "remember that my bike is blue"]);
    assert!(
        ran.code == Some(0) && ran.stdout.contains("blue"),
        "{ran:?}"
    );
    signal("TERM", up.child.id());
    assert_eq!(up.end().0, Some(0));
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_file_of_the_owners_is_kept_and_wins_over_a_stand_in() {
    let world = World::new();
    let theirs = "[model]\nurl = \"http://127.0.0.1:9\"\n";
    world.home.configure("loopd", theirs);
    let ran = world.bxctl(&["up", "--no-chat", "--model-url", "http://127.0.0.1:10"]);
    assert_eq!(ran.code, Some(78), "{ran:?}");
    assert!(
        ran.stderr.contains("loopd.toml") && ran.stderr.contains("--model-url"),
        "{ran:?}"
    );
    let up = Up::start(&world, &[]);
    assert!(
        up.place("model")
            .unwrap()
            .starts_with("http://127.0.0.1:9 "),
        "{:?}",
        up.said
    );
    let ran = world.bxctl(&["chat", "--once", "hello"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("#model-unreachable"), "{ran:?}");
    signal("TERM", up.child.id());
    assert_eq!(up.end().0, Some(0));
    let kept = std::fs::read_to_string(world.home.dirs.config_file("loopd")).unwrap();
    assert_eq!(kept, theirs);
}

#[test]
fn a_url_that_its_daemon_would_refuse_is_wrong_usage_and_is_neither_shown_nor_written() {
    let world = World::new();
    let bad = [
        ["--model-url", "localhost:8080/canary"],
        ["--model-url", "http://canary:canary@127.0.0.1:1/v1"],
        ["--model-url", "http://127.0.0.1:1/v1?key=canary"],
        ["--honcho-url", "http://canary:canary@127.0.0.1:1"],
        ["--honcho-url", "http://127.0.0.1:1/canary"],
    ];
    for flag in bad {
        let ran = world.bxctl(&[&["up", "--no-chat"], &flag[..]].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(
            ran.stderr.contains(flag[0]) && !ran.stderr.contains("canary"),
            "{ran:?}"
        );
    }
    for daemon in ["loopd", "memoryd"] {
        assert!(!world.home.dirs.config_file(daemon).exists());
    }
}

#[test]
fn a_url_of_the_owners_file_that_holds_a_password_is_not_shown() {
    let world = World::new();
    let theirs = "[model]\nurl = \"http://canary:canary@127.0.0.1:1/v1?key=canary\"\n";
    world.home.configure("loopd", theirs);
    let ran = world.bxctl(&["up", "--no-chat"]);
    assert_eq!(ran.code, Some(78), "{ran:?}");
    assert!(ran.stderr.contains("from your configuration"), "{ran:?}");
    assert!(!ran.stderr.contains("canary"), "{ran:?}");
    assert_eq!(running(&world), [0; 0]);
}

#[test]
fn a_home_too_deep_for_sockets_is_said_before_anything_starts() {
    let world = World::new();
    let deep = world.home.path().join("x".repeat(80));
    let ran = Command::new(bxtest::program("bxctl"))
        .args(["up", "--no-chat", "--home"])
        .arg(&deep)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(74), "{stderr}");
    assert!(stderr.contains("use a shorter --home"), "{stderr}");
    assert!(!deep.exists());
}
