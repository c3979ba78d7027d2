//! A reply as the protocol writes it: one JSON object, or a list of events. Called by `server` and
//! `replay`; never decides what to say.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::prompt::{Shown, Step, reply_steps};

/// One tool call of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    /// As the model wrote it: a script may put anything here.
    pub arguments: String,
    /// `None`: a fresh random one, as llama-server gives.
    pub id: Option<String>,
}

/// What the model says in one reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    pub reasoning: String,
    pub text: String,
    pub calls: Vec<Call>,
    /// `None`: `stop`, `tool_calls`, or `length` where the limit cut it.
    pub finish_reason: Option<String>,
}

/// Everything around a reply that its JSON names.
#[derive(Debug, Clone)]
pub struct Frame {
    pub id: String,
    pub model: String,
    pub created: u64,
    pub prompt_tokens: usize,
    pub cached_tokens: usize,
}

/// A reply cut to its limit, with ids.
#[derive(Debug)]
pub struct Generated {
    steps: Vec<Step>,
    calls: Vec<Call>,
    finish_reason: String,
    completion_tokens: usize,
}

impl Frame {
    pub fn new(model: &str, prompt_tokens: usize, cached_tokens: usize) -> Frame {
        let created = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let id = format!("chatcmpl-{}", random_id());
        Frame {
            id,
            model: model.to_owned(),
            created,
            prompt_tokens,
            cached_tokens,
        }
    }

    fn chunk<'a>(&'a self, choices: Vec<Choice<'a>>) -> Chunk<'a> {
        Chunk {
            choices,
            created: self.created,
            id: &self.id,
            model: &self.model,
            system_fingerprint: FINGERPRINT,
            object: "chat.completion.chunk",
            usage: None,
            timings: None,
        }
    }

    fn usage(&self, reply: &Generated) -> Usage {
        Usage {
            completion_tokens: reply.completion_tokens,
            prompt_tokens: self.prompt_tokens,
            total_tokens: self.prompt_tokens + reply.completion_tokens,
            prompt_tokens_details: PromptDetails {
                cached_tokens: self.cached_tokens,
            },
        }
    }

    fn timings(&self, reply: &Generated) -> Timings {
        Timings {
            cache_n: self.cached_tokens,
            prompt_n: self.prompt_tokens - self.cached_tokens,
            predicted_n: reply.completion_tokens,
            ..Timings::default()
        }
    }
}

/// `system_fingerprint` and `build_info`.
pub const FINGERPRINT: &str = concat!("model-local-", env!("CARGO_PKG_VERSION"));

/// Cuts a reply to `limit` tokens and gives its calls their ids.
pub fn generate(completion: &Completion, limit: usize) -> Generated {
    let texts: Vec<(&str, String)> = completion
        .calls
        .iter()
        .map(|call| (call.name.as_str(), call.arguments.clone()))
        .collect();
    let mut steps = reply_steps(&completion.reasoning, &completion.text, &texts);
    // The closing token counts as generated, and has to fit too.
    let cut = steps.len() + 1 > limit;
    let completion_tokens = if cut { limit } else { steps.len() + 1 };
    steps.truncate(limit);
    let natural = if cut {
        "length"
    } else if completion.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let finish_reason = completion
        .finish_reason
        .clone()
        .unwrap_or_else(|| natural.to_owned());
    let named = |call: &Call| Call {
        id: call.id.clone().or_else(|| Some(random_id())),
        ..call.clone()
    };
    Generated {
        steps,
        calls: completion.calls.iter().map(named).collect(),
        finish_reason,
        completion_tokens,
    }
}

impl Generated {
    /// The tokens, without the closing one.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| step.token.as_str())
    }

    fn text_of(&self, kind: &Shown) -> String {
        self.steps
            .iter()
            .filter(|step| step.shown == *kind)
            .map(|step| step.token.as_str())
            .collect()
    }

    fn arguments_of(&self, wanted: usize) -> Option<String> {
        let mut text = None::<String>;
        for step in &self.steps {
            match &step.shown {
                Shown::CallStart { index, arguments } if *index == wanted => {
                    text = Some(arguments.clone())
                }
                Shown::CallMore { index } if *index == wanted => {
                    text.get_or_insert_default().push_str(&step.token);
                }
                _ => {}
            }
        }
        text
    }
}

/// The answer to a request without `stream`, as JSON.
pub fn object(frame: &Frame, reply: &Generated) -> Vec<u8> {
    let calls = reply.calls.iter().enumerate().filter_map(|(index, call)| {
        let arguments = reply.arguments_of(index)?;
        let function = Function {
            name: Some(&call.name),
            arguments,
        };
        Some(WholeCall {
            kind: "function",
            function,
            id: call.id.as_deref(),
        })
    });
    let message = Message {
        role: "assistant",
        content: reply.text_of(&Shown::Text),
        reasoning_content: Some(reply.text_of(&Shown::Reasoning)).filter(|text| !text.is_empty()),
        tool_calls: calls.collect(),
    };
    let whole = Whole {
        choices: [WholeChoice {
            finish_reason: &reply.finish_reason,
            index: 0,
            message,
        }],
        created: frame.created,
        model: &frame.model,
        system_fingerprint: FINGERPRINT,
        object: "chat.completion",
        usage: frame.usage(reply),
        id: &frame.id,
        timings: frame.timings(reply),
    };
    json_bytes(&whole)
}

/// Whether the client asked for the event with the token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageEvent {
    Wanted,
    NotWanted,
}

/// The answer to a request with `stream`: each event's bytes, `[DONE]` last.
///
/// # Source
/// The order recorded from llama-server: `tests/fixtures/stream-tool-call.sse` and its neighbours.
pub fn events(frame: &Frame, reply: &Generated, usage: UsageEvent) -> Vec<Vec<u8>> {
    let choice = |delta, finish_reason| {
        frame.chunk(vec![Choice {
            finish_reason,
            index: 0,
            delta,
        }])
    };
    let mut events = vec![choice(
        Delta::Role {
            role: "assistant",
            content: (),
        },
        None,
    )];
    for step in &reply.steps {
        let token = step.token.as_str();
        let delta = match &step.shown {
            Shown::Nothing => continue,
            Shown::Reasoning => Delta::Reasoning {
                reasoning_content: token,
            },
            Shown::Text => Delta::Content { content: token },
            Shown::CallStart { index, arguments } => {
                let Some(call) = reply.calls.get(*index) else {
                    continue;
                };
                let function = Function {
                    name: Some(&call.name),
                    arguments: arguments.clone(),
                };
                let id = call.id.as_deref();
                Delta::Calls {
                    tool_calls: [CallDelta {
                        index: *index,
                        id,
                        kind: Some("function"),
                        function,
                    }],
                }
            }
            Shown::CallMore { index } => {
                let function = Function {
                    name: None,
                    arguments: token.to_owned(),
                };
                Delta::Calls {
                    tool_calls: [CallDelta {
                        index: *index,
                        id: None,
                        kind: None,
                        function,
                    }],
                }
            }
        };
        events.push(choice(delta, None));
    }
    let mut last = choice(Delta::Nothing {}, Some(reply.finish_reason.as_str()));
    match usage {
        UsageEvent::NotWanted => {
            last.timings = Some(frame.timings(reply));
            events.push(last);
        }
        UsageEvent::Wanted => {
            events.push(last);
            let mut counts = frame.chunk(Vec::new());
            counts.usage = Some(frame.usage(reply));
            counts.timings = Some(frame.timings(reply));
            events.push(counts);
        }
    }
    let mut bytes: Vec<Vec<u8>> = events
        .iter()
        .map(|event| event_bytes(&json_bytes(event)))
        .collect();
    bytes.push(event_bytes(b"[DONE]"));
    bytes
}

/// One `data:` line with the empty line after it.
pub fn event_bytes(data: &[u8]) -> Vec<u8> {
    [b"data: ", data, b"\n\n"].concat()
}

fn json_bytes(value: &impl Serialize) -> Vec<u8> {
    // These types have string keys only, so writing them to memory cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

/// 32 random letters and digits.
fn random_id() -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut bytes = [0_u8; 32];
    if getrandom::fill(&mut bytes).is_err() {
        // Ids only have to differ; the clock is the fallback where there is no randomness.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        bytes[..16].copy_from_slice(&now.to_le_bytes());
    }
    bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]))
        .collect()
}

// The order of the members below is the order on the wire.

#[derive(Serialize)]
struct Chunk<'a> {
    choices: Vec<Choice<'a>>,
    created: u64,
    id: &'a str,
    model: &'a str,
    system_fingerprint: &'static str,
    object: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings>,
}

#[derive(Serialize)]
struct Choice<'a> {
    finish_reason: Option<&'a str>,
    index: usize,
    delta: Delta<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Delta<'a> {
    Role { role: &'static str, content: () },
    Reasoning { reasoning_content: &'a str },
    Content { content: &'a str },
    Calls { tool_calls: [CallDelta<'a>; 1] },
    Nothing {},
}

#[derive(Serialize)]
struct CallDelta<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: String,
}

#[derive(Serialize)]
struct Whole<'a> {
    choices: [WholeChoice<'a>; 1],
    created: u64,
    model: &'a str,
    system_fingerprint: &'static str,
    object: &'static str,
    usage: Usage,
    id: &'a str,
    timings: Timings,
}

#[derive(Serialize)]
struct WholeChoice<'a> {
    finish_reason: &'a str,
    index: usize,
    message: Message<'a>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WholeCall<'a>>,
}

#[derive(Serialize)]
struct WholeCall<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
    id: Option<&'a str>,
}

#[derive(Serialize)]
struct Usage {
    completion_tokens: usize,
    prompt_tokens: usize,
    total_tokens: usize,
    prompt_tokens_details: PromptDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: usize,
}

/// The times stay zero: nothing is computed whose time could be told.
#[derive(Serialize, Default)]
struct Timings {
    cache_n: usize,
    prompt_n: usize,
    prompt_ms: f64,
    prompt_per_token_ms: f64,
    prompt_per_second: f64,
    predicted_n: usize,
    predicted_ms: f64,
    predicted_per_token_ms: f64,
    predicted_per_second: f64,
}
