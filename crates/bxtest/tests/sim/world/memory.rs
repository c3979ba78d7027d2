//! What the memory tool, the owner's undo and a purge make of memory.

use super::*;

impl World {
    /// The memory tool: an edit with the label that brokerd passes on.
    pub(super) fn remember(&mut self, at: usize) {
        if self.join_at_broker(at, Label::PRIVATE).is_none() {
            return;
        }
        let Some(broker) = &self.broker else { return };
        let label = broker.label(&self.sessions[at].id);
        let mut id = EditId(self.edits.len() as u64 + 1);
        let clean = !label.is_untrusted() && label.class < Class::Secret;
        if clean && self.random.one_in(2) {
            let change = match self.random.one_in(2) {
                true => self.forget(id),
                false => self.replace_card(at, id),
            };
            let Some(change) = change else { return };
            let card = matches!(change, Change::Carded { .. });
            self.edit_in(at, id, vec![change], label);
            if card && self.random.one_in(2) {
                self.card_again(at, label);
            }
            return;
        }
        let text = format!("entry of {id}");
        let changes = match self.random.below(if clean { 7 } else { 3 }) {
            3..=5 => vec![Change::Added {
                about: About::User,
                entry: format!("u{}", id.0),
                text,
            }],
            6 => {
                // Of whatever session: an undo brings back that one's words.
                let entries = self.memory.contents().entries(About::User).to_vec();
                if entries.is_empty() {
                    return;
                }
                let found = self.random.pick(&entries).clone();
                vec![Change::Replaced {
                    about: About::User,
                    entry: found.id.clone(),
                    before: found.text.clone(),
                    after: text,
                }]
            }
            _ => {
                let common = self.random.one_in(2);
                if common && self.random.one_in(2) {
                    // The same twice, one right after the other.
                    let note = Change::Noted {
                        note: format!("n{}", id.0),
                        text: COMMON.into(),
                    };
                    self.count("noted twice");
                    self.edit_in(at, id, vec![note], label);
                    id = EditId(id.0 + 1);
                }
                let mut changes = vec![Change::Noted {
                    note: format!("n{}", id.0),
                    text: if common {
                        COMMON.into()
                    } else {
                        format!("note of {id}")
                    },
                }];
                if self.random.one_in(4) {
                    changes.push(Change::Noted {
                        note: format!("n{}-2", id.0),
                        text: format!("second note of {id}"),
                    });
                }
                changes
            }
        };
        self.edit_in(at, id, changes, label);
    }

    fn edit_in(&mut self, at: usize, id: EditId, changes: Vec<Change>, label: Label) {
        let by = By::Session {
            session: self.sessions[at].id.clone(),
            turn: self.sessions[at].open.unwrap_or(1),
            speaker: Some(speaker("local", "owner")),
            call: None,
        };
        self.edit_truth.insert(id, self.sessions[at].truth);
        self.journal(id, by, changes, None, label);
    }

    /// `facts forget`, of something that Honcho concluded itself.
    fn forget(&mut self, id: EditId) -> Option<Change> {
        let known: Vec<_> = self
            .memory
            .contents()
            .forgotten()
            .map(|(_, fact)| fact.id.clone())
            .collect();
        let derived: Vec<_> = self.honcho.spaces[&Role::Trusted]
            .conclusions
            .iter()
            .filter(|found| found.derived && !found.deleted && !known.contains(&found.id))
            .cloned()
            .collect();
        if derived.is_empty() || self.honcho.down {
            return None;
        }
        let found = self.random.pick(&derived).clone();
        self.count("fact forgotten");
        Some(Change::Forgot {
            fact: format!("d{}", id.0),
            id: found.id,
            text: found.content,
            from: naming::of_session(&found.session),
        })
    }

    /// The card that an edit replaces; `None`: nobody can say now.
    pub fn card_now(&mut self) -> Option<Card> {
        let after = |edit: &Edit| match edit.changes.as_slice() {
            [Change::Carded { after, .. }] => Some(after.clone()),
            _ => None,
        };
        self.read_edits();
        match self.outbox.as_ref()?.last_card().ok()? {
            LastCard::Open(item) => self
                .edits
                .iter()
                .find(|edit| ItemId::Edit(edit.id) == item)
                .and_then(after),
            LastCard::Sent(_) if self.honcho.down => None,
            LastCard::Sent(whose) => {
                let held = self.honcho.spaces[&Role::Trusted].card.clone();
                Some(Card::held(held, &self.edits, whose))
            }
        }
    }

    /// `facts profile` with a new card.
    fn replace_card(&mut self, at: usize, id: EditId) -> Option<Change> {
        let before = self.card_now()?;
        self.count("card replaced");
        Some(Change::Carded {
            card: format!("c{}", id.0),
            before,
            after: Card {
                lines: vec!["a line".into(), format!("card of {id}")],
                from: Some(self.sessions[at].id.clone()),
            },
        })
    }

    fn journal(
        &mut self,
        id: EditId,
        by: By,
        changes: Vec<Change>,
        undoes: Option<EditId>,
        label: Label,
    ) {
        let edit = Edit {
            id,
            at: self.now.to_string(),
            by,
            what: "test".into(),
            changes,
            undoes,
            label,
            kept_local: None,
            files: Vec::new(),
        };
        self.keep(edit);
        if !self.random.one_in(10) {
            self.read_edits();
        }
    }

    /// Another card, a second or two after the last.
    fn card_again(&mut self, at: usize, label: Label) {
        for _ in 0..6 {
            self.run_memoryd();
        }
        self.now = self.now.plus_ms(1_500);
        let id = EditId(self.edits.len() as u64 + 1);
        if let Some(change) = self.replace_card(at, id) {
            self.count("card after card");
            self.edit_in(at, id, vec![change], label);
        }
    }

    /// The owner takes several notes out with one edit, as by hand: of one truth, so that there is one for what an
    /// undo brings back.
    pub(super) fn remove_several(&mut self) {
        let notes = self.memory.contents().notes();
        if notes.is_empty() {
            return;
        }
        let first = self.random.pick(notes);
        let truth = self.edit_truth[&first.edit];
        let alike: Vec<_> = notes
            .iter()
            .filter(|note| self.edit_truth[&note.edit] == truth)
            .cloned()
            .collect();
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..3 {
            let Note { id, text, .. } = self.random.pick(&alike).clone();
            let change = Change::Unnoted { note: id, text };
            if !changes.contains(&change) {
                changes.push(change);
            }
        }
        if changes.len() > 1 {
            self.count("several removed");
        }
        let id = EditId(self.edits.len() as u64 + 1);
        self.edit_truth.insert(id, truth);
        self.journal(id, By::Owner {}, changes, None, Label::PRIVATE);
    }

    /// The journal takes an edit.
    pub fn keep(&mut self, edit: Edit) {
        self.memory.apply(edit.clone()).expect("an edit that fits");
        self.edits.push(edit);
    }

    pub(super) fn undo(&mut self) {
        let open: Vec<_> = self
            .edits
            .iter()
            .filter(|edit| !self.undone.contains(&edit.id))
            .map(|edit| edit.id)
            .collect();
        if open.is_empty() {
            return;
        }
        let mut of = *self.random.pick(&open);
        // What is in doubt, now and then.
        let doubtful = self
            .in_doubt()
            .into_iter()
            .find_map(|step| match step.item {
                ItemId::Edit(id) if open.contains(&id) => Some(id),
                _ => None,
            });
        if let Some(doubtful) = doubtful.filter(|_| self.random.one_in(2)) {
            of = doubtful;
        }
        let at = self.now.to_string();
        let Ok(edit) = undo::undo(&self.memory, of, &Rules::default(), &at) else {
            // The card has changed since, or the text was purged.
            return self.count("undo refused");
        };
        let edit = match undo::replaces_card(&edit) {
            false => edit,
            true => match self.card_now() {
                Some(held) => undo::on_card(edit, &held),
                None => return self.count("undo refused"),
            },
        };
        let (id, changes) = (edit.id, edit.changes);
        // An undo's own label is no reason to trust what it brings back.
        let label = match self.random.one_in(2) {
            true => Label::PRIVATE,
            false => edit.label,
        };
        self.undone.insert(of);
        self.count("undo");
        let truth = self.edit_truth.get(&of).copied().unwrap_or_default();
        self.edit_truth.insert(id, truth);
        self.journal(id, By::Owner {}, changes, Some(of), label);
    }

    /// The steps of which nobody knows whether they arrived.
    pub fn in_doubt(&self) -> Vec<StepRef> {
        let Some(outbox) = &self.outbox else {
            return Vec::new();
        };
        let ledger = outbox.ledger();
        let open = ledger.open_places().flat_map(|place| ledger.open_at(place));
        open.map(|(_, step)| step)
            .filter(|step| outbox.in_doubt(step))
            .collect()
    }

    /// The owner purges a session: loopd empties its log and memoryd sees that, then or later.
    pub(super) fn purge(&mut self) {
        let over: Vec<_> = (0..self.sessions.len())
            .filter(|at| !self.sessions[*at].purged && self.sessions[*at].open.is_none())
            .collect();
        if over.is_empty() || self.sessions.len() > 40 {
            return;
        }
        let mut at = *self.random.pick(&over);
        // One of which something is in doubt, now and then.
        let doubtful = self.in_doubt().into_iter().find_map(|step| {
            let place = self.outbox.as_ref()?.ledger().place(&step)?;
            let session = naming::of_session(&place.session)?;
            let found = self.sessions.iter().position(|found| found.id == session)?;
            over.contains(&found).then_some(found)
        });
        if let Some(doubtful) = doubtful.filter(|_| self.random.one_in(2)) {
            at = doubtful;
        }
        self.count("purge");
        self.empty(at);
        let next = u8::try_from(self.sessions.len()).unwrap_or(u8::MAX);
        let next = Session::new(next, &mut self.random);
        self.sessions.push(next);
        if !self.random.one_in(3) {
            self.read_log(at);
        }
    }

    /// loopd's half of a purge: no text stays in the log.
    pub fn empty(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        session.purged = true;
        session
            .records
            .iter_mut()
            .for_each(|record| record.body.blank());
        let id = session.id.clone();
        self.check_blank(at);
        self.record(at, Body::Purged {});
        self.cursors.remove(&id);
    }

    /// memoryd's half of a purge whose log is empty: the edit, then the journal without the texts.
    pub(super) fn finish_purge(&mut self, at: usize) {
        let session = self.sessions[at].id.clone();
        if self.memory.purged(&session).is_some() {
            return;
        }
        let edit = purge::plan(&self.memory, &session, &self.now.to_string()).expect("a purge");
        let before = std::mem::take(&mut self.memory);
        self.memory = before.clone();
        self.edit_truth.insert(edit.id, Label::PRIVATE);
        self.edits.push(edit);
        if let Some(blank) = purge::blanked(&self.edits) {
            self.edits = blank;
        }
        self.memory = Memory::of(self.edits.clone()).expect("a journal that adds up");
        self.check_taken_out(&session, &before);
        self.read_edits();
    }
}
