//! Renders a chat request as the one text a model would be given, and its tokens. Called by
//! `server`; never looks at what the words mean.

use serde::Deserialize;
use serde_json::Value;

use crate::ordered::Ordered;
use crate::tokens;

/// What closes every message: one token.
pub const END: &str = "<|im_end|>";
const CALL_OPEN: &str = "<tool_call>";
const CALL_CLOSE: &str = "</tool_call>";

/// A rendered prompt: its tokens' texts, in order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Prompt {
    pieces: Vec<String>,
}

/// One token of a reply. `shown` is the part of the reply that it completes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub token: String,
    pub shown: Shown,
}

/// What a client sees of one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// Markup around a call.
    Nothing,
    Reasoning,
    Text,
    /// The first piece of a call's arguments; the client learns the name with it.
    CallStart {
        index: usize,
        arguments: String,
    },
    CallMore {
        index: usize,
    },
}

#[derive(Deserialize)]
struct ToolsOnly {
    #[serde(default)]
    tools: Option<Ordered>,
}

impl Prompt {
    /// Renders a request. `body` is the same request as bytes, for the order of the tools' members.
    pub fn render(request: &Value, body: &[u8]) -> Prompt {
        let mut prompt = Prompt::default();
        let tools = serde_json::from_slice::<ToolsOnly>(body)
            .ok()
            .and_then(|only| only.tools);
        if let Some(Ordered(tools)) = tools.filter(|tools| tools.0 != "null" && tools.0 != "[]") {
            prompt.open("tools");
            prompt.add(&tools);
            prompt.token(END);
        }
        let none = Vec::new();
        for message in request["messages"].as_array().unwrap_or(&none) {
            prompt.open(message["role"].as_str().unwrap_or_default());
            if message["role"] == "assistant" {
                let reasoning = message["reasoning_content"].as_str().unwrap_or_default();
                let calls: Vec<(&str, String)> = message["tool_calls"]
                    .as_array()
                    .unwrap_or(&none)
                    .iter()
                    .map(|call| &call["function"])
                    .map(|f| {
                        (
                            f["name"].as_str().unwrap_or_default(),
                            arguments_text(&f["arguments"]),
                        )
                    })
                    .collect();
                let text = content_text(&message["content"]);
                for step in reply_steps(reasoning, &text, &calls) {
                    prompt.pieces.push(step.token);
                }
            } else {
                prompt.add(&content_text(&message["content"]));
            }
            prompt.token(END);
        }
        prompt.open("assistant");
        prompt
    }

    /// How many tokens it has.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// The tokens as numbers, followed by those of a reply.
    pub fn hashes<'a>(&'a self, reply: impl Iterator<Item = &'a str>) -> Vec<u64> {
        self.pieces
            .iter()
            .map(String::as_str)
            .chain(reply)
            .map(tokens::hash)
            .collect()
    }

    /// The whole text.
    pub fn text(&self) -> String {
        self.pieces.concat()
    }

    fn open(&mut self, role: &str) {
        self.token("<|im_start|>");
        self.add(role);
        self.token("\n");
    }

    fn token(&mut self, token: &str) {
        self.pieces.push(token.to_owned());
    }

    fn add(&mut self, text: &str) {
        self.pieces
            .extend(tokens::pieces(text).into_iter().map(str::to_owned));
    }
}

/// The tokens of a reply, without the closing one. The history renders through the same function,
/// so that a reply sent back as it came is known to the prompt cache.
pub fn reply_steps(reasoning: &str, text: &str, calls: &[(&str, String)]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut add = |token: &str, shown| {
        steps.push(Step {
            token: token.to_owned(),
            shown,
        })
    };
    if !reasoning.is_empty() {
        add("<think>", Shown::Nothing);
        for piece in tokens::pieces(reasoning) {
            add(piece, Shown::Reasoning);
        }
        add("</think>", Shown::Nothing);
    }
    for piece in tokens::pieces(text) {
        add(piece, Shown::Text);
    }
    for (index, (name, arguments)) in calls.iter().enumerate() {
        add(CALL_OPEN, Shown::Nothing);
        for piece in tokens::pieces(name) {
            add(piece, Shown::Nothing);
        }
        let pieces = tokens::pieces(arguments);
        for (at, piece) in pieces.iter().enumerate() {
            let first = Shown::CallStart {
                index,
                arguments: (*piece).to_owned(),
            };
            add(
                piece,
                if at == 0 {
                    first
                } else {
                    Shown::CallMore { index }
                },
            );
        }
        // A call without a single byte of arguments still has to be seen.
        let empty = Shown::CallStart {
            index,
            arguments: String::new(),
        };
        add(
            CALL_CLOSE,
            if pieces.is_empty() {
                empty
            } else {
                Shown::Nothing
            },
        );
    }
    steps
}

/// A message's text: a string, or the text parts of a list.
pub fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}

fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render(request: &Value) -> Prompt {
        Prompt::render(request, request.to_string().as_bytes())
    }

    #[test]
    fn a_reply_sent_back_continues_its_prompt() {
        let call = json!({"id": "c", "type": "function",
            "function": {"name": "read_file", "arguments": "{\"path\": \"g.txt\"}"}});
        let first = json!({"messages": [{"role": "user", "content": "read g.txt"}]});
        let second = json!({"messages": [
            {"role": "user", "content": "read g.txt"},
            {"role": "assistant", "content": "Reading. ", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "x"}]});
        let arguments = "{\"path\": \"g.txt\"}".to_owned();
        let steps = reply_steps("", "Reading. ", &[("read_file", arguments)]);
        let evaluated = render(&first).hashes(steps.iter().map(|step| step.token.as_str()));
        assert!(
            render(&second)
                .hashes([].into_iter())
                .starts_with(&evaluated)
        );
    }

    #[test]
    fn the_order_of_members_in_tools_counts() {
        let request = json!({"messages": []});
        let a = Prompt::render(&request, br#"{"tools":[{"a":1,"b":2}]}"#);
        let b = Prompt::render(&request, br#"{"tools":[{"b":2,"a":1}]}"#);
        assert_eq!(a.len(), b.len());
        assert_ne!(a, b);
    }
}
