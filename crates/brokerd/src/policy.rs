//! What may run: the owner's word per tool, examples that hold it to that word, and approvals for a session.
//! Decides nothing about labels but what an audience may see.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bxwire::{Audience, Class, SessionId};

use crate::{
    arguments::{self, Arguments},
    config::Config,
    roots,
    tools::Name,
};

/// Approvals for a session that are remembered; one more and all are asked for again.
const APPROVALS_MAX: usize = 1024;

/// The owner's word on a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    #[default]
    Allow,
    Ask,
    Deny,
}

/// `[tools.NAME]`.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub policy: Policy,
}

/// Why this audience may not see something of this class, if so.
#[must_use]
pub fn audience_refuses(audience: Audience, class: Class) -> Option<String> {
    let class_max = audience.class_max();
    (class > class_max).then(|| {
        format!(
            "rule of audience: others read this session and may see at most {}; this is {}. \
             The owner can raise what its readers may see, or ask in a session of their own",
            class_max.name(),
            class.name()
        )
    })
}

/// Tries an example of the configuration. `Some`: it does not come out as `allowed` says.
#[must_use]
pub fn try_example(config: &Config, tool: Name, example: &str, allowed: bool) -> Option<String> {
    let Ok(example) = serde_json::from_str(example) else {
        return Some("it is not JSON".into());
    };
    match (refusal(config, tool, &example), allowed) {
        (Some(why), true) => Some(format!("it would be refused: {why}")),
        (None, false) => Some("it would be allowed".into()),
        (Some(_), false) | (None, true) => None,
    }
}

/// Why a call could not run, as far as configuration and arguments tell.
fn refusal(config: &Config, tool: Name, example: &serde_json::Value) -> Option<String> {
    if config.policy(tool) == Policy::Deny {
        return Some("policy is \"deny\"".into());
    }
    let path = match arguments::read(tool, example) {
        Err(wrong) => return Some(wrong),
        Ok(Arguments::ReadFile(read)) => Some(read.path),
        Ok(Arguments::ListFiles(list)) => list.path,
        Ok(
            Arguments::Memory(_)
            | Arguments::Recall(_)
            | Arguments::AskMemory(_)
            | Arguments::Facts(_),
        ) => None,
    }?;
    match roots::split(&path) {
        Err(wrong) => Some(wrong.to_string()),
        Ok(wanted) if config.roots.iter().any(|root| root.name == wanted.root) => None,
        Ok(_) => Some(roots::PathError::NoRoot.to_string()),
    }
}

/// Approvals that hold for the rest of a session, or until a restart.
#[derive(Debug, Default)]
pub struct Approvals(Mutex<HashSet<(SessionId, Name)>>);

impl Approvals {
    pub fn remember(&self, session: &SessionId, tool: Name) {
        let mut approved = self.lock();
        if approved.len() >= APPROVALS_MAX {
            approved.clear();
        }
        approved.insert((session.clone(), tool));
    }

    #[must_use]
    pub fn holds(&self, session: &SessionId, tool: Name) -> bool {
        self.lock().contains(&(session.clone(), tool))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(SessionId, Name)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audience_sees_its_class_and_below() {
        for class in Class::ALL {
            assert_eq!(audience_refuses(Audience::Owner {}, class), None);
            for class_max in Class::ALL {
                let refused = audience_refuses(Audience::Others { class_max }, class);
                assert_eq!(
                    refused.is_some(),
                    class > class_max,
                    "{class:?} {class_max:?}"
                );
            }
        }
    }

    #[test]
    fn an_approval_is_for_its_session_and_tool() {
        let approvals = Approvals::default();
        let session = |n| SessionId::new("20260131", [n; 12]).unwrap();
        approvals.remember(&session(1), Name::Memory);
        assert!(approvals.holds(&session(1), Name::Memory));
        assert!(!approvals.holds(&session(1), Name::Recall));
        assert!(!approvals.holds(&session(2), Name::Memory));
    }
}
