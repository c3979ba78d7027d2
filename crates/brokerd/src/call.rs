//! One tool call, from the request to its answer: loopd's label first, then tool, arguments, policy and
//! audience; then it runs; then the result's label, the audit line, and only then the result.

use std::time::Instant;

use bxcore::{clock::Millis, random};
use bxsanitize::{Fence, neutralise};
use bxwire::{
    Audience, CallId, Cause, Class, Label, SessionId, Speaker, Trust,
    links::{
        memory_tools::{Caller, FactsOp, MemoryOp, Request},
        tools::{CallOutcome, Reply},
        turns::Answer,
    },
};
use serde_json::Value;

use crate::{
    arguments::{self, Arguments},
    audit,
    config::Config,
    files::{Files, Found},
    labels::{CAUSES_MAX, words},
    memory,
    policy::{self, Policy},
    roots::PathError,
    running::Token,
    serve::Broker,
    store::Unwritten,
    tools::Name,
};

/// Longest text that is brokerd's own, or memoryd's refusal, in characters.
const OWN_TEXT_CHARS_MAX: usize = 4_000;
/// Longest line of progress, and of what is to be approved, in characters.
const LINE_CHARS_MAX: usize = 500;
/// brokerd's own words bring nothing in.
const OWN_WORDS: Label = Label::new(Class::Public, Trust::Trusted);

/// A `CallTool`.
#[derive(Debug)]
pub struct Call {
    pub session: SessionId,
    pub turn: u64,
    pub call: CallId,
    pub tool: String,
    pub arguments: Value,
    pub label: Label,
    pub audience: Audience,
    pub speaker: Option<Speaker>,
}

/// How a call ended, before its label is durable.
#[derive(Debug)]
struct Ended {
    outcome: CallOutcome,
    text: String,
    label: Label,
    causes: Vec<Cause>,
}

impl Ended {
    /// In brokerd's own words.
    fn said(outcome: CallOutcome, text: impl Into<String>) -> Self {
        Self {
            outcome,
            text: neutralise(&text.into(), OWN_TEXT_CHARS_MAX),
            label: OWN_WORDS,
            causes: Vec::new(),
        }
    }

    fn unwritten() -> Self {
        let text = format!(
            "state cannot be written, so the result is withheld; see {}",
            Unwritten::RUNBOOK
        );
        Self::said(CallOutcome::Failed, text)
    }
}

/// Sends an event of a running call; false: nobody listens any more.
pub type Say<'a> = dyn FnMut(Reply) -> bool + 'a;

/// Runs a call and gives its `Result`, which may leave as it is.
pub fn run(broker: &Broker, call: &Call, token: &Token, say: &mut Say<'_>) -> Reply {
    let (at, started) = (Millis::now(), Instant::now());
    let known = "what loopd logged of the session";
    let before = broker.store.heard(&call.session, call.label, known);
    let (ended, before, after, causes) = match before {
        Err(Unwritten { label }) => (Ended::unwritten(), label, label, Vec::new()),
        Ok(before) => {
            let ended = Running {
                broker,
                config: &broker.config(),
                call,
                token,
            }
            .ended(say);
            match broker.store.join(&call.session, ended.label, &ended.causes) {
                Ok(after) => {
                    let mut causes = after.causes;
                    causes.truncate(CAUSES_MAX);
                    (ended, before.label, after.label, causes)
                }
                Err(Unwritten { label }) => (Ended::unwritten(), before.label, label, Vec::new()),
            }
        }
    };
    let audited = broker.store.audit(&audit::Line::Call {
        at: at.to_string(),
        session: call.session.clone(),
        turn: call.turn,
        call: call.call.clone(),
        tool: Name::parse(&call.tool)
            .map_or("unknown", Name::as_str)
            .into(),
        speaker: call.speaker.clone(),
        arguments_bytes: call.arguments.to_string().len() as u64,
        result_bytes: ended.text.len() as u64,
        outcome: ended.outcome,
        before,
        after,
        took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    if !audited {
        // The label is durable, which is what counts; the tool has run, and hiding that helps nobody.
        say(Reply::Progress {
            text: format!("this call is not in the audit; see {}", Unwritten::RUNBOOK),
        });
    }
    Reply::Result {
        outcome: ended.outcome,
        text: ended.text,
        label: ended.label,
        session_label: after,
        causes,
    }
}

/// A call between its two labels.
struct Running<'a> {
    broker: &'a Broker,
    config: &'a Config,
    call: &'a Call,
    token: &'a Token,
}

impl Running<'_> {
    fn ended(&self, say: &mut Say<'_>) -> Ended {
        let Some(tool) = Name::parse(&self.call.tool) else {
            let names: Vec<_> = Name::ALL.iter().map(|tool| tool.as_str()).collect();
            let text = format!(
                "there is no tool of this name; there are {}",
                names.join(", ")
            );
            return Ended::said(CallOutcome::UnknownTool, text);
        };
        let arguments = match arguments::read(tool, &self.call.arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return Ended::said(CallOutcome::BadArguments, wrong),
        };
        if let Err(ended) = self.may_run(tool, &arguments, say) {
            return ended;
        }
        let ended = match arguments {
            Arguments::Memory(arguments) => {
                let source = match &arguments {
                    MemoryOp::Add { .. } => "memory add",
                    MemoryOp::Replace { .. } => "memory replace",
                    MemoryOp::Remove { .. } => "memory remove",
                    MemoryOp::Note { .. } => "memory note",
                    MemoryOp::Consolidate { .. } => "memory consolidate",
                };
                let caller = self.caller();
                self.memory(tool, source, &Request::Memory { caller, arguments }, say)
            }
            Arguments::Recall(arguments) => {
                let caller = self.caller();
                self.memory(tool, "recall", &Request::Recall { caller, arguments }, say)
            }
            Arguments::AskMemory(arguments) => {
                let caller = self.caller();
                let request = Request::AskMemory { caller, arguments };
                self.memory(tool, "ask_memory", &request, say)
            }
            Arguments::Facts(arguments) => {
                let source = match &arguments {
                    FactsOp::Search { .. } => "facts search",
                    FactsOp::Snapshot { .. } => "facts snapshot",
                    FactsOp::Profile { .. } => "facts profile",
                    FactsOp::Conclude { .. } => "facts conclude",
                    FactsOp::Forget { .. } => "facts forget",
                };
                let caller = self.caller();
                self.memory(tool, source, &Request::Facts { caller, arguments }, say)
            }
            Arguments::ReadFile(arguments) => {
                let end = Instant::now() + self.config.limits.call_ms_max;
                let path = arguments.path;
                let found = self.files().read(&path, self.token, end);
                self.found(tool, &format!("read_file {path}"), self.class(&path), found)
            }
            Arguments::ListFiles(arguments) => {
                let end = Instant::now() + self.config.limits.call_ms_max;
                let class_max = self.call.audience.class_max();
                match arguments.path {
                    None => {
                        let roots = self.files().list_roots(class_max);
                        self.found(tool, "list_files", None, Ok(roots))
                    }
                    Some(path) => {
                        let found = self.files().list(&path, self.token, end);
                        self.found(
                            tool,
                            &format!("list_files {path}"),
                            self.class(&path),
                            found,
                        )
                    }
                }
            }
        };
        if self.token.is_cancelled() && ended.outcome == CallOutcome::Done {
            return self.cancelled(tool);
        }
        ended
    }

    /// Policy, audience and the owner, in that order, so that nobody is asked in vain.
    fn may_run(&self, tool: Name, arguments: &Arguments, say: &mut Say<'_>) -> Result<(), Ended> {
        let denied = |text: String| Err(Ended::said(CallOutcome::Denied, text));
        let name = tool.as_str();
        let policy = self.config.policy(tool);
        if policy == Policy::Deny {
            return denied(format!(
                "rule of policy: the owner denies {name} (tools.{name}.policy in brokerd.toml)"
            ));
        }
        let path = match arguments {
            Arguments::ReadFile(read) => Some(&read.path),
            Arguments::ListFiles(list) => list.path.as_ref(),
            Arguments::Memory(_)
            | Arguments::Recall(_)
            | Arguments::AskMemory(_)
            | Arguments::Facts(_) => None,
        };
        // A root's class is known before; even that a file is there is of that class.
        if let Some(path) = path
            && let Some(class) = self.class(path)
            && let Some(text) = policy::audience_refuses(self.call.audience, class)
        {
            return denied(text);
        }
        if policy == Policy::Allow || self.broker.approvals.holds(&self.call.session, tool) {
            return Ok(());
        }
        self.token.ask();
        let what = neutralise(&format!("{name} {}", self.call.arguments), LINE_CHARS_MAX);
        let asked = say(Reply::Approval {
            call: self.call.call.clone(),
            what: what.replace('\n', " "),
        });
        if !asked {
            self.token.cancel();
        }
        match self
            .token
            .wait(Instant::now() + self.config.limits.approval_ms_max)
        {
            Some(Answer::Once) => Ok(()),
            Some(Answer::Session) => {
                self.broker.approvals.remember(&self.call.session, tool);
                Ok(())
            }
            Some(Answer::Deny) => denied(format!("the owner said no to this call of {name}")),
            None if self.token.is_cancelled() => Err(self.cancelled(tool)),
            None => denied(format!(
                "the owner was asked about {name} and did not answer in time"
            )),
        }
    }

    fn memory(&self, tool: Name, source: &str, request: &Request, say: &mut Say<'_>) -> Ended {
        let mut progress = |text: String| {
            let text = neutralise(&text, LINE_CHARS_MAX);
            say(Reply::Progress { text })
        };
        let answer = self.broker.memory.call(
            &self.broker.dirs.memory_tools_socket(),
            request,
            self.token,
            match tool {
                Name::AskMemory => self.config.limits.ask_memory_ms_max,
                _ => self.config.limits.memory_call_ms_max,
            },
            &mut progress,
        );
        match answer {
            memory::Answer::Done {
                text,
                label,
                mut causes,
                changed,
            } => {
                // A cause is part of what is shown, so its label counts too.
                let label = causes
                    .iter()
                    .fold(label, |sum, cause| sum.join(cause.label));
                if let Some(refused) = policy::audience_refuses(self.call.audience, label.class) {
                    return match changed {
                        true => Ended::said(
                            CallOutcome::Done,
                            format!("{source}: done; its answer is withheld ({refused})"),
                        ),
                        false => Ended::said(CallOutcome::Denied, refused),
                    };
                }
                let covered = causes
                    .iter()
                    .fold(Label::default(), |sum, c| sum.join(c.label));
                if !covered.covers(label) {
                    causes.insert(0, self.cause(source, label));
                }
                self.fenced(tool, source, &text, label, causes)
            }
            _ if self.token.is_cancelled() => self.cancelled(tool),
            memory::Answer::Denied(text) => self.private(CallOutcome::Denied, source, text),
            memory::Answer::Failed(text) => Ended::said(CallOutcome::Failed, text),
        }
    }

    /// In memoryd's words, which may name an entry.
    fn private(&self, outcome: CallOutcome, source: &str, text: String) -> Ended {
        if policy::audience_refuses(self.call.audience, Class::Private).is_some() {
            let text = format!(
                "{source} was refused. The reason may name what is private, which others who read this session may \
                 not see; the owner can ask in a session that only the owner reads."
            );
            return Ended::said(outcome, text);
        }
        Ended {
            label: Label::PRIVATE,
            ..Ended::said(outcome, text)
        }
    }

    /// `class`: the root's; an error tells what is there and what is not, so it is of that class.
    fn found(
        &self,
        tool: Name,
        source: &str,
        class: Option<Class>,
        found: Result<Found, PathError>,
    ) -> Ended {
        match found {
            Ok(Found { text, label }) => {
                let causes = vec![self.cause(source, label)];
                self.fenced(tool, source, &text, label, causes)
            }
            Err(PathError::Cancelled) => self.cancelled(tool),
            Err(error) => {
                let text = format!("{}: {error}", tool.as_str());
                let class = class.unwrap_or_default();
                let label = Label::new(class, Trust::Trusted);
                Ended {
                    label,
                    causes: vec![self.cause(source, label)],
                    ..Ended::said(CallOutcome::Failed, text)
                }
            }
        }
    }

    fn fenced(
        &self,
        tool: Name,
        source: &str,
        text: &str,
        label: Label,
        causes: Vec<Cause>,
    ) -> Ended {
        let Ok(nonce) = random::bytes() else {
            return Ended::said(CallOutcome::Failed, "the system has no random bytes");
        };
        let provenance = format!("{} ({label})", words(source));
        let cap = self.config.limits.result_chars_max;
        Ended {
            outcome: CallOutcome::Done,
            text: Fence::new(nonce).wrap(tool.as_str(), &provenance, text, cap),
            label,
            causes,
        }
    }

    fn cancelled(&self, tool: Name) -> Ended {
        let text = match tool {
            Name::Memory | Name::Facts => "cancelled; the change may have been made",
            Name::Recall | Name::AskMemory | Name::ReadFile | Name::ListFiles => "cancelled",
        };
        Ended::said(CallOutcome::Cancelled, text)
    }

    fn cause(&self, source: &str, label: Label) -> Cause {
        Cause {
            source: words(source),
            label,
        }
    }

    /// The class of the root that a path is in.
    fn class(&self, path: &str) -> Option<Class> {
        let (root, _) = self.files().locate(path).ok()?;
        Some(root.label.class)
    }

    fn files(&self) -> Files<'_> {
        Files {
            roots: &self.config.roots,
            own: &self.broker.dirs,
            file_bytes_max: self.config.limits.file_bytes_max,
        }
    }

    /// With the session's label of now: it may have gone up while the owner was asked.
    fn caller(&self) -> Caller {
        Caller {
            session: self.call.session.clone(),
            turn: self.call.turn,
            call: self.call.call.clone(),
            label: self.broker.store.label(&self.call.session),
            speaker: self.call.speaker.clone(),
            audience: self.call.audience,
        }
    }
}
