//! Fetches what a step sends, screened and ready. Pure but for the two look-ups it is given; called by
//! `worker` with log and journal, and by the simulation with its own.

use bxsanitize::{Outcome as Screened, Refuser};
use bxwire::{EditId, ItemId, SessionId};

use super::{
    config::HonchoConfig,
    decide::TurnFacts,
    ledger::{Ledger, Step, StepRef},
    mirror::EditBrief,
    outbox::{Load, LoadError, TurnBrief},
    prepare,
    request::{Message, Retracts},
};
use crate::{
    edit::{By, Change, Edit},
    logs::Turn,
    purge,
};
use bxcore::clock::Millis;

/// What a retraction says of a note whose text was purged.
const PURGED: &str = "[purged]";

/// Where texts are.
pub trait Source {
    /// A turn that has ended; `Ok(None)`: its log does not hold it.
    ///
    /// # Errors
    /// [`LoadError::Unreadable`]: the log cannot be read at the moment.
    fn turn(&mut self, session: &SessionId, turn: u64) -> Result<Option<Turn>, LoadError>;

    fn edit(&mut self, id: EditId) -> Option<Edit>;
}

/// What deciding needs to know of a turn.
#[must_use]
pub fn turn_brief(
    config: &HonchoConfig,
    refuser: &Refuser,
    ledger: &Ledger,
    turn: &Turn,
) -> TurnBrief {
    let (who, peer) = prepare::who(turn, config);
    TurnBrief {
        session: turn.session.clone(),
        turn: turn.turn,
        facts: TurnFacts {
            outcome: turn.outcome,
            origin: turn.origin,
            who,
            content: prepare::content(turn, refuser, |id| ledger.knows(id)),
            before_opening: Millis::parse(&turn.ended_at) < ledger.opened(),
            log: turn.label,
            broker_results: turn.broker_results,
            broker: None,
            owner: None,
        },
        peer,
        speaker: turn.speaker.clone(),
    }
}

/// What deciding needs to know of an edit, `edits` being the journal up to it. `source` is the client or channel its turn came through: `None` for
/// the owner's own, or when nobody knows.
#[must_use]
pub fn edit_brief(
    config: &HonchoConfig,
    refuser: &Refuser,
    edit: &Edit,
    edits: &[Edit],
    source: Option<&str>,
) -> EditBrief {
    let excluded = match &edit.by {
        By::Owner {} => false,
        By::Session { .. } => config.excludes(None, source),
    };
    let is_secret = |change: &Change| {
        let texts: Vec<_> = match (prepare::new_text(change), prepare::new_card(change)) {
            (text, None) => text.into_iter().collect(),
            (_, Some(card)) => card.iter().map(String::as_str).collect(),
        };
        matches!(refuser.check_joined(&texts), Screened::Secret(_))
    };
    EditBrief {
        secret_text: edit.changes.iter().any(is_secret),
        excluded,
        authors: authors(edit, edits),
    }
}

/// Of an undo, which edit first wrote the words that each change brings back; of any other edit, nothing.
fn authors(edit: &Edit, edits: &[Edit]) -> Vec<(usize, EditId)> {
    if edit.undoes.is_none() {
        return Vec::new();
    }
    let earlier = |text: &str, change: &Change| {
        let wrote = |of: &&Edit| {
            let mut changes = of.changes.iter();
            changes
                .any(|other| other.subject() == change.subject() && other.new_text() == Some(text))
        };
        let mut before = edits
            .iter()
            .filter(|of| of.id < edit.id && of.undoes.is_none());
        before.rfind(wrote).map(|of| of.id)
    };
    let changes = edit.changes.iter().enumerate();
    changes
        .filter_map(|(at, change)| Some((at, earlier(change.new_text()?, change)?)))
        .collect()
}

/// The texts of steps, each screened once more.
pub fn load(
    config: &HonchoConfig,
    ledger: &Ledger,
    refuser: &Refuser,
    source: &mut impl Source,
    steps: &[StepRef],
) -> Vec<Result<Load, LoadError>> {
    let mut loader = Loader {
        config,
        ledger,
        refuser,
        source,
    };
    steps.iter().map(|step| loader.step(step)).collect()
}

struct Loader<'a, S> {
    config: &'a HonchoConfig,
    ledger: &'a Ledger,
    refuser: &'a Refuser,
    source: &'a mut S,
}

impl<S: Source> Loader<'_, S> {
    fn step(&mut self, step: &StepRef) -> Result<Load, LoadError> {
        let known = self.ledger.step(step).ok_or(LoadError::Missing)?;
        match (known, &step.item) {
            (Step::Messages { peer, .. }, ItemId::Turn { session, turn }) => {
                let turn = self
                    .source
                    .turn(session, *turn)?
                    .ok_or(LoadError::Missing)?;
                if turn.purged {
                    return Err(LoadError::Purged);
                }
                self.screen(&[&turn.text, &turn.reply])?;
                Ok(Load::Messages(prepare::messages(
                    &turn,
                    peer,
                    &self.config.agent,
                )))
            }
            (Step::Conclude { change, .. }, ItemId::Edit(id)) => self
                .text(*id, *change)
                .map(|(_, text)| Load::Conclusion(text)),
            (Step::Note { change, .. }, ItemId::Edit(id)) => {
                let (edit, text) = self.text(*id, *change)?;
                Ok(Load::Messages(vec![self.note(step, &edit, text, None)]))
            }
            (Step::Retract { of }, ItemId::Edit(id)) => {
                let (Some(Step::Note { change, .. }), ItemId::Edit(noted)) =
                    (self.ledger.step(of), &of.item)
                else {
                    return Err(LoadError::Missing);
                };
                let text = match self.text(*noted, *change) {
                    Ok((_, text)) => text,
                    Err(LoadError::Purged) => PURGED.into(),
                    Err(error) => return Err(error),
                };
                let edit = self.edit(*id)?;
                let keeps = |change| prepare::new_text(change).map(prepare::clean);
                let retracts = Retracts {
                    name: self.ledger.name(of),
                    // A promotion, or its redo: the same edit keeps the words.
                    moved: edit
                        .changes
                        .iter()
                        .any(|change| keeps(change).as_ref() == Some(&text)),
                };
                let said = if retracts.moved { "moved" } else { "retracted" };
                let text = prepare::clean(&format!("{said}: {text}"));
                let note = self.note(step, &edit, text, Some(retracts));
                Ok(Load::Messages(vec![note]))
            }
            (Step::Card { change, .. }, ItemId::Edit(id)) => {
                let edit = self.edit(*id)?;
                let card = edit.changes.get(*change).and_then(prepare::new_card);
                let card = card.ok_or(LoadError::Missing)?;
                if card.iter().any(|line| purge::is_marker(line)) {
                    return Err(LoadError::Purged);
                }
                let lines: Vec<_> = card.iter().map(|line| prepare::clean(line)).collect();
                self.screen(&lines.iter().map(String::as_str).collect::<Vec<_>>())?;
                Ok(Load::Card(lines))
            }
            (Step::Unconclude { .. } | Step::Forget { .. } | Step::DeleteSession { .. }, _) => {
                Ok(Load::Nothing)
            }
            _ => Err(LoadError::Missing),
        }
    }

    /// The very edit that was decided: another one that came to its number is not it.
    fn edit(&mut self, id: EditId) -> Result<Edit, LoadError> {
        let decided = self.ledger.entry(&ItemId::Edit(id));
        let made = decided.and_then(|entry| entry.decided.made.as_deref());
        let edit = self.source.edit(id).ok_or(LoadError::Missing)?;
        match made {
            Some(made) if made != edit.at => Err(LoadError::Missing),
            _ => Ok(edit),
        }
    }

    fn text(&mut self, id: EditId, change: usize) -> Result<(Edit, String), LoadError> {
        let edit = self.edit(id)?;
        let text = edit
            .changes
            .get(change)
            .and_then(prepare::new_text)
            .map(prepare::clean)
            .ok_or(LoadError::Missing)?;
        if purge::is_marker(&text) {
            return Err(LoadError::Purged);
        }
        self.screen(&[&text])?;
        Ok((edit, text))
    }

    fn screen(&self, texts: &[&str]) -> Result<(), LoadError> {
        match self.refuser.check_joined(texts) {
            Screened::Secret(_) => Err(LoadError::Secret),
            Screened::Clear | Screened::MaybeSecret => Ok(()),
        }
    }

    fn note(
        &self,
        step: &StepRef,
        edit: &Edit,
        content: String,
        retracts: Option<Retracts>,
    ) -> Message {
        Message {
            item: step.item.clone(),
            part: step.step,
            name: self.ledger.name(step),
            peer: self.config.agent.clone(),
            content,
            created_at: edit.at.clone(),
            origin: match &edit.by {
                By::Session { session, turn, .. } => Some((session.clone(), *turn)),
                By::Owner {} => None,
            },
            retracts,
        }
    }
}
