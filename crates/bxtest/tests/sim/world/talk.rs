//! Conversations: turns, tools, and what brokerd does for a call.

use super::*;

impl World {
    pub(super) fn talk(&mut self) {
        // The newest ones: those before them are purged, or not spoken in any more.
        let newest = self.sessions.len() - usize::from(SESSIONS);
        let at = newest + usize::try_from(self.random.below(SESSIONS.into())).unwrap_or(0);
        if self.sessions[at].purged {
            return;
        }
        match self.sessions[at].open {
            None => self.begin(at),
            Some(_) if self.random.one_in(3) => self.end(at),
            Some(_) if self.random.one_in(3) => self.remember(at),
            Some(_) => self.tool(at),
        }
    }

    pub fn record(&mut self, at: usize, body: Body) {
        let record = Record {
            seq: self.sessions[at].records.len() as u64 + 1,
            at: self.now.to_string(),
            body,
        };
        self.sessions[at].records.push(record);
    }

    fn begin(&mut self, at: usize) {
        let session = &self.sessions[at];
        let turn = session.turns + 1;
        let name = format!("{} {turn}", session.id);
        let marked = self.random.one_in(if at == CALM { 200 } else { 20 });
        let label = Label::new(
            Class::Private,
            if marked {
                Trust::Untrusted
            } else {
                Trust::Trusted
            },
        );
        let speaker = match self.random.below(12) {
            0 => None,
            1 => Some(speaker("home", "excluded")),
            2 => Some(speaker("home", "some.one")),
            3 => Some(speaker("home", "owner")),
            _ => Some(speaker("local", "owner")),
        };
        let origin = match self.random.below(15) {
            0 => Origin::Scheduled,
            1 => Origin::Synthetic,
            _ => Origin::Interactive,
        };
        let text = match self.random.below(25) {
            0 => String::new(),
            1 => format!("words of {name} with {}_{}", "ghp", "a1B2".repeat(9)),
            _ => format!("words of {name}"),
        };
        if self.random.one_in(30) {
            let label = self.outside(at);
            let covers = self.sessions[at].records.len() as u64;
            self.record(
                at,
                Body::Summary {
                    covers,
                    text: "what was said".into(),
                    label,
                },
            );
        }
        self.say(at, text, speaker, origin, label);
        if self.random.one_in(4) {
            let label = self.outside(at);
            self.record(
                at,
                Body::Context {
                    turn,
                    text: "what memory says".into(),
                    label,
                },
            );
        }
    }

    /// A turn begins with somebody's words.
    pub fn say(
        &mut self,
        at: usize,
        text: String,
        speaker: Option<Speaker>,
        origin: Origin,
        label: Label,
    ) {
        let session = &mut self.sessions[at];
        session.turns += 1;
        let turn = session.turns;
        session.open = Some(turn);
        session.truth = session.truth.join(label);
        let key = format!("{} {turn}", session.id);
        self.record(
            at,
            Body::User {
                turn,
                key,
                text,
                speaker,
                origin,
                label,
                source: None,
            },
        );
    }

    /// The label of a text that comes in by another way than a tool: clean mostly.
    fn outside(&mut self, at: usize) -> Label {
        let label = match self.random.below(if at == CALM { 400 } else { 40 }) {
            0 => Label::UNLABELLED,
            1 => Label::new(Class::Secret, Trust::Trusted),
            _ => Label::PRIVATE,
        };
        self.sessions[at].truth = self.sessions[at].truth.join(label);
        label
    }

    /// loopd calls a tool, as it does: its own label goes along, brokerd's answer comes back labelled.
    fn tool(&mut self, at: usize) {
        let result = *self.random.pick(&[
            Label::PRIVATE,
            Label::PRIVATE,
            Label::new(Class::Public, Trust::Trusted),
            Label::PRIVATE,
            Label::UNLABELLED,
            Label::new(Class::Secret, Trust::Trusted),
        ]);
        // Rarely: most sessions stay clean for a while.
        let result = if self.random.one_in(if at == CALM { 60 } else { 3 }) {
            result
        } else {
            Label::PRIVATE
        };
        let released = self.join_at_broker(at, result);
        let (label, from_broker) = match released {
            Some(label) if self.random.one_in(40) => {
                // loopd is killed before it writes it down: brokerd alone knows of it.
                let session = &mut self.sessions[at];
                session.released = session.released.join(label);
                self.count("result lost by loopd");
                return;
            }
            Some(label) => {
                self.sessions[at].truth = self.sessions[at].truth.join(result);
                // A record without one means the same.
                let left_out = label == Label::UNLABELLED && self.random.one_in(2);
                ((!left_out).then_some(label), true)
            }
            // loopd's own words about a broker that is away.
            None => (Some(Label::new(Class::Public, Trust::Trusted)), false),
        };
        self.result(at, "what a tool read".into(), label, from_broker);
    }

    /// loopd writes a tool's result down.
    pub fn result(&mut self, at: usize, text: String, label: Option<Label>, from_broker: bool) {
        let turn = self.sessions[at].open.unwrap_or(1);
        self.record(
            at,
            Body::ToolResult {
                turn,
                call: "abc".parse().expect("a call id"),
                tool: "read_file".into(),
                text,
                label,
                from_broker,
            },
        );
    }

    /// What brokerd does for a call: loopd's label first, then the result's, each durable before anything
    /// leaves. `None`: nothing left.
    pub fn join_at_broker(&mut self, at: usize, result: Label) -> Option<Label> {
        let session = self.sessions[at].id.clone();
        let ours = log::session_label(&self.sessions[at].records);
        for label in [ours, result] {
            let joined = self.broker.as_ref()?.join(&session, label, &[]);
            if let Some(record) = &joined.record {
                if self.faults && !self.scripted && self.random.one_in(60) {
                    // Killed between two instants: before the line, or after it and before the answer.
                    if self.random.one_in(2) {
                        self.broker_disk.push(line(record));
                    }
                    self.broker = None;
                    self.count("brokerd killed in a call");
                    return None;
                }
                if self.broker_disk_full {
                    self.broker.as_mut()?.failed(&joined);
                    self.count("brokerd withheld a result");
                    return None;
                }
                self.broker_disk.push(line(record));
            }
            self.broker.as_mut()?.commit(&joined);
        }
        Some(result)
    }

    pub(super) fn end(&mut self, at: usize) {
        let Some(turn) = self.sessions[at].open else {
            return;
        };
        let outcome = match self.random.below(12) {
            0 => TurnOutcome::Failed,
            1 => TurnOutcome::Cancelled,
            // loopd was killed; it closes the turn at its next start.
            2 => TurnOutcome::Interrupted,
            _ => TurnOutcome::Replied,
        };
        self.finish(at, outcome, format!("reply to turn {turn}"));
        // Now and then nobody tells memoryd.
        if !self.random.one_in(5) {
            self.read_log(at);
        }
    }

    /// A turn ends, with a reply if it had one.
    pub fn finish(&mut self, at: usize, outcome: TurnOutcome, reply: String) {
        let Some(turn) = self.sessions[at].open.take() else {
            return;
        };
        if outcome == TurnOutcome::Replied {
            self.record(
                at,
                Body::Assistant {
                    turn,
                    text: reply,
                    reasoning: None,
                    calls: Vec::new(),
                },
            );
        }
        self.record(
            at,
            Body::TurnEnd {
                turn,
                outcome,
                usage: None,
                reason: None,
                runbook: None,
            },
        );
        let session = &mut self.sessions[at];
        let truth = (session.truth, session.released);
        session.truth_at.insert(turn, truth);
    }
}
