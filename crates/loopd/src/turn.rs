//! One turn from the user's words to the reply. Called by `serve` on a thread of its own; tells the model
//! nothing, and the client no end, before the log is durable.

use std::sync::Arc;

use bxcore::{
    append::{AppendError, OpenError},
    report::Actionable,
    runbook::{self, Runbook},
};
use bxwire::{
    Audience, Cause, Class, Label, Origin, Refused, Speaker, Trust,
    links::{memory::Before, turns::TurnEvent},
    log::{Body, Outcome, Record, Usage},
};

use crate::{
    cancel::{Cancel, Reason},
    daemon::Daemon,
    epoch::{self, Wanted},
    ids::Ids,
    judge::{Tally, Verdict},
    log::SessionLog,
    model::{Event, Model, ModelError},
    outcome,
    prompt::{self, Options, Tools},
    purge,
    session::{Place, Session},
};

/// A turn as its client asked for it.
#[derive(Debug, Clone)]
pub struct Input {
    pub key: String,
    pub text: String,
    pub speaker: Option<Speaker>,
    pub origin: Origin,
    pub trust: Trust,
    pub audience: Audience,
    pub source: String,
}

/// Why a turn has no reply.
pub(crate) struct Stop {
    outcome: Outcome,
    reason: String,
    runbook: Runbook,
    /// What the model said last, when it ends the turn.
    last: Option<Box<Body>>,
}

impl Stop {
    pub(crate) fn failed(reason: impl Into<String>, runbook: Runbook) -> Self {
        Self {
            outcome: Outcome::Failed,
            reason: reason.into(),
            runbook,
            last: None,
        }
    }
}

impl From<AppendError> for Stop {
    fn from(_: AppendError) -> Self {
        Self::failed(
            "the session's log cannot be written",
            runbook::APPEND_FAILED,
        )
    }
}

impl From<ModelError> for Stop {
    fn from(error: ModelError) -> Self {
        let entry = error.runbook().unwrap_or(runbook::MODEL_UNUSABLE);
        Self::failed(error.to_string(), entry)
    }
}

/// Runs a turn to its end, or finds how it ended when its key was used before. Gives the last event; all
/// others go to `say`.
pub fn run(
    daemon: &Daemon,
    session: &Arc<Session>,
    place: Place,
    input: &Input,
    cancel: &Cancel,
    say: &mut dyn FnMut(TurnEvent),
) -> TurnEvent {
    if !place.wait(cancel) {
        return failed(
            "the turn was stopped before it began",
            runbook::TURN_INTERRUPTED,
        );
    }
    let last = begin(daemon, session, input, cancel, say);
    // A session without a record was never there.
    if session.summary().audience.is_none() {
        daemon.sessions.forget(&session.id);
    }
    drop(place);
    last
}

fn begin(
    daemon: &Daemon,
    session: &Arc<Session>,
    input: &Input,
    cancel: &Cancel,
    say: &mut dyn FnMut(TurnEvent),
) -> TurnEvent {
    let mut log = match SessionLog::open(daemon.sessions.folder(), &session.id) {
        Ok(log) => log,
        Err(error) => return cannot_open(daemon, &error),
    };
    // It waited in the queue behind the purge.
    if log.is_purged() {
        session.update(log.records());
        return TurnEvent::Refused(purge::purged());
    }
    let was_open = log.open_turn().is_some();
    let closed = log.close_open_turn();
    if was_open {
        daemon.appended(&closed);
    }
    session.update(log.records());
    if let Err(error) = closed {
        return stopped(Stop::from(error));
    }
    if let Some(turn) = outcome::turn_of(log.records(), &input.key) {
        say(TurnEvent::Accepted {
            session: session.id.clone(),
            turn,
        });
        return outcome::of(log.records(), turn);
    }
    let turn = session.summary().turns + 1;
    let known = log.records().iter().find_map(|record| match &record.body {
        Body::Session {
            audience, source, ..
        } => Some((*audience, source.clone())),
        _ => None,
    });
    let audience = known.as_ref().map_or(input.audience, |(known, _)| {
        stricter(*known, input.audience)
    });
    if known.as_ref().is_some_and(|(known, _)| *known != audience) {
        // What was said before was not said to these readers.
        return TurnEvent::Refused(Refused::new(
            "audience",
            "this session has fewer readers; start a new one",
        ));
    }
    let label = Label::new(Class::Private.min(audience.class_max()), input.trust);
    let mut first = Vec::new();
    if known.is_none() {
        first.push(Body::Session {
            session: session.id.clone(),
            source: input.source.clone(),
            audience,
        });
    }
    let source = known
        .map(|(_, source)| source)
        .filter(|source| *source != input.source);
    first.push(Body::User {
        turn,
        key: input.key.clone(),
        text: input.text.clone(),
        speaker: input.speaker.clone(),
        origin: input.origin,
        label,
        source: source.map(|_| input.source.clone()),
    });
    let mut running = Running {
        daemon,
        session,
        input,
        cancel,
        say,
        log,
        turn,
        audience,
        usage: None,
        prompt_tokens: 0,
        tools_away: false,
    };
    if let Err(error) = running.append(first) {
        return stopped(Stop::from(error));
    }
    daemon.sessions.adopt(session, &input.key, &input.source);
    (running.say)(TurnEvent::Accepted {
        session: session.id.clone(),
        turn,
    });
    let worked = running.work(label);
    running.end(worked)
}

pub(crate) struct Running<'a> {
    pub(crate) daemon: &'a Daemon,
    pub(crate) session: &'a Arc<Session>,
    pub(crate) input: &'a Input,
    pub(crate) cancel: &'a Cancel,
    pub(crate) say: &'a mut dyn FnMut(TurnEvent),
    pub(crate) log: SessionLog,
    pub(crate) turn: u64,
    pub(crate) audience: Audience,
    usage: Option<Usage>,
    /// Tokens of the last prompt, as the server counted them.
    prompt_tokens: u64,
    /// brokerd was not there when the turn began.
    tools_away: bool,
}

impl Running<'_> {
    pub(crate) fn append(&mut self, bodies: Vec<Body>) -> Result<(), AppendError> {
        let appended = self.log.append(bodies);
        self.daemon.appended(&appended);
        self.session.update(self.log.records());
        appended
    }

    /// Up to the reply, which is given and not yet in the log.
    fn work(&mut self, label: Label) -> Result<Body, Stop> {
        if label.is_untrusted() {
            let cause = Cause {
                source: format!("turn {} was marked untrusted", self.turn),
                label,
            };
            let source = cause.source.clone();
            self.daemon.broker.raise(&self.session.id, label, cause);
            let earlier = self.log.records().iter();
            let earlier = earlier.filter(|record| record.body.turn() != Some(self.turn));
            let before = bxwire::log::session_label(earlier);
            self.tell_raised(before, &[&source]);
        }
        let model = self.daemon.model();
        let facts = {
            let say = &mut *self.say;
            model.facts(self.cancel, &mut |event| tell(say, &event))
        };
        let facts = facts?;
        let mut options = model.options(&facts);
        self.begin_epoch()?;
        if options.tools == Tools::LeftOut {
            self.notice("This model's chat template knows no tools, so none can be used.");
        } else if self.tools_away {
            self.notice(&format!(
                "Tools are unavailable right now; see {}.",
                runbook::TOOLS_UNAVAILABLE
            ));
        }
        let before = Before {
            session: self.session.id.clone(),
            text: self.input.text.clone(),
            label: self.log.label(),
            audience: self.audience,
            // Words that no person says now are never synced, so nothing is asked with them either.
            speaker: match self.input.origin {
                Origin::Interactive => self.input.speaker.clone(),
                Origin::Scheduled | Origin::Synthetic => None,
            },
            source: self.input.source.clone(),
        };
        if let Some((text, label)) = self.daemon.memory.context(before)
            && label.class <= self.audience.class_max()
        {
            let turn = self.turn;
            self.append(vec![Body::Context { turn, text, label }])?;
        }
        let mut tally = Tally::default();
        let mut ids = Ids::new(self.log.records())
            .map_err(|_| Stop::failed("the system has no random bytes", runbook::STATE_UNUSABLE))?;
        for _ in 0..self.daemon.config().limits.model_calls_max {
            self.check()?;
            if let Some(reply) = self.step(&model, &mut options, &mut tally, &mut ids)? {
                return Ok(reply);
            }
        }
        Err(Stop::failed(
            "the turn used up its model calls without a reply",
            runbook::MODEL_UNUSABLE,
        ))
    }

    /// One model call and what it asks for; the reply, if it is one.
    fn step(
        &mut self,
        model: &Model,
        options: &mut Options,
        tally: &mut Tally,
        ids: &mut Ids,
    ) -> Result<Option<Body>, Stop> {
        let records = self.log.records();
        let say = &mut *self.say;
        let spoken = model.speak(
            options,
            &|options| prompt::request(records, options),
            self.cancel,
            &mut |event| tell(say, &event),
        );
        let spoken = spoken.map_err(|error| match error {
            // A new session would not help: this one is new.
            ModelError::ContextFull if !has_spoken(records) => ModelError::MessageTooLong,
            error => error,
        })?;
        self.count(spoken.reply.usage);
        let tools = if options.tools == Tools::Offered {
            epoch::tool_names(self.log.records())
        } else {
            Vec::new()
        };
        let reply = tally.judge(spoken.reply, &tools, options.max_tokens, || ids.next());
        if reply.hidden_thinking {
            model.hold_replies();
        }
        let assistant = |calls| Body::Assistant {
            turn: self.turn,
            text: reply.text.clone(),
            reasoning: reply.reasoning.clone(),
            calls,
        };
        match reply.verdict {
            Verdict::Final => {
                if let Some(rest) = spoken
                    .live
                    .rest(&reply.text)
                    .filter(|rest| !rest.is_empty())
                {
                    (self.say)(TurnEvent::Delta { text: rest.into() });
                }
                return Ok(Some(assistant(Vec::new())));
            }
            Verdict::Again => self.append(vec![assistant(Vec::new())])?,
            Verdict::Fail(reason) => {
                return Err(Stop {
                    last: Some(Box::new(assistant(Vec::new()))),
                    ..Stop::failed(reason, runbook::MODEL_UNUSABLE)
                });
            }
            Verdict::Calls(ref calls) => {
                let made = calls.iter().map(|(call, _)| call.clone()).collect();
                self.append(vec![assistant(made)])?;
                for (call, task) in calls {
                    self.check()?;
                    self.call(call, task, tally)?;
                }
            }
        }
        Ok(None)
    }

    /// Starts an epoch where tools or the owner's changes ask for one.
    fn begin_epoch(&mut self) -> Result<(), Stop> {
        let tools = self.daemon.broker.tools();
        self.tools_away = tools.is_none();
        let identity = self.daemon.memory.identity(self.audience);
        let wanted = Wanted {
            audience: self.audience,
            tools: tools.as_deref().map(prompt::tools_array),
            identity: identity.as_ref(),
            owner_changes: self.session.owner_changes(),
        };
        let next = epoch::next(self.log.records(), &wanted);
        let began = next.is_some();
        if let Some(epoch) = next {
            self.append(vec![epoch])?;
        }
        let count = identity.map(|identity| identity.owner_changes);
        if began || count.is_some() {
            self.session.set_owner_changes(count);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Stop> {
        match self.cancel.reason() {
            None => Ok(()),
            Some(_) => Err(ModelError::Cancelled.into()),
        }
    }

    /// Makes the end durable and gives the last event.
    fn end(mut self, worked: Result<Body, Stop>) -> TurnEvent {
        let turn = self.turn;
        let usage = self.usage;
        let event = match worked {
            Ok(reply) => {
                let text = match &reply {
                    Body::Assistant { text, .. } => text.clone(),
                    _ => String::new(),
                };
                let end = Body::TurnEnd {
                    turn,
                    outcome: Outcome::Replied,
                    usage,
                    reason: None,
                    runbook: None,
                };
                match self.append(vec![reply, end]) {
                    Ok(()) => TurnEvent::Reply {
                        text,
                        label: self.log.label(),
                    },
                    Err(error) => self.close(Stop::from(error)),
                }
            }
            Err(stop) => self.close(stop),
        };
        let notices = self.daemon.memory.updated(&self.session.id, turn);
        // What waits for Honcho is the owner's business, and other readers' none.
        if self.audience == (Audience::Owner {}) {
            notices.iter().for_each(|text| self.notice(text));
        }
        event
    }

    fn close(&mut self, mut stop: Stop) -> TurnEvent {
        match self.cancel.reason() {
            None => {}
            Some(Reason::Client) => stop.outcome = Outcome::Cancelled,
            Some(Reason::Stopping) => stop.outcome = Outcome::Interrupted,
        }
        if stop.outcome == Outcome::Interrupted {
            stop.reason = "loopd was stopped during the turn".into();
        }
        let mut bodies: Vec<Body> = stop.last.take().into_iter().map(|last| *last).collect();
        bodies.push(Body::TurnEnd {
            turn: self.turn,
            outcome: stop.outcome,
            usage: self.usage,
            reason: Some(stop.reason.clone()),
            runbook: Some(stop.runbook.anchor().into()),
        });
        // A full disk: the turn stays open and the session's next turn, or the next start, closes it.
        let _ = self.append(bodies);
        stopped(stop)
    }

    fn notice(&mut self, text: &str) {
        (self.say)(TurnEvent::Notice { text: text.into() });
    }

    fn count(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        // Within a turn a prompt only grows; some servers drop its beginning without a word.
        if usage.prompt_tokens * 10 < self.prompt_tokens * 9 {
            self.notice(&format!(
                "The model server cut the beginning of the conversation off: its context is too small; see {}.",
                runbook::CONTEXT_FULL
            ));
        }
        self.prompt_tokens = usage.prompt_tokens;
        let sum = self.usage.get_or_insert_default();
        sum.prompt_tokens += usage.prompt_tokens;
        sum.completion_tokens += usage.completion_tokens;
        sum.cached_tokens += usage.cached_tokens;
    }
}

fn tell(say: &mut dyn FnMut(TurnEvent), event: &Event<'_>) {
    say(match event {
        Event::Text(text) => TurnEvent::Delta {
            text: (*text).into(),
        },
        Event::Waiting(text) => TurnEvent::Notice {
            text: (*text).into(),
        },
    });
}

/// Whether the model has said anything yet.
fn has_spoken(records: &[Record]) -> bool {
    records
        .iter()
        .any(|record| matches!(record.body, Body::Assistant { .. }))
}

fn stricter(one: Audience, other: Audience) -> Audience {
    match (one, other) {
        (Audience::Owner {}, Audience::Owner {}) => Audience::Owner {},
        _ => Audience::Others {
            class_max: one.class_max().min(other.class_max()),
        },
    }
}

fn failed(reason: &str, runbook: Runbook) -> TurnEvent {
    TurnEvent::Failed {
        reason: reason.into(),
        runbook: runbook.anchor().into(),
    }
}

fn stopped(stop: Stop) -> TurnEvent {
    failed(&stop.reason, stop.runbook)
}

fn cannot_open(daemon: &Daemon, error: &OpenError) -> TurnEvent {
    use std::io::ErrorKind;
    let full = matches!(error, OpenError::Io { source, .. } if matches!(
        source.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem
    ));
    let entry = if full {
        runbook::APPEND_FAILED
    } else {
        error.runbook().unwrap_or(runbook::STATE_UNUSABLE)
    };
    let line = || bxcore::report::line(error, Some(entry));
    if full {
        daemon.append_failed(line);
    } else {
        tracing::error!("{}", line());
    }
    failed("the session's log cannot be opened", entry)
}
