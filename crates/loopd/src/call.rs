//! One tool call of a turn: told, run at brokerd, and in the log with its label before anything goes on. Called
//! by `turn`; it lowers no label and runs nothing itself.

use bxcore::runbook;
use bxwire::{
    Class, Label,
    links::{
        tools::{CallOutcome, Request as BrokerRequest},
        turns::TurnEvent,
    },
    log::{Body, Call},
};
use serde_json::Value;

use crate::{
    broker::{self, Called},
    hosts,
    judge::{Tally, Task},
    turn::{Running, Stop},
};

/// Longest result of a tool that is kept, in bytes; brokerd caps them lower.
const RESULT_BYTES_MAX: usize = 256 * 1024;

/// Causes that a user is told of one by one.
const SOURCES_TOLD_MAX: usize = 3;

/// Stands for a result of a class that the session's readers may not see.
const NOT_FOR_READERS: &str =
    "Not shown: others read this conversation, and the result is not for them.";

impl Running<'_> {
    /// Answers one call.
    pub(crate) fn call(&mut self, call: &Call, task: &Task, tally: &mut Tally) -> Result<(), Stop> {
        (self.say)(TurnEvent::ToolStarted {
            call: call.id.clone(),
            tool: call.tool.clone(),
        });
        let mut wrong = false;
        let mut causes = Vec::new();
        let (text, label, from_broker) = match task {
            Task::Tell(words) => (words.clone(), Label::default(), false),
            Task::Run(arguments) => match self.run_tool(call, arguments) {
                Called::Result {
                    outcome,
                    text,
                    label,
                    causes: named,
                } => {
                    causes = named;
                    wrong = matches!(
                        outcome,
                        CallOutcome::BadArguments | CallOutcome::UnknownTool
                    );
                    // brokerd refuses such a call; should it not, these readers still see nothing.
                    let fits = label.class <= self.audience.class_max();
                    let text = if fits {
                        cut(text)
                    } else {
                        NOT_FOR_READERS.into()
                    };
                    (text, label, true)
                }
                Called::Refused => (
                    "Not run: the tool broker refused the call.".into(),
                    Label::default(),
                    false,
                ),
                Called::Unavailable => (
                    "Not run: tools are unavailable right now. Tell the user so.".into(),
                    Label::default(),
                    false,
                ),
                // These words are ours, and nothing of the tool's came. What it read, if it ran, brokerd has
                // made durable before it answered, and brokerd's word alone makes a turn untrusted.
                Called::Lost => (
                    "The tool may or may not have run: its answer was lost. Tell the user so."
                        .into(),
                    Label::default(),
                    false,
                ),
            },
        };
        let answered = tally.answered(call, &text, wrong);
        let before = self.log.label();
        self.append(vec![Body::ToolResult {
            turn: self.turn,
            call: call.id.clone(),
            tool: call.tool.clone(),
            text,
            label: Some(label),
            from_broker,
        }])?;
        (self.say)(TurnEvent::ToolFinished {
            call: call.id.clone(),
            tool: call.tool.clone(),
            label,
        });
        let sources: Vec<_> = causes
            .iter()
            .filter(|cause| !before.covers(cause.label))
            .map(|cause| cause.source.as_str())
            .collect();
        self.tell_raised(before, &sources);
        answered.map_err(|reason| Stop::failed(reason, runbook::MODEL_UNUSABLE))
    }

    /// Tells the user, once, that the session is not what it was, why, and what to do.
    pub(crate) fn tell_raised(&mut self, before: Label, sources: &[&str]) {
        if let Some(text) = raised(before, self.log.label(), sources) {
            (self.say)(TurnEvent::Notice { text });
        }
    }

    fn run_tool(&mut self, call: &Call, arguments: &Value) -> Called {
        let request = BrokerRequest::CallTool {
            session: self.session.id.clone(),
            turn: self.turn,
            call: call.id.clone(),
            tool: call.tool.clone(),
            arguments: arguments.clone(),
            label: self.log.label(),
            audience: self.audience,
            speaker: self.input.speaker.clone(),
            owner_hosts: self.owner_hosts(),
        };
        let say = &mut *self.say;
        self.daemon.broker.call(&request, self.cancel, |event| {
            say(match event {
                broker::Event::Progress(text) => TurnEvent::Notice { text },
                broker::Event::Approval { call, what } => TurnEvent::Approval { call, what },
            });
        })
    }

    /// Hosts the owner wrote in this session, in turns that nobody marked untrusted.
    fn owner_hosts(&self) -> Vec<String> {
        let config = self.daemon.config();
        let mut found = Vec::new();
        for record in self.log.records() {
            if let Body::User {
                text,
                speaker,
                label,
                ..
            } = &record.body
                && config.is_owner(speaker.as_ref())
                && !label.is_untrusted()
            {
                hosts::collect(text, &mut found);
            }
        }
        found
    }
}

/// What a session has become, why, and what to do; `None`: what it was.
fn raised(before: Label, now: Label, sources: &[&str]) -> Option<String> {
    let untrusted = now.is_untrusted() && !before.is_untrusted();
    let secret = now.class == Class::Secret && before.class < Class::Secret;
    let (what, other) = match (secret, untrusted) {
        (false, false) => return None,
        (false, true) => ("untrusted", "a clean one"),
        (true, false) => ("secret", "another"),
        (true, true) => ("secret and untrusted", "a clean one"),
    };
    let why = match sources {
        [] => "a result that nobody vouches for".to_owned(),
        sources if sources.len() <= SOURCES_TOLD_MAX => sources.join(", "),
        [first, ..] => format!("{first}, and {} more", sources.len() - 1),
    };
    Some(format!(
        "this session is now {what}: {why}; /new starts {other}"
    ))
}

fn cut(mut text: String) -> String {
    if text.len() > RESULT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(RESULT_BYTES_MAX));
        text.push_str("\n[cut]");
    }
    text
}

#[cfg(test)]
mod tests {
    use bxwire::Trust;

    use super::*;

    const CLEAN: Label = Label::PRIVATE;
    const UNTRUSTED: Label = Label::UNLABELLED;
    const SECRET: Label = Label::new(Class::Secret, Trust::Trusted);
    const BOTH: Label = Label::new(Class::Secret, Trust::Untrusted);

    #[test]
    fn what_a_session_became_is_told_with_why_and_only_when_it_did() {
        let rows = [
            (CLEAN, UNTRUSTED, "untrusted: a; /new starts a clean one"),
            (CLEAN, SECRET, "secret: a; /new starts another"),
            (
                CLEAN,
                BOTH,
                "secret and untrusted: a; /new starts a clean one",
            ),
            // Only what is new.
            (UNTRUSTED, BOTH, "secret: a; /new starts another"),
            (SECRET, BOTH, "untrusted: a; /new starts a clean one"),
        ];
        for (before, now, want) in rows {
            let want = format!("this session is now {want}");
            assert_eq!(raised(before, now, &["a"]), Some(want));
        }
        for same in [CLEAN, UNTRUSTED, SECRET, BOTH] {
            assert_eq!(raised(same, same, &["a"]), None);
        }
        assert_eq!(raised(Label::default(), CLEAN, &["a"]), None);
    }

    #[test]
    fn a_few_causes_are_told_one_by_one_and_many_are_counted() {
        let why = |sources: &[&str]| {
            let text = raised(CLEAN, UNTRUSTED, sources).expect("it is told");
            let (_, rest) = text.split_once(": ").expect("a colon");
            rest.split_once(';').expect("a semicolon").0.to_owned()
        };
        assert_eq!(why(&[]), "a result that nobody vouches for");
        assert_eq!(why(&["a", "b", "c"]), "a, b, c");
        assert_eq!(why(&["a", "b", "c", "d"]), "a, and 3 more");
    }
}
