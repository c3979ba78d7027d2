//! Owns the journal, what it adds up to, and the Markdown files. Called by the service and the sync worker. An
//! edit is in the journal, durably, before a file shows it and before anybody is told.

use std::{
    collections::BTreeSet,
    io,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError, RwLock},
};

use bxcore::{
    append::{AppendError, OpenError},
    clock::Millis,
    daemon,
    report::{self, Actionable},
    runbook::{self, Runbook},
};
use bxsanitize::{Outcome, Refuser};
use bxwire::{EditId, Speaker, links::control::Notice, links::memory_tools::About};

use crate::{
    accept,
    denied::Denied,
    edit::{Edit, FileChange},
    files::{Files, Standing, hash, standing},
    identity,
    journal::{self, Journal},
    memory::{Contents, Memory, identity_file},
    notes,
    plan::Rules,
    purge,
};

/// Longest line of the journal, in bytes: well within what is read back.
const EDIT_BYTES_MAX: usize = bxcore::append::LINE_BYTES_MAX / 2;

/// Why an edit was not made.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Denied(#[from] Denied),
    /// Nothing was changed; the next try may succeed.
    #[error("nothing was changed: the journal cannot be written")]
    Append(#[source] AppendError),
    /// Nothing was changed: an earlier edit still waits for its file.
    #[error("nothing was changed: memory/{file} cannot be written")]
    File { file: String, source: io::Error },
}

impl Actionable for WriteError {
    fn runbook(&self) -> Option<Runbook> {
        Some(match self {
            Self::Denied(denied) => denied.entry(),
            Self::Append(_) | Self::File { .. } => runbook::APPEND_FAILED,
        })
    }
}

/// An edit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub edit: Edit,
    /// Files that do not show it yet; they are written as soon as the disk lets us.
    pub behind: Vec<String>,
}

/// What `accept` does or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub lines: Vec<String>,
    /// `None`: nothing was changed.
    pub written: Option<Written>,
}

/// Journal, memory and files together.
#[derive(Debug)]
pub struct Store {
    inner: Mutex<Inner>,
    rules: RwLock<(Rules, Refuser)>,
}

#[derive(Debug)]
struct Inner {
    journal: Journal,
    memory: Memory,
    files: Files,
    /// Journalled files that may still be as before their last edit.
    behind: BTreeSet<String>,
    append_failing: bool,
    /// The journal still holds texts that were purged, since it could not be written anew.
    unpurged: bool,
    /// The hand edits that were shown last, by hash.
    shown: Option<Vec<(String, String)>>,
}

impl Store {
    /// Opens `folder` (`state/memory`), adds up the journal and writes what a crash left unwritten.
    ///
    /// # Errors
    /// [`OpenError`] of the journal.
    pub fn open(folder: &Path, rules: Rules, refuser: Refuser) -> Result<Self, OpenError> {
        let (journal, memory) = Journal::open(&folder.join("journal.jsonl"))?;
        let behind = memory.files().map(str::to_owned).collect();
        let mut inner = Inner {
            journal,
            memory,
            files: Files::new(folder.into()),
            behind,
            append_failing: false,
            unpurged: false,
            shown: None,
        };
        // A crash may have come between a purge's line and the journal without the texts.
        inner.take_out_purged();
        for file in inner.held() {
            tracing::warn!(
                file,
                "changed by hand; held until it is accepted; see {}",
                runbook::HAND_EDIT_HELD
            );
        }
        Ok(Self {
            inner: Mutex::new(inner),
            rules: RwLock::new((rules, refuser)),
        })
    }

    /// Takes a new configuration.
    pub fn configure(&self, rules: Rules, refuser: Refuser) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = (rules, refuser);
    }

    /// Makes the edit that `plan` gives for the memory of this moment.
    ///
    /// # Errors
    /// [`WriteError`]: nothing was changed.
    pub fn write(
        &self,
        plan: impl FnOnce(&Memory, &Rules, &Refuser, &str) -> Result<Edit, Denied>,
    ) -> Result<Written, WriteError> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.lock();
        let edit = plan(&inner.memory, &rules.0, &rules.1, &now())?;
        inner.write(edit, &[])
    }

    /// The edit that `plan` would make, had it been asked for.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn would(
        &self,
        plan: impl FnOnce(&Memory, &Rules, &Refuser) -> Result<Edit, Denied>,
    ) -> Result<Edit, Denied> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        plan(&self.lock().memory, &rules.0, &rules.1)
    }

    /// Whether the journal still holds texts that were purged.
    #[must_use]
    pub fn is_unpurged(&self) -> bool {
        self.lock().unpurged
    }

    /// Tries again to take such texts out, if there are any.
    pub fn take_out_purged(&self) {
        let mut inner = self.lock();
        if inner.unpurged {
            inner.take_out_purged();
        }
    }

    /// Takes over what was changed by hand; without `confirm` only says what that would be.
    ///
    /// # Errors
    /// [`WriteError`]: nothing was changed.
    pub fn accept(&self, confirm: bool) -> Result<Accepted, WriteError> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.lock();
        let mut held = Vec::new();
        for file in inner.held() {
            let text = inner
                .files
                .read(&file)
                .map_err(|_| Denied::Unreadable(file.clone(), crate::files::FILE_BYTES_MAX))?;
            held.push((file, text));
        }
        if held.is_empty() {
            return Ok(Accepted {
                lines: vec!["no file was changed by hand".into()],
                written: None,
            });
        }
        let texts: Vec<_> = held
            .iter()
            .map(|(file, text)| (file.clone(), text.clone().unwrap_or_default()))
            .collect();
        let (edit, mut lines) = accept::accept(&inner.memory, &texts, &rules.0, &rules.1, &now())?;
        if lines.is_empty() {
            lines.push("only the layout was changed; it is put back".into());
        }
        let found: Vec<_> = held
            .iter()
            .map(|(file, text)| {
                let hash = text.as_deref().map_or_else(String::new, hash);
                (file.clone(), hash)
            })
            .collect();
        let written = if confirm {
            // Whoever says yes has seen these files, and not what somebody made of them since.
            if inner.shown.take().is_some_and(|shown| shown != found) {
                return Err(Denied::Argument(
                    "not done: the files were changed again after they were shown; look at them once more",
                )
                .into());
            }
            Some(inner.write(edit, &found)?)
        } else {
            inner.shown = Some(found);
            None
        };
        Ok(Accepted { lines, written })
    }

    /// Reads memory.
    pub fn with<T>(&self, read: impl FnOnce(&Memory) -> T) -> T {
        read(&self.lock().memory)
    }

    #[must_use]
    pub fn edit(&self, id: EditId) -> Option<Edit> {
        self.with(|memory| memory.edit(id).cloned())
    }

    /// Every later edit, oldest first; after `EditId(0)`: all.
    #[must_use]
    pub fn edits_after(&self, id: EditId) -> Vec<Edit> {
        let after = usize::try_from(id.0).unwrap_or(usize::MAX);
        self.with(|memory| memory.edits().get(after..).unwrap_or_default().to_vec())
    }

    /// The newest edit; `EditId(0)` when there is none.
    #[must_use]
    pub fn last_edit(&self) -> EditId {
        self.with(|memory| EditId(memory.edits().len() as u64))
    }

    /// What the rules against keys say of a text.
    #[must_use]
    pub fn check(&self, text: &str) -> Outcome {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.1.check(text)
    }

    #[must_use]
    pub fn rules(&self) -> Rules {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.0.clone()
    }

    /// Whether a turn is known to be the owner's.
    #[must_use]
    pub fn is_owner(&self, speaker: Option<&Speaker>) -> bool {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.0.is_owner(speaker)
    }

    /// The files changed by hand and not accepted, looked at now.
    #[must_use]
    pub fn held(&self) -> Vec<String> {
        self.lock().held()
    }

    /// What the owner should know.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        let mut inner = self.lock();
        let notice = |text, entry: Runbook| Notice {
            text,
            runbook: Some(entry.anchor().into()),
        };
        let mut notices = Vec::new();
        if inner.append_failing {
            let text = "the journal cannot be written; memory stays as it is".into();
            notices.push(notice(text, runbook::APPEND_FAILED));
        }
        if inner.unpurged {
            let text = "the journal still holds texts that were purged: it cannot be written anew";
            notices.push(notice(text.into(), runbook::APPEND_FAILED));
        }
        let held = inner.held();
        for file in &inner.behind {
            let text = format!("memory/{file} cannot be written; its edits are in the journal");
            notices.push(notice(text, runbook::APPEND_FAILED));
        }
        for file in held {
            let text =
                format!("memory/{file} was changed by hand and waits for `bxctl memory accept`");
            notices.push(notice(text, runbook::HAND_EDIT_HELD));
        }
        notices
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// `found`: files whose hand edits this edit takes over, with their hashes.
    fn write(&mut self, mut edit: Edit, found: &[(String, String)]) -> Result<Written, WriteError> {
        let after = self.memory.preview(&edit).map_err(|_| Denied::Nothing)?;
        let mut touched = self.memory.contents().files_of(&edit.changes);
        touched.extend(after.files_of(&edit.changes));
        touched.extend(found.iter().map(|(file, _)| file.clone()));
        edit.files.clear();
        for file in touched {
            let before = match found.iter().find(|(other, _)| *other == file) {
                Some((_, hash)) => hash.clone(),
                None => self.settled(&file)?,
            };
            edit.files.push(FileChange {
                after: hash(&render(&after, &file)),
                before,
                file,
            });
        }
        if journal::line(&edit).len() > EDIT_BYTES_MAX {
            return Err(Denied::Argument("not done: that is more than one edit can hold").into());
        }
        match self.journal.append(&edit) {
            Ok(_) => self.recovered(),
            Err(error @ AppendError::Lost { .. }) => daemon::exit_lost(&error),
            Err(error @ AppendError::Full { .. }) => {
                if !std::mem::replace(&mut self.append_failing, true) {
                    tracing::error!("{}", report::actionable(&error));
                }
                return Err(WriteError::Append(error));
            }
        }
        let mut behind = Vec::new();
        for change in &edit.files {
            let text = render(&after, &change.file);
            if let Err(error) = self.files.write(&change.file, &text) {
                tracing::error!(file = change.file, %error, "cannot write; see {}", runbook::APPEND_FAILED);
                self.behind.insert(change.file.clone());
                behind.push(change.file.clone());
            }
        }
        // The preview has shown that it fits.
        let _ = self.memory.apply(edit.clone());
        if self.unpurged || edit.changes.iter().any(|change| change.purges().is_some()) {
            self.take_out_purged();
        }
        Ok(Written { edit, behind })
    }

    /// Writes the journal anew without the texts that were purged, if it still holds any.
    fn take_out_purged(&mut self) {
        let Some(edits) = purge::blanked(self.memory.edits()) else {
            self.unpurged = false;
            return;
        };
        // Texts that stand in no file are changed, and everywhere alike, so what memory holds stays.
        let Ok(memory) = Memory::of(edits) else {
            self.unpurged = true;
            tracing::error!(
                "the journal without what was purged would not add up: it is left as it is"
            );
            return;
        };
        match self.journal.replace(memory.edits()) {
            Ok(_) => {
                self.memory = memory;
                self.unpurged = false;
            }
            Err(error @ AppendError::Lost { .. }) => daemon::exit_lost(&error),
            Err(error @ AppendError::Full { .. }) => {
                self.unpurged = true;
                tracing::error!("{}", report::actionable(&error));
            }
        }
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.append_failing) {
            tracing::info!("the journal can be written again");
        }
    }

    /// Makes sure that a file is as journalled; gives its hash.
    fn settled(&mut self, file: &str) -> Result<String, WriteError> {
        if self.check(file) == Standing::ByHand {
            return Err(Denied::Held(file.into()).into());
        }
        if self.behind.contains(file) {
            self.catch_up(file).map_err(|source| WriteError::File {
                file: file.into(),
                source,
            })?;
        }
        let last = self.memory.file(file);
        Ok(last.map(|last| last.after.clone()).unwrap_or_default())
    }

    /// How a file stands. A file that was never left behind and yet is as before its last edit was put back by
    /// hand.
    fn check(&mut self, file: &str) -> Standing {
        let found = standing(&self.files.hash_of(file), self.memory.file(file));
        match found {
            Standing::Written => {
                self.behind.remove(file);
                found
            }
            Standing::Unwritten if !self.behind.contains(file) => Standing::ByHand,
            Standing::ByHand => {
                self.behind.remove(file);
                found
            }
            Standing::Unwritten => found,
        }
    }

    fn catch_up(&mut self, file: &str) -> io::Result<()> {
        self.files
            .write(file, &render(self.memory.contents(), file))?;
        self.behind.remove(file);
        tracing::info!(file, "written as journalled");
        Ok(())
    }

    /// Looks at every file: writes those left behind, gives those changed by hand.
    fn held(&mut self) -> Vec<String> {
        let mut all: BTreeSet<String> = self.memory.files().map(str::to_owned).collect();
        all.extend([About::User, About::Agent].map(|about| identity_file(about).to_owned()));
        all.extend(self.files.months().unwrap_or_default());
        let mut held = Vec::new();
        for file in all {
            match self.check(&file) {
                Standing::Written => {}
                Standing::ByHand => held.push(file),
                Standing::Unwritten => {
                    if let Err(error) = self.catch_up(&file) {
                        tracing::error!(file, %error, "cannot write; see {}", runbook::APPEND_FAILED);
                    }
                }
            }
        }
        held
    }
}

/// A file under `memory/`, whole.
#[must_use]
pub fn render(contents: &Contents, file: &str) -> String {
    match [About::User, About::Agent]
        .into_iter()
        .find(|about| identity_file(*about) == file)
    {
        Some(about) => identity::render(contents, about),
        None => notes::render(contents, file),
    }
}

fn now() -> String {
    Millis::now().to_string()
}

#[cfg(test)]
mod tests;
