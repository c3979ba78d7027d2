//! What `bxctl status` shows of brokerd. Holds counts and names, no text of a session.

use bxcore::runbook;
use bxwire::links::control::{Notice, Status};

use crate::{policy::Policy, serve::Broker, store::Unwritten, tools::Name};

/// The daemon's state now.
#[must_use]
pub fn of(broker: &Broker) -> Status {
    let config = broker.config();
    let counts = broker.store.counts();
    let outage = broker.store.outage();
    let mut notices = Vec::new();
    let fails = [
        (&outage.sessions, "results that raise a label are withheld"),
        (&outage.audit, "calls run without a line in the audit"),
    ];
    for (why, what) in fails {
        if let Some(why) = why {
            notices.push(Notice {
                text: format!("{what}: {why}"),
                runbook: Some(Unwritten::RUNBOOK.anchor().into()),
            });
        }
    }
    notices.extend(broker.reloads.notice());
    for root in &config.roots {
        if let Err(why) = root.open(&broker.dirs) {
            notices.push(Notice {
                text: format!("root {} {why}", root.name),
                runbook: Some(runbook::ROOT_REFUSED.anchor().into()),
            });
        }
    }
    let memoryd = broker.dirs.memory_tools_socket();
    if broker.memory.is_away(&memoryd) {
        notices.push(Notice {
            text: "memoryd does not answer".into(),
            runbook: Some(runbook::MEMORY_UNAVAILABLE.anchor().into()),
        });
    }
    let offers = broker.memory.offers(&memoryd);
    let tools = Name::ALL.map(|tool| {
        let word = match config.policy(tool) {
            Policy::Allow | Policy::Ask if tool.is_memorys() && !offers(tool.as_str()) => " (off)",
            Policy::Allow => "",
            Policy::Ask => " (ask)",
            Policy::Deny => " (deny)",
        };
        format!("{}{word}", tool.as_str())
    });
    let roots: Vec<_> = config
        .roots
        .iter()
        .map(|root| format!("{} ({})", root.name, root.label))
        .collect();
    let works = outage.sessions.is_none() && outage.audit.is_none();
    let facts = [
        ("sessions seen", counts.seen.to_string()),
        ("sessions untrusted", counts.untrusted.to_string()),
        ("sessions secret", counts.secret.to_string()),
        ("tools", tools.join(", ")),
        ("roots", roots.join(", ")),
        ("appends", if works { "work" } else { "fail" }.into()),
    ];
    Status {
        daemon: "brokerd".into(),
        build: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        since: broker.since.to_string(),
        notices,
        facts: facts.map(|(name, value)| (name.into(), value)).into(),
    }
}
