//! What a model server says of itself: its context, and what its template can do. Called by `model` before
//! the first request and after the server was away; never guesses that a server can do more.

use std::time::Duration;

use serde_json::Value;

use crate::{
    cancel::Cancel,
    config::ModelConfig,
    transport::{self, HttpError, Waits},
};

/// Until an answer about the server itself begins, and between its bytes.
const ASK_MS_MAX: Duration = Duration::from_secs(10);

/// What is known of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Context of one request in tokens.
    pub context_tokens: Option<u64>,
    pub model: Option<String>,
    /// `Some(false)`: tools would be dropped in silence.
    pub knows_tools: Option<bool>,
    pub keeps_reasoning: bool,
    /// The template writes thinking into the text.
    pub thinks: bool,
    /// Tokens that end a turn and must not stand in text.
    pub control_tokens: Vec<String>,
}

/// What asking gave.
#[derive(Debug)]
pub enum Asked {
    Facts(Facts),
    Loading,
    /// The key was refused.
    Refused(u16),
}

/// Asks llama-server's `/props`; of other servers only what `/v1/models` says.
///
/// # Errors
/// [`HttpError`], when nobody answers.
pub fn ask(config: &ModelConfig, cancel: &Cancel) -> Result<Asked, HttpError> {
    let (status, body) = get(config, "/props", cancel)?;
    match status {
        200 => {
            if let Some(facts) = props(&body) {
                return Ok(Asked::Facts(facts));
            }
        }
        503 => return Ok(Asked::Loading),
        401 | 403 => return Ok(Asked::Refused(status)),
        _ => {}
    }
    let (status, body) = get(config, "/v1/models", cancel)?;
    Ok(match status {
        503 => Asked::Loading,
        401 | 403 => Asked::Refused(status),
        200 => Asked::Facts(models(&body, config.name.as_deref())),
        _ => Asked::Facts(Facts::default()),
    })
}

/// Whether the server has its model; `None`: nobody answers.
#[must_use]
pub fn is_ready(config: &ModelConfig, cancel: &Cancel) -> Option<bool> {
    get(config, "/health", cancel)
        .ok()
        .map(|(status, _)| status != 503)
}

fn get(config: &ModelConfig, path: &str, cancel: &Cancel) -> Result<(u16, Vec<u8>), HttpError> {
    let waits = Waits {
        first_byte: ASK_MS_MAX,
        silence: ASK_MS_MAX,
    };
    let url = format!("{}{path}", config.url);
    let answer = transport::send(&url, config.key.as_ref(), None, waits, cancel)?;
    Ok((answer.status, answer.whole()?))
}

/// Reads `/props`; `None`: a router, or something else.
fn props(body: &[u8]) -> Option<Facts> {
    let props: Value = serde_json::from_slice(body).ok()?;
    let context = props["default_generation_settings"]["n_ctx"]
        .as_u64()
        .filter(|count| *count > 0)?;
    let caps = &props["chat_template_caps"];
    let can = |name: &str| caps[name].as_bool();
    let knows_tools = match (can("supports_tools"), can("supports_tool_calls")) {
        (Some(tools), Some(calls)) => Some(tools && calls),
        (one, other) => one.or(other),
    };
    let template = props["chat_template"].as_str().unwrap_or_default();
    let control_tokens = ["bos_token", "eos_token"]
        .into_iter()
        .filter_map(|name| props[name].as_str())
        // One character, or none, would break up ordinary words.
        .filter(|token| token.chars().count() >= 3)
        .map(str::to_owned)
        .collect();
    Some(Facts {
        context_tokens: Some(context),
        model: props["model_alias"].as_str().map(str::to_owned),
        knows_tools,
        keeps_reasoning: can("supports_preserve_reasoning").unwrap_or(false),
        thinks: template.contains("</think>"),
        control_tokens,
    })
}

/// Reads `/v1/models` as llama-server's router, vLLM, OpenRouter and Ollama write it.
fn models(body: &[u8], name: Option<&str>) -> Facts {
    let models: Value = serde_json::from_slice(body).unwrap_or_default();
    let list = models["data"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let wanted = list
        .iter()
        .find(|model| name.is_some() && model["id"].as_str() == name);
    let Some(model) = wanted.or(list.first()) else {
        return Facts::default();
    };
    let context = [
        &model["meta"]["n_ctx"],
        &model["max_model_len"],
        &model["context_length"],
    ];
    Facts {
        context_tokens: context
            .into_iter()
            .find_map(Value::as_u64)
            .filter(|count| *count > 0),
        model: model["id"].as_str().map(str::to_owned),
        ..Facts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(name: &str) -> Vec<u8> {
        let path = format!(
            "{}/fixtures/{name}.response.http",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read_to_string(path).unwrap();
        text.split_once("\n\n").unwrap().1.as_bytes().to_vec()
    }

    #[test]
    fn recorded_props_tell_context_and_tools() {
        let facts = props(&body("props")).unwrap();
        assert_eq!(facts.context_tokens, Some(4096));
        assert_eq!(facts.knows_tools, Some(true));
        assert_eq!(facts.control_tokens, ["<|im_start|>", "<|im_end|>"]);
        let without = props(&body("props-template-without-tools")).unwrap();
        assert_eq!(without.knows_tools, Some(false));
    }

    #[test]
    fn a_router_is_asked_for_its_models() {
        assert_eq!(props(&body("router-props")), None);
        assert!(models(&body("models"), None).context_tokens.is_some());
        assert_eq!(
            models(&body("router-models-unloaded"), None).context_tokens,
            None
        );
        assert_eq!(models(b"<html>", None), Facts::default());
        let vllm = br#"{"data":[{"id":"a","max_model_len":1},{"id":"b","max_model_len":8192}]}"#;
        assert_eq!(models(vllm, Some("b")).context_tokens, Some(8192));
    }
}
