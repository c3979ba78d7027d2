//! Logs and journal as the outbox needs them: what is new for it, and the texts of steps.

use super::*;

impl Worker {
    /// Reads every log and the journal for what is not known yet.
    pub(super) fn look_through(&mut self) {
        match self.logs.sessions() {
            Ok(sessions) => {
                for (session, found) in sessions {
                    let cursor = self.cursors.entry(session.clone()).or_default();
                    if cursor.stands(found) != Standing::Read {
                        self.read(&session);
                    }
                }
            }
            Err(error) => self.cannot_read(&error),
        }
        self.read_edits();
        self.outbox.ask_again();
    }

    pub(super) fn read(&mut self, session: &SessionId) {
        let cursor = self.cursors.entry(session.clone()).or_default();
        let turns = match self.logs.turns_after(session, cursor) {
            Ok(turns) => turns,
            Err(error) => return self.cannot_read(&error),
        };
        self.unreadable = false;
        let opened = self.outbox.ledger().opened();
        for turn in turns {
            let item = ItemId::Turn {
                session: session.clone(),
                turn: turn.turn,
            };
            let before_opening = Millis::parse(&turn.ended_at) < opened;
            // Nothing of the time before is ever sent, so it needs no line either.
            if before_opening || self.outbox.ledger().entry(&item).is_some() {
                continue;
            }
            let brief = texts::turn_brief(
                self.outbox.config(),
                &self.refuser,
                self.outbox.ledger(),
                &turn,
            );
            self.outbox.turn_ended(brief);
        }
    }

    pub(super) fn cannot_read(&mut self, error: &crate::logs::LogError) {
        if !std::mem::replace(&mut self.unreadable, true) {
            tracing::error!("{}", report::actionable(error));
        }
    }

    pub(super) fn read_edits(&mut self) {
        for edit in self.store.edits_after(self.edits) {
            self.edits = edit.id;
            if self.outbox.ledger().entry(&ItemId::Edit(edit.id)).is_some() {
                continue;
            }
            if Millis::parse(&edit.at) < self.outbox.ledger().opened() {
                continue;
            }
            let source = match &edit.by {
                By::Session { session, turn, .. }
                    if !self.outbox.config().exclude_sources.is_empty() =>
                {
                    self.logs.source_of_turn(session, *turn).ok().flatten()
                }
                By::Session { .. } | By::Owner {} => None,
            };
            let brief = self.store.with(|memory| {
                texts::edit_brief(
                    self.outbox.config(),
                    &self.refuser,
                    &edit,
                    memory.edits(),
                    source.as_deref(),
                )
            });
            self.outbox.edit_made(edit, brief);
        }
    }

    pub(super) fn load(&self, steps: &[StepRef]) -> Vec<Result<Load, LoadError>> {
        let mut source = OnDisk {
            logs: &self.logs,
            store: &self.store,
            read: None,
        };
        texts::load(
            self.outbox.config(),
            self.outbox.ledger(),
            &self.refuser,
            &mut source,
            steps,
        )
    }
}

/// Texts as log and journal hold them. The turns of one batch are of one session: its log is read once.
struct OnDisk<'a> {
    logs: &'a Logs,
    store: &'a Store,
    read: Option<(SessionId, Vec<Turn>)>,
}

impl texts::Source for OnDisk<'_> {
    fn turn(&mut self, session: &SessionId, turn: u64) -> Result<Option<Turn>, LoadError> {
        if self.read.as_ref().is_none_or(|(read, _)| read != session) {
            let turns = self
                .logs
                .turns_after(session, &mut Cursor::default())
                .map_err(|_| LoadError::Unreadable)?;
            self.read = Some((session.clone(), turns));
        }
        let turns = self.read.iter().flat_map(|(_, turns)| turns);
        Ok(turns.into_iter().find(|found| found.turn == turn).cloned())
    }

    fn edit(&mut self, id: EditId) -> Option<Edit> {
        self.store.edit(id)
    }
}
