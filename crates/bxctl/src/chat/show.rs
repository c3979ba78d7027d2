//! What a chat prints while a turn runs: the reply on stdout as it streams, everything about it in dim lines on
//! stderr. Follows the session's label.

use std::io::{self, Write};

use bxcore::{paths::Dirs, report::Actionable as _, runbook};
use bxwire::{
    CallId, Label, SessionId,
    links::turns::{Answer, Request, TurnEvent},
};

use crate::{
    ask,
    failure::Failure,
    link,
    out::{self, Paint, json_line, one_line, safe},
    render,
};

/// How a chat shows its turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As it streams.
    Talk,
    /// The reply alone, when it is whole.
    Once,
    /// Each event as a line of JSON.
    Json,
}

/// The state of what is shown.
#[derive(Debug)]
pub struct Show<'a> {
    dirs: &'a Dirs,
    style: Style,
    paint: Paint,
    /// Where the conversation is, once loopd has said it.
    pub session: Option<SessionId>,
    pub turn: u64,
    pub label: Label,
    /// Text of the answer in progress that is on the screen already.
    streamed: String,
}

impl<'a> Show<'a> {
    pub fn new(dirs: &'a Dirs, style: Style, session: Option<SessionId>) -> Self {
        Self {
            dirs,
            style,
            paint: Paint::of(&io::stderr()),
            session,
            turn: 0,
            label: Label::default(),
            streamed: String::new(),
        }
    }

    /// The next turn starts a session.
    pub fn forget_session(&mut self) {
        self.session = None;
        self.turn = 0;
        self.label = Label::default();
    }

    /// A session that is gone on with: where its label stands.
    ///
    /// # Errors
    /// When loopd cannot answer, or does not know the session.
    pub fn look_up_label(&mut self) -> Result<(), Failure> {
        let Some(session) = self.session.clone() else {
            return Ok(());
        };
        match link::loopd(self.dirs, &Request::SessionLabel { session }) {
            Ok(TurnEvent::SessionLabel { label, .. }) => self.label = label,
            // A turn goes on without tools, and so does a chat.
            Err(failure) if failure.runbook() == Some(runbook::TOOLS_UNAVAILABLE) => {
                self.aside("what the session has read so far cannot be told while brokerd is away");
            }
            Err(failure) => return Err(failure),
            Ok(_) => {}
        }
        Ok(())
    }

    /// Shows one event.
    ///
    /// # Errors
    /// Of output, and of the terminal when the owner is asked something.
    pub fn event(&mut self, event: &TurnEvent) -> Result<(), Failure> {
        if let TurnEvent::Accepted { session, turn } = event {
            self.accepted(session, *turn);
        }
        if self.style == Style::Json {
            out::print(&json_line(event)?)?;
            return match event {
                TurnEvent::Approval { call, .. } => self.answer(call, Answer::Deny),
                _ => Ok(()),
            };
        }
        match event {
            TurnEvent::Delta { text } if self.style == Style::Talk => {
                self.streamed.push_str(text);
                out::print(&safe(text))?;
            }
            TurnEvent::ToolStarted { tool, .. } => {
                self.break_line()?;
                if self.style == Style::Talk {
                    self.aside(&one_line(tool));
                }
            }
            // loopd says, once, what a raised label means and what caused it.
            TurnEvent::ToolFinished { label, .. } => self.label = self.label.join(*label),
            TurnEvent::Notice { text } => {
                // It says nothing of the answer, which may be whole already.
                if !self.streamed.is_empty() && !self.streamed.ends_with('\n') {
                    self.streamed.push('\n');
                    out::print("\n")?;
                }
                self.aside(&one_line(text));
            }
            TurnEvent::Approval { call, what } => self.approve(call, what)?,
            TurnEvent::Reply { text, label } => {
                self.reply(text)?;
                self.label = self.label.join(*label);
            }
            TurnEvent::Failed { reason, runbook } => {
                self.break_line()?;
                let line = format!("{}{}", one_line(reason), render::see(runbook));
                out::say(&self.paint.red(&line));
            }
            _ => {}
        }
        Ok(())
    }

    fn accepted(&mut self, session: &SessionId, turn: u64) {
        self.turn = turn;
        self.streamed.clear();
        if self.session.as_ref() != Some(session) {
            self.session = Some(session.clone());
            if self.style == Style::Talk {
                self.aside(&format!("session {session}"));
            }
        }
    }

    fn aside(&self, text: &str) {
        out::say(&self.paint.dim(&format!("· {text}")));
    }

    /// Ends a line of the answer that is still open.
    fn break_line(&mut self) -> Result<(), Failure> {
        let open = !self.streamed.is_empty() && !self.streamed.ends_with('\n');
        self.streamed.clear();
        if open { out::print("\n") } else { Ok(()) }
    }

    /// The reply is whole: what has not streamed is printed now.
    fn reply(&mut self, text: &str) -> Result<(), Failure> {
        let streamed = std::mem::take(&mut self.streamed);
        if !streamed.is_empty() && streamed.trim() == text.trim() {
            return if streamed.ends_with('\n') {
                Ok(())
            } else {
                out::print("\n")
            };
        }
        let gap = if streamed.is_empty() || streamed.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        out::print(&format!("{gap}{}\n", safe(text.trim_end())))
    }

    fn approve(&mut self, call: &CallId, what: &str) -> Result<(), Failure> {
        self.break_line()?;
        if !ask::somebody() {
            self.aside(&format!(
                "denied, nobody is here to allow it: {}",
                one_line(what)
            ));
            return self.answer(call, Answer::Deny);
        }
        let question = format!(
            "The agent asks to: {}\nallow? [y]es once, for this [s]ession, [N]o:",
            one_line(what)
        );
        let Some(answer) = ask::line(&question)? else {
            // Ctrl-C here means the turn, not the question alone.
            self.answer(call, Answer::Deny)?;
            return self.cancel();
        };
        let answer = match answer.to_lowercase().as_str() {
            "y" | "yes" => Answer::Once,
            "s" | "session" => Answer::Session,
            _ => Answer::Deny,
        };
        self.answer(call, answer)
    }

    fn cancel(&self) -> Result<(), Failure> {
        match self.session.clone() {
            Some(session) => self.tell(&Request::Cancel { session }),
            None => Ok(()),
        }
    }

    fn answer(&self, call: &CallId, answer: Answer) -> Result<(), Failure> {
        let Some(session) = self.session.clone() else {
            return Ok(());
        };
        let call = call.clone();
        self.tell(&Request::Approve {
            session,
            call,
            answer,
        })
    }

    /// Tells loopd something about the turn that runs. It may have ended while the owner thought: then there is
    /// nothing to stop or allow, and the turn's own end says what became of it.
    fn tell(&self, request: &Request) -> Result<(), Failure> {
        match link::loopd(self.dirs, request) {
            Err(Failure::Refused { .. }) => {
                self.aside("that came too late");
                Ok(())
            }
            told => told.map(drop),
        }
    }

    /// Ends a line that is still open, for what interrupts it.
    pub fn close(&mut self) {
        let _ = self.break_line();
        let _ = io::stdout().flush();
    }
}
