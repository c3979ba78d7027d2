//! `[honcho.context]` and `[honcho] tools`. Called by `sync::config`, which reports every mistake with its line.

use std::{collections::BTreeSet, time::Duration};

use bxcore::config::Section;

/// The tools that `[honcho] tools` chooses from.
pub const TOOLS: [&str; 3] = ["recall", "ask_memory", "facts"];
/// Usual wait of a turn for its context: less than loopd waits for an answer.
const ANSWER_MS_MAX: u64 = 250;

/// What is said before a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextConfig {
    pub enabled: bool,
    /// How long a turn waits for it at most.
    pub answer_ms_max: Duration,
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            answer_ms_max: Duration::from_millis(ANSWER_MS_MAX),
        }
    }
}

/// Reads `[honcho.context]`.
#[must_use]
pub fn context(section: &mut Section<'_>) -> ContextConfig {
    let usual = ContextConfig::default();
    let Some(mut context) = section.section("context") else {
        return usual;
    };
    ContextConfig {
        enabled: context.boolean("enabled", usual.enabled),
        answer_ms_max: context.millis("answer_ms_max", ANSWER_MS_MAX),
    }
}

/// Reads `tools`: which of [`TOOLS`] the model gets; all when it is not there.
#[must_use]
pub fn tools(section: &mut Section<'_>) -> BTreeSet<&'static str> {
    let given = section.has("tools");
    // Read in any case, so that it counts among the known keys.
    let names = section.strings("tools");
    if !given {
        return TOOLS.into();
    }
    let mut chosen = BTreeSet::new();
    for name in names {
        match TOOLS.iter().find(|known| **known == name) {
            Some(known) => {
                chosen.insert(*known);
            }
            None => section.problem("tools", &format!("may hold {}", TOOLS.join(", "))),
        }
    }
    chosen
}
