//! Starts the sync thread and is what the rest of memoryd holds of it: an inbox, and questions that it answers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use bxcore::{
    append::{AppendError, OpenError},
    report, runbook,
    secrets::Secret,
};
use bxsanitize::Refuser;
use bxwire::{
    EditId, ItemId, SessionId,
    links::control::{self, OwnerDecision, SyncAction},
};

use super::{
    config::Role,
    outbox::LastCard,
    request::{Answer, Failure},
};

/// Most things waiting in the inbox; what does not fit is found again in logs and journal.
pub(super) const INBOX_MAX: usize = 1024;
/// How long somebody who asks for status waits for the worker.
const ANSWER_MS_MAX: Duration = Duration::from_secs(8);

/// What reaches the worker.
pub(super) enum Letter {
    Turn(SessionId),
    Edits,
    Rescan,
    Reload(BTreeMap<Role, Secret>, Arc<Refuser>),
    Ask(Question, SyncSender<control::Reply>),
    Notices(SyncSender<Vec<control::Notice>>),
    /// The name of a session's last Honcho session.
    Session(SessionId, SyncSender<Option<String>>),
    /// Answered once every edit so far is decided.
    Card(SyncSender<LastCard>),
    /// Whether the conclusion with this id of Honcho's is about to be deleted.
    Deletes(String, SyncSender<bool>),
    Called(u64, Result<Answer, Failure>),
    Stop,
}

pub(super) enum Question {
    Sync(SyncAction),
    Review,
    Why(ItemId, Vec<(String, String)>),
    Places(SessionId),
    Decide(SessionId, OwnerDecision),
}

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Ledger(#[from] OpenError),
    #[error(transparent)]
    Opening(#[from] AppendError),
    #[error(
        "the journal does not hold {0}, which the ledger decided: one of memory/journal.jsonl and \
         memory/honcho.jsonl is not of the same state"
    )]
    JournalBehind(EditId),
    #[error("`honcho.url` cannot be used: {0}")]
    Url(String),
    #[error("cannot start the sync thread")]
    System(#[source] std::io::Error),
}

impl report::Actionable for StartError {
    fn runbook(&self) -> Option<runbook::Runbook> {
        match self {
            Self::Ledger(error) => error.runbook(),
            Self::Opening(error) => error.runbook(),
            Self::JournalBehind(_) => Some(runbook::FILE_CORRUPT),
            Self::Url(_) => Some(runbook::HONCHO_CONFIG_INVALID),
            Self::System(_) => Some(runbook::STATE_UNUSABLE),
        }
    }
}

/// Tells which Honcho session a session goes on in: the worker follows it from decision to decision.
#[derive(Clone)]
pub struct Sessions(SyncSender<Letter>);

impl Sessions {
    /// `None`: nothing of it was decided yet, or the worker does not say in time.
    #[must_use]
    pub fn last(&self, session: &SessionId, within: Duration) -> Option<String> {
        let (answer, answered) = sync_channel(1);
        self.0
            .try_send(Letter::Session(session.clone(), answer))
            .ok()?;
        answered.recv_timeout(within).ok().flatten()
    }
}

/// The running worker, as the rest of memoryd sees it.
pub struct Handle {
    /// The ledger's id of this installation.
    pub installation: String,
    inbox: SyncSender<Letter>,
    /// Something did not fit the inbox: everything is looked through again.
    rescan: Arc<AtomicBool>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Handle {
    pub(super) fn new(
        installation: String,
        inbox: SyncSender<Letter>,
        rescan: Arc<AtomicBool>,
        thread: thread::JoinHandle<()>,
    ) -> Self {
        Self {
            installation,
            inbox,
            rescan,
            thread: Mutex::new(Some(thread)),
        }
    }

    fn tell(&self, message: Letter) {
        match self.inbox.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.rescan.store(true, Ordering::SeqCst);
            }
        }
    }

    /// What the worker says to a letter that asks; `None`: nothing, in time.
    fn answered<T>(&self, letter: impl FnOnce(SyncSender<T>) -> Letter) -> Option<T> {
        let (answer, answered) = sync_channel(1);
        self.tell(letter(answer));
        answered.recv_timeout(ANSWER_MS_MAX).ok()
    }

    pub fn turn_ended(&self, session: &SessionId) {
        self.tell(Letter::Turn(session.clone()));
    }

    /// The journal has grown.
    pub fn edit_made(&self) {
        self.tell(Letter::Edits);
    }

    /// loopd is there: what it wrote while nobody listened is in its logs.
    pub fn rescan(&self) {
        self.tell(Letter::Rescan);
    }

    /// New keys, and what may not leave: a workspace whose key was refused is tried again. Waits for room, since nothing
    /// else would bring them back; the worker empties its inbox at each step.
    pub fn reload(&self, keys: BTreeMap<Role, Secret>, refuser: Refuser) {
        let _ = self.inbox.send(Letter::Reload(keys, Arc::new(refuser)));
    }

    #[must_use]
    pub fn sync(&self, action: SyncAction) -> control::Reply {
        self.ask(Question::Sync(action))
    }

    #[must_use]
    pub fn review(&self) -> control::Reply {
        self.ask(Question::Review)
    }

    /// `facts` are what is known of the item here.
    #[must_use]
    pub fn why(&self, item: &ItemId, facts: Vec<(String, String)>) -> control::Reply {
        self.ask(Question::Why(item.clone(), facts))
    }

    /// What a purge of the session deletes in Honcho.
    #[must_use]
    pub fn places(&self, session: &SessionId) -> Vec<String> {
        match self.ask(Question::Places(session.clone())) {
            control::Reply::Change { lines, .. } => lines,
            _ => Vec::new(),
        }
    }

    #[must_use]
    pub fn decide(&self, session: &SessionId, decision: OwnerDecision) -> control::Reply {
        self.ask(Question::Decide(session.clone(), decision))
    }

    fn ask(&self, question: Question) -> control::Reply {
        let reply = self.answered(|answer| Letter::Ask(question, answer));
        reply.unwrap_or_else(|| {
            bxwire::Refused::new("busy", "the sync worker does not answer; try again")
                .with_runbook(runbook::HONCHO_UNREACHABLE.anchor())
                .into()
        })
    }

    /// For those who read what Honcho holds of a session.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        Sessions(self.inbox.clone())
    }

    /// What a person should know.
    #[must_use]
    pub fn notices(&self) -> Vec<control::Notice> {
        self.answered(Letter::Notices).unwrap_or_default()
    }

    /// Where the owner's card is; `None`: nobody says.
    #[must_use]
    pub fn last_card(&self) -> Option<LastCard> {
        self.answered(Letter::Card)
    }

    /// Whether the conclusion with this id of Honcho's is about to be deleted; `None`: nobody says.
    #[must_use]
    pub fn deletes(&self, id: &str) -> Option<bool> {
        self.answered(|answer| Letter::Deletes(id.into(), answer))
    }

    /// Ends the thread; a request in flight is left, and the ledger says `sending`.
    pub fn stop(&self) {
        let _ = self.inbox.send(Letter::Stop);
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keys_get_through_a_full_inbox() {
        let (inbox, letters) = sync_channel(1);
        let handle = Handle::new("i".into(), inbox, Arc::default(), thread::spawn(|| {}));
        handle.edit_made();
        let worker = thread::spawn(move || {
            letters
                .iter()
                .any(|letter| matches!(letter, Letter::Reload(..)))
        });
        handle.reload(BTreeMap::new(), Refuser::new(&[]));
        drop(handle);
        assert!(worker.join().unwrap());
    }
}
