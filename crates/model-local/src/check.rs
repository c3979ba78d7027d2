//! What a request must be for llama-server to take it, and the refusal it gives otherwise. Called by
//! `server`; takes values, returns a value.
//!
//! # Source
//! Recorded refusals: each message is the one llama-server gave for the same mistake.

use serde_json::{Value, json};

use crate::prompt::content_text;

/// A refusal, ready to be sent.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    pub status: u16,
    pub body: Value,
}

/// How strict the pretended chat template is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Template {
    /// Takes roles in any order.
    #[default]
    Lenient,
    /// Mistral's rules and more: one system message, first; roles alternate; no user right after a
    /// tool result; call ids of nine letters and digits.
    Strict,
}

impl Refusal {
    pub fn new(status: u16, kind: &str, message: impl Into<String>) -> Refusal {
        let message: String = message.into();
        Refusal {
            status,
            body: json!({"error": {"code": status, "message": message, "type": kind}}),
        }
    }

    fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(400, "invalid_request_error", message)
    }

    fn server(message: impl Into<String>) -> Refusal {
        Refusal::new(500, "server_error", message)
    }

    /// The model is not there yet.
    pub fn loading() -> Refusal {
        Refusal::new(503, "unavailable_error", "Loading model")
    }

    /// The prompt does not fit.
    pub fn context(prompt_tokens: usize, n_ctx: usize) -> Refusal {
        let message = format!(
            "request ({prompt_tokens} tokens) exceeds the available context size ({n_ctx} tokens), try increasing it"
        );
        let mut refusal = Refusal::new(400, "exceed_context_size_error", message);
        refusal.body["error"]["n_prompt_tokens"] = prompt_tokens.into();
        refusal.body["error"]["n_ctx"] = n_ctx.into();
        refusal
    }
}

/// Parses a body.
///
/// # Errors
/// The refusal of bytes that are not JSON.
pub fn parse(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        Refusal::invalid(format!(
            "[json.exception.parse_error.101] parse error at line {}, column {}: syntax error while parsing value",
            error.line(),
            error.column()
        ))
    })
}

/// Checks a chat request.
///
/// # Errors
/// The first refusal that applies.
pub fn chat(request: &Value, template: Template) -> Result<(), Refusal> {
    let messages = match &request["messages"] {
        Value::Array(messages) if !messages.is_empty() => messages,
        Value::Null => return Err(Refusal::invalid("'messages' is required")),
        _ => return Err(Refusal::invalid("'messages' must be a non-empty array")),
    };
    for field in ["max_tokens", "max_completion_tokens", "temperature"] {
        if !matches!(request[field], Value::Null | Value::Number(_)) {
            return Err(Refusal::invalid(format!(
                "Field '{field}': [json.exception.type_error.302] type must be number, but is {}",
                kind(&request[field])
            )));
        }
    }
    if !matches!(request["stream"], Value::Null | Value::Bool(_)) {
        return Err(Refusal::invalid("Field 'stream': type must be boolean"));
    }
    match &request["tool_choice"] {
        Value::String(word) if !["auto", "none", "required"].contains(&word.as_str()) => {
            return Err(Refusal::invalid(format!("Invalid tool_choice: {word}")));
        }
        _ => {}
    }
    tools(&request["tools"])?;
    for one in messages {
        message(one)?;
    }
    end(messages)?;
    match template {
        Template::Lenient => Ok(()),
        Template::Strict => roles(messages),
    }
}

fn tools(tools: &Value) -> Result<(), Refusal> {
    let list = match tools {
        Value::Null => return Ok(()),
        Value::Array(list) => list,
        _ => {
            return Err(Refusal::server(
                "Failed to parse tools: tools is not an array",
            ));
        }
    };
    for tool in list {
        if tool["type"] != "function" {
            return Err(Refusal::server(
                "Failed to parse tools: type is not 'function'",
            ));
        }
        if !tool["function"].is_object() {
            return Err(Refusal::server(
                "Failed to parse tools: key 'function' not found",
            ));
        }
        if !tool["function"]["name"].is_string() {
            return Err(Refusal::server(
                "Failed to parse tools: key 'name' not found",
            ));
        }
        if !matches!(
            tool["function"]["parameters"],
            Value::Null | Value::Object(_)
        ) {
            return Err(Refusal::invalid(
                "JSON schema error at #: parameters is not an object",
            ));
        }
    }
    Ok(())
}

fn message(message: &Value) -> Result<(), Refusal> {
    let Some(role) = message["role"].as_str() else {
        return Err(Refusal::server("Failed to parse messages: Missing 'role'"));
    };
    let content = &message["content"];
    if role != "assistant" && content.is_null() {
        return Err(Refusal::invalid(
            "All non-assistant messages must contain 'content'",
        ));
    }
    if !matches!(content, Value::Null | Value::String(_) | Value::Array(_)) {
        return Err(Refusal::server(
            "Failed to parse messages: Invalid 'content' type",
        ));
    }
    if message
        .get("reasoning_content")
        .is_some_and(|reasoning| !reasoning.is_string())
    {
        return Err(Refusal::server(
            "Failed to parse messages: [json.exception.type_error.302] type must be string, but is null",
        ));
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        if call["type"] != "function" {
            return Err(Refusal::server(format!(
                "Failed to parse messages: Missing tool call type: {call}"
            )));
        }
        if !call["function"]["name"].is_string() {
            return Err(Refusal::server(
                "Failed to parse messages: Missing tool call name",
            ));
        }
        let arguments = &call["function"]["arguments"];
        let parsed = match arguments {
            Value::Object(_) => Ok(Value::Null),
            Value::String(text) => serde_json::from_str(text).map_err(|error| error.to_string()),
            _ => Err("arguments is not a string".to_owned()),
        };
        if let Err(why) = parsed {
            return Err(Refusal::server(format!(
                "Failed to parse tool call arguments as JSON: {why}"
            )));
        }
    }
    Ok(())
}

fn end(messages: &[Value]) -> Result<(), Refusal> {
    let mut from_the_end = messages.iter().rev();
    let Some(last) = from_the_end
        .next()
        .filter(|last| last["role"] == "assistant")
    else {
        return Ok(());
    };
    if from_the_end
        .next()
        .is_some_and(|before| before["role"] == "assistant")
    {
        return Err(Refusal::invalid(
            "Cannot have 2 or more assistant messages at the end of the list.",
        ));
    }
    if last["tool_calls"]
        .as_array()
        .is_some_and(|calls| !calls.is_empty())
    {
        return Err(Refusal::invalid(
            "Cannot continue an assistant message that contains tool calls.",
        ));
    }
    Ok(())
}

fn roles(messages: &[Value]) -> Result<(), Refusal> {
    let jinja = |words: &str| {
        Err(Refusal::invalid(format!(
            "Unable to generate parser for this template. Error: Jinja Exception: {words}"
        )))
    };
    const ALTERNATE: &str = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...";
    let mut before = "";
    // Calls of the assistant message before that still wait for their result.
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let fits = match role {
            "system" => at == 0,
            "user" => matches!(before, "" | "system" | "assistant") && open.is_empty(),
            "assistant" => matches!(before, "user" | "tool") && open.is_empty(),
            "tool" => !open.is_empty(),
            _ => false,
        };
        if !fits {
            return jinja(if role == "system" {
                "System message must be at the beginning."
            } else {
                ALTERNATE
            });
        }
        if role == "tool" && message["tool_call_id"].as_str() != Some(open.remove(0)) {
            return jinja("Tool results must follow their calls in order.");
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default();
            if id.len() != 9 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return jinja("Tool call IDs should be alphanumeric strings with length 9!");
            }
            open.push(id);
        }
        before = role;
    }
    if !messages
        .iter()
        .any(|message| message["role"] == "user" && !content_text(&message["content"]).is_empty())
    {
        return jinja("No user query found in messages.");
    }
    Ok(())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
