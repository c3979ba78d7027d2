//! A day with failures on every link, in which each key, each text and each answer of another server has a canary in
//! it: none of the four daemons logs it, and no file that should hold no text holds it.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bxcore::connect::Client;
use bxtest::{Daemon, Home, kept, wait_for};
use bxwire::{
    Audience, Origin, SessionId, Speaker,
    links::{
        control::{self, Control, SyncAction},
        turns::{self, TurnEvent, Turns},
    },
};
use honcho_local::{Fault, Options, Rule, Server};
use model_local::{Behaviour, Reply};
use serde_json::Value;

const CANARY: &str = "canary";
const DAEMONS: [&str; 4] = ["memoryd", "brokerd", "loopd", "gatewayd"];
const ANSWER_MS_MAX: Duration = Duration::from_secs(20);

/// A Honcho that answers every request with one of a few refusals, each with a canary in its body.
struct Hostile {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Hostile {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let answers = Arc::new(AtomicUsize::new(0));
        let (stopping, counted) = (Arc::clone(&stop), Arc::clone(&answers));
        let thread = thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(stream) = stream {
                    let _ = answer(&stream, [500, 422, 200, 302, 404, 401][number % 6]);
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Self {
            address,
            stop,
            answers,
            thread: Some(thread),
        }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: &TcpStream, status: u16) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    let body = r#"{"detail":"canary-of-an-answer","id":["canary-of-an-answer"]}"#;
    write!(
        stream,
        "HTTP/1.1 {status} canary-of-a-reason\r\nlocation: http://canary-of-a-place/\r\nx-canary: canary\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The model: does what the last message of the owner says, then replies.
fn model(request: &Value) -> Reply {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let last = messages.last().cloned().unwrap_or_default();
    if last["role"] == "tool" {
        return Reply::text("canary-of-a-reply after a tool");
    }
    let said = messages
        .iter()
        .rev()
        .find(|message| message["role"] == "user");
    let said = said.map_or_else(String::new, |message| message["content"].to_string());
    let tool = |name: &str, arguments: &str| Reply::call_raw(name, arguments);
    match () {
        () if said.contains("remember") => tool(
            "memory",
            r#"{"op":"add","about":"user","text":"canary-of-memory"}"#,
        ),
        () if said.contains("note") => tool("memory", r#"{"op":"note","text":"canary-of-a-note"}"#),
        () if said.contains("key") => tool(
            "memory",
            r#"{"op":"note","text":"it is canary-key-of-the-model"}"#,
        ),
        () if said.contains("read") => tool("read_file", r#"{"path":"inbox/letter.txt"}"#),
        () if said.contains("nowhere") => tool("read_file", r#"{"path":"inbox/canary-of-a-path"}"#),
        () if said.contains("recall") => tool("recall", r#"{"query":"canary-of-a-query"}"#),
        () if said.contains("odd tool") => tool("canary-of-a-tool", r#"{"canary":1}"#),
        () if said.contains("odd arguments") => {
            tool("memory", r#"{"op":"canary","canary-of-a-name":1}"#)
        }
        () if said.contains("no arguments") => tool("memory", "{canary-of-arguments"),
        () if said.contains("refuse") => {
            Reply::error(400, "canary-of-a-kind", "canary-of-an-answer")
        }
        () if said.contains("fail") => Reply::error(500, "canary-of-a-kind", "canary-of-an-answer"),
        () if said.contains("garbage") => Reply::answer(200, &[], "canary-of-garbage"),
        () if said.contains("broken") => {
            Reply::stream(vec![b"data: {canary-of-a-chunk\n\n".to_vec()])
        }
        () if said.contains("cut") => Reply::text("canary-of-a-reply that is cut").cut_after(400),
        () => Reply::text("canary-of-a-reply"),
    }
}

const DAY: [&str; 15] = [
    "remember",
    "note",
    "key",
    "recall",
    "nowhere",
    "odd tool",
    "odd arguments",
    "no arguments",
    "refuse",
    "fail",
    "garbage",
    "broken",
    "cut",
    "read",
    "note",
];

struct World {
    home: Home,
    daemons: Vec<Daemon>,
    /// What ended daemons wrote.
    said: Vec<(String, String)>,
    session: Option<SessionId>,
    turns: u64,
}

impl World {
    fn start(&mut self) {
        self.daemons = DAEMONS.map(|daemon| self.home.start(daemon)).into();
    }

    fn key(&self, name: &str) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, format!("canary-key-of-{name}\n")).expect("a key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        path.display().to_string()
    }

    /// Each daemon is killed; what it wrote is kept.
    fn kill(&mut self) {
        for daemon in self.daemons.drain(..) {
            self.said.push((daemon.name.clone(), daemon.log()));
            daemon.kill();
        }
    }

    fn stop(&mut self) {
        for daemon in self.daemons.drain(..) {
            let name = daemon.name.clone();
            self.said.push((name, daemon.stop().stderr));
        }
    }

    fn say(&mut self, text: &str) {
        self.turns += 1;
        let request = turns::Request::Turn {
            key: format!("canary-of-a-key-{}", self.turns),
            session: self.session.clone(),
            text: format!("{text}: canary-of-words"),
            speaker: Some(Speaker {
                realm: "local".into(),
                name: "owner".into(),
            }),
            origin: Origin::Interactive,
            untrusted: false,
            audience: Audience::Owner {},
            source: "chat".into(),
        };
        let mut client =
            Client::<Turns>::connect(&self.home.dirs.turns_socket(), ANSWER_MS_MAX).expect("loopd");
        client.send(&request).expect("a turn");
        loop {
            match client.recv().expect("an event") {
                TurnEvent::Accepted { session, .. } => self.session = Some(session),
                TurnEvent::Reply { .. } | TurnEvent::Failed { .. } => return,
                _ => {}
            }
        }
    }

    fn control(&self, daemon: &str, request: &control::Request) -> control::Reply {
        let path = self.home.dirs.control_socket(daemon);
        Client::<Control>::connect(&path, ANSWER_MS_MAX)
            .and_then(|mut client| client.call(request))
            .expect("an answer")
    }

    /// What the owner is shown of the daemons and of what was sent.
    fn shown(&self) -> String {
        let mut shown = String::new();
        for daemon in DAEMONS {
            shown += &format!("{:?}\n", self.control(daemon, &control::Request::Status {}));
        }
        let show = control::Request::MemorySync {
            action: SyncAction::Show {},
        };
        shown += &format!("{:?}\n", self.control("memoryd", &show));
        for item in ["e1", "e2"] {
            let item = item.parse().expect("an item");
            shown += &format!(
                "{:?}\n",
                self.control("memoryd", &control::Request::MemoryWhy { item })
            );
        }
        shown
    }

    /// Bytes that are no frame, on every socket.
    fn babble(&self) {
        let dirs = &self.home.dirs;
        let mut sockets = vec![
            dirs.turns_socket(),
            dirs.tools_socket(),
            dirs.memory_socket(),
            dirs.memory_tools_socket(),
            dirs.state_socket(),
        ];
        sockets.extend(DAEMONS.map(|daemon| dirs.control_socket(daemon)));
        for socket in sockets {
            for bytes in [
                "canary-of-a-frame\n",
                "{\"type\":\"canary\"}\n",
                "{\"canary",
            ] {
                babble(&socket, bytes);
            }
        }
    }
}

fn babble(socket: &Path, bytes: &str) {
    let mut stream = UnixStream::connect(socket).expect("a daemon");
    stream
        .set_read_timeout(Some(ANSWER_MS_MAX))
        .expect("a timeout");
    if stream.write_all(bytes.as_bytes()).is_ok() {
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

fn new(model: &model_local::Server, honcho: SocketAddr) -> World {
    let world = World {
        home: Home::new(),
        daemons: Vec::new(),
        said: Vec::new(),
        session: None,
        turns: 0,
    };
    let inbox = world.home.path().join("inbox");
    fs::create_dir_all(&inbox).expect("a folder");
    fs::write(inbox.join("letter.txt"), "canary-of-a-letter\n").expect("a letter");
    world.home.configure(
        "loopd",
        &format!(
            "[model]\nurl = \"{}\"\n\n[secrets.model]\nfile = \"{}\"\n\n[limits]\nretry_wait_ms = 10\n",
            model.url(),
            world.key("the-model")
        ),
    );
    world.home.configure(
        "brokerd",
        &format!(
            "[[root]]\nname = \"inbox\"\npath = \"{}\"\nclass = \"private\"\ntrust = \"untrusted\"\n",
            inbox.display()
        ),
    );
    world.home.configure(
        "memoryd",
        &format!(
            "[honcho]\nurl = \"http://{honcho}\"\nagent = \"boxmaker\"\nowner = \"owner\"\ntrusted = \"b-trusted\"\n\
             untrusted = \"b-untrusted\"\nfleet = \"fleet\"\n\n[secrets.honcho_trusted]\nfile = \"{}\"\n\n\
             [limits]\nhoncho_retry_ms_min = 30\nhoncho_retry_ms_max = 60\nhoncho_hold_messages_ms = 150\n\
             honcho_hold_conclusions_ms = 150\nhoncho_read_ms_max = 1000\n",
            world.key("honcho")
        ),
    );
    world.home.configure("gatewayd", "");
    world
}

#[test]
fn no_log_no_status_and_no_textless_file_holds_a_key_a_text_or_an_answer() {
    let model = model_local::Server::start(Behaviour::answer(model));
    let hostile = Hostile::start();
    let mut world = new(&model, hostile.address);
    let options = Options {
        listen: hostile.address,
        ..Options::at(world.home.path().join("honcho.sqlite"))
    };
    world.start();
    // Honcho refuses everything; then it is there and answers wrongly.
    world.say("remember");
    world.say("note");
    wait_for("refusals", || {
        (hostile.answers.load(Ordering::SeqCst) >= 4).then_some(())
    });
    let mut shown = world.shown();
    drop(hostile);
    let honcho = Server::start(options).expect("a Honcho");
    let refuse = |status| Fault::Status {
        status,
        retry_after: None,
        commit: false,
    };
    for fault in [
        refuse(422),
        Fault::Garbage,
        Fault::CutBody,
        refuse(500),
        Fault::RefuseKey,
    ] {
        honcho
            .controls()
            .add(Rule::new(fault.clone()).on("POST", "*/messages").times(1));
        honcho
            .controls()
            .add(Rule::new(fault).on("POST", "*/conclusions").times(1));
    }
    for said in DAY {
        world.say(said);
    }
    world.babble();
    shown += &world.shown();
    world.kill();
    // A line that was being written, in every file that is appended to.
    for file in [
        "memory/journal.jsonl",
        "memory/honcho.jsonl",
        "broker/audit.jsonl",
        "broker/sessions.jsonl",
    ] {
        let path = world.home.path().join("state").join(file);
        let mut torn = fs::OpenOptions::new()
            .append(true)
            .open(path)
            .expect("a file");
        torn.write_all(b"{\"type\":\"canary-of-a-torn-line")
            .expect("a torn line");
    }
    world.start();
    for daemon in &world.daemons {
        daemon.signal("HUP");
    }
    let now = control::Request::MemorySync {
        action: SyncAction::Now {},
    };
    world.control("memoryd", &now);
    world.say("remember");
    shown += &world.shown();
    world.stop();

    // The canaries were where they belong, so that their absence elsewhere says something.
    assert!(
        honcho
            .dump_all()
            .expect("a dump")
            .to_string()
            .contains("canary-of-words")
    );
    let chats = model.chats();
    assert!(chats.len() > DAY.len());
    assert!(format!("{:?}", honcho.controls().requests()).contains("canary-key-of-honcho"));
    assert!(!shown.contains(CANARY), "{shown}");
    for (daemon, log) in &world.said {
        assert!(!log.is_empty(), "{daemon} says nothing at all");
        assert!(!log.contains(CANARY), "{daemon}: {log}");
    }
    for file in kept::TEXTLESS {
        let text = fs::read_to_string(world.home.path().join("state").join(file)).expect("a file");
        assert!(!text.is_empty() && !text.contains(CANARY), "{file}: {text}");
    }
}
