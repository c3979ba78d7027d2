//! The small endpoints beside the chat: what the server says about itself, and counting. Called by
//! `server`; takes values, returns JSON.

use serde_json::{Value, json};

use crate::completion::FINGERPRINT;
use crate::server::Options;
use crate::tokens;

/// `GET /health`.
pub fn health() -> Value {
    json!({"status": "ok"})
}

/// `GET /props`.
pub fn props(options: &Options) -> Value {
    let tools = options.supports_tools;
    json!({
        "default_generation_settings": {"n_ctx": options.n_ctx, "params": {}},
        "total_slots": options.total_slots,
        "model_alias": options.model,
        "model_path": "",
        "modalities": {"vision": false, "video": false, "audio": false},
        "endpoint_slots": false, "endpoint_props": false, "endpoint_metrics": false, "ui": false,
        "chat_template": "",
        "chat_template_caps": {
            "supports_object_arguments": tools, "supports_parallel_tool_calls": tools,
            "supports_preserve_reasoning": true, "supports_reasoning_effort": false,
            "supports_string_content": true, "supports_system_role": true,
            "supports_tool_calls": tools, "supports_tools": tools, "supports_typed_content": true,
        },
        "bos_token": "<|im_start|>", "eos_token": crate::prompt::END,
        "build_info": FINGERPRINT, "is_sleeping": false,
    })
}

/// `GET /v1/models`.
pub fn models(options: &Options) -> Value {
    json!({"object": "list", "data": [{
        "id": options.model, "aliases": [options.model], "tags": [], "object": "model", "created": 0,
        "owned_by": "model-local",
        "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
        "meta": {"n_vocab": tokens::VOCABULARY, "n_ctx": options.n_ctx, "n_ctx_train": options.n_ctx},
    }]})
}

/// `POST /tokenize`.
pub fn tokenize(request: &Value) -> Value {
    let pieces = tokens::pieces(request["content"].as_str().unwrap_or_default());
    let id = |piece: &str| tokens::hash(piece) % tokens::VOCABULARY;
    let list: Vec<Value> = if request["with_pieces"] == true {
        pieces
            .into_iter()
            .map(|piece| json!({"id": id(piece), "piece": piece}))
            .collect()
    } else {
        pieces.into_iter().map(|piece| id(piece).into()).collect()
    };
    json!({"tokens": list})
}

/// `POST /v1/chat/completions/input_tokens`.
pub fn input_tokens(count: usize) -> Value {
    json!({"input_tokens": count, "object": "response.input_tokens"})
}
