//! Does the program say where it listens, answer, and stop when told?

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::json;

use crate::client::{PATIENCE, chat, get, request};

/// Kills the program when a test fails half-way.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_listens_answers_and_stops() {
    for signal in ["TERM", "INT"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_model-local"))
            .args(["--listen", "127.0.0.1:0", "--n-ctx", "2048"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running(child);
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .expect("its address")
            .parse()
            .unwrap();
        assert_eq!(
            get(address, "/props").json()["default_generation_settings"]["n_ctx"],
            2048
        );
        let reply = chat(address, &request("remember that I like tea")).json();
        let function = &reply["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_eq!(function["name"], json!("memory"));
        // A connection that never sends anything does not hold it up.
        let _idle = std::net::TcpStream::connect(address).unwrap();
        let pid = running.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        // End of output is the end of the program.
        let (ended, end) = mpsc::channel();
        let reading = thread::spawn(move || {
            let mut rest = String::new();
            let _ = stdout.read_to_string(&mut rest);
            let _ = ended.send(rest);
        });
        assert_eq!(
            end.recv_timeout(PATIENCE).as_deref(),
            Ok(""),
            "SIG{signal} does not end it"
        );
        reading.join().unwrap();
        assert_eq!(running.0.wait().unwrap().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_taken_address_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_model-local"))
        .args(["--listen", &address])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with(&format!("model-local: cannot listen on {address}: ")),
        "{text}"
    );
}
