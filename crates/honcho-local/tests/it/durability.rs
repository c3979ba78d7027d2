//! The program itself: its address line, its signals, its controls, and its data after a kill.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::http::{Client, wait_for};

pub struct Program {
    child: Child,
    pub client: Client,
    url: String,
}

impl Program {
    pub fn start(db: &Path, more: &[&str]) -> Self {
        Self::start_in(db, more, &[])
    }

    fn start_in(db: &Path, more: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_honcho-local"))
            .args(["--listen", "127.0.0.1:0", "--db"])
            .arg(db)
            .args(more)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout"))
            .read_line(&mut line)
            .expect("a line");
        let url = line
            .trim()
            .strip_prefix("listening on ")
            .expect("the address")
            .to_owned();
        Self {
            child,
            client: Client::new(&url),
            url,
        }
    }

    pub fn stop(&mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal");
        let status = self.child.wait().expect("its end");
        let mut log = String::new();
        self.child
            .stderr
            .take()
            .expect("stderr")
            .read_to_string(&mut log)
            .expect("the log");
        (status.code(), log)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_was_answered_survives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("honcho.sqlite");
    for round in 1..=3_usize {
        let mut program = Program::start(&db, &["--test-controls"]);
        let answered = AtomicUsize::new(0);
        let before = list(&program.client)["total"].as_u64().expect("a count");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Ends with the first call that finds nobody there.
                let agent: ureq::Agent = ureq::Agent::config_builder()
                    .http_status_as_error(false)
                    .build()
                    .into();
                let url = format!("{}/v3/workspaces/w/sessions/s/messages", program.url);
                let batch = json!({ "messages": [
                    { "content": "one", "peer_id": "p", "metadata": { "round": round } },
                    { "content": "two", "peer_id": "p", "metadata": { "round": round } },
                ] });
                while let Ok(answer) = agent
                    .post(&url)
                    .content_type("application/json")
                    .send(batch.to_string())
                {
                    assert_eq!(answer.status(), 201);
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
            wait_for("some batches", || answered.load(Ordering::SeqCst) >= 5);
            kill_process(Pid::from_child(&program.child), Signal::KILL).expect("a kill");
        });
        program.child.wait().expect("its end");

        let program = Program::start(&db, &[]);
        let page = list(&program.client);
        let stored = page["total"].as_u64().expect("a count") - before;
        let answered = answered.load(Ordering::SeqCst) as u64;
        assert_eq!(stored % 2, 0, "batches are whole");
        assert!(
            stored >= 2 * answered,
            "{stored} stored of {answered} answered batches"
        );
        assert!(
            stored <= 2 * (answered + 1),
            "at most one more was on its way"
        );
    }
}

fn list(client: &Client) -> Value {
    client
        .post(
            "/v3/workspaces/w/sessions/s/messages/list?size=1",
            json!({}),
        )
        .body
}

#[test]
fn signals_end_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut program = Program::start(&folder.path().join("honcho.sqlite"), &[]);
        assert_eq!(
            program.client.get("/health").body,
            json!({ "status": "ok" })
        );
        program.client.say("w", "s", "owner", "a-very-private-word");
        program
            .client
            .post("/v3/workspaces/w/chat", json!({ "query": "private-word?" }));
        let (code, log) = program.stop(signal);
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("without a model"), "{log}");
        assert!(!log.contains("private-word"), "{log}");
    }
}

#[test]
fn a_deletion_begun_before_a_restart_goes_through() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("honcho.sqlite");
    let mut program = Program::start(&db, &["--drain-after", "100000"]);
    program.client.say("w", "s", "owner", "hello");
    assert_eq!(
        program.client.delete("/v3/workspaces/w/sessions/s").status,
        202
    );
    assert_eq!(list(&program.client)["total"], json!(1));
    program.stop(Signal::KILL);
    let program = Program::start(&db, &["--drain-after", "0"]);
    assert_eq!(list(&program.client)["total"], json!(0));
}

#[test]
fn controls_over_http() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("honcho.sqlite");
    let program = Program::start(&db, &["--test-controls"]);
    let client = &program.client;
    let rule =
        json!({ "fault": { "kind": "status", "status": 503 }, "path": "*/peers", "times": 1 });
    assert_eq!(client.post("/local/faults", rule).status, 204);
    assert_eq!(
        client
            .post("/local/faults", json!({ "fault": { "kind": "magic" } }))
            .status,
        422
    );
    let peer = || {
        client
            .post("/v3/workspaces/w/peers", json!({ "id": "owner" }))
            .status
    };
    assert_eq!((peer(), peer()), (503, 201));
    let requests = client.get("/local/requests").body;
    assert_eq!(requests.as_array().map(Vec::len), Some(2));
    assert_eq!(requests[0]["status"], json!(503));
    assert_eq!(
        client.get("/local/dump?workspace=w").body["peers"][0]["id"],
        json!("owner")
    );
    assert_eq!(client.get("/local/dump").body["w"]["id"], json!("w"));

    let plain = Program::start(&folder.path().join("other.sqlite"), &[]);
    assert_eq!(plain.client.get("/local/requests").status, 404);
    assert_eq!(plain.client.post("/local/faults", json!({})).status, 404);
}

#[test]
fn keys_are_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "a secret of some length\n").expect("written");
    let secret = secret.to_str().expect("a path");
    let output = Command::new(env!("CARGO_BIN_EXE_honcho-local"))
        .args(["--key-secret", secret, "--print-key", "w"])
        .output()
        .expect("the program");
    let key = String::from_utf8(output.stdout).expect("a key");
    let program = Program::start(
        &folder.path().join("honcho.sqlite"),
        &["--key-secret", secret],
    );
    let client = Client::with_key(&program.url, key.trim());
    assert_eq!(
        client.post("/v3/workspaces", json!({ "id": "w" })).status,
        201
    );
    assert_eq!(
        client.post("/v3/workspaces", json!({ "id": "v" })).status,
        401
    );
    assert_eq!(
        program
            .client
            .post("/v3/workspaces", json!({ "id": "w" }))
            .status,
        401
    );
}

#[test]
fn a_bad_start_says_why() {
    let output = Command::new(env!("CARGO_BIN_EXE_honcho-local"))
        .args([
            "--listen",
            "127.0.0.1:0",
            "--db",
            "/nowhere/at/all/honcho.sqlite",
        ])
        .output()
        .expect("the program");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("cannot open the database /nowhere/at/all/honcho.sqlite"),
        "{said}"
    );
}

#[test]
fn the_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("honcho.sqlite");
    let program = Program::start(&db, &[]);
    program.client.say("w", "s", "owner", "hello");
    for entry in std::fs::read_dir(folder.path()).expect("the folder") {
        let entry = entry.expect("an entry");
        let mode = entry.metadata().expect("its metadata").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?}", entry.file_name());
    }
}

#[test]
fn a_proxy_of_the_environment_is_not_used() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    proxy.set_nonblocking(true).expect("a mode");
    let proxy_url = format!("http://{}", proxy.local_addr().expect("an address"));
    let model = TcpListener::bind("127.0.0.1:0").expect("a port");
    let model_url = format!("http://{}", model.local_addr().expect("an address"));
    // It hangs up on whoever asks, which is an answer without use.
    let asked = std::thread::spawn(move || model.accept().map(drop));
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::start_in(
        &folder.path().join("honcho.sqlite"),
        &["--model-url", &model_url],
        &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"].map(|name| (name, &*proxy_url)),
    );
    program.client.say("w", "s", "owner", "hello");
    let question = json!({ "query": "hello?" });
    let reply = program.client.post("/v3/workspaces/w/chat", question);
    assert_eq!(reply.status, 500, "no usable answer");
    assert!(proxy.accept().is_err(), "the proxy was asked");
    asked
        .join()
        .expect("no panic")
        .expect("the model was asked");
}
