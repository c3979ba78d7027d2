//! memoryd's worker: one task of the outbox at a time, and what may leave.

use super::*;

impl World {
    /// memoryd's worker does one task.
    pub fn run_memoryd(&mut self) {
        let now = self.now;
        if self.flying.is_some() && self.random.one_in(3) {
            return self.answer();
        }
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        let task = outbox.next(now);
        // Killed before the task.
        if self.faults && self.random.one_in(400) {
            return self.memoryd_dies();
        }
        let outcome = match task {
            Task::Wait(_) if self.flying.is_some() => return self.answer(),
            Task::Wait(until) => {
                let until = until.filter(|_| !self.scripted && self.random.one_in(3));
                if let Some(until) = until {
                    self.now = self.now.max(until);
                }
                return;
            }
            Task::Append(lines) => {
                self.check_lines(&lines);
                self.append_failed = self.ledger_disk_full;
                if self.ledger_disk_full {
                    self.count("ledger full");
                    Outcome::AppendFailed
                } else {
                    let texts: Vec<_> = lines.iter().map(ledger_line).collect();
                    if self.faults && self.random.one_in(80) {
                        // Killed in the middle: some whole lines are there, the rest is cut off at start.
                        let kept =
                            usize::try_from(self.random.below(texts.len() as u64 + 1)).unwrap_or(0);
                        self.ledger_disk.extend(texts.into_iter().take(kept));
                        self.count("memoryd killed in an append");
                        return self.memoryd_dies();
                    }
                    self.ledger_disk.extend(texts);
                    Outcome::Appended
                }
            }
            Task::AskBroker(session) => {
                let broker = self.broker.as_ref().filter(|_| !self.broker_deaf);
                let state = broker.map(|broker| broker.state(&session));
                self.heard(session, state);
                Outcome::Broker(state)
            }
            Task::Load(steps) => {
                let mut source = Source {
                    sessions: &self.sessions,
                    edits: &self.edits,
                };
                let outbox = self.outbox.as_ref().expect("it is running");
                let (config, ledger) = (outbox.config(), outbox.ledger());
                Outcome::Loaded(texts::load(
                    config,
                    ledger,
                    &self.refuser,
                    &mut source,
                    &steps,
                ))
            }
            Task::Call(request) => return self.leaves(*request),
        };
        if let Some(outbox) = &mut self.outbox {
            outbox.done(outcome, self.now);
            outbox.take_events();
        }
    }

    fn leaves(&mut self, request: Request) {
        self.check_request(&request);
        self.requests.push(request.clone());
        self.flying = Some(request);
    }

    /// memoryd does what there is to do now, however long it takes.
    pub fn settle(&mut self) {
        while let Some(outbox) = &mut self.outbox {
            if self.flying.is_some() {
                self.answer();
                continue;
            }
            match outbox.next(self.now) {
                Task::Wait(_) => return,
                Task::Call(request) => self.leaves(*request),
                _ => self.run_memoryd(),
            }
        }
    }

    /// The call that is on its way is answered, one way or another.
    fn answer(&mut self) {
        let Some(request) = self.flying.take() else {
            return;
        };
        let now = self.now;
        let result = self
            .honcho
            .call(&request, now, self.faults, &mut self.random);
        if self.faults && self.random.one_in(50) {
            self.count("memoryd killed in a request");
            return self.memoryd_dies();
        }
        let not_there = matches!(
            result,
            Err(Failure::NotReached { .. } | Failure::Later { .. } | Failure::KeyRefused { .. })
        );
        if let Some(outbox) = &mut self.outbox {
            outbox.done(Outcome::Called(result), now);
            outbox.take_events();
            if not_there && is_write(&request) && !self.append_failed {
                let Task::Append(lines) = outbox.next(now) else {
                    panic!("what was never taken in is in doubt");
                };
                let not_sent = |line: &Line| matches!(line, Line::NotSent { .. });
                assert!(
                    lines.iter().any(not_sent),
                    "what was never taken in is in doubt"
                );
            }
        }
    }

    /// What memoryd hears from brokerd about a session. Silence is no word.
    fn heard(&mut self, session: SessionId, state: Option<SessionState>) {
        let Some(state) = state else {
            self.last_word.remove(&session);
            return;
        };
        if !state.seen
            && let Some(outbox) = &self.outbox
        {
            let found = self.sessions.iter().find(|found| found.id == session);
            let waiting = outbox.undecided().map(|(item, _)| item);
            let of_it = waiting.filter(|item| match item {
                ItemId::Turn { session: of, turn } => {
                    *of == session && found.is_some_and(|found| found.had_results(*turn))
                }
                ItemId::Edit(_) => false,
            });
            self.unvouched.extend(of_it);
        }
        self.last_word.insert(session, state);
    }

    /// Nothing goes to the trusted workspace that brokerd could not vouch for, unless memoryd was started since.
    fn check_lines(&self, lines: &[Line]) {
        for line in lines {
            let Line::Decided(decided) = line else {
                continue;
            };
            let trusted = |step: &Step| {
                matches!(
                    step,
                    Step::Messages {
                        role: Role::Trusted,
                        ..
                    }
                )
            };
            assert!(
                !self.unvouched.contains(&decided.item) || !decided.steps.iter().any(trusted),
                "{} went on brokerd's word, which had forgotten its session",
                decided.item
            );
        }
    }

    /// G2: brokerd was asked before every text that leaves, answered, and did not say "secret".
    fn check_request(&mut self, request: &Request) {
        let mut from = Vec::new();
        match request {
            Request::AddMessages { messages, .. } => {
                for message in messages {
                    match &message.item {
                        ItemId::Turn { session, .. } => from.push(session.clone()),
                        ItemId::Edit(_) => {
                            from.extend(message.origin.clone().map(|(session, _)| session));
                            from.extend(self.session_of_text(&message.content));
                        }
                    }
                }
            }
            Request::Conclude { content, .. } => from.extend(self.session_of_text(content)),
            Request::SetCard { lines, .. } => {
                self.check_newest_card();
                from.extend(lines.iter().filter_map(|line| self.session_of_text(line)));
            }
            _ => {}
        }
        for session in &from {
            let word = self.last_word.get(session);
            let word = word.expect("brokerd was asked before the send, and answered");
            assert!(
                word.class < Class::Secret,
                "sent although brokerd said secret"
            );
        }
        // It is asked again before the next.
        for session in &from {
            self.last_word.remove(session);
        }
    }

    /// Whose words a text is that is an edit's, or was derived from a session.
    fn session_of_text(&self, text: &str) -> Option<SessionId> {
        match text.rsplit_once(' ')? {
            (DERIVED, id) => {
                let mut found = self.honcho.spaces[&Role::Trusted].conclusions.iter();
                let found = found.find(|found| found.derived && found.id == id)?;
                naming::of_session(&found.session)
            }
            (_, id) => {
                let edit = self.edits.iter().find(|edit| id.parse() == Ok(edit.id))?;
                edit.by.session().cloned()
            }
        }
    }

    /// Every accident ends; memoryd goes on until there is nothing to do.
    pub fn heal_and_drain(&mut self) {
        self.faults = false;
        self.honcho.heal();
        self.broker_disk_full = false;
        self.ledger_disk_full = false;
        self.broker_deaf = false;
        // The owner puts brokerd's file back.
        let mut disk = std::mem::take(&mut self.broker_backup);
        disk.append(&mut self.broker_disk);
        self.broker_disk = disk;
        self.start_broker();
        for at in 0..self.sessions.len() {
            self.end(at);
        }
        if self.outbox.is_none() {
            self.start_memoryd();
        }
        self.look_through();
        let now = self.now;
        if let Some(outbox) = &mut self.outbox {
            outbox.try_now(now);
            // What waits since brokerd had forgotten its session waits for the owner.
            for session in &self.sessions {
                if outbox.owner_decides(&session.id, OwnerDecision::Untrusted) > 0 {
                    self.owner_said.insert(session.id.clone());
                }
            }
        }
        for _ in 0..200_000 {
            let now = self.now;
            let Some(outbox) = &mut self.outbox else {
                break;
            };
            if self.flying.is_some() {
                self.answer();
                continue;
            }
            match outbox.next(now) {
                Task::Wait(None) => return,
                Task::Wait(Some(until)) => self.now = self.now.max(until),
                Task::Call(request) => self.leaves(*request),
                _ => self.run_memoryd(),
            }
        }
        panic!("memoryd does not come to rest");
    }
}

struct Source<'a> {
    sessions: &'a [Session],
    edits: &'a [Edit],
}

impl texts::Source for Source<'_> {
    fn turn(&mut self, session: &SessionId, turn: u64) -> Result<Option<Turn>, LoadError> {
        let Some(found) = self.sessions.iter().find(|found| found.id == *session) else {
            return Ok(None);
        };
        let mut cursor = Cursor::default();
        let turns = found
            .records
            .iter()
            .filter_map(|record| cursor.take(session, record.clone()));
        let turn = turns.into_iter().find(|found| found.turn == turn);
        Ok(turn.map(|turn| Turn {
            purged: found.purged,
            ..turn
        }))
    }

    fn edit(&mut self, id: EditId) -> Option<Edit> {
        self.edits.iter().find(|edit| edit.id == id).cloned()
    }
}
