//! What peers of a link can do wrong again and again: logged at its start, then counted. Called by `listen`;
//! never logs what a peer sent.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::repeated::{Repeated, Word};

/// What peers of a link can do again and again, logged as `repeated` says.
#[derive(Debug)]
pub(super) struct Refusals {
    pub(super) frames: Counted,
    pub(super) strangers: Counted,
}

#[derive(Debug)]
pub(super) struct Counted {
    link: &'static str,
    what: &'static str,
    repeated: Mutex<Repeated>,
}

impl Refusals {
    pub(super) fn of(link: &'static str) -> Self {
        let counted = |what| Counted {
            link,
            what,
            repeated: Mutex::default(),
        };
        Self {
            frames: counted("refused a frame"),
            strangers: counted("refused a connection of another user"),
        }
    }

    pub(super) fn ended(&self) {
        for counted in [&self.frames, &self.strangers] {
            counted.log("", counted.lock().ended());
        }
    }
}

impl Counted {
    pub(super) fn happened(&self, kind: &str) {
        let word = self.lock().happened(Instant::now());
        self.log(kind, word);
    }

    pub(super) fn passed(&self) {
        let word = self.lock().passed(Instant::now());
        self.log("", word);
    }

    fn log(&self, kind: &str, word: Option<Word>) {
        let (link, what) = (self.link, self.what);
        match word {
            None => {}
            Some(Word::Began) => {
                tracing::warn!(link, kind, "{what}; more of them are only counted");
            }
            Some(Word::More(more)) => tracing::warn!(link, more, "{what}, again and again"),
            Some(Word::Ended(more)) => tracing::info!(link, more, "{what}, and no longer does"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Repeated> {
        self.repeated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
