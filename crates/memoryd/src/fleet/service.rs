//! Every source, and what is asked of which. Made by `run`, called by memoryd's service. Decides by configuration,
//! session and call; what a source answers changes nothing of that.

use std::{
    collections::BTreeMap,
    sync::mpsc::{Receiver, channel},
    time::Instant,
};

use bxcore::{runbook, secrets::Secret};
use bxwire::{
    Label, Speaker,
    links::{control::Notice, memory_tools::Recall},
};

use super::{
    chat::Chats,
    hits::{Own, Place},
    reads::Client,
    source::{self, Arrival, Away, GRACE_MS, Search, Source, Spec},
};
use crate::{
    recall::{Asker, Elsewhere, Queries, Query, Reach, Reader, Stay},
    sync::config::{HonchoConfig, Role},
};

/// Keys of all workspaces that are read.
pub struct ReadKeys {
    pub own: BTreeMap<Role, Secret>,
    pub readers: BTreeMap<String, Secret>,
}

/// The fleet as this agent reads it. Without `[honcho]` there is none.
pub struct Fleet(Option<Parts>);

struct Parts {
    config: HonchoConfig,
    sources: Vec<Source>,
    chats: Chats,
}

impl Fleet {
    /// Without Honcho.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Starts a thread for each source.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(
        config: HonchoConfig,
        keys: &ReadKeys,
        installation: String,
    ) -> std::io::Result<Self> {
        let own = Own {
            agent: config.agent.clone(),
            installation,
        };
        let spec = |place, label, peers| Spec {
            place,
            label,
            peers,
            own: own.clone(),
            distance: f64::from(config.read.distance_milli) / 1000.0,
            limits: config.read.limits,
        };
        let readers = config.read.readers.iter().map(|reader| {
            // Of a conclusion that memoryd writes, observer and observed are one.
            let peers = vec![reader.agent.clone(), config.owner.clone()];
            spec(Place::Reader(reader.agent.clone()), reader.label, peers)
        });
        let specs: Vec<_> = readers
            .chain([spec(Place::Fleet, Label::UNLABELLED, Vec::new())])
            .collect();
        let mut sources = Vec::new();
        for spec in specs {
            let client = reading(&config, &spec.place, keys);
            sources.push(Source::start(spec, client)?);
        }
        let chats = Chats::start(&config, keys)?;
        Ok(Self(Some(Parts {
            config,
            sources,
            chats,
        })))
    }

    /// New keys.
    pub fn reload(&self, keys: &ReadKeys) {
        let Some(parts) = &self.0 else { return };
        for source in &parts.sources {
            source.reload(reading(&parts.config, &source.spec.place, keys));
        }
        parts.chats.reload(&parts.config, keys);
    }

    /// Whose turn it is. `source` finds the client or channel it came through, and is asked only where it matters.
    #[must_use]
    pub fn asker(
        &self,
        speaker: Option<&Speaker>,
        source: impl FnOnce() -> Option<String>,
    ) -> Asker {
        let Some(Parts { config, .. }) = &self.0 else {
            return Asker::Usual;
        };
        let source = match config.exclude_sources.is_empty() {
            true => None,
            false => source(),
        };
        match config.excludes(speaker, source.as_deref()) {
            true => Asker::Excluded,
            false => Asker::Usual,
        }
    }

    /// Asks every source that this call reaches and that answers. `holds_key`: the query must not leave.
    #[must_use]
    pub fn search(
        &self,
        query: &Query,
        arguments: &Recall,
        reader: Reader,
        holds_key: bool,
    ) -> Asked {
        let mut asked = Asked::default();
        let Some(parts) = &self.0 else { return asked };
        if let Some(line) = stays_here(reader, holds_key) {
            asked.lines.push(line.into());
            return asked;
        }
        let reach = Reach::of(arguments, query, reader);
        let (mut above, mut untrusted) = (Vec::new(), Vec::new());
        let deadline = Instant::now() + parts.config.read.limits.source_ms_max;
        asked.deadline = Some(deadline + GRACE_MS);
        let (answer, answered) = channel();
        for (number, source) in parts.sources.iter().enumerate() {
            let name = source.spec.place.name();
            if source.spec.label.class > reach.class {
                above.push(name);
                continue;
            }
            if !reach.holds(source.spec.label) {
                untrusted.push(name);
                continue;
            }
            let (was_asked, otherwise) = source.ask(Search {
                query: query.clone(),
                deadline,
                answer: answer.clone(),
                number,
            });
            asked.sources.insert(number, (name.into(), otherwise));
            if was_asked == source::Asked::Yes {
                asked.open += 1;
            }
        }
        asked.answered = Some(answered);
        if !above.is_empty() {
            asked.lines.push(format!(
                "Not asked: {}, whose memory is above {}.",
                above.join(", "),
                reach.class.name()
            ));
        }
        if !untrusted.is_empty() {
            asked.lines.push(format!(
                "Not asked: {}, whose memory is untrusted.",
                untrusted.join(", ")
            ));
        }
        asked
    }

    /// The part that chats.
    #[must_use]
    pub fn chats(&self) -> Option<&Chats> {
        self.0.as_ref().map(|parts| &parts.chats)
    }

    /// What a person should know.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        let sources = self.0.iter().flat_map(|parts| &parts.sources);
        sources
            .filter_map(|source| {
                let down = source.down()?;
                let entry = if down.key_refused {
                    runbook::HONCHO_KEY_REFUSED
                } else {
                    runbook::RECALL_SOURCE_UNAVAILABLE
                };
                Some(Notice {
                    text: format!(
                        "recall does not search {} since {}: {}",
                        source.spec.place.name(),
                        down.since,
                        down.reason
                    ),
                    runbook: Some(entry.anchor().into()),
                })
            })
            .collect()
    }

    /// Names and values for status.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let Some(parts) = &self.0 else {
            return Vec::new();
        };
        let names: Vec<_> = parts
            .sources
            .iter()
            .map(|source| format!("{} ({})", source.spec.place.name(), source.spec.label))
            .collect();
        vec![
            ("recall also searches".into(), names.join(", ")),
            ("ask_memory".into(), parts.chats.fact().into()),
        ]
    }

    /// Ends the threads; one in a call is left.
    pub fn stop(&self) {
        let Some(parts) = &self.0 else { return };
        parts.sources.iter().for_each(Source::stop);
        parts.chats.stop();
    }
}

/// Why nothing of a session, or of a text, leaves this machine.
#[must_use]
pub fn stays_here(reader: Reader, holds_key: bool) -> Option<&'static str> {
    match reader.queries {
        Queries::StayHere(Stay::Secret) => Some(
            "Not asked: Honcho, since this session is secret and nothing of it leaves this machine.",
        ),
        Queries::StayHere(Stay::Excluded) => Some(
            "Not asked: Honcho, since the owner excluded this turn's speaker or channel and nothing of it leaves \
             this machine.",
        ),
        Queries::MayLeave if holds_key => {
            Some("Not asked: Honcho, since what was asked looks as if it held a key.")
        }
        Queries::MayLeave => None,
    }
}

fn reading(config: &HonchoConfig, place: &Place, keys: &ReadKeys) -> Client {
    let (workspace, key) = match place {
        Place::Fleet => (config.fleet.as_str(), keys.own.get(&Role::Fleet)),
        Place::Reader(agent) => {
            let mut readers = config.read.readers.iter();
            let found = readers.find(|reader| reader.agent == *agent);
            let workspace = found.map_or("", |reader| reader.workspace.as_str());
            (workspace, keys.readers.get(agent))
        }
    };
    Client::new(config, workspace, key)
}

/// A search under way.
#[derive(Default)]
pub struct Asked {
    /// Every source that should answer, by number, and what is said when it does not.
    sources: BTreeMap<usize, (String, Away)>,
    /// How many of them were asked.
    open: usize,
    answered: Option<Receiver<Arrival>>,
    deadline: Option<Instant>,
    lines: Vec<String>,
}

impl Asked {
    /// What arrives in time.
    #[must_use]
    pub fn wait(mut self) -> Elsewhere {
        let mut found = BTreeMap::new();
        while let (true, Some(answered), Some(deadline)) =
            (self.open > 0, &self.answered, self.deadline)
        {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((number, hits)) = answered.recv_timeout(left) else {
                break;
            };
            self.open -= 1;
            match hits {
                Ok(hits) => {
                    found.insert(number, hits);
                    self.sources.remove(&number);
                }
                Err(why) => {
                    if let Some((_, away)) = self.sources.get_mut(&number) {
                        *away = why;
                    }
                }
            }
        }
        let away = self.sources.values();
        let away = away.map(|(name, why)| format!("{name}: {}", why.words()));
        self.lines.extend(away);
        Elsewhere {
            found: found.into_values().collect(),
            lines: self.lines,
        }
    }
}
