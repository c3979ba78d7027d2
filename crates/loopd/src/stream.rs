//! What a stream of chunks means: text, thinking and calls put together, or why there is no reply. Called by
//! `model` with each event's data; takes values only, and never runs or repairs a call.

use bxwire::log::Usage;
use serde_json::Value;

use crate::errors::ServerError;

/// Longest text of a reply in bytes: escaped at its worst it still fits a frame.
pub const REPLY_BYTES_MAX: usize = 160 * 1024;
/// Longest thinking, and longest arguments of a reply's calls together, in bytes.
pub const HIDDEN_BYTES_MAX: usize = 1024 * 1024;
/// Most calls in one reply.
pub const CALLS_MAX: usize = 64;

/// A reply, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<RawCall>,
    pub finish: Finish,
    /// What the server counted, if it did.
    pub usage: Option<Usage>,
}

/// A call as it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawCall {
    pub tool: String,
    /// The model's own text; `{}` when it sent none.
    pub arguments: String,
}

/// Why the model stopped, by its own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It was done, or gave a word nobody knows.
    Stop,
    ToolCalls,
    Length,
}

/// Why there is no reply. Shows nothing of what came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    #[error("the stream ended before the reply did")]
    Broken,
    #[error("the server broke the reply off")]
    Server(ServerError),
    #[error("the server withheld the reply")]
    Withheld,
    #[error("an event of the stream is not JSON")]
    NotJson,
    #[error("the reply is longer than any should be")]
    TooLong,
}

/// A reply in the making.
#[derive(Debug, Default)]
pub struct Assembler {
    text: String,
    reasoning: String,
    calls: Vec<Partial>,
    arguments_bytes: usize,
    finish: Option<Finish>,
    usage: Option<Usage>,
    done: bool,
}

/// How calls come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comes {
    InPieces,
    Whole,
}

#[derive(Debug, Default)]
struct Partial {
    index: Option<u64>,
    id: String,
    call: RawCall,
}

impl Assembler {
    /// Takes one event's data and gives the text it adds.
    ///
    /// # Errors
    /// Every [`StreamError`] but `Broken`; nothing of the reply may be kept then.
    pub fn event(&mut self, data: &str) -> Result<String, StreamError> {
        if self.done {
            return Ok(String::new());
        }
        if data.trim() == "[DONE]" {
            self.done = true;
            return Ok(String::new());
        }
        let event: Value = serde_json::from_str(data).map_err(|_| StreamError::NotJson)?;
        if let Some(error) = ServerError::of(&event) {
            return Err(StreamError::Server(error));
        }
        self.count(&event);
        let choice = &event["choices"][0];
        let added = self.message(&choice["delta"], Comes::InPieces)?;
        self.finish(choice["finish_reason"].as_str())?;
        Ok(added)
    }

    /// Takes an answer that was not streamed.
    ///
    /// # Errors
    /// As [`Assembler::event`].
    pub fn whole(&mut self, body: &[u8]) -> Result<(), StreamError> {
        let object: Value = serde_json::from_slice(body).map_err(|_| StreamError::NotJson)?;
        if let Some(error) = ServerError::of(&object) {
            return Err(StreamError::Server(error));
        }
        self.count(&object);
        let choice = &object["choices"][0];
        self.message(&choice["message"], Comes::Whole)?;
        self.finish(choice["finish_reason"].as_str())
    }

    /// Whether any thinking came apart from the text.
    #[must_use]
    pub fn thinks(&self) -> bool {
        !self.reasoning.is_empty()
    }

    /// The reply, once the body has ended.
    ///
    /// # Errors
    /// [`StreamError::Broken`]: no finish reason came.
    pub fn finished(self) -> Result<Assembled, StreamError> {
        let finish = self.finish.ok_or(StreamError::Broken)?;
        let calls = self.calls.into_iter().map(|partial| {
            let mut call = partial.call;
            if call.arguments.is_empty() {
                call.arguments = "{}".into();
            }
            call
        });
        Ok(Assembled {
            text: self.text,
            reasoning: self.reasoning,
            calls: calls.collect(),
            finish,
            usage: self.usage,
        })
    }

    fn count(&mut self, event: &Value) {
        let usage = &event["usage"];
        if let Some(prompt_tokens) = usage["prompt_tokens"].as_u64() {
            self.usage = Some(Usage {
                prompt_tokens,
                completion_tokens: usage["completion_tokens"].as_u64().unwrap_or(0),
                cached_tokens: usage["prompt_tokens_details"]["cached_tokens"]
                    .as_u64()
                    .or(event["timings"]["cache_n"].as_u64())
                    .unwrap_or(0),
            });
        }
    }

    /// A delta or a message; they differ only in how much comes at once.
    fn message(&mut self, message: &Value, comes: Comes) -> Result<String, StreamError> {
        for name in ["reasoning_content", "reasoning", "thinking"] {
            if let Some(thought) = message[name].as_str() {
                self.reasoning.push_str(thought);
                break;
            }
        }
        let added = message["content"].as_str().unwrap_or_default();
        self.text.push_str(added);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            self.call(call, comes)?;
        }
        let hidden = self.reasoning.len().max(self.arguments_bytes);
        if self.text.len() > REPLY_BYTES_MAX || hidden > HIDDEN_BYTES_MAX {
            return Err(StreamError::TooLong);
        }
        Ok(added.to_owned())
    }

    /// Servers number calls, or name them, or neither: see [`Assembler::opens`].
    fn call(&mut self, delta: &Value, comes: Comes) -> Result<(), StreamError> {
        let index = delta["index"].as_u64();
        let id = delta["id"].as_str().unwrap_or_default();
        let function = &delta["function"];
        let tool = function["name"].as_str().unwrap_or_default();
        let arguments = match &function["arguments"] {
            Value::String(text) => text.clone(),
            object @ Value::Object(_) => object.to_string(),
            _ => String::new(),
        };
        let place = match self.opens(index, id, tool) {
            Some(place) if comes == Comes::InPieces => place,
            _ => {
                if self.calls.len() >= CALLS_MAX {
                    return Err(StreamError::TooLong);
                }
                self.calls.push(Partial {
                    index,
                    id: id.into(),
                    ..Partial::default()
                });
                self.calls.len() - 1
            }
        };
        self.arguments_bytes += arguments.len();
        if let Some(partial) = self.calls.get_mut(place) {
            if partial.call.tool.is_empty() {
                partial.call.tool = tool.into();
            }
            partial.call.arguments.push_str(&arguments);
        }
        Ok(())
    }

    /// The call that a delta goes on with; `None`: it opens a new one. An id alone opens nothing: some
    /// gateways put a fresh one on every fragment.
    fn opens(&self, index: Option<u64>, id: &str, tool: &str) -> Option<usize> {
        let last = self.calls.len().checked_sub(1)?;
        let place = match index {
            Some(_) => self
                .calls
                .iter()
                .rposition(|partial| partial.index == index)?,
            None => last,
        };
        let partial = self.calls.get(place)?;
        let renamed = !tool.is_empty() && !id.is_empty() && partial.id != id;
        let whole = index.is_none()
            && id.is_empty()
            && !tool.is_empty()
            && serde_json::from_str::<Value>(&partial.call.arguments).is_ok();
        (!renamed && !whole).then_some(place)
    }

    fn finish(&mut self, word: Option<&str>) -> Result<(), StreamError> {
        let Some(word) = word else { return Ok(()) };
        self.finish = Some(match word {
            "length" => Finish::Length,
            "tool_calls" | "function_call" => Finish::ToolCalls,
            "error" => return Err(StreamError::Server(ServerError::default())),
            "content_filter" => return Err(StreamError::Withheld),
            _ => Finish::Stop,
        });
        Ok(())
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
