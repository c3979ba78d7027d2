//! The commands that take an edit back, promote a note or purge a session: each says what it would do, and does it only
//! when told to.

use super::*;

impl Service {
    pub(super) fn undo(&self, edit: EditId, confirm: bool) -> Reply {
        let undoing = match self.undoing(edit) {
            Ok(undoing) => undoing,
            Err(denied) => return service::refused(&WriteError::Denied(denied)).into(),
        };
        self.change(
            confirm,
            |memory, rules, refuser, at| undoing.plan(memory, rules, refuser, at),
            |_, _| Vec::new(),
        )
    }

    pub(super) fn promote(&self, note: &str, confirm: bool) -> Reply {
        self.change(
            confirm,
            |memory, rules, refuser, at| review::promote(memory, note, rules, refuser, at),
            review::becomes,
        )
    }

    /// Makes an edit, or says what it would do; `beside`: what else there is to say before it is made.
    fn change(
        &self,
        confirm: bool,
        plan: impl FnOnce(&Memory, &Rules, &Refuser, &str) -> Result<Edit, Denied>,
        beside: impl FnOnce(&Memory, &Edit) -> Vec<String>,
    ) -> Reply {
        if confirm {
            return match self.write(plan) {
                Ok(written) => made(&written.edit),
                Err(error) => service::refused(&error).into(),
            };
        }
        let would = self
            .store
            .would(|memory, rules, refuser| plan(memory, rules, refuser, ""));
        match would {
            Ok(edit) => {
                let mut lines = bounded(words::lines(&edit));
                lines.extend(self.store.with(|memory| beside(memory, &edit)));
                Reply::Change {
                    done: false,
                    lines,
                    edit: None,
                }
            }
            Err(denied) => service::refused(&WriteError::Denied(denied)).into(),
        }
    }

    /// Removes what a session left here and in Honcho. Its log is loopd's, which empties it first.
    pub(super) fn purge(&self, session: &SessionId, confirm: bool) -> Reply {
        let log = match self.logs.purged(session) {
            Ok(log) => log,
            Err(error) => {
                let refused = Refused::new("unreadable", report::line(&error, None));
                return match error.runbook() {
                    Some(entry) => refused.with_runbook(entry.anchor()).into(),
                    None => refused.into(),
                };
            }
        };
        if confirm {
            if log.is_some_and(|(_, purged)| !purged) {
                return Refused::new(
                    "log-not-purged",
                    "loopd's log still holds the session's texts; `bxctl memory purge` empties it first",
                )
                .with_runbook(runbook::SESSION_PURGED.anchor())
                .into();
            }
            self.store.take_out_purged();
            let before = self.store.with(|memory| memory.purged(session));
            let edit = match self.write(|memory, _, _, at| purge::plan(memory, session, at)) {
                Ok(written) => Some(written.edit),
                // It was carried out when loopd said that the log is empty.
                Err(WriteError::Denied(_)) if before.is_some() => {
                    before.and_then(|edit| self.store.edit(edit))
                }
                Err(error) => return service::refused(&error).into(),
            };
            return match edit {
                Some(edit) if self.store.is_unpurged() => unpurged(edit.id).into(),
                edit => edit.as_ref().map_or(NOTHING, made),
            };
        }
        // Before loopd empties anything: the edit that follows may have to change that file.
        if let Some(file) = self.store.held().into_iter().next() {
            return service::refused(&WriteError::Denied(Denied::Held(file))).into();
        }
        let edit = self
            .store
            .would(|memory, _, _| purge::plan(memory, session, ""));
        let places = self.hooks.places(session);
        let turns = log.filter(|(_, purged)| !purged).map(|(turns, _)| turns);
        let mut lines = Vec::new();
        if let Some(turns) = turns {
            lines.push(match turns {
                1 => "empties its 1 turn, here and in the index".to_owned(),
                _ => format!("empties its {turns} turns, here and in the index"),
            });
        }
        match edit {
            Ok(edit) => {
                lines.extend(words::lines(&edit).into_iter().skip(1));
                let besides = |memory: &Memory| purge::besides(memory, session, &edit);
                lines.extend(self.store.with(besides));
            }
            Err(Denied::Argument(_)) => {}
            Err(denied) => return service::refused(&WriteError::Denied(denied)).into(),
        }
        lines.extend(places);
        Reply::Change {
            done: false,
            lines: bounded(lines),
            edit: None,
        }
    }
}

const NOTHING: Reply = Reply::Change {
    done: false,
    lines: Vec::new(),
    edit: None,
};

/// A purge whose texts the journal still holds.
fn unpurged(edit: EditId) -> Refused {
    let entry = runbook::APPEND_FAILED.anchor();
    let text = format!(
        "{edit} purges the session, and memory/journal.jsonl still holds its texts: it cannot be written anew now. memoryd \
         does that with the next turn or edit; `bxctl status` says until when"
    );
    Refused::new(entry, text).with_runbook(entry)
}

/// A change that was made.
fn made(edit: &Edit) -> Reply {
    Reply::Change {
        done: true,
        lines: bounded(words::lines(edit)),
        edit: Some(edit.id),
    }
}
