//! The bytes of a request, made from a session's records by rules that hold for every chat template. Called
//! by `turn`; takes values only. What it has written once it writes the same again: the server's cache
//! depends on it.

use std::collections::{BTreeMap, BTreeSet};

use bxcore::runbook;
use bxwire::{
    CallId,
    log::{Body, Call, Outcome, Record},
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    room::{self, Room},
    textcall,
    tokens::break_up,
};

/// What a model is told after an empty reply.
pub const NUDGE_EMPTY: &str = "Your last reply was empty. Answer in plain text now, or call a tool (outside of any thinking).";
/// What a model is told after it wrote a call as text.
pub const NUDGE_TEXT_CALL: &str = "That was text, not a tool call, and nothing was run. Tools can only be called through the \
    tool interface. Call the tool that way, or answer in plain text.";
/// Stands for a reply that was empty.
const NO_REPLY: &str = "(no reply)";
/// Stands for a result that never came.
const NO_RESULT: &str = "(not run: the turn ended before this call)";
/// Stands for a result without text.
const NO_OUTPUT: &str = "(no output)";

/// Longest result that stays where it is when its turn filled the context, in characters.
const RESULT_KEPT_CHARS_MAX: usize = 200;

/// How a request is written, besides its records.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub model: String,
    pub max_tokens: u64,
    /// What the server holds, prompt and reply, where it is known.
    pub context_tokens: Option<u64>,
    pub temperature: Option<f64>,
    /// Whether the model's template knows tools.
    pub tools: Tools,
    pub reasoning: Reasoning,
    /// Control tokens that the server told of.
    pub control_tokens: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tools {
    #[default]
    Offered,
    LeftOut,
}

/// Which thinking goes back to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reasoning {
    /// That of the turn that runs: templates that render it drop it at the next user's turn themselves.
    #[default]
    ThisTurn,
    /// All of it, for templates that keep it.
    Always,
    Never,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a Value>,
    /// Last, so that a longer history has the shorter one's bytes as its beginning.
    messages: &'a [Message],
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// One message as it goes out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Message {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<CallId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ToolCall {
    id: CallId,
    r#type: &'static str,
    function: Function,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

/// The request that has the model go on after these records.
///
/// # Errors
/// When a value cannot be written as JSON.
pub fn request(records: &[Record], options: &Options) -> Result<Vec<u8>, serde_json::Error> {
    let epoch = records.iter().rev().find_map(|record| match &record.body {
        Body::Epoch { system, tools, .. } => Some((system.as_str(), tools)),
        _ => None,
    });
    let (system, tools) = epoch.unwrap_or(("", &Value::Null));
    let offered =
        options.tools == Tools::Offered && tools.as_array().is_some_and(|list| !list.is_empty());
    let tools = offered.then_some(tools);
    let mut room = Room::of(options.context_tokens, options.max_tokens);
    if let Some(tools) = tools {
        room.spend([serde_json::to_string(tools)?.as_str()]);
    }
    let history = History::of(system, records, options, room);
    serde_json::to_vec(&Request {
        model: &options.model,
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
        max_tokens: options.max_tokens,
        temperature: options.temperature,
        tools,
        messages: &history.messages,
    })
}

/// The tools array of an epoch.
#[must_use]
pub fn tools_array(tools: &[bxwire::links::tools::Tool]) -> Value {
    tools
        .iter()
        .map(|tool| {
            serde_json::json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.parameters}})
        })
        .collect()
}

struct History<'a> {
    options: &'a Options,
    messages: Vec<Message>,
    /// Calls of the last assistant message that have no answer yet, in order.
    open: Vec<CallId>,
    answers: BTreeMap<CallId, String>,
    /// What the model is told after its last message, where that was no usable reply.
    nudge: Option<&'static str>,
    turn: u64,
    /// What memory said before each turn. It is logged after the user's words and shown before them.
    contexts: BTreeMap<u64, &'a str>,
    /// Turns that ended because the context was full. Sent whole again, their long texts would fill it again.
    full: BTreeSet<u64>,
    /// What the context has room for after the messages that are counted.
    room: Room,
    counted: usize,
    /// Thinking that takes room now and is not in later requests.
    thoughts: Vec<&'a str>,
}

impl<'a> History<'a> {
    fn of(system: &str, records: &'a [Record], options: &'a Options, room: Room) -> Self {
        let mut history = Self {
            options,
            messages: Vec::new(),
            open: Vec::new(),
            answers: BTreeMap::new(),
            nudge: None,
            turn: records
                .iter()
                .filter_map(|record| record.body.turn())
                .max()
                .unwrap_or(0),
            contexts: records
                .iter()
                .filter_map(|record| match &record.body {
                    Body::Context { turn, text, .. } => Some((*turn, text.as_str())),
                    _ => None,
                })
                .collect(),
            full: records
                .iter()
                .filter_map(|record| match &record.body {
                    Body::TurnEnd { turn, runbook, .. } => runbook
                        .as_deref()
                        .filter(|entry| *entry == runbook::CONTEXT_FULL.anchor())
                        .map(|_| *turn),
                    _ => None,
                })
                .collect(),
            room,
            counted: 0,
            thoughts: Vec::new(),
        };
        history.push("system", system.to_owned());
        let covered = records.iter().rev().find_map(|record| match &record.body {
            Body::Summary { covers, .. } => Some((record.seq, *covers)),
            _ => None,
        });
        if let Some((seq, _)) = covered {
            let summary = records.iter().find(|record| record.seq == seq);
            summary
                .into_iter()
                .for_each(|record| history.record(record));
        }
        for record in records {
            let replaced =
                covered.is_some_and(|(seq, covers)| record.seq <= covers || record.seq == seq);
            if !replaced {
                history.record(record);
            }
        }
        history.close_calls();
        // An assistant's text at the end would be continued, not answered.
        if history.ends_with("assistant") {
            history.nudge_on();
        }
        history
    }

    fn record(&mut self, record: &'a Record) {
        match &record.body {
            Body::User { turn, text, .. } => {
                if let Some(context) = self.contexts.get(turn) {
                    let context = self.clean(context);
                    self.user(format!(
                        "[From your own memory, not from the user]\n{context}"
                    ));
                }
                if self.options.reasoning != Reasoning::Always {
                    self.thoughts.clear();
                }
                let mut text = self.clean(text);
                if self.full.contains(turn) {
                    text = room::least(text);
                }
                // To the minute: the clock of each turn stays as it was.
                let at = record.at.get(..16).unwrap_or_default().replace('T', " ");
                self.user(format!("{text}\n\n[Sent {at} UTC]"));
            }
            Body::Summary { text, .. } => {
                let text = self.clean(text);
                self.user(format!("[Summary of what came before]\n{text}"));
            }
            Body::Assistant {
                turn,
                text,
                reasoning,
                calls,
            } => {
                self.assistant(*turn, text, reasoning.as_deref(), calls);
            }
            Body::ToolResult {
                turn, call, text, ..
            } => {
                let chars = text.chars().count();
                let text = if self.full.contains(turn) && chars > RESULT_KEPT_CHARS_MAX {
                    format!("(left out: {chars} characters; the context was full)")
                } else {
                    self.clean(text)
                };
                self.answers.insert(call.clone(), text);
                if self.open.iter().all(|open| self.answers.contains_key(open)) {
                    self.close_calls();
                }
            }
            Body::TurnEnd { outcome, .. } => self.turn_end(*outcome),
            // A context is shown with its turn's words.
            Body::Session { .. } | Body::Epoch { .. } | Body::Context { .. } | Body::Purged {} => {}
        }
    }

    fn user(&mut self, text: String) {
        self.close_calls();
        match self.messages.last_mut() {
            Some(last) if last.role == "user" => {
                last.content.push_str("\n\n");
                last.content.push_str(&text);
            }
            Some(last) if last.role == "tool" => {
                self.push("assistant", NO_REPLY.into());
                self.push("user", text);
            }
            _ => self.push("user", text),
        }
    }

    fn assistant(&mut self, turn: u64, text: &str, reasoning: Option<&'a str>, calls: &[Call]) {
        self.close_calls();
        if self.ends_with("assistant") {
            self.nudge_on();
        } else if self.ends_with("system") {
            self.push("user", NO_REPLY.into());
        }
        let replayed = match self.options.reasoning {
            Reasoning::Always => true,
            Reasoning::ThisTurn => turn == self.turn,
            Reasoning::Never => false,
        };
        // A call that was written as text is shown as the call it became.
        let as_text = calls.len() == 1 && textcall::whole(text).is_some();
        let content = match text {
            _ if as_text => String::new(),
            "" if calls.is_empty() => NO_REPLY.into(),
            text => self.clean(text),
        };
        let tool_calls = calls.iter().map(|call| ToolCall {
            id: call.id.clone(),
            r#type: "function",
            function: Function {
                name: call.tool.clone(),
                arguments: self.clean(arguments(&call.arguments)),
            },
        });
        let message = Message {
            role: "assistant",
            content,
            reasoning_content: reasoning
                .filter(|reasoning| replayed && !reasoning.is_empty())
                .map(|reasoning| self.clean(reasoning)),
            tool_calls: tool_calls.collect(),
            tool_call_id: None,
        };
        self.nudge = match text {
            _ if !calls.is_empty() => None,
            "" => Some(NUDGE_EMPTY),
            text if textcall::has_marker(text) || textcall::whole(text).is_some() => {
                Some(NUDGE_TEXT_CALL)
            }
            _ => None,
        };
        self.open = calls.iter().map(|call| call.id.clone()).collect();
        self.thoughts.extend(reasoning);
        self.messages.push(message);
    }

    /// A turn without a reply leaves words in its place, so that roles go on in turn.
    fn turn_end(&mut self, outcome: Outcome) {
        let words = match outcome {
            Outcome::Replied => return,
            Outcome::Failed => "(no reply: this turn failed)",
            Outcome::Cancelled => "(no reply: the user stopped this turn)",
            Outcome::Interrupted => "(no reply: this turn was interrupted)",
        };
        self.close_calls();
        // What the model was told after a useless reply stays where it was.
        if self.ends_with("assistant") && self.nudge.is_some() {
            self.nudge_on();
        }
        if !self.ends_with("assistant") {
            self.push("assistant", words.into());
        }
    }

    /// Answers each open call, in the calls' order.
    fn close_calls(&mut self) {
        for call in std::mem::take(&mut self.open) {
            let text = self.answers.remove(&call);
            let content = match text {
                None => NO_RESULT.into(),
                Some(text) if text.is_empty() => NO_OUTPUT.into(),
                Some(text) => self.room_left().fit(text),
            };
            self.messages.push(Message {
                tool_call_id: Some(call),
                ..Message::new("tool", content)
            });
        }
        self.answers.clear();
    }

    /// The room after all messages so far. Their last one is an assistant's or a tool's, which stays as it is.
    /// Thinking counts as it did when its turn ran, whether or not this request holds it: what a result was cut to
    /// it is cut to for ever.
    fn room_left(&mut self) -> Room {
        for message in &self.messages[self.counted..] {
            let calls = message.tool_calls.iter();
            let calls = calls.flat_map(|call| [&call.function.name, &call.function.arguments]);
            let texts = std::iter::once(&message.content).chain(calls);
            self.room.spend(texts.map(String::as_str));
        }
        self.counted = self.messages.len();
        let mut room = self.room;
        room.spend(self.thoughts.iter().copied());
        room
    }

    fn ends_with(&self, role: &str) -> bool {
        self.messages.last().is_some_and(|last| last.role == role)
    }

    /// Has the model speak again after a message of its own.
    fn nudge_on(&mut self) {
        let words = self.nudge.take().unwrap_or(NUDGE_EMPTY);
        self.push("user", words.into());
    }

    fn push(&mut self, role: &'static str, content: String) {
        self.messages.push(Message::new(role, content));
    }

    fn clean(&self, text: &str) -> String {
        break_up(text, &self.options.control_tokens)
    }
}

impl Message {
    fn new(role: &'static str, content: String) -> Self {
        Self {
            role,
            content,
            reasoning_content: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

/// The model's arguments where they are a JSON object; anything else would be refused for ever.
fn arguments(text: &str) -> &str {
    let is_object = serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object());
    if is_object { text } else { "{}" }
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
