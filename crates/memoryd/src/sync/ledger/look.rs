//! What can be asked of a ledger. Changes nothing.

use super::*;

impl Ledger {
    /// Where a step is done: what takes something back, where that is.
    #[must_use]
    pub fn place(&self, step: &StepRef) -> Option<Place> {
        let entry = self.entries.get(&step.item)?;
        let session = || {
            entry
                .decided
                .session
                .as_ref()
                .map(|session| session.name.clone())
        };
        match entry.decided.steps.get(step.step)? {
            Step::Messages { role, .. } => session().map(|session| Place {
                role: *role,
                session,
            }),
            Step::Conclude { .. } | Step::Forget { .. } | Step::Card { .. } => {
                session().map(|session| Place {
                    role: Role::Trusted,
                    session,
                })
            }
            Step::Note { .. } => session().map(|session| Place {
                role: Role::Fleet,
                session,
            }),
            Step::Unconclude { of } | Step::Retract { of } if of.item != step.item => {
                self.place(of)
            }
            Step::Unconclude { .. } | Step::Retract { .. } => None,
            Step::DeleteSession { role, session } => Some(Place {
                role: *role,
                session: session.clone(),
            }),
        }
    }

    /// Every place that a Boxmaker session has in Honcho.
    pub fn places(&self, session: &SessionId) -> impl Iterator<Item = &Place> {
        self.places.get(session).into_iter().flatten()
    }

    /// Whether a place is to be deleted and was not yet.
    #[must_use]
    pub fn is_doomed(&self, place: &Place) -> bool {
        self.doomed.contains(place)
    }

    #[must_use]
    pub fn opened(&self) -> Option<Millis> {
        self.opened.as_ref().map(|(at, _)| *at)
    }

    #[must_use]
    pub fn installation(&self) -> &str {
        self.opened.as_ref().map_or("", |(_, id)| id)
    }

    #[must_use]
    pub fn entry(&self, item: &ItemId) -> Option<&Entry> {
        self.entries.get(item)
    }

    /// What the message of a step is called in its Honcho session, the same at each try and look-up. Each step of an
    /// edit has a name of its own, since each note is taken back by itself.
    #[must_use]
    pub fn name(&self, step: &StepRef) -> String {
        match (self.names.get(step), step.step) {
            (Some(name), _) => name.clone(),
            // A turn; or an edit in a ledger without a key.
            (None, 0) => step.item.to_string(),
            (None, part) => format!("{}-{part}", step.item),
        }
    }

    /// Every item in the order it was decided.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.items.iter().filter_map(|item| self.entries.get(item))
    }

    #[must_use]
    pub fn state(&self, step: &StepRef) -> Option<&StepState> {
        self.entries.get(&step.item)?.states.get(step.step)
    }

    #[must_use]
    pub fn step(&self, step: &StepRef) -> Option<&Step> {
        self.entries.get(&step.item)?.decided.steps.get(step.step)
    }

    /// The session whose words a step sends.
    #[must_use]
    pub fn whose(&self, step: &StepRef) -> Option<&SessionId> {
        let decided = &self.entry(&step.item)?.decided;
        match decided.steps.get(step.step)? {
            Step::Conclude {
                from: Some(from), ..
            }
            | Step::Note {
                from: Some(from), ..
            } => Some(from),
            _ => decided.from.as_ref(),
        }
    }

    /// How many of a workspace's steps are what.
    #[must_use]
    pub fn counts(&self, role: Role) -> Counts {
        self.counts.get(&role).copied().unwrap_or_default()
    }

    /// How many items went nowhere, by reason.
    pub fn skipped(&self) -> impl Iterator<Item = (SkipReason, u64)> + '_ {
        self.skipped.iter().map(|(reason, count)| (*reason, *count))
    }

    /// The steps that failed.
    pub fn failed(&self) -> impl Iterator<Item = &StepRef> {
        self.failed.iter()
    }

    /// The places with something to do.
    pub fn open_places(&self) -> impl Iterator<Item = &Place> {
        self.open.keys()
    }

    /// A place's open steps, oldest first, each with its order.
    pub fn open_at(&self, place: &Place) -> impl Iterator<Item = (u64, StepRef)> + '_ {
        self.open
            .get(place)
            .into_iter()
            .flatten()
            .filter_map(|(order, step)| {
                let item = self.items.get(usize::try_from(*order).ok()?)?;
                let step = StepRef {
                    item: item.clone(),
                    step: *step,
                };
                Some((*order, step))
            })
    }

    /// The turns of a session that wait for the owner, since brokerd had forgotten it.
    #[must_use]
    pub fn held(&self, session: &SessionId) -> Option<&BTreeSet<u64>> {
        self.held.get(session)
    }

    /// The last Honcho session of a Boxmaker session.
    #[must_use]
    pub fn session(&self, session: &SessionId) -> Option<&HonchoSession> {
        self.sessions.get(session)
    }

    /// The step that made what Honcho holds of an entry or note.
    #[must_use]
    pub fn slot(&self, slot: &str) -> Option<&StepRef> {
        self.slots.get(slot)
    }

    /// The last step that ever wrote an entry, a note or the card, or deleted a fact. `None`: Honcho was never told.
    #[must_use]
    pub fn maker(&self, slot: &str) -> Option<&StepRef> {
        self.makers.get(slot)
    }

    /// Whether a replacement of the card is older than one that was sent: sending it now would undo that.
    #[must_use]
    pub fn is_old_card(&self, step: &StepRef) -> bool {
        let order = self.entry(&step.item).map(|entry| (entry.order, step.step));
        order < self.card_sent
    }

    /// The newest replacement of the card that is to be sent and was not yet.
    #[must_use]
    pub fn card_open(&self) -> Option<&ItemId> {
        let open = self.open.values().flatten().rev();
        open.filter_map(|(order, step)| {
            let entry = self
                .entries
                .get(self.items.get(usize::try_from(*order).ok()?)?)?;
            let card = matches!(entry.decided.steps.get(*step)?, Step::Card { .. });
            card.then_some((*order, &entry.decided.item))
        })
        .max_by_key(|(order, _)| *order)
        .map(|(_, item)| item)
    }

    /// The session whose words the last replacement of the card is that was sent.
    #[must_use]
    pub fn card_whose(&self) -> Option<&SessionId> {
        let (order, step) = self.card_sent?;
        let item = self.items.get(usize::try_from(order).ok()?)?.clone();
        self.whose(&StepRef { item, step })
    }

    /// Whether a step that deletes the conclusion with this id is to be sent and was not yet.
    #[must_use]
    pub fn deletes(&self, id: &str) -> bool {
        let made = |of: &StepRef| match self.state(of) {
            Some(StepState::Sent { ids, .. }) => ids.iter().any(|made| made == id),
            _ => false,
        };
        self.open_places()
            .flat_map(|place| self.open_at(place))
            .any(|(_, step)| match self.step(&step) {
                Some(Step::Forget { id: deleted, .. }) => deleted == id,
                Some(Step::Unconclude { of }) => made(of),
                _ => false,
            })
    }

    /// Whether an id of Honcho's is recorded for some step: a look-up does not take it for another's, and it is no key.
    #[must_use]
    pub fn knows(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// The last step of a role that made something which was not taken back since.
    #[must_use]
    pub fn last_sent(&self, role: Role) -> Option<&StepRef> {
        self.last_sent.get(&role)
    }

    /// When the first turn went to the trusted workspace.
    #[must_use]
    pub fn turns_since(&self) -> Option<Millis> {
        self.turns_since
    }

    /// Ids of conclusions that Honcho should hold, the newest `most`.
    #[must_use]
    pub fn standing(&self, most: usize) -> Vec<String> {
        let mut held: Vec<_> = self
            .slots
            .values()
            .filter(|step| matches!(self.step(step), Some(Step::Conclude { .. })))
            .filter_map(|step| match self.state(step)? {
                StepState::Sent { ids, .. } => {
                    Some((self.entry(&step.item)?.order, step.step, ids))
                }
                _ => None,
            })
            .collect();
        held.sort_unstable();
        let newest = held.into_iter().rev().take(most);
        newest.flat_map(|(_, _, ids)| ids).cloned().collect()
    }
}
