//! The client of the model server: sends a request, reads the stream, waits and tries again where that helps.
//! Called by `turn`; never logs or shows what a server said.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bxcore::{
    report::Actionable,
    runbook::{self, Runbook},
};

use crate::{
    cancel::Cancel,
    config::{Limits, ModelConfig},
    errors::Reaction,
    exchange::{self, Failure},
    prompt::{Options, Reasoning, Tools},
    server::{self, Asked, Facts},
    stream::{Assembled, Finish, StreamError},
    think::Live,
    transport::HttpError,
};

/// Longest pause between two tries.
const RETRY_WAIT_MS_MAX: Duration = Duration::from_secs(10);
/// Tries of one request in all, whatever their reasons.
const TRIES_MAX: u32 = 40;

/// Why a model call gave no reply.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("no model server is configured")]
    NotConfigured,
    #[error("the model server cannot be reached")]
    Unreachable(#[source] Option<HttpError>),
    #[error("the model server was still loading its model when the wait was over")]
    Loading,
    #[error(
        "the model server refused (status {0}): check its address, the key and the model's name"
    )]
    Refused(u16),
    #[error("the conversation does not fit into the model's context any more; start a new session")]
    ContextFull,
    #[error(
        "the message, with the instructions and tools before it, is too long for the model's context; send a shorter one"
    )]
    MessageTooLong,
    #[error("the model server is busy (status {0})")]
    Busy(u16),
    #[error("the model server stopped answering")]
    Silent,
    #[error("the model server's answer broke off")]
    Broken,
    #[error("the model server cannot take this request (status {0})")]
    Unusable(u16),
    #[error("the model's reply cannot be used")]
    Reply(#[source] StreamError),
    #[error("the turn was stopped")]
    Cancelled,
    #[error("the request cannot be written")]
    Request(#[source] serde_json::Error),
}

impl Actionable for ModelError {
    fn runbook(&self) -> Option<Runbook> {
        Some(match self {
            Self::NotConfigured
            | Self::Unreachable(_)
            | Self::Loading
            | Self::Silent
            | Self::Broken => runbook::MODEL_UNREACHABLE,
            Self::Refused(_) => runbook::MODEL_REFUSED,
            Self::ContextFull | Self::MessageTooLong => runbook::CONTEXT_FULL,
            Self::Busy(_) | Self::Unusable(_) | Self::Reply(_) | Self::Request(_) => {
                runbook::MODEL_UNUSABLE
            }
            Self::Cancelled => runbook::TURN_INTERRUPTED,
        })
    }
}

/// The server, as far as it is known.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    limits: Limits,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    facts: Option<Facts>,
    /// A reply held thinking that nothing opened.
    hidden_thinking: bool,
    /// The last failure, while it lasts.
    outage: Option<Outage>,
}

/// What is wrong with the server, in fixed words, and the entry to open.
pub type Outage = (&'static str, Runbook);

/// What a caller learns while a reply comes.
pub enum Event<'a> {
    /// Text that may be shown.
    Text(&'a str),
    /// A wait has begun, in words for a person.
    Waiting(&'static str),
}

/// A reply, and how it was shown.
#[derive(Debug)]
pub struct Spoken {
    pub reply: Assembled,
    pub live: Live,
}

/// What is left to try.
struct Tries {
    left: u32,
    by_reaction: u32,
    broken: u32,
    repairs: u32,
    until: Instant,
    pause: Duration,
    told: bool,
}

impl Model {
    #[must_use]
    pub fn new(config: ModelConfig, limits: Limits) -> Self {
        Self {
            config,
            limits,
            known: Mutex::default(),
        }
    }

    /// What the server says of itself, asked once it can be asked.
    ///
    /// # Errors
    /// [`ModelError`], when it cannot be reached in time.
    pub fn facts(
        &self,
        cancel: &Cancel,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<Facts, ModelError> {
        if let Some(facts) = self.lock().facts.clone() {
            return Ok(facts);
        }
        if self.config.url.is_empty() {
            return Err(ModelError::NotConfigured);
        }
        let mut tries = self.tries();
        let mut facts = loop {
            tries.left = tries.left.checked_sub(1).ok_or(ModelError::Loading)?;
            match server::ask(&self.config, cancel) {
                Ok(Asked::Facts(facts)) => break facts,
                Ok(Asked::Loading) => {
                    self.load(cancel, on)?;
                    tries.until = Instant::now() + self.limits.model_wait_ms;
                }
                Ok(Asked::Refused(status)) => return Err(self.ill(ModelError::Refused(status))),
                Err(error) => self.again(error, &mut tries, cancel, on)?,
            }
        };
        facts.context_tokens = self.config.context_tokens.or(facts.context_tokens);
        if facts.knows_tools == Some(false) {
            tracing::warn!("the model's chat template knows no tools; running without them");
        }
        self.lock().facts = Some(facts.clone());
        Ok(facts)
    }

    /// How requests to this server are written.
    #[must_use]
    pub fn options(&self, facts: &Facts) -> Options {
        let room = facts
            .context_tokens
            .map_or(u64::MAX, |tokens| (tokens / 2).max(1));
        Options {
            model: self
                .config
                .name
                .clone()
                .or(facts.model.clone())
                .unwrap_or_else(|| "default".into()),
            max_tokens: self.config.max_tokens.min(room),
            context_tokens: facts.context_tokens,
            temperature: self.config.temperature,
            tools: if facts.knows_tools == Some(false) {
                Tools::LeftOut
            } else {
                Tools::Offered
            },
            reasoning: if facts.keeps_reasoning {
                Reasoning::Always
            } else {
                Reasoning::ThisTurn
            },
            control_tokens: facts.control_tokens.clone(),
        }
    }

    /// Has the model speak. `write` makes the request's bytes; `on` gets text as it comes.
    ///
    /// # Errors
    /// [`ModelError`]; text may have been shown before.
    pub fn speak(
        &self,
        options: &mut Options,
        write: &dyn Fn(&Options) -> Result<Vec<u8>, serde_json::Error>,
        cancel: &Cancel,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<Spoken, ModelError> {
        let mut tries = self.tries();
        loop {
            tries.left = tries.left.checked_sub(1).ok_or(ModelError::Broken)?;
            let body = write(options).map_err(ModelError::Request)?;
            let mut live = Live::new(self.holds());
            let failure =
                match exchange::once(&self.config, &self.limits, &body, &mut live, cancel, on) {
                    Ok(reply) => {
                        if self.context_is_full(&reply) {
                            return Err(ModelError::ContextFull);
                        }
                        self.well();
                        return Ok(Spoken { reply, live });
                    }
                    Err(failure) => failure,
                };
            if cancel.reason().is_some() {
                return Err(ModelError::Cancelled);
            }
            self.react(failure, options, &mut tries, live.has_shown(), cancel, on)?;
        }
    }

    /// A reply held thinking that nothing opened: from now on nothing is shown before it is whole.
    pub fn hold_replies(&self) {
        self.lock().hidden_thinking = true;
    }

    /// For `status`: whether it is configured, and what is wrong.
    #[must_use]
    pub fn outage(&self) -> Option<Outage> {
        if self.config.url.is_empty() {
            return Some(("no model server is configured", runbook::MODEL_UNREACHABLE));
        }
        self.lock().outage
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.config.url
    }

    fn holds(&self) -> bool {
        let known = self.lock();
        known.hidden_thinking || known.facts.as_ref().is_some_and(|facts| facts.thinks)
    }

    fn tries(&self) -> Tries {
        Tries {
            left: TRIES_MAX,
            by_reaction: 0,
            broken: 0,
            repairs: 0,
            until: Instant::now() + self.limits.model_wait_ms,
            pause: self.limits.retry_wait_ms,
            told: false,
        }
    }

    fn react(
        &self,
        failure: Failure,
        options: &mut Options,
        tries: &mut Tries,
        shown: bool,
        cancel: &Cancel,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ModelError> {
        let (error, after) = match failure {
            Failure::Before(error) => return self.again(error, tries, cancel, on),
            Failure::Answered(error, after) => (error, after),
            Failure::Stream(StreamError::Server(error)) if !shown => (error, None),
            Failure::Stream(StreamError::Server(error)) => {
                return Err(match error.reaction() {
                    Reaction::ContextFull => ModelError::ContextFull,
                    _ => self.ill(ModelError::Broken),
                });
            }
            Failure::During(HttpError::Silent) => {
                return self.broken(ModelError::Silent, tries, shown);
            }
            Failure::During(_) | Failure::Stream(StreamError::Broken) => {
                return self.broken(ModelError::Broken, tries, shown);
            }
            Failure::Stream(error) => return Err(ModelError::Reply(error)),
        };
        let status = error.status.unwrap_or(500);
        tracing::debug!(status, "the model server refused a request");
        match error.reaction() {
            Reaction::Load => {
                self.load(cancel, on)?;
                // The wait for a server that is gone begins after it.
                tries.until = Instant::now() + self.limits.model_wait_ms;
                Ok(())
            }
            Reaction::Wait => self.pause(after, ModelError::Busy(status), tries, cancel, on),
            Reaction::Retry { times } => {
                if tries.by_reaction >= times {
                    return Err(ModelError::Unusable(status));
                }
                tries.by_reaction += 1;
                self.pause(None, ModelError::Unusable(status), tries, cancel, on)
            }
            Reaction::Refused | Reaction::NotFound => Err(self.ill(ModelError::Refused(status))),
            Reaction::ContextFull => Err(ModelError::ContextFull),
            Reaction::Repair if tries.repairs == 0 => {
                tries.repairs = 1;
                options.reasoning = Reasoning::Never;
                Ok(())
            }
            Reaction::WithoutTools if options.tools == Tools::Offered => {
                options.tools = Tools::LeftOut;
                tracing::warn!("the model server takes no tools; running without them");
                if let Some(facts) = &mut self.lock().facts {
                    facts.knows_tools = Some(false);
                }
                Ok(())
            }
            Reaction::Repair | Reaction::WithoutTools | Reaction::Report => {
                Err(ModelError::Unusable(status))
            }
        }
    }

    /// A stream that broke is tried once more, if nobody has seen any of it.
    fn broken(&self, error: ModelError, tries: &mut Tries, shown: bool) -> Result<(), ModelError> {
        if shown || tries.broken > 0 {
            return Err(self.ill(error));
        }
        tries.broken = 1;
        Ok(())
    }

    /// Nobody answered: try again until the wait is over.
    fn again(
        &self,
        error: HttpError,
        tries: &mut Tries,
        cancel: &Cancel,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ModelError> {
        self.lock().facts = None;
        match error {
            HttpError::Cancelled => Err(ModelError::Cancelled),
            HttpError::Silent => Err(self.ill(ModelError::Silent)),
            error => self.pause(
                None,
                ModelError::Unreachable(Some(error)),
                tries,
                cancel,
                on,
            ),
        }
    }

    fn pause(
        &self,
        asked: Option<Duration>,
        error: ModelError,
        tries: &mut Tries,
        cancel: &Cancel,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ModelError> {
        let pause = asked.unwrap_or(tries.pause).min(RETRY_WAIT_MS_MAX);
        if Instant::now() + pause > tries.until {
            return Err(self.ill(error));
        }
        if !std::mem::replace(&mut tries.told, true) {
            on(Event::Waiting(
                "The model server does not answer yet; waiting for it.",
            ));
        }
        tries.pause = (tries.pause * 2).min(RETRY_WAIT_MS_MAX);
        if cancel.wait(pause) {
            return Err(ModelError::Cancelled);
        }
        Ok(())
    }

    /// Waits until the server has loaded its model.
    fn load(&self, cancel: &Cancel, on: &mut dyn FnMut(Event<'_>)) -> Result<(), ModelError> {
        on(Event::Waiting(
            "The model server is loading its model; waiting for it.",
        ));
        let until = Instant::now() + self.limits.loading_wait_ms;
        loop {
            if cancel.wait(self.limits.loading_poll_ms) {
                return Err(ModelError::Cancelled);
            }
            match server::is_ready(&self.config, cancel) {
                // Gone while it loaded: the next request says so.
                Some(true) | None => return Ok(()),
                Some(false) if Instant::now() > until => return Err(self.ill(ModelError::Loading)),
                Some(false) => {}
            }
        }
    }

    /// The reply was cut because nothing more fits, not because it was long.
    fn context_is_full(&self, reply: &Assembled) -> bool {
        let context = self
            .lock()
            .facts
            .as_ref()
            .and_then(|facts| facts.context_tokens);
        reply.finish == Finish::Length
            && reply.usage.zip(context).is_some_and(|(usage, context)| {
                usage.prompt_tokens + usage.completion_tokens >= context
            })
    }

    /// Logs an outage when it begins.
    fn ill(&self, error: ModelError) -> ModelError {
        let words = match &error {
            ModelError::Refused(_) => "the model server refuses",
            ModelError::Loading => "the model server is loading",
            ModelError::Silent | ModelError::Broken => "the model server stops in the middle",
            ModelError::Busy(_) => "the model server is busy",
            _ => "the model server cannot be reached",
        };
        let outage = (words, error.runbook().unwrap_or(runbook::MODEL_UNREACHABLE));
        let before = self.lock().outage.replace(outage);
        if before != Some(outage) {
            tracing::warn!("{}", bxcore::report::actionable(&error));
        }
        error
    }

    fn well(&self) {
        if self.lock().outage.take().is_some() {
            tracing::info!("the model server answers again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
