//! The owner's commands: `run/ctl/memoryd.sock`, and what a chat's owner may say. Called by `serve` and the
//! service. A command that changes memory says what it does, and does it only when told to.

mod change;

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
};

use bxcore::{
    report::{self, Actionable as _},
    runbook,
};
use bxsanitize::Refuser;
use bxwire::{
    Audience, Class, EditId, ItemId, Label, Refused, SessionId, Trust,
    links::{
        control::{
            Entry, HeldBack, MemoryFiles, Note, Reply, Request, Status, SyncAction, WorkspaceSync,
        },
        memory_tools::About,
    },
    log::{Body, Record},
};

use crate::{
    denied::Denied,
    edit::{Edit, KeptLocal},
    facts, knowledge,
    logs::Logs,
    memory::{Memory, is_own_id},
    plan::Rules,
    purge,
    recall::{Queries, Reader},
    review,
    service::{self, RecallError, Service},
    store::WriteError,
    undo, words,
};

/// Most edits in one answer.
const EDITS_MAX: usize = 500;
/// Most lines of one review.
const REVIEW_MAX: usize = 500;
/// Bytes of notes in one answer, as JSON; the newest are shown. Well within a frame.
const NOTES_BYTES_MAX: usize = 700_000;

/// Longest first line of a session's log, in bytes.
const FIRST_LINE_BYTES_MAX: u64 = 64 * 1024;
/// Bytes of lines in one answer, as JSON.
const LINES_BYTES_MAX: usize = 700_000;

/// What the owner at the command line may see.
const OWNER: Reader = Reader {
    label: Label::new(Class::Secret, Trust::Untrusted),
    audience: Audience::Owner {},
    queries: Queries::MayLeave,
};

impl Service {
    /// `run/ctl/memoryd.sock`. `waits`: whether whoever asked is still there.
    pub fn control(&self, request: Request, waits: &dyn Fn() -> bool) -> Reply {
        match request {
            Request::Status {} => Reply::Status(self.status()),
            Request::MemoryShow {} => self.show(),
            Request::MemoryLog { limit } => {
                let most = usize::try_from(limit).unwrap_or(EDITS_MAX).min(EDITS_MAX);
                let line = |memory: &Memory| {
                    let newest = memory.edits().iter().rev().take(most);
                    newest
                        .map(|edit| words::edit_line(edit, memory.undone_by(edit.id)))
                        .collect()
                };
                Reply::Edits {
                    edits: self.store.with(line),
                }
            }
            Request::MemoryUndo { edit, confirm } => self.undo(edit, confirm),
            // Nothing to show: whoever asks what would be done is told so by an answer without lines.
            Request::MemoryAccept { confirm: false } if self.store.held().is_empty() => {
                Reply::Change {
                    done: false,
                    lines: Vec::new(),
                    edit: None,
                }
            }
            Request::MemoryReview {} => self.review(),
            Request::MemoryPromote { note, confirm } => self.promote(&note, confirm),
            Request::MemoryPurge { session, confirm } => self.purge(&session, confirm),
            Request::MemoryAccept { confirm } => match self.accept(confirm) {
                Ok(accepted) => Reply::Change {
                    done: accepted.written.is_some(),
                    lines: bounded(accepted.lines),
                    edit: accepted.written.map(|written| written.edit.id),
                },
                Err(error) => service::refused(&error).into(),
            },
            Request::MemoryRecall { arguments } => match self.recall(&arguments, OWNER) {
                Ok(answer) => Reply::Recalled {
                    text: answer.text,
                    label: answer.label,
                },
                Err(RecallError::Denied(denied)) => {
                    Refused::new("bad-arguments", denied.to_string()).into()
                }
                Err(RecallError::Index(error)) => service::index_refused(&error).into(),
            },
            Request::MemoryAsk { arguments } => {
                match self.ask_memory(&arguments, OWNER, &mut |_| waits()) {
                    Ok(answer) => Reply::Recalled {
                        text: answer.text,
                        label: answer.label,
                    },
                    Err(text) => Refused::new("bad-arguments", text).into(),
                }
            }
            Request::MemorySync { action } => self.hooks.sync(action),
            Request::MemoryWhy { item } => self.why(&item),
            Request::MemoryWhyFound { id } => self.why_found(&id),
            Request::SessionDecide { session, decision } => self.hooks.decide(&session, decision),
        }
    }

    /// The edit behind an entry's or a note's id.
    fn of_ours(&self, id: &str) -> Option<ItemId> {
        let edit = self.store.with(|memory| facts::edit_of(memory, id));
        edit.map(ItemId::Edit)
    }

    /// What became of what has this id: one of memory's own, or Honcho's as a hit names it, with its source in front, or
    /// alone.
    fn why_found(&self, id: &str) -> Reply {
        let (place, honchos) = match id.rsplit_once(':') {
            Some((place, id)) => (Some(place), id),
            None => (None, id),
        };
        // What Honcho derived itself and was forgotten has an edit too.
        let forgotten = || {
            let own = |memory: &Memory| knowledge::edits::known(memory.contents(), honchos);
            self.store.with(own).and_then(|(own, _)| self.of_ours(&own))
        };
        match self
            .of_ours(id)
            .or_else(|| self.hooks.made(honchos))
            .or_else(forgotten)
        {
            Some(item) => self.why(&item),
            None if is_own_id(id) => Refused::new("unknown-item", NEVER_HELD)
                .with_runbook(runbook::ITEM_UNKNOWN.anchor())
                .into(),
            None => knowledge::origin::of(&self.knowledge.facts, place, honchos),
        }
    }

    fn why(&self, item: &ItemId) -> Reply {
        match self.hooks.why(item) {
            Reply::Refused(refused) if refused.kind == "unknown-item" => {
                refused.with_runbook(runbook::ITEM_UNKNOWN.anchor()).into()
            }
            reply => reply,
        }
    }

    fn status(&self) -> Status {
        let mut facts = self.store.with(|memory| {
            let contents = memory.contents();
            let max = self.store.rules().identity_chars_max;
            vec![
                fact(
                    "entries about the owner",
                    contents.entries(About::User).len(),
                ),
                fact(
                    "entries about the agent",
                    contents.entries(About::Agent).len(),
                ),
                (
                    "identity".into(),
                    format!("{} of {max} characters", contents.identity_chars()),
                ),
                fact("notes", contents.notes().len()),
                fact("edits", memory.edits().len()),
            ]
        });
        facts.push(("honcho".into(), self.honcho_fact()));
        facts.extend(self.fleet.facts());
        facts.push(self.knowledge.context.fact());
        facts.push((
            "index".into(),
            match self.index.rows() {
                Ok(rows) => format!("{rows} rows"),
                Err(error) => report::line(&error, None),
            },
        ));
        Status {
            daemon: "memoryd".into(),
            build: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            since: self.since.to_string(),
            notices: self.notices(),
            facts,
        }
    }

    /// How far the Honcho half is, in one line.
    fn honcho_fact(&self) -> String {
        let Reply::Sync(sync) = self.hooks.sync(SyncAction::Show {}) else {
            return "does not answer".into();
        };
        if !sync.configured {
            return "not configured".into();
        }
        let sum = |count: fn(&WorkspaceSync) -> u64| sync.workspaces.iter().map(count).sum::<u64>();
        format!(
            "{} sent, {} waiting, {} failed, {} in doubt",
            sum(|workspace| workspace.sent),
            sum(|workspace| workspace.waiting),
            sum(|workspace| workspace.failed),
            sum(|workspace| workspace.in_doubt)
        )
    }

    fn show(&self) -> Reply {
        let held = self.store.held();
        let identity_chars_max = self.store.rules().identity_chars_max as u64;
        self.store.with(|memory| {
            let contents = memory.contents();
            let entries = |about| {
                let entries = contents.entries(about).iter();
                entries
                    .map(|entry| Entry {
                        id: entry.id.clone(),
                        text: entry.text.clone(),
                    })
                    .collect()
            };
            let mut bytes = 0;
            let mut notes: Vec<_> = contents
                .notes()
                .iter()
                .rev()
                .map(|note| Note {
                    edit: note.edit,
                    at: note.at.clone(),
                    text: note.text.clone(),
                    label: note.label,
                    flagged: note.kept_local == Some(KeptLocal::Flagged),
                })
                .take_while(|note| {
                    bytes += serde_json::to_string(note).map_or(0, |json| json.len());
                    bytes <= NOTES_BYTES_MAX
                })
                .collect();
            notes.reverse();
            Reply::Memory(MemoryFiles {
                user: entries(About::User),
                agent: entries(About::Agent),
                notes,
                held,
                identity_chars: contents.identity_chars() as u64,
                identity_chars_max,
            })
        })
    }

    fn review(&self) -> Reply {
        let (mut ledger, mut more) = match self.hooks.review() {
            Reply::Review { held, more } => (held, more),
            other => return other,
        };
        let mut held = self.store.with(|memory| {
            // An edit that was taken back is nobody's concern any more.
            let undone = |held: &HeldBack| {
                let edit = held.what.parse().ok();
                edit.is_some_and(|edit| memory.undone_by(edit).is_some())
            };
            let purged = |held: &HeldBack| match held.what.parse() {
                Ok(ItemId::Turn { session, .. }) => memory.purged(&session).is_some(),
                _ => false,
            };
            ledger.retain(|held| !undone(held) && !purged(held));
            review::of_memory(memory)
        });
        held.append(&mut ledger);
        held.sort_by(|a, b| b.at.cmp(&a.at));
        more += held.len().saturating_sub(REVIEW_MAX) as u64;
        held.truncate(REVIEW_MAX);
        let files = self.store.held().into_iter().map(|file| HeldBack {
            what: file,
            at: None,
            cause: "it was changed by hand: `bxctl memory accept` takes it over".into(),
            note: None,
            text: None,
        });
        Reply::Review {
            held: files.chain(held).collect(),
            more,
        }
    }

    /// What a chat's owner asked of memory, in words.
    pub(crate) fn command(&self, session: &SessionId, name: &str, arguments: &[String]) -> String {
        let made = match name {
            "undo" => {
                let Some(edit) = one::<EditId>(arguments) else {
                    return Denied::Argument("say which edit to undo, for example undo e3")
                        .to_string();
                };
                self.undoing(edit)
                    .map_err(WriteError::Denied)
                    .and_then(|undoing| {
                        self.write(|memory, rules, refuser, at| {
                            undoing.plan(memory, rules, refuser, at)
                        })
                    })
            }
            "forget" => {
                let words = arguments.join(" ");
                self.write(|memory, _, _, at| undo::forget(memory, &words, at))
            }
            "why" => {
                return match one::<String>(arguments) {
                    Some(id) => told(match id.parse() {
                        Ok(item) => self.why(&item),
                        Err(_) => self.why_found(&id),
                    }),
                    None => "say what: an edit (why e3), an entry, note or fact (why n4), a turn (why SESSION/2) or an \
                             id that a recall shows (why fleet:ID)"
                        .into(),
                };
            }
            "status" => {
                let notices = self.notices();
                if notices.is_empty() {
                    return "memory: nothing to report".into();
                }
                let lines: Vec<_> = notices.iter().map(service::shown).collect();
                return lines.join("\n");
            }
            _ => return "memory knows undo, forget, why and status".into(),
        };
        let private = audience_of(&self.logs, session).class_max() >= Class::Private;
        match made {
            Ok(written) if private => {
                let mut lines = vec![format!("Done ({}):", written.edit.id)];
                lines.extend(bounded(words::lines(&written.edit)));
                lines.join("\n")
            }
            Ok(written) => words::done(&written),
            Err(WriteError::Denied(Denied::ChangedSince { edit, subject, .. })) if !private => {
                format!("{edit} cannot be undone: {subject} has changed since")
            }
            Err(error) => report::actionable(&error),
        }
    }
}

/// Why there is nothing under an id of memory's own.
const NEVER_HELD: &str = "memory never held anything under that id; `bxctl memory show` and `bxctl memory log` list what \
    it holds and held";

/// Who reads a session, as its log begins. A log that does not say so is read by anybody.
fn audience_of(logs: &Logs, session: &SessionId) -> Audience {
    let path = logs.folder().join(format!("{session}.jsonl"));
    let mut line = String::new();
    let read = File::open(path).and_then(|file| {
        let mut first = BufReader::new(file).take(FIRST_LINE_BYTES_MAX);
        first.read_line(&mut line)
    });
    let record = read
        .ok()
        .and_then(|_| serde_json::from_str::<Record>(&line).ok());
    match record.map(|record| record.body) {
        Some(Body::Session { audience, .. }) => audience,
        _ => Audience::Others {
            class_max: Class::Public,
        },
    }
}

/// As many lines as an answer has room for.
fn bounded(mut lines: Vec<String>) -> Vec<String> {
    let mut bytes = 0;
    let fits = |line: &&String| {
        bytes += serde_json::to_string(line).map_or(0, |json| json.len());
        bytes <= LINES_BYTES_MAX
    };
    let shown = lines.iter().take_while(fits).count();
    let more = lines.len() - shown;
    if more > 0 {
        lines.truncate(shown);
        lines.push(format!("and {more} more"));
    }
    lines
}

fn one<T: std::str::FromStr>(arguments: &[String]) -> Option<T> {
    match arguments {
        [one] => one.parse().ok(),
        _ => None,
    }
}

/// A reply to `why` in words.
fn told(reply: Reply) -> String {
    match reply {
        Reply::Why(why) => {
            let facts = why
                .facts
                .iter()
                .map(|(name, value)| format!("{name}: {value}"));
            let steps = why
                .steps
                .iter()
                .map(|step| format!("{}: {} ({})", step.what, step.state, step.place));
            facts.chain(steps).collect::<Vec<_>>().join("\n")
        }
        Reply::Derived(derived) => {
            let facts = derived.facts.iter();
            let lines = facts.map(|(name, value)| format!("{name}: {value}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        Reply::Refused(refused) => refused.message,
        _ => "nothing is known of it".into(),
    }
}

fn fact(name: &str, value: usize) -> (String, String) {
    (name.into(), value.to_string())
}

#[cfg(test)]
mod tests;
