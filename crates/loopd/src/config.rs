//! loopd's configuration: which model server, who the owner is, every bound. Read at start and at SIGHUP;
//! never holds a key's value in a form that shows.

use std::{path::Path, time::Duration};

use bxcore::{
    config::{self, ConfigError, Section},
    http, listen,
    report::Actionable,
    runbook::{self, Runbook},
    secrets::{Secret, SecretError, Source},
    url::is_plain,
};
use bxwire::Speaker;

/// Everything `loopd.toml` says.
#[derive(Debug, Clone)]
pub struct Config {
    pub model: ModelConfig,
    /// Who may give commands, and whose addresses count as the owner's.
    pub owner_speakers: Vec<Speaker>,
    pub limits: Limits,
    pub listen: listen::Limits,
}

/// `[model]`.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// Without a trailing `/` or `/v1`. Empty: none is configured.
    pub url: String,
    pub name: Option<String>,
    /// For servers that do not tell.
    pub context_tokens: Option<u64>,
    pub max_tokens: u64,
    pub temperature: Option<f64>,
    pub key: Option<Secret>,
}

/// `[limits]` besides the listener's.
#[derive(Debug, Clone)]
pub struct Limits {
    pub model_calls_max: u64,
    pub queue_turns_max: usize,
    /// Until the model server takes a connection.
    pub model_wait_ms: Duration,
    /// Until it has loaded its model.
    pub loading_wait_ms: Duration,
    pub loading_poll_ms: Duration,
    /// The first pause before another try; it doubles.
    pub retry_wait_ms: Duration,
    /// Until the first byte of an answer: it may stand in a queue.
    pub first_byte_ms_max: Duration,
    /// Between two bytes of an answer.
    pub silence_ms_max: Duration,
    /// Until memoryd answers; the turn goes on without it.
    pub memory_wait_ms: Duration,
    /// Until brokerd answers anything but a call.
    pub broker_wait_ms: Duration,
    /// Between two signs of life of a running tool; a person may have to answer.
    pub tool_silence_ms_max: Duration,
    /// A whole call of `ask_memory`, whatever it says meanwhile; more than brokerd waits.
    pub ask_memory_ms_max: Duration,
}

/// Turns that wait in a session.
pub const QUEUE_TURNS_MAX: usize = 16;
/// Model calls of a turn.
pub const MODEL_CALLS_MAX: u64 = 16;
/// Tokens of one reply, where the configuration says nothing.
const REPLY_TOKENS_USUAL: u64 = 2_048;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Roots(#[from] http::NoRoots),
}

impl Actionable for LoadError {
    fn runbook(&self) -> Option<Runbook> {
        match self {
            Self::Config(error) => error.runbook(),
            Self::Secret(_) => Some(runbook::SECRET_UNAVAILABLE),
            Self::Roots(_) => Some(http::NoRoots::RUNBOOK),
        }
    }
}

impl Config {
    /// Reads the file and the key it names, and for an address with TLS the system's root certificates.
    ///
    /// # Errors
    /// [`LoadError`]; every mistake of the file is named.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let (mut config, source) = config::load(path, read)?;
        if let Some(source) = source {
            config.model.key = Some(source.load("model")?);
        }
        http::ready(&config.model.url)?;
        Ok(config)
    }

    #[must_use]
    pub fn is_owner(&self, speaker: Option<&Speaker>) -> bool {
        speaker.is_some_and(|speaker| self.owner_speakers.contains(speaker))
    }
}

fn read(root: &mut Section<'_>) -> (Config, Option<Source>) {
    let mut source = None;
    let key_before = root.section("secrets").and_then(|mut secrets| {
        let mut model = secrets.section("model")?;
        Source::of(&mut model)
    });
    if let Some(found) = key_before {
        source = Some(found);
    }
    let model = match root.section("model") {
        Some(mut section) => model(&mut section),
        None => ModelConfig {
            url: String::new(),
            name: None,
            context_tokens: None,
            max_tokens: REPLY_TOKENS_USUAL,
            temperature: None,
            key: None,
        },
    };
    let owner_speakers = speakers(root);
    let (limits, listen) = match root.section("limits") {
        Some(mut section) => (limits(&mut section), listen::Limits::of(&mut section)),
        None => (Limits::default(), listen::Limits::default()),
    };
    let config = Config {
        model,
        owner_speakers,
        limits,
        listen,
    };
    (config, source)
}

fn model(section: &mut Section<'_>) -> ModelConfig {
    let url = section.required("url").unwrap_or_default();
    if !url.is_empty() && !is_plain(&url) {
        section.problem(
            "url",
            "must be an http:// or https:// address without a name, query or fragment",
        );
    }
    let base = url.trim_end_matches('/');
    let base = base
        .strip_suffix("/v1")
        .unwrap_or(base)
        .trim_end_matches('/');
    let context_tokens = section.number("context_tokens", 0, 0..=100_000_000);
    let temperature = section.float("temperature", -1.0, 0.0..=2.0);
    ModelConfig {
        url: base.into(),
        name: section.string("name"),
        context_tokens: (context_tokens > 0).then_some(context_tokens),
        max_tokens: section.number("max_tokens", REPLY_TOKENS_USUAL, 16..=32_768),
        temperature: (temperature >= 0.0).then_some(temperature),
        key: None,
    }
}

fn speakers(root: &mut Section<'_>) -> Vec<Speaker> {
    let mut found = Vec::new();
    for text in root.strings("owner_speakers") {
        match text.parse() {
            Ok(speaker) => found.push(speaker),
            Err(_) => root.problem("owner_speakers", "must be a list of \"realm/name\""),
        }
    }
    if found.is_empty() {
        found.push(Speaker {
            realm: "local".into(),
            name: "owner".into(),
        });
    }
    found
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            model_calls_max: MODEL_CALLS_MAX,
            queue_turns_max: QUEUE_TURNS_MAX,
            model_wait_ms: Duration::from_secs(10),
            loading_wait_ms: Duration::from_secs(600),
            loading_poll_ms: Duration::from_secs(1),
            retry_wait_ms: Duration::from_millis(500),
            first_byte_ms_max: Duration::from_secs(600),
            silence_ms_max: Duration::from_secs(120),
            memory_wait_ms: Duration::from_millis(300),
            broker_wait_ms: Duration::from_secs(2),
            tool_silence_ms_max: Duration::from_secs(900),
            ask_memory_ms_max: Duration::from_secs(180),
        }
    }
}

fn limits(section: &mut Section<'_>) -> Limits {
    let usual = Limits::default();
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let queue = section.number("queue_turns_max", QUEUE_TURNS_MAX as u64, 1..=1_024);
    Limits {
        model_calls_max: section.number("model_calls_max", MODEL_CALLS_MAX, 1..=100),
        queue_turns_max: usize::try_from(queue).unwrap_or(QUEUE_TURNS_MAX),
        model_wait_ms: section.millis("model_wait_ms", ms(usual.model_wait_ms)),
        loading_wait_ms: section.millis("loading_wait_ms", ms(usual.loading_wait_ms)),
        loading_poll_ms: section.millis("loading_poll_ms", ms(usual.loading_poll_ms)),
        retry_wait_ms: section.millis("retry_wait_ms", ms(usual.retry_wait_ms)),
        first_byte_ms_max: section.millis("first_byte_ms_max", ms(usual.first_byte_ms_max)),
        silence_ms_max: section.millis("silence_ms_max", ms(usual.silence_ms_max)),
        memory_wait_ms: section.millis("memory_wait_ms", ms(usual.memory_wait_ms)),
        broker_wait_ms: section.millis("broker_wait_ms", ms(usual.broker_wait_ms)),
        tool_silence_ms_max: section.millis("tool_silence_ms_max", ms(usual.tool_silence_ms_max)),
        ask_memory_ms_max: section.millis("ask_memory_ms_max", ms(usual.ask_memory_ms_max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Config, ConfigError> {
        config::parse(Path::new("loopd.toml"), text, read).map(|(config, _)| config)
    }

    #[test]
    fn the_address_is_taken_with_and_without_its_path() {
        for url in [
            "http://m:8080",
            "http://m:8080/",
            "http://m:8080/v1",
            "http://m:8080/v1/",
        ] {
            let config = parsed(&format!("[model]\nurl = \"{url}\"\n")).unwrap();
            assert_eq!(config.model.url, "http://m:8080");
        }
    }

    #[test]
    fn the_owner_is_local_unless_somebody_else_is_named() {
        assert_eq!(
            parsed("").unwrap().owner_speakers[0].to_string(),
            "local/owner"
        );
        let config = parsed("owner_speakers = [\"home/ann\"]").unwrap();
        assert_eq!(config.owner_speakers.len(), 1);
        assert_eq!(config.owner_speakers[0].to_string(), "home/ann");
    }

    #[test]
    fn every_mistake_is_named() {
        let text = "owner_speakers = [\"ann\"]\n[model]\nurl = \"ftp://x\"\nmax_tokens = 1\n[limits]\nqueue = 3\n";
        let Err(ConfigError::Invalid { problems, .. }) = parsed(text) else {
            panic!("taken");
        };
        let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 3, 4, 6], "{problems:?}");
    }
}
