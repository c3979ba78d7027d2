//! Answers every request of memoryd's three sockets from store, index and hooks. Called by `serve`; knows of
//! no socket.

use std::sync::{
    Arc, Mutex, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
    mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
};

use bxcore::{
    clock::Millis,
    reload::Reloads,
    report::{self, Actionable as _},
    runbook,
};
use bxsanitize::{Outcome, Refuser};
use bxwire::{
    Label, Refused, SessionId,
    links::{control::Notice, memory, memory_tools as tools},
};

use crate::{
    config::{Config, Keys},
    denied::Denied,
    edit::Edit,
    files,
    fleet::service::{Fleet, ReadKeys},
    hooks::SyncHooks,
    identity,
    index::{self, Index, IndexError},
    knowledge::{Knowledge, tool::Refusal},
    logs::Logs,
    memory::Memory,
    plan::{self, Rules},
    purge,
    recall::{self, Query, Reader},
    store::{Store, WriteError, Written},
    sync::config::Role,
};

/// memoryd without its sockets.
pub struct Service {
    pub(crate) store: Arc<Store>,
    pub(crate) index: Index,
    pub(crate) hooks: Arc<dyn SyncHooks>,
    pub(crate) fleet: Fleet,
    pub(crate) knowledge: Knowledge,
    pub(crate) logs: Logs,
    limits: RwLock<recall::Limits>,
    /// Keeps the index and the hooks in the journal's order.
    writing: Mutex<()>,
    /// Wakes the indexing thread; one waiting wake stands for any number.
    wake: SyncSender<()>,
    pub(crate) stopping: AtomicBool,
    pub(crate) reloads: Reloads,
    /// Until the first pass over logs and journal, and while a rebuilt index does not hold everything.
    filling: AtomicBool,
    /// What the last pass over index and logs could not do.
    trouble: Mutex<Vec<Notice>>,
    /// Some of it may be done at the next try; a log that cannot be read stays so until somebody looks at it.
    behind: AtomicBool,
    /// When it became ready.
    pub(crate) since: Millis,
}

impl Service {
    /// The service, and what the indexing thread waits on.
    #[must_use]
    pub fn new(
        store: Arc<Store>,
        index: Index,
        hooks: Arc<dyn SyncHooks>,
        fleet: Fleet,
        knowledge: Knowledge,
        logs: Logs,
        limits: recall::Limits,
    ) -> (Self, Receiver<()>) {
        let (wake, woken) = sync_channel(1);
        let service = Self {
            store,
            index,
            hooks,
            fleet,
            knowledge,
            logs,
            limits: RwLock::new(limits),
            writing: Mutex::new(()),
            wake,
            stopping: AtomicBool::new(false),
            reloads: Reloads::default(),
            filling: AtomicBool::new(true),
            trouble: Mutex::new(Vec::new()),
            behind: AtomicBool::new(false),
            since: Millis::now(),
        };
        (service, woken)
    }

    /// Takes a new configuration.
    pub fn configure(&self, config: &Config, keys: &Keys) {
        self.store.configure(config.rules.clone(), keys.refuser());
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = config.recall;
        self.hooks.reload();
        self.knowledge.reload(keys.workspaces.get(&Role::Trusted));
        self.fleet.reload(&ReadKeys {
            own: keys.workspaces.clone(),
            readers: keys.readers.clone(),
        });
    }

    /// Has the indexing thread compare index, logs and journal.
    pub fn wake(&self) {
        match self.wake.try_send(()) {
            Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => {}
        }
    }

    /// Brings the index up to the logs and the journal. The indexing thread's work.
    pub fn catch_up(&self) {
        self.store.take_out_purged();
        let memory = self
            .throw_away_purged()
            .and_then(|()| self.catch_up_memory());
        if self.index.take_stale() {
            self.filling.store(true, Ordering::SeqCst);
        }
        let logs = self.index.take_logs(&self.logs, &self.stopping);
        if memory.is_ok() && logs.is_ok() {
            self.filling.store(false, Ordering::SeqCst);
            // It broke and was made anew on the way: once more.
            if self.index.is_stale() {
                self.wake();
            }
        }
        let mut trouble: Vec<_> = memory.err().iter().map(noticed).collect();
        let mut unreadable = Vec::new();
        match logs {
            Ok(pass) => {
                unreadable.extend(pass.errors.iter().map(noticed));
                let failed = pass.purged.iter().map(|session| self.finish_purge(session));
                trouble.extend(failed.filter_map(Result::err));
            }
            Err(error) => trouble.push(noticed(&error)),
        }
        self.behind.store(!trouble.is_empty(), Ordering::SeqCst);
        trouble.extend(unreadable);
        let mut last = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        // One cause can stop both halves.
        trouble.dedup();
        for line in news(&last, &trouble) {
            tracing::warn!("{line}");
        }
        if trouble.is_empty() && !last.is_empty() {
            tracing::info!("the index is up to date again");
        }
        *last = trouble;
    }

    /// An index made before the last purge may still hold in its pages what was purged.
    fn throw_away_purged(&self) -> Result<(), IndexError> {
        match self.store.with(Memory::last_purge) {
            Some(purge) if self.index.last_purge()? < purge => self.index.start_over(purge),
            _ => Ok(()),
        }
    }

    /// loopd has emptied the session's log, and whoever asked for that may not have come to ask for the rest.
    fn finish_purge(&self, session: &SessionId) -> Result<(), Notice> {
        if self.store.with(|memory| memory.purged(session)).is_some() {
            return Ok(());
        }
        let made = self.write(|memory, _, _, at| purge::plan(memory, session, at));
        made.map(|written| tracing::info!(edit = %written.edit.id, "purged a session"))
            .map_err(|error| Notice {
                text: format!(
                    "the session {session} is purged in its log and not yet in memory: {}",
                    report::line(&error, None)
                ),
                runbook: error.runbook().map(|entry| entry.anchor().into()),
            })
    }

    /// Whether something could not be taken in, or taken out, and has to be tried again.
    fn is_behind(&self) -> bool {
        self.behind.load(Ordering::SeqCst) || self.store.is_unpurged()
    }

    fn catch_up_memory(&self) -> Result<(), IndexError> {
        let _in_order = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let last = self.store.last_edit();
        if self.index.last_edit()? == last {
            return Ok(());
        }
        let rows = self
            .store
            .with(|memory| index::of_memory(memory.contents(), None));
        self.index.take_memory(last, &rows)
    }

    /// Everything memoryd has to say to a person.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        let mut notices = self.store.notices();
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        notices.extend(trouble.iter().cloned());
        drop(trouble);
        notices.extend(self.reloads.notice());
        notices.extend(self.hooks.notices());
        notices.extend(self.fleet.notices());
        notices
    }

    /// Makes an edit, then tells index and hooks.
    pub(crate) fn write(
        &self,
        plan: impl FnOnce(&Memory, &Rules, &Refuser, &str) -> Result<Edit, Denied>,
    ) -> Result<Written, WriteError> {
        let _in_order = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.store.write(plan)?;
        self.told(&written.edit);
        Ok(written)
    }

    pub(crate) fn accept(&self, confirm: bool) -> Result<crate::store::Accepted, WriteError> {
        let _in_order = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let accepted = self.store.accept(confirm)?;
        if let Some(written) = &accepted.written {
            self.told(&written.edit);
        }
        Ok(accepted)
    }

    fn told(&self, edit: &Edit) {
        if edit.changes.iter().any(|change| change.purges().is_some()) {
            if let Err(error) = self.index.start_over(edit.id) {
                self.index_failed(&error);
            }
            self.wake();
            self.hooks.edit_made(edit);
            return;
        }
        let subjects = edit
            .changes
            .iter()
            .map(|change| change.subject().to_owned())
            .collect();
        // The rows are made first: nobody waits for the index to read memory.
        let rows = self
            .store
            .with(|memory| index::of_memory(memory.contents(), Some(&subjects)));
        match self.index.take_edit(edit.id, &subjects, &rows) {
            Ok(true) if !self.is_behind() => {}
            Ok(_) => self.wake(),
            Err(error) => self.index_failed(&error),
        }
        self.hooks.edit_made(edit);
    }

    /// An index that fails is caught up later; nobody waits for it.
    fn index_failed(&self, error: &IndexError) {
        self.failed(noticed(error));
    }

    fn failed(&self, notice: Notice) {
        self.behind.store(true, Ordering::SeqCst);
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if !trouble.contains(&notice) {
            tracing::warn!("{}", shown(&notice));
            trouble.push(notice);
        }
        drop(trouble);
        self.wake();
    }

    /// loopd has connected: what it wrote while nobody listened is in the logs.
    pub fn loopd_connected(&self) {
        self.wake();
        self.hooks.loopd_connected();
    }

    /// `run/loop-memory/memory.sock`.
    pub fn memory(&self, request: memory::Request) -> memory::Reply {
        match request {
            memory::Request::Identity { audience } => {
                let (text, label, owner_changes) = self.store.with(|memory| {
                    let (text, label) = identity::system_text(memory.contents(), audience);
                    (text, label, memory.owner_changes())
                });
                memory::Reply::Identity {
                    digest: files::hash(&text),
                    text,
                    label,
                    owner_changes,
                }
            }
            memory::Request::Context(before) => {
                let text = self.knowledge.context.before(before);
                let label = match text.is_empty() {
                    true => Label::default(),
                    false => Label::PRIVATE,
                };
                memory::Reply::Context { text, label }
            }
            memory::Request::SessionUpdated { session, turn } => {
                self.updated(&session, turn);
                let notices = self.hooks.notices();
                memory::Reply::Updated {
                    notices: notices.iter().map(shown).collect(),
                }
            }
            memory::Request::OwnerCommand {
                session,
                speaker,
                name,
                arguments,
            } => {
                if !self.store.is_owner(speaker.as_ref()) {
                    return Refused::new("not-allowed", "only the owner may do this").into();
                }
                memory::Reply::Answer {
                    text: self.command(&session, &name, &arguments),
                }
            }
        }
    }

    fn updated(&self, session: &SessionId, turn: u64) {
        match self.index.take_session(&self.logs, session) {
            Ok(true) => {
                if let Err(notice) = self.finish_purge(session) {
                    self.failed(notice);
                }
            }
            // What failed before may be done now.
            Ok(false) if self.is_behind() => self.wake(),
            Ok(false) => {}
            Err(error) => self.index_failed(&error),
        }
        self.hooks.turn_ended(session, turn);
        self.knowledge.context.turn_ended(session, turn);
    }

    /// `run/broker-memory/tools.sock`. `say`: sends progress; false when nobody waits any more.
    pub fn tool(
        &self,
        request: tools::Request,
        say: &mut dyn FnMut(tools::Reply) -> bool,
    ) -> tools::Reply {
        let tool = match &request {
            tools::Request::Memory { .. } | tools::Request::Tools {} => None,
            tools::Request::Recall { .. } => Some("recall"),
            tools::Request::AskMemory { .. } => Some("ask_memory"),
            tools::Request::Facts { .. } => Some("facts"),
        };
        // A model that was told of it before the owner chose otherwise may still ask.
        if let Some(tool) = tool.filter(|tool| self.knowledge.facts.leaves_out(tool)) {
            let text =
                format!("{tool} is not among the tools that memoryd.toml gives (`honcho.tools`)");
            return tools::Reply::Denied { text };
        }
        match request {
            tools::Request::Tools {} => tools::Reply::Tools {
                names: self.knowledge.facts.tools(),
            },
            tools::Request::Facts { caller, arguments } => self.facts(&caller, &arguments),
            tools::Request::Memory { caller, arguments } => {
                self.written(|memory, rules, refuser, at| {
                    plan::plan(memory, &arguments, &caller, rules, refuser, at)
                })
            }
            tools::Request::Recall { caller, arguments } => {
                let reader = self.reader(&caller);
                match self.recall(&arguments, reader) {
                    Ok(answer) => tools::Reply::Done {
                        text: answer.text,
                        label: answer.label,
                        causes: answer.causes,
                        edit: None,
                    },
                    Err(RecallError::Denied(denied)) => denied_reply(&denied),
                    Err(RecallError::Index(error)) => index_refused(&error).into(),
                }
            }
            tools::Request::AskMemory { caller, arguments } => {
                let reader = self.reader(&caller);
                let mut progress = |text| say(tools::Reply::Progress { text });
                match self.ask_memory(&arguments, reader, &mut progress) {
                    Ok(answer) => tools::Reply::Done {
                        text: answer.text,
                        label: answer.label,
                        causes: answer.causes,
                        edit: None,
                    },
                    Err(text) => tools::Reply::Denied { text },
                }
            }
        }
    }

    /// A log that does not tell where a turn came from leaves it unknown.
    fn reader(&self, caller: &tools::Caller) -> Reader {
        let source = || {
            let found = self.logs.source_of_turn(&caller.session, caller.turn);
            found.ok().flatten()
        };
        let asker = self.fleet.asker(caller.speaker.as_ref(), source);
        Reader::session(caller.label, caller.audience, asker)
    }

    fn facts(&self, caller: &tools::Caller, arguments: &tools::FactsOp) -> tools::Reply {
        let reader = self.reader(caller);
        let is_secret = |text: &str| matches!(self.store.check(text), Outcome::Secret(_));
        match (
            self.knowledge.facts.read(arguments, reader, is_secret),
            arguments,
        ) {
            (Ok(answer), _) => tools::Reply::Done {
                text: answer.text,
                label: answer.label,
                causes: answer.causes,
                edit: None,
            },
            (Err(Refusal::Writes), tools::FactsOp::Conclude { text }) => {
                self.written(|memory, rules, refuser, at| {
                    plan::conclude(memory, text, caller, rules, refuser, at)
                })
            }
            (Err(Refusal::Writes), tools::FactsOp::Forget { id }) => {
                self.forget_fact(caller, reader, id)
            }
            (Err(Refusal::Writes), tools::FactsOp::Profile { card: Some(lines) }) => {
                self.replace_card(caller, reader, lines)
            }
            (Err(Refusal::Writes), _) => Refused::new("bad-request", "it does not write").into(),
            (Err(Refusal::Denied(text)), _) => tools::Reply::Denied { text },
        }
    }

    /// Makes an edit for a tool.
    pub(crate) fn written(
        &self,
        plan: impl FnOnce(&Memory, &Rules, &Refuser, &str) -> Result<Edit, Denied>,
    ) -> tools::Reply {
        match self.write(plan) {
            Ok(written) => tools::Reply::Done {
                text: crate::words::done(&written),
                label: Label::PRIVATE,
                causes: Vec::new(),
                edit: Some(written.edit.id),
            },
            Err(WriteError::Denied(denied)) => denied_reply(&denied),
            Err(error) => refused(&error).into(),
        }
    }

    /// Asks Honcho's own answers; an error is for the model.
    pub(crate) fn ask_memory(
        &self,
        arguments: &tools::AskMemory,
        reader: Reader,
        say: &mut dyn FnMut(String) -> bool,
    ) -> Result<recall::Answer, String> {
        match self.fleet.chats() {
            Some(chats) => chats.ask(arguments, reader, |text| self.store.check(text), say),
            None => Err("not asked: Honcho is not configured".into()),
        }
    }

    pub(crate) fn recall(
        &self,
        arguments: &tools::Recall,
        reader: Reader,
    ) -> Result<recall::Answer, RecallError> {
        let limits = *self.limits.read().unwrap_or_else(PoisonError::into_inner);
        let query = Query::read(arguments, limits).map_err(RecallError::Denied)?;
        let mut others = Vec::new();
        if self.behind.load(Ordering::SeqCst) {
            others.push(
                "The index is not up to date (`bxctl status` says why): something may be missing, or no longer so."
                    .to_owned(),
            );
            self.wake();
        } else if self.filling.load(Ordering::SeqCst) || self.index.is_stale() {
            others.push("The index is being filled: more may be found in a moment.".to_owned());
        }
        let holds_key = matches!(self.store.check(&arguments.query), Outcome::Secret(_));
        // Others search while the index is.
        let asked = self.fleet.search(&query, arguments, reader, holds_key);
        let elsewhere = || {
            let mut elsewhere = asked.wait();
            elsewhere.lines.extend(others);
            elsewhere
        };
        let answer = recall::recall(&self.index, &query, arguments, reader, limits, elsewhere);
        if self.index.is_stale() {
            self.wake();
        }
        answer.map_err(RecallError::Index)
    }

    pub(crate) fn stop_indexing(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.wake();
    }
}

/// Why `recall` has no answer.
#[derive(Debug)]
pub(crate) enum RecallError {
    Denied(Denied),
    Index(IndexError),
}

pub(crate) fn denied_reply(denied: &Denied) -> tools::Reply {
    tools::Reply::Denied {
        text: denied.to_string(),
    }
}

/// A write that failed, for any link.
pub(crate) fn refused(error: &WriteError) -> Refused {
    let entry = error.runbook().unwrap_or(runbook::MEMORY_WRITE_REFUSED);
    Refused::new(entry.anchor(), report::line(error, None)).with_runbook(entry.anchor())
}

pub(crate) fn index_refused(error: &IndexError) -> Refused {
    Refused::new("index-unavailable", report::line(error, None))
        .with_runbook(runbook::INDEX_REBUILT.anchor())
}

fn noticed(error: &IndexError) -> Notice {
    let entry = match error {
        IndexError::Log(error) => error.runbook(),
        IndexError::Sqlite { .. } | IndexError::Io { .. } => Some(runbook::INDEX_REBUILT),
    };
    Notice {
        text: report::line(error, None),
        runbook: entry.map(|entry| entry.anchor().into()),
    }
}

/// What is in trouble now and was not before.
fn news(before: &[Notice], now: &[Notice]) -> Vec<String> {
    let new = now.iter().filter(|notice| !before.contains(notice));
    new.map(shown).collect()
}

/// A notice on one line.
pub(crate) fn shown(notice: &Notice) -> String {
    match &notice.runbook {
        Some(anchor) => format!("{}; see docs/runbook.md#{anchor}", notice.text),
        None => notice.text.clone(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;
    use crate::hooks::NoHoncho;

    /// A service in a folder of its own, without Honcho.
    pub(crate) fn service(folder: &Path) -> (Service, Receiver<()>) {
        let store = Store::open(folder, Rules::default(), Refuser::new(&[])).unwrap();
        let store = Arc::new(store);
        let logs = Logs::new(folder.join("sessions"));
        let hooks = Arc::new(NoHoncho {
            store: Arc::clone(&store),
            logs: logs.clone(),
        });
        let index = Index::at(&folder.join("index.sqlite"));
        let limits = recall::Limits::default();
        Service::new(
            store,
            index,
            hooks,
            Fleet::none(),
            Knowledge::none(),
            logs,
            limits,
        )
    }

    #[test]
    fn an_index_that_cannot_be_made_is_one_notice_with_its_entry() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sessions")).unwrap();
        std::fs::create_dir(folder.path().join("index.sqlite")).unwrap();
        let (service, woken) = service(folder.path());
        service.catch_up();
        let session = SessionId::new("20260131", [1; 12]).unwrap();
        service.updated(&session, 1);
        let notices = service.notices();
        assert_eq!(notices.len(), 1, "{notices:?}");
        let line = shown(&notices[0]);
        assert!(
            line.ends_with("; see docs/runbook.md#index-rebuilt"),
            "{line}"
        );
        std::fs::remove_dir(folder.path().join("index.sqlite")).unwrap();
        // The next turn, edit or recall has it tried again, whatever became of its own part.
        while woken.try_recv().is_ok() {}
        service.updated(&session, 2);
        assert!(woken.try_recv().is_ok());
        let arguments = tools::Recall::of("anything");
        let reader = Reader::session(
            Label::PRIVATE,
            bxwire::Audience::Owner {},
            recall::Asker::Usual,
        );
        let recall = || service.recall(&arguments, reader).unwrap().text;
        assert!(recall().contains("not up to date"), "{}", recall());
        assert!(woken.try_recv().is_ok());
        service.catch_up();
        assert!(service.notices().is_empty());
        assert!(!recall().contains("not up to date"));
    }

    #[test]
    fn a_log_that_cannot_be_read_is_not_tried_again_at_each_turn() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = folder.path().join("sessions");
        std::fs::create_dir(&sessions).unwrap();
        std::fs::write(sessions.join("20260130-abcdefghijkl.jsonl"), "nonsense\n").unwrap();
        let (service, woken) = service(folder.path());
        service.catch_up();
        assert_eq!(service.notices().len(), 1);
        while woken.try_recv().is_ok() {}
        service.updated(&SessionId::new("20260131", [1; 12]).unwrap(), 1);
        assert!(woken.try_recv().is_err());
    }

    #[test]
    fn trouble_is_logged_when_it_is_new_with_its_entry() {
        let notice = |text: &str| Notice {
            text: text.into(),
            runbook: Some("index-rebuilt".into()),
        };
        let (a, b) = (notice("a"), notice("b"));
        assert_eq!(news(&[], std::slice::from_ref(&a)), [shown(&a)]);
        assert_eq!(
            news(std::slice::from_ref(&a), &[a.clone(), b.clone()]),
            [shown(&b)]
        );
        assert!(news(&[a, b.clone()], &[b]).is_empty());
    }
}
