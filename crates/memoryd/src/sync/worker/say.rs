//! What the log says of what happened. Never a text of memory.

use super::*;

impl Worker {
    /// Logs what happened: the start and the end of a condition, never each try.
    pub(super) fn say(&mut self) {
        let now = self.clock.now();
        for event in self.outbox.take_events() {
            match event {
                Event::OutageBegan {
                    role,
                    reason,
                    status,
                } => tracing::warn!(
                    workspace = role.name(),
                    reason,
                    status,
                    "Honcho does not take what is sent; see {}",
                    runbook::HONCHO_UNREACHABLE
                ),
                Event::OutageEnded { role, since } => tracing::info!(
                    workspace = role.name(),
                    seconds = now.since(since) / 1000,
                    "Honcho answers again"
                ),
                Event::KeyRefused { role } => tracing::error!(
                    workspace = role.name(),
                    "Honcho refuses the key; see {}",
                    runbook::HONCHO_KEY_REFUSED
                ),
                Event::Misconfigured { role } => tracing::error!(
                    workspace = role.name(),
                    "the workspace derives and cannot be told not to; see {}",
                    runbook::HONCHO_WORKSPACE_CONFIG
                ),
                Event::Failed { step, kind, status } => tracing::error!(
                    item = %step.item,
                    kind,
                    status,
                    "an item cannot be sent; see {}",
                    runbook::HONCHO_SEND_REFUSED
                ),
                Event::InDoubt { steps, role } => tracing::warn!(
                    workspace = role.name(),
                    steps,
                    "a request had no answer; it is looked up before anything is sent again; see {}",
                    runbook::HONCHO_IN_DOUBT
                ),
                Event::BrokerAway => tracing::warn!(
                    "brokerd does not answer; nothing is decided or sent; see {}",
                    runbook::BROKER_STATE_UNAVAILABLE
                ),
                Event::BrokerBack => tracing::info!("brokerd answers again"),
                Event::AppendsFail => tracing::error!(
                    "the ledger cannot be written; nothing is decided or sent; see {}",
                    runbook::APPEND_FAILED
                ),
                Event::AppendsWork => tracing::info!("the ledger can be written again"),
                Event::Unhealthy(warning) => {
                    tracing::warn!("{}; see {}", warning.text(), warning.runbook());
                }
                Event::Healthy(warning) => {
                    tracing::info!("holds no longer: {}", warning.text());
                }
            }
        }
    }
}
