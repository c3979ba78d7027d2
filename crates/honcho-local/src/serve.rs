//! One request from the socket to its answer: read, carried out, sent. Called by the server's workers;
//! faults leave from here to `misbehave`.

use std::io::{Cursor, Read};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;
use tiny_http::{Header, Request, Response, StatusCode};

use crate::api::Api;
use crate::call::{Answer, BODY_BYTES_MAX, Call, decode_query};
use crate::errors::Refusal;
use crate::faults::{Controls, Rule};
use crate::front::Front;
use crate::misbehave::misbehave;

/// Answers that a fault delays at once.
const LATE_MAX: usize = 256;

/// What the workers share.
pub struct Shared {
    pub api: Api,
    pub controls: Controls,
    pub test_controls: bool,
    pub on_deaf: Option<Arc<dyn Fn() + Send + Sync>>,
    pub front: Option<Front>,
    pub stopping: (Mutex<bool>, Condvar),
    pub held: Mutex<Vec<Request>>,
    pub late: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    pub fn begin_stop(&self) {
        *lock(&self.stopping.0) = true;
        self.stopping.1.notify_all();
    }

    pub fn is_stopping(&self) -> bool {
        *lock(&self.stopping.0)
    }

    /// False: the server is stopping, and the wait was cut short.
    pub fn wait(&self, wait: Duration) -> bool {
        let stopping = lock(&self.stopping.0);
        let waited = self
            .stopping
            .1
            .wait_timeout_while(stopping, wait, |stopping| !*stopping);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub fn carry_out(&self, call: &Call, number: u64, request: Request) {
        let answer = self.api.answer(call);
        self.controls.end(number, Some(encoded(&answer).0), true);
        send(request, &answer, None);
    }

    pub fn client(&self, request: &Request) -> Option<Arc<TcpStream>> {
        let seen = *request.remote_addr()?;
        self.front.as_ref()?.client(seen)
    }

    /// Runs what a fault does later on a thread of its own.
    pub fn later(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) {
        let mut late = lock(&self.late);
        late.retain(|thread| !thread.is_finished());
        if late.len() >= LATE_MAX {
            tracing::warn!("too many delayed answers; one is dropped");
            return;
        }
        let shared = Arc::clone(self);
        match thread::Builder::new()
            .name(String::from("late"))
            .spawn(move || work(&shared))
        {
            Ok(thread) => late.push(thread),
            Err(_) => tracing::warn!("no thread for a delayed answer"),
        }
    }
}

pub fn work(http: &tiny_http::Server, shared: &Arc<Shared>) {
    while !shared.is_stopping() {
        match http.recv() {
            Ok(request) if shared.is_stopping() => discard(request),
            Ok(request) => serve(shared, request),
            Err(_) if shared.is_stopping() => {}
            Err(error) => {
                tracing::error!(%error, "no more connections are accepted");
                if let Some(on_deaf) = &shared.on_deaf {
                    on_deaf();
                }
            }
        }
    }
}

/// Lets a request go without the 500 that tiny_http would send for it.
pub fn discard(request: Request) {
    drop(request.into_writer());
}

fn serve(shared: &Arc<Shared>, mut request: Request) {
    let call = match read(&mut request) {
        Ok(call) => call,
        Err(ReadError::TooLarge) => {
            let refusal = Refusal::new(413, "The body is too large");
            return send(request, &Answer::Json(413, refusal.body()), None);
        }
        Err(ReadError::Broken) => return discard(request),
    };
    if !shared.test_controls {
        let answer = shared.api.answer(&call);
        return send(request, &answer, None);
    }
    if call.path.starts_with("/local/") {
        let answer = control(shared, &call);
        return send(request, &answer, None);
    }
    let (number, fault) = shared.controls.begin(&call);
    match fault {
        None => shared.carry_out(&call, number, request),
        Some(fault) => misbehave(shared, call, number, fault, request),
    }
}

enum ReadError {
    TooLarge,
    Broken,
}

fn read(request: &mut Request) -> Result<Call, ReadError> {
    let header = |name: &'static str| {
        request
            .headers()
            .iter()
            .find(|header| header.field.equiv(name))
            .map(|header| header.value.as_str().to_owned())
    };
    let (content_type, authorization) = (header("Content-Type"), header("Authorization"));
    let url = request.url().to_owned();
    let (path, query) = url.split_once('?').unwrap_or((&url, ""));
    if request
        .body_length()
        .is_some_and(|length| length > BODY_BYTES_MAX)
    {
        return Err(ReadError::TooLarge);
    }
    let mut body = Vec::new();
    let limit = BODY_BYTES_MAX as u64 + 1;
    request
        .as_reader()
        .take(limit)
        .read_to_end(&mut body)
        .map_err(|_| ReadError::Broken)?;
    if body.len() > BODY_BYTES_MAX {
        return Err(ReadError::TooLarge);
    }
    if request
        .body_length()
        .is_some_and(|length| length != body.len())
    {
        return Err(ReadError::Broken);
    }
    Ok(Call {
        method: request.method().to_string(),
        path: path.to_owned(),
        query: decode_query(query),
        content_type,
        authorization,
        body,
    })
}

pub fn send(request: Request, answer: &Answer, retry_after: Option<u64>) {
    let (status, kind, body) = encoded(answer);
    let mut headers = vec![("content-type", kind.to_owned())];
    headers.extend(retry_after.map(|seconds| ("retry-after", seconds.to_string())));
    if let Answer::Redirect(location) = answer {
        headers.push(("location", location.clone()));
    }
    let headers = headers
        .into_iter()
        .filter_map(|(name, value)| Header::from_bytes(name.as_bytes(), value.as_bytes()).ok())
        .collect();
    // Events have no length, which makes tiny_http send them in chunks.
    let length = if matches!(answer, Answer::Events(_)) {
        None
    } else {
        Some(body.len())
    };
    let response = Response::new(StatusCode(status), headers, Cursor::new(body), length, None)
        .with_chunked_threshold(usize::MAX);
    if request.respond(response).is_err() {
        tracing::debug!("the client was gone before its answer");
    }
}

pub fn encoded(answer: &Answer) -> (u16, &'static str, Vec<u8>) {
    match answer {
        Answer::Json(status, value) => {
            (*status, "application/json", value.to_string().into_bytes())
        }
        Answer::Empty(status) => (*status, "application/json", Vec::new()),
        Answer::Redirect(_) => (307, "application/json", Vec::new()),
        Answer::Events(events) => {
            let text: String = events
                .iter()
                .map(|event| format!("data: {event}\n\n"))
                .collect();
            (200, "text/event-stream; charset=utf-8", text.into_bytes())
        }
    }
}

/// The controls over HTTP, for tests of the program itself.
fn control(shared: &Shared, call: &Call) -> Answer {
    let done = Ok(Answer::Empty(204));
    let reply = match (call.method.as_str(), call.path.as_str()) {
        ("GET", "/local/requests") => Ok(Answer::Json(200, json!(shared.controls.requests()))),
        ("DELETE", "/local/requests") => {
            shared.controls.forget_requests();
            done
        }
        ("POST", "/local/faults") => match serde_json::from_slice::<Rule>(&call.body) {
            Ok(rule) => {
                shared.controls.add(rule);
                done
            }
            Err(error) => Err(Refusal::unprocessable(error.to_string())),
        },
        ("DELETE", "/local/faults") => {
            shared.controls.clear();
            done
        }
        ("GET", "/local/dump") => match call.param("workspace") {
            Some(workspace) => shared.api.store.dump(workspace),
            None => shared.api.store.dump_all(),
        }
        .map(|dump| Answer::Json(200, dump)),
        _ => Err(Refusal::not_found("Not Found")),
    };
    reply.unwrap_or_else(|refusal| Answer::Json(refusal.status, refusal.body()))
}

pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
