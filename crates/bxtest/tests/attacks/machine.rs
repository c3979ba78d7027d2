//! Attacks on the machine: the clock, files put where a daemon's own should be, and what comes over the sockets.

use std::{
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::{
        fs::{MetadataExt, symlink},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use bxcore::{connect::Client, paths::Dirs};
use bxtest::{
    Home,
    fleet::{DAEMONS, Setup},
    look, wait_for,
};
use bxwire::{
    FRAME_BYTES_MAX, Hello, Link,
    links::{
        control::{self, Control},
        memory::Memory,
        memory_tools::{MemoryTools, Recall},
        session_state::State,
        tools::Tools,
        turns::Turns,
    },
};

use crate::world::*;

const ANSWER_MS_MAX: Duration = Duration::from_secs(20);

/// A process cannot turn the machine's clock, so its records do: turns that ended in 1970, in 2099, and at no time.
#[test]
fn at_21_turns_from_other_times_make_nothing_clean_and_hold_up_nothing() {
    let mut world = World::one();
    world
        .fleet
        .write("inbox", "letter.txt", "The quincetree is in bloom.\n");
    world.say(None, "hello", &[]);
    world.settle();
    world.fleet.kill(GARDEN, "memoryd");
    let mut jumped = Vec::new();
    for at in [
        "1970-01-01T00:00:00.000Z",
        "2099-12-31T23:59:59.999Z",
        "yesterday",
    ] {
        let marked = world.say(None, "read", &[read("inbox/letter.txt")]);
        let clean = world.say(None, &format!("a tulip at {at}"), &[]);
        jumped.push((at, marked, clean));
    }
    world.fleet.kill(GARDEN, "loopd");
    let sessions = world.state(GARDEN, "loop/sessions");
    for (at, marked, clean) in &jumped {
        for said in [marked, clean] {
            // What ended before the ledger began, or at no time, is nothing to decide.
            if !at.starts_with("2099") {
                world.forget(&said.item);
            }
            let path = sessions.join(format!("{}.jsonl", said.session));
            let text = fs::read_to_string(&path).expect("a log");
            let lines: String = text.lines().map(|line| moved(line, at) + "\n").collect();
            fs::write(path, lines).expect("a log");
        }
    }
    world.restart_all(GARDEN);
    // What comes afterwards is sent as ever.
    let after = world.say(None, "after it all", &[remember("my boat is green")]);
    world.settle();
    for (at, marked, clean) in &jumped {
        assert!(world.label(GARDEN, &marked.session).is_untrusted(), "{at}");
        world.say(Some(&marked.session), "quincetree it is", &[]);
        world.say(Some(&clean.session), "go on", &[]);
    }
    world.settle();
    let trusted = world.agent(GARDEN).trusted();
    let held = world.trusted(GARDEN);
    assert!(held.contains("after it all"), "{}", after.item);
    absent("quincetree", &held, "the trusted workspace");
    for (at, times) in [("1970", 0), ("2099", 1), ("yesterday", 0)] {
        let found = look::messages(&world.fleet, &trusted)
            .iter()
            .filter(|message| {
                message["content"]
                    .as_str()
                    .is_some_and(|text| text.contains(at))
            })
            .count();
        assert_eq!(found, times, "{at}");
    }
}

/// A record with another time.
fn moved(line: &str, at: &str) -> String {
    let (head, rest) = line.split_once("\"at\":\"").expect("a time");
    let (_, tail) = rest.split_once('"').expect("its end");
    format!("{head}\"at\":\"{at}\"{tail}")
}

fn home() -> Home {
    let home = Home::new();
    home.configure("loopd", "[model]\nurl = \"http://127.0.0.1:1\"\n");
    home.configure(
        "memoryd",
        "[honcho]\nurl = \"http://127.0.0.1:1\"\nagent = \"garden\"\nowner = \"owner\"\ntrusted = \"t\"\n\
         untrusted = \"u\"\nfleet = \"f\"\n",
    );
    home
}

/// Each way to have a name stand for a file that is somebody else's.
const PLANTS: [fn(&Path, &Path); 2] = [
    |victim, path| symlink(victim, path).expect("a link"),
    |victim, path| fs::hard_link(victim, path).expect("a link"),
];

#[test]
fn at_22_a_link_planted_at_a_file_of_the_state_stops_the_start_and_touches_nothing() {
    for (daemon, file) in [
        ("memoryd", "memory/honcho.jsonl"),
        ("memoryd", "memory/journal.jsonl"),
        ("brokerd", "broker/sessions.jsonl"),
        ("brokerd", "broker/audit.jsonl"),
    ] {
        for (n, plant) in PLANTS.iter().enumerate() {
            // One that is no file of ours, one without an end that would be cut off, one that is empty.
            for text in ["not ours\n", "not ours, without an end", ""] {
                let home = home();
                // Once as usual, so that the folders are there.
                drop(home.start(daemon).stop());
                let path = home.dirs.state.join(file);
                let victim = home.path().join("victim");
                fs::write(&victim, text).expect("a file");
                fs::remove_file(&path).expect("a file");
                plant(&victim, &path);
                let ended = home.try_start(daemon, |_| {}).expect_err("it starts");
                assert!(
                    ended.stderr.contains(file) && ended.stderr.contains("docs/runbook.md#"),
                    "{file}, {n}: {}",
                    ended.stderr
                );
                assert_eq!(
                    fs::read_to_string(&victim).expect("a file"),
                    text,
                    "{file}, {n}"
                );
            }
        }
    }
}

/// What stands in a session's log is read by loopd and by memoryd, and written by loopd.
#[test]
fn at_22_a_link_planted_at_a_sessions_log_is_not_read_and_touches_nothing() {
    for plant in PLANTS {
        let mut world = World::one();
        world.say(None, "hello", &[]);
        let session = world.say(None, "the quincetree is in bloom", &[]).session;
        world.settle();
        for daemon in ["loopd", "memoryd"] {
            world.fleet.kill(GARDEN, daemon);
        }
        // A log without a flaw, which is not where it should be.
        let path = world.state(GARDEN, &format!("loop/sessions/{session}.jsonl"));
        let victim = world.agent(GARDEN).home().join("victim");
        fs::rename(&path, &victim).expect("a log");
        let text = fs::read_to_string(&victim).expect("a log");
        plant(&victim, &path);
        fs::remove_file(world.state(GARDEN, "memory/index.sqlite")).expect("an index");
        world.fleet.agents[GARDEN]
            .start("memoryd")
            .expect("it starts");
        wait_for("the log to be missed", || {
            let log = world.agent(GARDEN).log("memoryd");
            log.contains(session.as_str()).then_some(())
        });
        wait_for("the index", || {
            found(&world, "hello").contains("hello").then_some(())
        });
        let found = found(&world, "quincetree");
        assert!(!found.contains("in bloom"), "{found}");
        let ended = world.fleet.agents[GARDEN].start("loopd");
        let ended = ended.expect_err("it starts");
        assert!(
            ended.contains(session.as_str()) && ended.contains("docs/runbook.md#"),
            "{ended}"
        );
        assert_eq!(fs::read_to_string(&victim).expect("a log"), text);
    }
}

#[test]
fn at_22_a_link_planted_at_identity_brings_nothing_in_and_touches_nothing() {
    for plant in PLANTS {
        let mut world = World::one();
        world.say(None, "keep it", &[remember("my kayak is red")]);
        world.settle();
        world.fleet.kill(GARDEN, "memoryd");
        let path = world.state(GARDEN, "memory/user.md");
        let victim = world.agent(GARDEN).home().join("victim");
        let theirs = "- the quincetree is the owner's (u9)\n";
        fs::write(&victim, theirs).expect("a file");
        fs::remove_file(&path).expect("a file");
        plant(&victim, &path);
        world.restart(GARDEN, &["memoryd"]);
        let said = world.say(
            None,
            "and now",
            &[remember("my boat is green"), recall("quincetree")],
        );
        assert!(!said.label.is_untrusted());
        world.settle();
        assert_eq!(fs::read_to_string(&victim).expect("a file"), theirs);
        for chat in world.fleet.model().chats() {
            absent("quincetree is the", &chat.body.to_string(), "a prompt");
        }
        absent(
            "quincetree",
            &format!("{:?}", world.identity(GARDEN)),
            "identity",
        );
        let honcho = world.fleet.honcho().to_string();
        absent("quincetree is the", &honcho, "Honcho");
    }
}

/// The index is only a cache: what is not its own file is thrown away by name, and the index is made anew.
#[test]
fn at_22_a_link_planted_at_the_index_is_taken_away_and_what_it_leads_to_stays() {
    let mut world = World::one();
    world.say(None, "the quincetree is in bloom", &[]);
    world.settle();
    let path = world.state(GARDEN, "memory/index.sqlite");
    let victim = world.agent(GARDEN).home().join("victim");
    // No database, nothing, and somebody else's database.
    for kind in ["not ours", "", "a database"] {
        for end in ["", "-wal"] {
            for plant in PLANTS {
                world.fleet.kill(GARDEN, "memoryd");
                let _ = fs::remove_file(&victim);
                if kind == "a database" {
                    let theirs = rusqlite::Connection::open(&victim).expect("a database");
                    theirs
                        .execute_batch("CREATE TABLE theirs (a TEXT)")
                        .expect("a table");
                } else {
                    fs::write(&victim, kind).expect("a file");
                }
                let bytes = fs::read(&victim).expect("a file");
                let planted = world.state(GARDEN, &format!("memory/index.sqlite{end}"));
                let _ = fs::remove_file(&planted);
                plant(&victim, &planted);
                world.fleet.agents[GARDEN]
                    .start("memoryd")
                    .expect("it starts");
                wait_for("the index", || {
                    let found = found(&world, "quincetree");
                    found.contains("in bloom").then_some(())
                });
                assert!(
                    fs::read(&victim).expect("a file") == bytes,
                    "{end}, {kind}: what it led to was changed"
                );
                let made = fs::symlink_metadata(&path).expect("an index");
                assert!(made.is_file() && made.nlink() == 1, "{end}, {kind}");
            }
        }
    }
}

/// What the owner's own recall finds.
fn found(world: &World, query: &str) -> String {
    let arguments = Recall::of(query);
    let request = control::Request::MemoryRecall { arguments };
    format!("{:?}", world.control(GARDEN, &request))
}

#[test]
fn at_22_a_link_or_a_file_planted_in_run_stops_the_start_and_touches_nothing() {
    for daemon in ["loopd", "brokerd", "memoryd"] {
        let socket = |dirs: &Dirs| match daemon {
            "loopd" => dirs.turns_socket(),
            "brokerd" => dirs.state_socket(),
            _ => dirs.memory_tools_socket(),
        };
        for plant in PLANTS {
            let home = home();
            drop(home.start(daemon).stop());
            let path = socket(&home.dirs);
            let victim = home.path().join("victim");
            fs::write(&victim, "not ours").expect("a file");
            plant(&victim, &path);
            let ended = home.try_start(daemon, |_| {}).expect_err("it starts");
            assert!(ended.stderr.contains("is not a socket"), "{}", ended.stderr);
            assert_eq!(fs::read_to_string(&victim).expect("a file"), "not ours");
        }
        // A link to a socket that somebody else serves, and a folder that is elsewhere.
        let home = home();
        drop(home.start(daemon).stop());
        let path = socket(&home.dirs);
        let elsewhere = home.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("a folder");
        let theirs = elsewhere.join(path.file_name().expect("a name"));
        let served = UnixListener::bind(&theirs).expect("a socket");
        symlink(&theirs, &path).expect("a link");
        let ended = home.try_start(daemon, |_| {}).expect_err("it starts");
        assert!(ended.stderr.contains("is not a socket"), "{}", ended.stderr);
        let folder = path.parent().expect("a folder");
        fs::remove_dir_all(folder).expect("a folder");
        symlink(&elsewhere, folder).expect("a link");
        let ended = home.try_start(daemon, |_| {}).expect_err("it starts");
        assert!(
            ended.stderr.contains("not a folder of this user's own"),
            "{}",
            ended.stderr
        );
        drop(served);
        assert!(theirs.exists(), "what was theirs is gone");
    }
}

/// A socket that a daemon serves.
struct Served {
    daemon: &'static str,
    path: PathBuf,
    hello: Hello,
    /// Whether a client is greeted.
    greets: fn(&Path) -> bool,
}

fn sockets(dirs: &Dirs) -> Vec<Served> {
    fn row<L: Link>(daemon: &'static str, path: PathBuf) -> Served {
        Served {
            daemon,
            path,
            hello: Hello::of::<L>(),
            greets: |path| Client::<L>::connect(path, ANSWER_MS_MAX).is_ok(),
        }
    }
    let mut all = vec![
        row::<Turns>("loopd", dirs.turns_socket()),
        row::<Tools>("brokerd", dirs.tools_socket()),
        row::<State>("brokerd", dirs.state_socket()),
        row::<Memory>("memoryd", dirs.memory_socket()),
        row::<MemoryTools>("memoryd", dirs.memory_tools_socket()),
    ];
    all.extend(DAEMONS.map(|daemon| row::<Control>(daemon, dirs.control_socket(daemon))));
    all
}

fn pids(world: &World) -> Vec<Option<u32>> {
    DAEMONS
        .iter()
        .map(|daemon| world.agent(GARDEN).pid(daemon))
        .collect()
}

/// All of it works: a turn with a tool, its label, its way to Honcho, and each daemon's status.
fn works(world: &mut World, text: &str) {
    let said = world.say(None, text, &[note(text)]);
    assert!(!said.label.is_untrusted());
    world.settle();
    assert!(world.trusted(GARDEN).contains(text));
    for daemon in DAEMONS {
        let status = world
            .agent(GARDEN)
            .control(daemon, &control::Request::Status {});
        assert!(matches!(status, Ok(control::Reply::Status(_))), "{daemon}");
    }
}

/// As many connections as this process may hold beside what else it has open, up to `wanted`.
fn at_once(wanted: usize) -> usize {
    const SPARED: usize = 512;
    let limits = fs::read_to_string("/proc/self/limits").expect("limits");
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = files.and_then(|line| line.split_whitespace().nth(3)?.parse::<usize>().ok());
    soft.map_or(wanted, |soft| {
        soft.saturating_sub(SPARED).clamp(128, wanted)
    })
}

/// Where the process may hold fewer at once, they come in as many floods as it takes.
#[test]
fn at_23_connections_that_never_send_a_byte_are_bounded_and_pass() {
    const SILENT: usize = 10_000;
    let mut world = World::with(Setup {
        names: &["garden"],
        each: "frame_ms_max = 500\n",
        ..Setup::default()
    });
    works(&mut world, "before the flood");
    let before = pids(&world);
    for served in sockets(world.agent(GARDEN).dirs()) {
        let Served {
            daemon,
            path,
            greets,
            ..
        } = served;
        let (mut came, mut refused, mut held) = (0, 0, Vec::new());
        while came < SILENT {
            let flood: Vec<_> = (0..at_once(SILENT - came))
                .map(|_| UnixStream::connect(&path).expect("a connection"))
                .collect();
            came += flood.len();
            // Greeted or not, it is answered after all that came before it.
            greets(&path);
            for mut stream in flood {
                stream.set_nonblocking(true).expect("no waiting");
                let mut told = String::new();
                match stream.read_to_string(&mut told) {
                    Ok(_) => refused += usize::from(told.contains("\"busy\"")),
                    Err(_) => held.push(stream),
                }
            }
        }
        wait_for("a client to be greeted beside them", || {
            greets(&path).then_some(())
        });
        // Every one was told, or let go, and none is kept.
        for mut stream in held {
            stream.set_nonblocking(false).expect("waiting");
            stream
                .set_read_timeout(Some(ANSWER_MS_MAX))
                .expect("a timeout");
            stream.read_to_string(&mut String::new()).expect("an end");
        }
        assert!(
            refused >= SILENT / 2,
            "{daemon}: {refused} of {SILENT} refused"
        );
    }
    works(&mut world, "after the flood");
    assert_eq!(pids(&world), before);
}

fn bad_frames() -> Vec<(&'static str, Vec<u8>)> {
    let line = |text: &str| format!("{text}\n").into_bytes();
    let deep = |open: &str, shut: &str| {
        let (open, shut) = (open.repeat(100_000), shut.repeat(100_000));
        line(&format!("{open}{shut}"))
    };
    vec![
        ("deep arrays", deep("[", "]")),
        ("deep objects", deep("{\"a\":", "")),
        (
            "deep arguments",
            line(&format!(
                "{{\"type\":\"call_tool\",\"arguments\":{}{}}}",
                "[".repeat(100_000),
                "]".repeat(100_000)
            )),
        ),
        (
            "a type twice",
            line("{\"type\":\"status\",\"type\":\"status\"}"),
        ),
        (
            "a member twice",
            line("{\"type\":\"memory_log\",\"limit\":1,\"limit\":2}"),
        ),
        ("no UTF-8", b"{\"type\":\"\xff\xfe\"}\n".to_vec()),
        ("a surrogate alone", line("{\"type\":\"\\ud800\"}")),
        (
            "a length first",
            b"\0\0\0\x11{\"type\":\"status\"}\n".to_vec(),
        ),
        (
            "a length of 4 GiB",
            b"\xff\xff\xff\xff{\"type\":\"status\"}\n".to_vec(),
        ),
        ("NULs", b"\0\0\0\0\n".to_vec()),
        ("an empty line", line("")),
        (
            "two objects",
            line("{\"type\":\"status\"}{\"type\":\"status\"}"),
        ),
        ("a number without end", line(&"9".repeat(500_000))),
        ("an over-long line", vec![b'x'; FRAME_BYTES_MAX + 2]),
        (
            "an over-long text",
            line(&format!("{{\"type\":\"{}\"}}", "x".repeat(FRAME_BYTES_MAX))),
        ),
        ("half a frame", b"{\"type\":\"sta".to_vec()),
        (
            "another link's frame",
            line("{\"type\":\"raise_the_dead\"}"),
        ),
    ]
}

#[test]
fn at_24_no_frame_however_odd_is_obeyed_or_ends_a_daemon() {
    let mut world = World::one();
    let before = pids(&world);
    for served in sockets(world.agent(GARDEN).dirs()) {
        let Served {
            daemon,
            path,
            hello,
            greets,
        } = served;
        let hello = serde_json::to_string(&hello).expect("a hello") + "\n";
        for (name, bytes) in bad_frames() {
            for greeting in [hello.as_str(), ""] {
                let told = answer(&path, greeting.as_bytes(), &bytes);
                let told = told.strip_prefix(&hello).unwrap_or(&told);
                let is_refusal = told.contains("\"refused\"") && told.lines().count() == 1;
                assert!(is_refusal, "{daemon}, {name}: {told}");
                assert!(!told.contains("raise_the_dead"), "{daemon}: {told}");
            }
        }
        assert!(greets(&path), "{daemon}");
    }
    works(&mut world, "after all of it");
    assert_eq!(pids(&world), before);
}

/// Everything that is answered before the connection is closed.
fn answer(path: &Path, greeting: &[u8], bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).expect("a connection");
    stream
        .set_read_timeout(Some(ANSWER_MS_MAX))
        .expect("a timeout");
    // A daemon that has seen enough may close before it has read all.
    let _ = stream.write_all(greeting);
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    String::from_utf8(told).expect("text")
}
