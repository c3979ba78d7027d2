//! Daemons that die, start and forget, and how memoryd reads logs and journal.

use super::*;

impl World {
    pub fn broker_dies(&mut self) {
        self.broker = None;
        self.count("brokerd killed");
    }

    /// Its file is lost, as with a disk that is replaced.
    pub(super) fn broker_forgets(&mut self) {
        self.broker = None;
        self.broker_backup.append(&mut self.broker_disk);
        for session in &self.sessions {
            self.lost.insert(session.id.clone(), session.records.len());
            self.floor.entry(session.id.clone()).or_default().1 = Label::default();
        }
        self.count("brokerd's file lost");
    }

    pub fn start_broker(&mut self) {
        let mut labels = Labels::default();
        for line in &self.broker_disk {
            labels.replay(&labels::read_line(line).expect("our own line"));
        }
        self.broker = Some(labels);
    }

    pub fn memoryd_dies(&mut self) {
        self.outbox = None;
        // Nobody waits for it any more, and it goes on.
        if let Some(request) = self.flying.take() {
            let now = self.now;
            let _ = self
                .honcho
                .call(&request, now, self.faults, &mut self.random);
        }
        self.last_word.clear();
        self.unvouched.clear();
        self.append_failed = false;
        self.honcho.nobody_waits();
        self.count("memoryd killed");
    }

    pub fn start_memoryd(&mut self) {
        let mut ledger = Ledger::default();
        if self.ledger_disk.is_empty() {
            let opened = Line::Opened {
                at: self.now,
                installation: "i".into(),
                key: Some("key".into()),
            };
            self.ledger_disk.push(ledger_line(&opened));
        }
        for text in &self.ledger_disk {
            let line = ledger::parse(text).expect("our own line");
            ledger.apply(&line).expect("a line that fits");
        }
        let seed = self.random.next();
        self.outbox = Some(Outbox::new(self.config.clone(), ledger, seed));
        self.cursors.clear();
        self.look_through();
    }

    pub(super) fn look_through(&mut self) {
        for at in 0..self.sessions.len() {
            self.read_log(at);
        }
        self.read_edits();
    }

    pub fn read_log(&mut self, at: usize) {
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        let session = &self.sessions[at];
        let cursor = self.cursors.entry(session.id.clone()).or_default();
        let read = usize::try_from(cursor.offset).unwrap_or(0);
        // The world counts records where the file counts bytes.
        let mut turns = Vec::new();
        for record in session.records.iter().skip(read) {
            cursor.offset += 1;
            turns.extend(cursor.take(&session.id, record.clone()));
        }
        let purged = cursor.is_purged();
        for mut turn in turns {
            turn.purged = purged;
            let brief = texts::turn_brief(&self.config, &self.refuser, outbox.ledger(), &turn);
            outbox.turn_ended(brief);
        }
        if purged {
            self.finish_purge(at);
        }
    }

    pub fn read_edits(&mut self) {
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        for edit in &self.edits {
            // Saying it again would change nothing, and takes its time.
            if self.scripted && outbox.ledger().entry(&ItemId::Edit(edit.id)).is_some() {
                continue;
            }
            let source = edit
                .by
                .session()
                .and_then(|id| self.sessions.iter().find(|session| session.id == *id))
                .map(|session| session.source);
            let brief = texts::edit_brief(&self.config, &self.refuser, edit, &self.edits, source);
            outbox.edit_made(edit.clone(), brief);
        }
    }

    pub fn refuse_a_key(&mut self) {
        self.honcho.key_refused = match self.honcho.key_refused {
            Some(_) => None,
            None => Some(*self.random.pick(&Role::ALL)),
        };
    }

    pub(super) fn owner(&mut self) {
        let now = self.now;
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        let forgot = outbox.undecided().find_map(|(item, reason)| match item {
            ItemId::Turn { session, .. } if reason == Some(WaitReason::BrokerForgot) => {
                Some(session)
            }
            _ => None,
        });
        if let Some(session) = forgot {
            let decision = *self
                .random
                .pick(&[OwnerDecision::Untrusted, OwnerDecision::Skip]);
            outbox.owner_decides(&session, decision);
            self.owner_said.insert(session);
            return self.count("the owner decided");
        }
        if self.random.one_in(2) {
            outbox.try_now(now);
            return;
        }
        // Of what failed only: retrying what is in doubt may rightly send it twice.
        for item in memoryd::sync::status::failed(outbox) {
            self.retried.insert(item.clone());
            outbox.retry(&item, now);
        }
    }
}
