//! The tool `facts`, as far as it reads; `write` does the rest: what Honcho concluded about the owner in the agent's own trusted workspace.
//! Called by memoryd's service on a connection's thread, which waits for one call with a limit.

use std::collections::BTreeSet;

use bxcore::secrets::Secret;
use bxsanitize::neutralise;
use bxwire::{Cause, Class, Label, links::memory_tools::FactsOp};

use super::client::{Client, Fact, Found};
use crate::{
    current::Current,
    denied::Denied,
    fleet::{hits::set_in, service::stays_here},
    recall::{Answer, Reader, tag},
    screen::one_line,
    sync::{config::HonchoConfig, request::Failure},
};

/// Facts given when the call names no number, and at most.
const FACTS: usize = 8;
const FACTS_MAX: usize = 20;
/// Longest query, in characters.
const QUERY_CHARS_MAX: usize = 2_000;
/// Longest fact, and everything of a snapshot, in characters.
const FACT_CHARS_MAX: usize = 500;
const SNAPSHOT_CHARS_MAX: usize = 6_000;
/// Longest id or level that is shown, in characters; Honcho's own are far shorter.
const WORD_CHARS_MAX: usize = 40;
/// Before each line that is Honcho's.
const INDENT: &str = "  ";
/// Tools that are there without Honcho, too.
const LOCAL: [&str; 2] = ["memory", "recall"];

/// The tool. Without `[honcho]` there is none.
pub struct Facts(Option<Parts>);

struct Parts {
    config: HonchoConfig,
    client: Current<Client>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Refusal {
    /// The call is wrong or not allowed, for the model.
    Denied(String),
    /// The call writes, and the caller carries it out.
    Writes,
}

impl Facts {
    /// Without Honcho.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    #[must_use]
    pub fn new(config: &HonchoConfig, key: Option<&Secret>) -> Self {
        Self(Some(Parts {
            config: config.clone(),
            client: Current::new(client(config, key)),
        }))
    }

    /// A new key.
    pub fn reload(&self, key: Option<&Secret>) {
        if let Some(parts) = &self.0 {
            parts.client.replace(client(&parts.config, key));
        }
    }

    /// The tools that the model gets of those that memoryd serves.
    #[must_use]
    pub fn tools(&self) -> Vec<String> {
        let chosen: BTreeSet<&str> = match &self.0 {
            None => LOCAL.into(),
            Some(parts) => parts
                .config
                .tools
                .iter()
                .copied()
                .chain(["memory"])
                .collect(),
        };
        chosen.into_iter().map(str::to_owned).collect()
    }

    /// Whether the owner chose other tools than this one.
    #[must_use]
    pub fn leaves_out(&self, tool: &str) -> bool {
        let parts = self.0.as_ref();
        parts.is_some_and(|parts| !parts.config.tools.contains(tool))
    }

    /// Answers a call that reads.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn read(
        &self,
        arguments: &FactsOp,
        reader: Reader,
        is_secret: impl Fn(&str) -> bool,
    ) -> Result<Answer, Refusal> {
        let denied = |text: &str| Err(Refusal::Denied(text.into()));
        let Some(parts) = &self.0 else {
            return denied("not asked: Honcho is not configured");
        };
        let query = match arguments {
            FactsOp::Search { query, .. } => Some(query.trim()),
            FactsOp::Snapshot { query } => query.as_deref().map(str::trim),
            FactsOp::Profile { card: None } => None,
            FactsOp::Conclude { .. }
            | FactsOp::Forget { .. }
            | FactsOp::Profile { card: Some(_) } => {
                return Err(Refusal::Writes);
            }
        };
        if query.is_some_and(|query| query.is_empty() || query.chars().count() > QUERY_CHARS_MAX) {
            return denied("`query` must have 1 to 2000 characters");
        }
        if let Some(line) = stays_here(reader, query.is_some_and(is_secret)) {
            return Ok(said(line));
        }
        if reader.audience.class_max() < Class::Private {
            return Ok(said(
                "Not asked: what is known of the owner, which others who read this session may not see.",
            ));
        }
        let client = parts.client.get();
        let found = match arguments {
            FactsOp::Search { query, k } => {
                let wanted = k.map_or(FACTS, |k| usize::try_from(k).unwrap_or(FACTS_MAX));
                client
                    .facts(query.trim(), wanted.clamp(1, FACTS_MAX))
                    .map(|facts| facts.iter().map(shown).collect())
            }
            FactsOp::Snapshot { .. } => client.snapshot(query).map(|found| {
                let found = found.unwrap_or_default();
                let facts = found.facts.map(|facts| {
                    let head = tag("memory", Label::PRIVATE);
                    format!(
                        "{head} concluded about the owner:\n{}",
                        set_in(&facts, SNAPSHOT_CHARS_MAX, INDENT)
                    )
                });
                facts.into_iter().chain(card(&found.card)).collect()
            }),
            FactsOp::Profile { .. } => client
                .card()
                .map(|lines| card(&lines).into_iter().collect()),
            FactsOp::Conclude { .. } | FactsOp::Forget { .. } => return Err(Refusal::Writes),
        };
        Ok(answer(found, reader))
    }

    /// The conclusion with this id, for a call that deletes it. `Ok(None)`: it is not there.
    ///
    /// # Errors
    /// [`Denied::HonchoAway`].
    pub fn conclusion(&self, id: &str) -> Result<Option<Found>, Denied> {
        let parts = self.0.as_ref().ok_or(Denied::HonchoAway)?;
        parts.client.get().conclusion(id).map_err(away)
    }

    /// What is configured; `None`: no Honcho.
    #[must_use]
    pub fn config(&self) -> Option<&HonchoConfig> {
        self.0.as_ref().map(|parts| &parts.config)
    }

    /// The owner's card, for a call that replaces it.
    ///
    /// # Errors
    /// [`Denied::HonchoAway`].
    pub fn card(&self) -> Result<Vec<String>, Denied> {
        let parts = self.0.as_ref().ok_or(Denied::HonchoAway)?;
        parts.client.get().card().map_err(away)
    }
}

fn away(failed: Failure) -> Denied {
    unanswered(failed);
    Denied::HonchoAway
}

fn unanswered(failed: Failure) {
    tracing::warn!(
        reason = failed.kind(),
        status = failed.status(),
        "facts had no answer"
    );
}

fn client(config: &HonchoConfig, key: Option<&Secret>) -> Client {
    Client::new(config, key, config.read.limits.source_ms_max)
}

fn answer(found: Result<Vec<String>, Failure>, reader: Reader) -> Answer {
    let parts: Vec<String> = match found {
        Ok(parts) => parts,
        Err(failed) => {
            unanswered(failed);
            return said("own: unavailable");
        }
    };
    if parts.is_empty() {
        return said("Nothing found.");
    }
    let cause = Cause {
        source: "facts read what Honcho concluded about the owner".into(),
        label: Label::PRIVATE,
    };
    let causes = match reader.label.covers(Label::PRIVATE) {
        true => Vec::new(),
        false => vec![cause],
    };
    Answer {
        text: parts.join("\n"),
        label: Label::PRIVATE,
        causes,
    }
}

/// In words of our own, which bring nothing in.
fn said(text: &str) -> Answer {
    Answer {
        text: text.into(),
        label: Label::default(),
        causes: Vec::new(),
    }
}

/// One word of Honcho's, inert.
pub(super) fn word(text: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || "-_:.".contains(*c);
    text.chars().filter(plain).take(WORD_CHARS_MAX).collect()
}

fn shown(fact: &Fact) -> String {
    format!(
        "{} concluded ({}), {}, own:{}\n{INDENT}{}",
        tag("memory", Label::PRIVATE),
        word(&fact.level),
        word(&fact.at),
        word(&fact.id),
        one_line(&neutralise(&one_line(&fact.text), FACT_CHARS_MAX))
    )
}

fn card(lines: &[String]) -> Option<String> {
    let lines: Vec<_> = lines.iter().map(|line| one_line(line)).collect();
    let shown = set_in(&lines.join("\n"), SNAPSHOT_CHARS_MAX, INDENT);
    (!shown.is_empty()).then(|| {
        let head = tag("memory", Label::PRIVATE);
        format!("{head} the owner's card:\n{shown}")
    })
}
