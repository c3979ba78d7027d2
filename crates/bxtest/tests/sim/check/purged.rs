//! Nothing of a purged session is anywhere, but for what was kept.

use super::*;

impl World {
    /// Whether a Honcho session is one of a session that was purged.
    pub(super) fn is_of_purged(&self, session: &str) -> bool {
        let purged = self.sessions.iter().filter(|session| session.purged);
        purged
            .into_iter()
            .any(|purged| session.starts_with(purged.id.as_str()))
    }

    /// Whether Honcho refused to delete a session, which is shown as failed.
    pub(super) fn stays(&self, role: Role, session: &str) -> bool {
        let ledger = self.outbox.as_ref().map(Outbox::ledger);
        let mut entries = ledger.into_iter().flat_map(Ledger::entries);
        entries.any(|entry| {
            let mut steps = entry.decided.steps.iter().zip(&entry.states);
            steps.any(|(step, state)| {
                matches!(step, Step::DeleteSession { role: of, session: name }
                    if *of == role && name == session)
                    && matches!(state, StepState::Failed { .. })
            })
        })
    }

    /// Nothing of a purged session is anywhere, but for what was kept.
    pub(super) fn check_purged(&self) {
        for role in Role::ALL {
            for (session, stored) in self.honcho.messages(role) {
                if self.stays(role, session) {
                    continue;
                }
                let item = &stored.message.item;
                let of_purged = match item {
                    ItemId::Turn { session, .. } => self.is_of_purged(session.as_str()),
                    ItemId::Edit(_) => false,
                };
                assert!(
                    !of_purged && !self.is_of_purged(session),
                    "{item} is in {role:?} though its session was purged"
                );
            }
            for found in &self.honcho.spaces[&role].conclusions {
                assert!(
                    found.deleted
                        || !self.is_of_purged(&found.session)
                        || self.stays(role, &found.session),
                    "`{}` is there though its session was purged",
                    found.content
                );
            }
        }
    }

    /// A purged session's log has no words any more.
    pub fn check_blank(&self, at: usize) {
        for record in &self.sessions[at].records {
            let line = serde_json::to_string(record).expect("a line");
            for words in [
                "words of",
                "reply to",
                "what a tool read",
                "what memory says",
                "what was said",
            ] {
                assert!(!line.contains(words), "`{words}` is in a purged log");
            }
        }
    }

    /// A purge takes a session's notes out of memory and leaves the rest as it was; the journal has no text of the
    /// session's but what memory still holds.
    pub fn check_taken_out(&self, session: &SessionId, before: &Memory) {
        let (was, is) = (before.contents(), self.memory.contents());
        let facts = |contents: &Contents| {
            let back = contents.forgotten().filter(|(_, fact)| fact.back);
            back.map(|(_, fact)| fact.text.clone()).collect::<Vec<_>>()
        };
        let texts = |contents: &Contents| {
            let entries = contents.entries(About::User).iter();
            entries.map(|entry| entry.text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(texts(was), texts(is), "a purge changed identity");
        assert_eq!(facts(was), facts(is), "a purge changed the facts");
        // Facts about the owner are the owner's.
        let own = |note: &&Note| note.by.session() == Some(session) && !is_fact(&note.id);
        assert_eq!(is.notes().iter().filter(own).count(), 0, "notes stay");
        let others =
            |contents: &Contents| contents.notes().iter().filter(|note| !own(note)).count();
        assert_eq!(others(was), others(is), "notes of others went");
        let card = is.carded().and_then(|edit| self.memory.edit(edit));
        let lines = card.into_iter().flat_map(|edit| &edit.changes);
        let lines: Vec<_> = lines
            .filter_map(memoryd::sync::prepare::new_card)
            .flatten()
            .cloned()
            .collect();
        let kept: Vec<_> = [texts(is), facts(is), lines].concat();
        let journal = serde_json::to_string(&self.edits).expect("a journal");
        for edit in &self.edits {
            if edit.by.session() == Some(session) {
                let id = edit.id;
                for text in ["entry of", "note of", "second note of", "card of"] {
                    let text = format!("{text} {id}");
                    assert!(
                        kept.contains(&text) || !journal.contains(&format!("\"{text}\"")),
                        "`{text}` is in the journal though its session was purged"
                    );
                }
            }
        }
        for found in &self.honcho.spaces[&Role::Trusted].conclusions {
            let of_it = found.derived && found.session.starts_with(session.as_str());
            assert!(
                !of_it
                    || kept.contains(&found.content)
                    || !journal.contains(&format!("\"{}\"", found.content)),
                "`{}` is in the journal though its session was purged",
                found.content
            );
        }
    }
}
