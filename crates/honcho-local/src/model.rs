//! Asks a language model over `POST /v1/chat/completions`, when one is configured. Called by the chat
//! handlers only; the texts it carries are never logged.

use std::time::Duration;

use bxcore::http;
use serde_json::{Value, json};

/// How long one answer may take in all.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Bytes of the model's answer.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

pub struct Model {
    url: String,
    name: String,
    key: Option<String>,
    agent: ureq::Agent,
}

/// The model gave no usable answer. Its own words are not kept.
#[derive(Debug, thiserror::Error)]
#[error("the model gave no usable answer ({0})")]
pub struct ModelError(&'static str);

impl Model {
    /// `url` without the path, such as `http://127.0.0.1:8080`.
    pub fn new(url: &str, name: &str, key: Option<String>) -> Self {
        let agent = http::config(url)
            // An answer that is none is none here, whatever it says.
            .http_status_as_error(true)
            .timeout_global(Some(ANSWER_MAX))
            .build()
            .into();
        let url = url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        Self {
            url,
            name: name.to_owned(),
            key,
            agent,
        }
    }

    /// # Errors
    /// It could not be reached, or did not answer with a text.
    pub fn ask(&self, instructions: &str, question: &str) -> Result<String, ModelError> {
        let body = json!({
            "model": self.name,
            "stream": false,
            "messages": [
                { "role": "system", "content": instructions },
                { "role": "user", "content": question },
            ],
        });
        let mut request = self.agent.post(format!("{}/v1/chat/completions", self.url));
        if let Some(key) = &self.key {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        let mut response = request
            .content_type("application/json")
            .send(body.to_string())
            .map_err(|_| ModelError("not reached, or refused"))?;
        let text = response
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_string()
            .map_err(|_| ModelError("broken off"))?;
        let value: Value = serde_json::from_str(&text).map_err(|_| ModelError("not JSON"))?;
        value["choices"][0]["message"]["content"]
            .as_str()
            .map(str::to_owned)
            .ok_or(ModelError("no text in it"))
    }
}
