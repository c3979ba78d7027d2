//! Ten thousand turns that waited for Honcho: that they arrive in order and in few requests, how fast, with how many
//! syncs to the disk and how much memory. The floor is the same messages sent by roncho and nothing else.

use std::{
    fmt::Write,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use bxcore::{
    clock::Millis,
    connect::Client,
    listen::{self, Limits},
    report,
};
use bxtest::Home;
use bxwire::{
    Audience, Class, Label, Origin, SessionId, Speaker,
    links::{
        control::{self, Control, Sync, SyncAction},
        memory::{self, Memory},
        session_state::{self, SessionState, State},
    },
    log::{Body, Outcome, Record},
};
use honcho_local::{Options, Server};
use roncho::{
    MessageCreate, PeerCreate, SessionCreate, WorkspaceCreate, blocking::Client as Roncho,
};
use serde_json::Value;

use crate::show;

const SESSIONS: u8 = 100;
const TURNS: u64 = 100;
const ALL: u64 = SESSIONS as u64 * TURNS;
/// Turns a message request must carry on average.
const TURNS_A_REQUEST_MIN: u64 = 40;
/// Messages of one of roncho's bare requests: as many as memoryd sends.
const BARE_MESSAGES: usize = 100;
const DRAIN_MS_MAX: Duration = Duration::from_secs(600);
const LOOK_MS: Duration = Duration::from_millis(20);
const ANSWER_MS_MAX: Duration = Duration::from_secs(20);

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Drains the backlog and prints what it took.
///
/// # Errors
/// What did not start or answer, and what did not arrive as it should.
pub fn run() -> Result<(), String> {
    let home = Home::new();
    let db = home.path().join("honcho.sqlite");
    let server = Server::start(Options::at(db)).map_err(|error| report::line(&error, None))?;
    let url = server.url();
    home.configure(
        "memoryd",
        &format!(
            "[honcho]\nurl = \"{url}\"\nagent = \"agent\"\nowner = \"owner\"\ntrusted = \"t\"\nuntrusted = \"u\"\n\
             fleet = \"f\"\n"
        ),
    );
    let away = server.stop();
    let broker = broker(home.dirs.state_socket())?;
    let daemon = home
        .try_start("memoryd", |_| {})
        .map_err(|ended| ended.stderr)?;
    for number in 0..SESSIONS {
        log(&home, number)?;
    }
    until(&home, |sync| sync.workspaces[0].waiting == ALL)?;
    let before = resident_kib(daemon.pid())?;
    let appends_before = appends(&home)?;

    let server = Server::start(away).map_err(|error| report::line(&error, None))?;
    let begun = Instant::now();
    sync(&home, SyncAction::Now {})?;
    let mut most = before;
    until(&home, |sync| {
        most = most.max(resident_kib(daemon.pid()).unwrap_or(0));
        sync.workspaces[0].waiting == 0
    })?;
    let took = begun.elapsed();
    let after = resident_kib(daemon.pid())?;

    let requests = server.controls().requests();
    let posts = requests
        .iter()
        .filter(|request| request.path.ends_with("/messages"))
        .count() as u64;
    in_order(&server.dump("t").map_err(|_| "no dump")?)?;
    if posts * TURNS_A_REQUEST_MIN > ALL {
        return Err(format!("{posts} message requests for {ALL} turns"));
    }
    let rate = f64::from(u32::try_from(ALL).unwrap_or(u32::MAX)) / took.as_secs_f64();
    let bare = bare(&url)?;
    show(&format!(
        "\nA backlog of {ALL} turns over {SESSIONS} sessions, each session's in order"
    ));
    show(&format!(
        "  {rate:7.0} turns a second   {:4.2} x roncho alone ({bare:.0})   {posts} message requests, {:.0} turns each",
        rate / bare,
        f64::from(u32::try_from(ALL / posts.max(1)).unwrap_or(u32::MAX))
    ));
    show(&format!(
        "  {:7} appends to the ledger while it drained, each with one fdatasync",
        appends(&home)? - appends_before
    ));
    show(&format!(
        "  memoryd {:.1} MiB with all of it waiting, {:.1} at most, {:.1} when it was sent",
        mib(before),
        mib(most),
        mib(after)
    ));
    drop(daemon);
    broker.stop(Duration::from_secs(2));
    Ok(())
}

fn mib(kib: u32) -> f64 {
    f64::from(kib) / 1024.0
}

/// Every session is clean.
fn broker(path: PathBuf) -> Result<listen::Server, String> {
    let clean = SessionState {
        class: Class::Private,
        untrusted: false,
        seen: true,
    };
    listen::serve::<State>(&path, Limits::default(), move |mut connection| {
        while let Some(session_state::Request::SessionState { .. }) = connection.recv() {
            let reply = session_state::Reply::SessionState(clean);
            if connection.send(&reply).is_err() {
                return;
            }
        }
    })
    .map_err(|error| report::line(&error, None))
}

fn session(number: u8) -> Result<SessionId, String> {
    // A byte stands for one of few letters: two of them tell the sessions apart.
    let mut bytes = [number / 10; 12];
    bytes[0] = number % 10;
    SessionId::new("20260131", bytes).map_err(|_| "no session id".into())
}

fn words(turn: u64) -> (String, String) {
    // About as long as talk is.
    let more = "and so on ".repeat(20);
    (
        format!("words {turn} {more}"),
        format!("reply {turn} {more}"),
    )
}

/// A session's log as loopd writes it, and memoryd told of its last turn.
fn log(home: &Home, number: u8) -> Result<(), String> {
    let session = session(number)?;
    let mut bodies = vec![Body::Session {
        session: session.clone(),
        source: "chat".into(),
        audience: Audience::Owner {},
    }];
    for turn in 1..=TURNS {
        let (text, reply) = words(turn);
        bodies.push(Body::User {
            turn,
            key: format!("k{turn}"),
            text,
            speaker: Some(Speaker {
                realm: "local".into(),
                name: "owner".into(),
            }),
            origin: Origin::Interactive,
            label: Label::PRIVATE,
            source: None,
        });
        bodies.push(Body::Assistant {
            turn,
            text: reply,
            reasoning: None,
            calls: Vec::new(),
        });
        bodies.push(Body::TurnEnd {
            turn,
            outcome: Outcome::Replied,
            usage: None,
            reason: None,
            runbook: None,
        });
    }
    let mut lines = String::new();
    for (seq, body) in (1..).zip(bodies) {
        let record = Record {
            seq,
            at: Millis::now().to_string(),
            body,
        };
        let line = serde_json::to_string(&record).map_err(said)?;
        writeln!(lines, "{line}").map_err(said)?;
    }
    let folder = home.dirs.state_of("loopd").join("sessions");
    fs::create_dir_all(&folder).map_err(said)?;
    fs::write(folder.join(format!("{session}.jsonl")), lines).map_err(said)?;
    let updated = memory::Request::SessionUpdated {
        session,
        turn: TURNS,
    };
    Client::<Memory>::connect(&home.dirs.memory_socket(), ANSWER_MS_MAX)
        .and_then(|mut client| client.call(&updated))
        .map(drop)
        .map_err(|error| report::actionable(&error))
}

fn sync(home: &Home, action: SyncAction) -> Result<Sync, String> {
    let path = home.dirs.control_socket("memoryd");
    let answer = Client::<Control>::connect(&path, ANSWER_MS_MAX)
        .and_then(|mut client| client.call(&control::Request::MemorySync { action }));
    match answer.map_err(|error| report::actionable(&error))? {
        control::Reply::Sync(sync) => Ok(sync),
        _ => Err("an odd answer".into()),
    }
}

fn until(home: &Home, mut check: impl FnMut(&Sync) -> bool) -> Result<Sync, String> {
    let deadline = Instant::now() + DRAIN_MS_MAX;
    while Instant::now() < deadline {
        let sync = sync(home, SyncAction::Show {})?;
        if check(&sync) {
            return Ok(sync);
        }
        std::thread::park_timeout(LOOK_MS);
    }
    Err("the backlog does not come to where it should".into())
}

fn resident_kib(pid: u32) -> Result<u32, String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(said)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| "no VmRSS".into())
}

/// Appends of tries and of their ends: a batch's `sending` is one line and one sync, and so is its `sent`.
fn appends(home: &Home) -> Result<usize, String> {
    let path = home.dirs.state_of("memoryd").join("honcho.jsonl");
    let text = fs::read_to_string(path).map_err(said)?;
    let of_a_try = |line: &&str| {
        ["sending", "sent", "not_sent"]
            .iter()
            .any(|kind| line.starts_with(&format!("{{\"type\":\"{kind}\"")))
    };
    Ok(text.lines().filter(of_a_try).count())
}

/// Each session holds each turn's two messages, in the order in which they were said.
fn in_order(dump: &Value) -> Result<(), String> {
    let sessions = dump["sessions"].as_array().ok_or("no sessions")?;
    let want: Vec<_> = (1..=TURNS)
        .flat_map(|turn| <[String; 2]>::from(words(turn)))
        .collect();
    for session in sessions {
        let messages = session["messages"].as_array().ok_or("no messages")?;
        let found = messages
            .iter()
            .filter_map(|message| message["content"].as_str());
        if !found.eq(want.iter().map(String::as_str)) {
            return Err("a session's messages are not what was said, in order".into());
        }
    }
    if sessions.len() == usize::from(SESSIONS) {
        Ok(())
    } else {
        Err(format!("{} sessions arrived", sessions.len()))
    }
}

/// Turns a second when roncho sends the same messages to the same server and nobody keeps a ledger.
fn bare(url: &str) -> Result<f64, String> {
    let client = Roncho::builder()
        .without_config_file()
        .base_url(url)
        .workspace_id("bare")
        .build()
        .map_err(|_| "no client")?;
    let failed = |_| "a bare request failed";
    let create = WorkspaceCreate::new("bare");
    client.get_or_create_workspace(&create).map_err(failed)?;
    for peer in ["owner", "agent"] {
        client.peer(&PeerCreate::new(peer)).map_err(failed)?;
    }
    let begun = Instant::now();
    for number in 0..SESSIONS {
        let session = session(number)?.to_string();
        client
            .session(&SessionCreate::new(&session))
            .map_err(failed)?;
        let messages: Vec<_> = (1..=TURNS)
            .flat_map(|turn| {
                let (text, reply) = words(turn);
                [
                    MessageCreate::new(text, "owner"),
                    MessageCreate::new(reply, "agent"),
                ]
            })
            .collect();
        for batch in messages.chunks(BARE_MESSAGES) {
            client.add_messages(&session, batch).map_err(failed)?;
        }
    }
    let took = begun.elapsed().as_secs_f64();
    Ok(f64::from(u32::try_from(ALL).unwrap_or(u32::MAX)) / took)
}
