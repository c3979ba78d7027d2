//! Answers one chat request: checks it, counts it, picks the reply, shapes it. Called by `server`,
//! which writes what comes back; never touches a socket.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::check::{self, Refusal};
use crate::completion::{self, Completion, Frame, UsageEvent};
use crate::http;
use crate::prompt::Prompt;
use crate::replay::Wire;
use crate::reply::{Behaviour, Reply, What};
use crate::rules;
use crate::server::Options;
use crate::tokens::PromptCache;

/// Most functions that may stand behind one another in one reply.
const COMPUTE_DEPTH_MAX: usize = 8;

/// What lasts from one chat request to the next.
#[derive(Default)]
pub struct Chats {
    script: Option<Mutex<VecDeque<Reply>>>,
    answer: Option<Behaviour>,
    cache: Mutex<PromptCache>,
    beyond_script: AtomicU64,
}

impl Chats {
    pub fn new(behaviour: Behaviour) -> Chats {
        match behaviour {
            Behaviour::Script(replies) => Chats {
                script: Some(Mutex::new(replies.into())),
                ..Chats::default()
            },
            other => Chats {
                answer: Some(other),
                ..Chats::default()
            },
        }
    }

    /// Calls that came after the script's last reply.
    pub fn beyond_script(&self) -> u64 {
        self.beyond_script.load(Ordering::SeqCst)
    }

    /// Adds a reply at the script's end.
    pub fn push(&self, reply: Reply) {
        if let Some(script) = &self.script {
            lock(script).push_back(reply);
        }
    }

    fn next(&self, request: &Value) -> Option<Reply> {
        match (&self.script, &self.answer) {
            (Some(script), _) => lock(script).pop_front(),
            (None, Some(Behaviour::Answer(function))) => Some(function(request)),
            (None, _) => Some(Reply::rules()),
        }
    }
}

/// Parses and checks a chat request, and renders its prompt.
///
/// # Errors
/// The refusal that llama-server would give.
pub fn read(options: &Options, body: &[u8]) -> Result<(Value, Prompt), Refusal> {
    let mut request = check::parse(body)?;
    check::chat(&request, options.template)?;
    let prompt = Prompt::render(&request, body);
    if !options.supports_tools
        && let Some(members) = request.as_object_mut()
    {
        // Such a template drops tools without a word.
        members.remove("tools");
    }
    Ok((request, prompt))
}

/// The answer to a chat request.
pub fn answer(chats: &Chats, options: &Options, body: &[u8]) -> Wire {
    let (request, prompt) = match read(options, body) {
        Ok(read) => read,
        Err(refusal) => return refusal_wire(&refusal),
    };
    if prompt.len() >= options.n_ctx {
        return refusal_wire(&Refusal::context(prompt.len(), options.n_ctx));
    }
    let Some(mut reply) = chats.next(&request) else {
        chats.beyond_script.fetch_add(1, Ordering::SeqCst);
        return refusal_wire(&Refusal::new(
            500,
            "server_error",
            "the script has no reply left",
        ));
    };
    let (mut wire, mut cut_before) = (Wire::default(), None);
    for _ in 0..COMPUTE_DEPTH_MAX {
        wire.holds.extend(reply.holds.iter().cloned());
        wire.cut_after = wire.cut_after.or(reply.cut_after);
        cut_before = cut_before.or(reply.cut_before);
        match &reply.what {
            What::Compute(function) => reply = function(&request),
            _ => break,
        }
    }
    let mut evaluated = None;
    wire.pieces = match &reply.what {
        What::Say(completion) => say(
            chats,
            options,
            &request,
            &prompt,
            completion,
            &mut evaluated,
        ),
        What::Rules => say(
            chats,
            options,
            &request,
            &prompt,
            &rules::answer(&request),
            &mut evaluated,
        ),
        What::Answer {
            status,
            headers,
            body,
        } => whole_pieces(*status, headers, body),
        What::Stream(chunks) => stream_pieces(chunks),
        What::Raw(pieces) => pieces.clone(),
        What::Compute(_) => {
            let refusal = Refusal::new(500, "server_error", "the script goes round in circles");
            return refusal_wire(&refusal);
        }
    };
    wire.pieces.truncate(cut_before.unwrap_or(usize::MAX));
    lock(&chats.cache).keep(evaluated.unwrap_or_else(|| prompt.hashes(std::iter::empty())));
    wire
}

fn say(
    chats: &Chats,
    options: &Options,
    request: &Value,
    prompt: &Prompt,
    completion: &Completion,
    evaluated: &mut Option<Vec<u64>>,
) -> Vec<Vec<u8>> {
    let asked = request["max_tokens"]
        .as_f64()
        .or_else(|| request["max_completion_tokens"].as_f64());
    let room = options.n_ctx - prompt.len();
    let limit = match asked {
        // Zero still makes one token, a negative number means no limit.
        Some(asked) if asked >= 0.0 => (asked as usize).clamp(1, room),
        _ => room,
    };
    let generated = completion::generate(completion, limit);
    let cached = lock(&chats.cache).known(&prompt.hashes(std::iter::empty()));
    let frame = Frame::new(&options.model, prompt.len(), cached);
    *evaluated = Some(prompt.hashes(generated.tokens()));
    if request["stream"] == true {
        let usage = match &request["stream_options"]["include_usage"] {
            Value::Bool(true) => UsageEvent::Wanted,
            _ => UsageEvent::NotWanted,
        };
        stream_pieces(&completion::events(&frame, &generated, usage))
    } else {
        whole_pieces(
            200,
            &http::json_headers(),
            &completion::object(&frame, &generated),
        )
    }
}

/// A JSON answer.
pub fn json_wire(status: u16, body: &Value) -> Wire {
    let pieces = whole_pieces(status, &http::json_headers(), body.to_string().as_bytes());
    Wire {
        pieces,
        ..Wire::default()
    }
}

/// A refusal as an answer.
pub fn refusal_wire(refusal: &Refusal) -> Wire {
    json_wire(refusal.status, &refusal.body)
}

fn whole_pieces(status: u16, headers: &[(String, String)], body: &[u8]) -> Vec<Vec<u8>> {
    let mut headers = headers.to_vec();
    headers.push(("Content-Length".to_owned(), body.len().to_string()));
    vec![http::head(status, &headers), body.to_vec()]
}

/// The head, the chunks, and in the last one's piece the end of the body: the client may leave as
/// soon as it has the last event.
fn stream_pieces(chunks: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut pieces = vec![http::stream_head()];
    // An empty chunk would be the end of the body.
    let filled = chunks.iter().filter(|chunk| !chunk.is_empty());
    pieces.extend(filled.map(|chunk| http::chunk(chunk)));
    if let Some(last) = pieces.last_mut() {
        last.extend_from_slice(http::LAST_CHUNK);
    }
    pieces
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
