//! A link over a real socket: garbage, silence, floods and strangers are answered and harm nobody.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use bxcore::{
    connect::{Client, ClientError, Kept},
    listen::{Ended, Limits, ListenError, Server, serve, serve_users},
};
use bxwire::{
    FRAME_BYTES_MAX, Hello, SessionId,
    links::session_state::{Reply, Request, SessionState, State},
};

const WAIT: Duration = Duration::from_secs(5);

struct World {
    path: PathBuf,
    server: Option<Server>,
    _folder: tempfile::TempDir,
}

fn answer(mut connection: bxcore::listen::Connection<State>) {
    while let Some(Request::SessionState { .. }) = connection.recv() {
        let state = SessionState {
            class: bxwire::Class::Private,
            untrusted: false,
            seen: true,
        };
        if connection.send(&Reply::SessionState(state)).is_err() {
            return;
        }
    }
}

fn world(limits: Limits) -> World {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link/state.sock");
    let server = serve::<State>(&path, limits, answer).unwrap();
    World {
        path,
        server: Some(server),
        _folder: folder,
    }
}

fn quick() -> Limits {
    Limits {
        connections_max: 4,
        frame_ms_max: Duration::from_millis(200),
        idle_ms_max: Duration::from_secs(60),
    }
}

fn ask() -> Request {
    Request::SessionState {
        session: SessionId::new("20260131", [1; 12]).unwrap(),
    }
}

fn works(world: &World) {
    let mut client = Client::<State>::connect(&world.path, WAIT).unwrap();
    assert!(matches!(client.call(&ask()).unwrap(), Reply::SessionState(state) if state.seen));
}

/// A peer that has said hello and may now say anything.
fn raw(world: &World) -> BufReader<UnixStream> {
    let mut stream = UnixStream::connect(&world.path).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    let hello = serde_json::to_string(&Hello::of::<State>()).unwrap();
    writeln!(stream, "{hello}").unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.contains("session-state"), "{line}");
    reader
}

fn said_and_closed(mut reader: BufReader<UnixStream>) -> String {
    let mut rest = String::new();
    let _ = reader.read_to_string(&mut rest);
    rest
}

#[test]
fn a_call_is_answered() {
    works(&world(quick()));
}

#[test]
fn each_kind_of_garbage_is_refused_by_name_and_the_link_goes_on() {
    let world = world(quick());
    let cases: [(&str, Vec<u8>); 5] = [
        ("bad-frame", b"nonsense\n".to_vec()),
        ("bad-frame", b"{\"type\":\"no_such_message\"}\n".to_vec()),
        ("bad-frame", b"\xff\xfe\n".to_vec()),
        ("too-long", vec![b'x'; FRAME_BYTES_MAX + 2]),
        ("too-slow", b"{\"type\":".to_vec()),
    ];
    for (kind, bytes) in cases {
        let mut reader = raw(&world);
        let _ = reader.get_mut().write_all(&bytes);
        let said = said_and_closed(reader);
        assert!(said.contains(kind), "{kind}: {said}");
        works(&world);
    }
}

#[test]
fn a_peer_that_stops_half_way_is_told_and_forgotten() {
    let world = world(quick());
    let mut reader = raw(&world);
    reader.get_mut().write_all(b"{\"type\":").unwrap();
    reader
        .get_mut()
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    assert!(said_and_closed(reader).contains("truncated"));
    works(&world);
}

#[test]
fn one_byte_at_a_time_does_not_outlast_the_frame_limit() {
    let world = world(quick());
    let mut reader = raw(&world);
    let sent = ask_bytes().into_iter().take_while(|byte| {
        std::thread::park_timeout(Duration::from_millis(20));
        reader.get_mut().write_all(&[*byte]).is_ok()
    });
    let count = sent.count();
    assert!(
        count < ask_bytes().len() - 1,
        "all {count} bytes were taken"
    );
}

fn ask_bytes() -> Vec<u8> {
    serde_json::to_vec(&ask()).unwrap()
}

#[test]
fn another_version_is_down_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let old = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        writeln!(
            stream,
            r#"{{"type":"hello","protocol":"session-state","version":999,"build":"9.9"}}"#
        )
        .unwrap();
        let _ = stream.read(&mut [0; 64]);
    });
    let error = Client::<State>::connect(&path, WAIT).unwrap_err();
    assert!(
        matches!(&error, ClientError::Version { build, .. } if build == "9.9"),
        "{error}"
    );
    old.join().unwrap();
}

#[test]
fn a_flood_of_silent_peers_is_bounded_and_passes() {
    let world = world(quick());
    let silent: Vec<_> = (0..40)
        .map(|_| UnixStream::connect(&world.path).unwrap())
        .collect();
    // The silent ones are closed when their hello is late; then there is room again.
    let deadline = std::time::Instant::now() + WAIT;
    while Client::<State>::connect(&world.path, WAIT).is_err() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
    drop(silent);
    works(&world);
}

#[test]
fn another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link/state.sock");
    let server = serve_users::<State>(&path, quick(), vec![u32::MAX - 1], answer).unwrap();
    let error = Client::<State>::connect(&path, WAIT).unwrap_err();
    assert!(
        matches!(&error, ClientError::Refused(refused) if refused.kind == "not-allowed"),
        "{error:?}"
    );
    server.stop(WAIT);
}

#[test]
fn a_second_server_is_refused_and_a_dead_socket_is_taken_over() {
    let mut world = world(quick());
    let second = serve::<State>(&world.path, quick(), answer);
    assert!(matches!(second, Err(ListenError::InUse(_))));
    works(&world);
    world.server.take().unwrap().stop(WAIT);
    drop(std::os::unix::net::UnixListener::bind(&world.path).unwrap());
    assert!(world.path.exists());
    world.server = Some(serve::<State>(&world.path, quick(), answer).unwrap());
    works(&world);
    world.server.take().unwrap().stop(WAIT);
    std::fs::write(&world.path, "").unwrap();
    let third = serve::<State>(&world.path, quick(), answer);
    assert!(matches!(third, Err(ListenError::NotASocket(_))));
}

#[test]
fn a_stop_wakes_an_idle_peer_at_once() {
    let mut world = world(quick());
    let mut client = Client::<State>::connect(&world.path, WAIT).unwrap();
    client.call(&ask()).unwrap();
    let before = std::time::Instant::now();
    world.server.take().unwrap().stop(WAIT);
    assert!(before.elapsed() < WAIT);
    assert!(matches!(
        client.call(&ask()),
        Err(ClientError::Broken { .. })
    ));
}

#[test]
fn a_server_that_is_let_go_of_answers_nobody_and_leaves_no_socket() {
    let mut world = world(quick());
    works(&world);
    let idle = raw(&world);
    drop(world.server.take());
    assert!(!world.path.exists());
    assert!(Client::<State>::connect(&world.path, WAIT).is_err());
    said_and_closed(idle);
}

#[test]
fn a_kept_connection_survives_a_restart_of_the_server() {
    let mut world = world(quick());
    let kept = Kept::<State>::new(world.path.clone(), WAIT);
    kept.call(&ask()).unwrap();
    world.server.take().unwrap().stop(WAIT);
    assert!(matches!(kept.call(&ask()), Err(ClientError::Down { .. })));
    world.server = Some(serve::<State>(&world.path, quick(), answer).unwrap());
    kept.call(&ask()).unwrap();
}

#[test]
fn an_answer_that_comes_twice_is_not_taken_for_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let hello = serde_json::to_string(&Hello::of::<State>()).unwrap();
        // The first connection's question is answered twice, in one piece; the second one's once.
        for (copies, seen) in [(2, true), (1, false)] {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            writeln!(&stream, "{hello}").unwrap();
            reader.read_line(&mut line).unwrap();
            let reply = Reply::SessionState(SessionState {
                class: bxwire::Class::Private,
                untrusted: false,
                seen,
            });
            let answer = serde_json::to_string(&reply).unwrap() + "\n";
            (&stream)
                .write_all(answer.repeat(copies).as_bytes())
                .unwrap();
            // Until the client leaves.
            let _ = reader.read_line(&mut line);
        }
    });
    let kept = Kept::<State>::new(path, WAIT);
    for wanted in [true, false] {
        let answer = kept.call(&ask()).unwrap();
        assert!(matches!(answer, Reply::SessionState(state) if state.seen == wanted));
    }
    drop(kept);
    server.join().unwrap();
}

#[test]
fn a_hang_up_and_an_idle_peer_are_told_apart() {
    let (sender, ended) = std::sync::mpsc::channel();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link/state.sock");
    let limits = Limits {
        idle_ms_max: Duration::from_millis(20),
        ..quick()
    };
    let server = serve::<State>(&path, limits, move |mut connection| {
        loop {
            let next = connection.request().map(drop);
            sender.send(next).unwrap();
            if !matches!(next, Err(Ended::Idle)) {
                return;
            }
        }
    });
    let client = Client::<State>::connect(&path, WAIT).unwrap();
    // Idle twice: the connection is whole after the first time.
    for _ in 0..2 {
        assert_eq!(ended.recv_timeout(WAIT).unwrap(), Err(Ended::Idle));
    }
    drop(client);
    let last = ended.iter().find(|next| *next != Err(Ended::Idle));
    assert_eq!(last, Some(Err(Ended::Gone)));
    server.unwrap().stop(WAIT);
}

#[test]
fn a_frame_that_takes_too_long_is_told_so_in_words() {
    let world = world(quick());
    let mut reader = raw(&world);
    reader.get_mut().write_all(b"{\"type\":").unwrap();
    let said = said_and_closed(reader);
    assert!(said.contains("a frame took longer than 200ms"), "{said}");
    assert!(!said.contains("os error"), "{said}");
}
