//! roncho's clients for reading, and the one call that roncho lacks. Called by `chat` on threads of its own. Creates nothing; an error keeps a kind and a status, never a body.

use std::time::Duration;

use bxcore::secrets::Secret;
use roncho::blocking::{Client, Error};

use crate::sync::{config::HonchoConfig, request::Failure};

/// Largest answer that is read, in bytes: as many of the longest messages as one search asks for.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A client of one workspace with its own key. `read_ms_max`: without a byte.
///
/// # Errors
/// What roncho says of the URL, without anything secret in it.
pub fn client(
    config: &HonchoConfig,
    workspace: &str,
    key: Option<&Secret>,
    read_ms_max: Duration,
) -> Result<Client, String> {
    // Without this roncho would take a key from a file of its own.
    let mut builder = Client::builder()
        .without_config_file()
        .base_url(&config.url)
        .workspace_id(workspace)
        .connect_timeout(config.limits.connect_ms_max.min(read_ms_max))
        .read_timeout(read_ms_max)
        .max_body(ANSWER_BYTES_MAX);
    if let Some(key) = key {
        builder = builder.api_key(key.expose());
    }
    builder.build().map_err(|error| match error {
        Error::Config(what) => what,
        _ => "the certificate store cannot be used".into(),
    })
}

/// Asks whether peers are there, which roncho's client cannot.
pub struct Peers {
    agent: ureq::Agent,
    /// Of the workspace.
    url: String,
    key: Option<Secret>,
}

impl Peers {
    #[must_use]
    pub fn new(config: &HonchoConfig, workspace: &str, key: Option<&Secret>) -> Self {
        let limit = config.read.limits.source_ms_max;
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(0)
            .proxy(None)
            .timeout_global(Some(limit))
            .build()
            .new_agent();
        Self {
            agent,
            url: format!(
                "{}/v3/workspaces/{workspace}",
                config.url.trim_end_matches('/')
            ),
            key: key.cloned(),
        }
    }

    /// Whether a peer is there. A chat with one that is not would make it.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn has(&self, peer: &str) -> Result<bool, Failure> {
        let mut request = self
            .agent
            .get(format!("{}/peers/{peer}/card", self.url))
            .header("connection", "close");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {}", key.expose()));
        }
        let unknown = |kind| Failure::Unknown { kind, status: None };
        let answer = request.call().map_err(|error| match error {
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Failure::NotReached {
                kind: "cannot connect",
            },
            ureq::Error::Timeout(_) => unknown("no answer in time"),
            _ => unknown("the connection broke"),
        })?;
        match answer.status().as_u16() {
            200..=299 => Ok(true),
            404 => Ok(false),
            status @ (401 | 403) => Err(Failure::KeyRefused { status }),
            status => Err(Failure::Unknown {
                kind: "an answer that does not fit",
                status: Some(status),
            }),
        }
    }
}
