//! The faults themselves: what happens to a request that a test has marked. Called by `serve` only, and
//! only with test controls on.

use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use tiny_http::{Request, StatusCode};

use crate::call::{Answer, Call};
use crate::errors::Refusal;
use crate::faults::Fault;
use crate::serve::{Shared, discard, encoded, lock, send};

/// Requests held without an answer; the oldest is closed for a further one.
const HELD_MAX: usize = 256;

impl Shared {
    /// Closes the client's connection, so that nothing more reaches it.
    fn close(&self, request: Request) {
        if let Some(client) = self.client(&request) {
            let _ = client.shutdown(Shutdown::Both);
        }
        discard(request);
    }

    /// Writes to the client itself, past tiny_http, then closes.
    fn write_and_close(&self, request: Request, bytes: &[u8]) {
        if let Some(client) = self.client(&request) {
            let _ = (&*client).write_all(bytes);
        }
        self.close(request);
    }

    fn hold(&self, request: Request) {
        let mut held = lock(&self.held);
        if held.len() >= HELD_MAX {
            let oldest = held.remove(0);
            self.close(oldest);
        }
        held.push(request);
    }
}

fn head(status: u16, kind: &str, length: usize) -> String {
    let reason = StatusCode(status).default_reason_phrase();
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// Serves a request the way the fault says.
pub fn misbehave(shared: &Arc<Shared>, call: Call, number: u64, fault: Fault, request: Request) {
    let controls = &shared.controls;
    // What the faults below that carry the request out have in common.
    let commit = |shared: &Shared, answered: bool| {
        let answer = shared.api.answer(&call);
        controls.end(number, Some(encoded(&answer).0), answered);
        answer
    };
    match fault {
        Fault::Status {
            status,
            retry_after,
            commit: done,
        } => {
            if done {
                commit(shared, false);
            }
            controls.end(number, Some(status), true);
            let refusal = match status {
                500 => Refusal::unexpected(),
                _ => Refusal::new(status, "A fault that was asked for"),
            };
            send(request, &Answer::Json(status, refusal.body()), retry_after);
        }
        Fault::RefuseKey => {
            controls.end(number, Some(401), true);
            send(
                request,
                &Answer::Json(401, Refusal::new(401, "Invalid JWT").body()),
                None,
            );
        }
        Fault::Forget => {
            if shared.api.store.forget().is_err() {
                tracing::warn!("could not forget");
            }
            shared.carry_out(&call, number, request);
        }
        Fault::HandleLate { ms } => shared.later(move |shared| {
            if shared.wait(Duration::from_millis(ms)) {
                shared.carry_out(&call, number, request);
            } else {
                shared.close(request);
            }
        }),
        Fault::AnswerLate { ms } => {
            let answer = commit(shared, true);
            shared.later(move |shared| {
                if shared.wait(Duration::from_millis(ms)) {
                    send(request, &answer, None)
                } else {
                    shared.close(request)
                }
            });
        }
        Fault::NeverAnswer { commit: done } => {
            if done {
                commit(shared, false);
            }
            shared.hold(request);
        }
        Fault::DropBefore => shared.close(request),
        Fault::CommitAndDrop => {
            commit(shared, false);
            shared.close(request);
        }
        Fault::CutBody => {
            let (status, kind, body) = encoded(&commit(shared, false));
            let mut bytes = head(status, kind, body.len().max(2)).into_bytes();
            bytes.extend_from_slice(&body[..body.len() / 2]);
            shared.write_and_close(request, &bytes);
        }
        Fault::Drip { every_ms } => {
            let (status, kind, body) = encoded(&commit(shared, false));
            let mut bytes = head(status, kind, body.len()).into_bytes();
            bytes.extend_from_slice(&body);
            shared.later(move |shared| {
                if let Some(client) = shared.client(&request) {
                    for byte in bytes {
                        let sent = (&*client).write_all(&[byte]);
                        if sent.is_err() || !shared.wait(Duration::from_millis(every_ms)) {
                            break;
                        }
                    }
                }
                shared.close(request);
            });
        }
        Fault::Says { body } => {
            controls.end(number, Some(200), true);
            let mut bytes = head(200, "application/json", body.len()).into_bytes();
            bytes.extend_from_slice(body.as_bytes());
            shared.write_and_close(request, &bytes);
        }
        Fault::Garbage => {
            let (status, kind, _) = encoded(&commit(shared, true));
            let body = b"<<< \xff\xfe not JSON at all >>>";
            let mut bytes = head(status, kind, body.len()).into_bytes();
            bytes.extend_from_slice(body);
            shared.write_and_close(request, &bytes);
        }
        Fault::Huge { bytes: size } => {
            let (status, kind, _) = encoded(&commit(shared, true));
            let mut bytes = head(status, kind, size.max(2)).into_bytes();
            bytes.push(b'"');
            bytes.resize(bytes.len() + size.saturating_sub(2), b'x');
            bytes.push(b'"');
            shared.write_and_close(request, &bytes);
        }
    }
}
