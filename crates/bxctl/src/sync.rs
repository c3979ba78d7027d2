//! `bxctl memory sync`: what went to Honcho, what waits and why, and the owner's orders about it. Asks
//! memoryd; `--watch` asks it once a second for as long as somebody looks.

use std::{io::IsTerminal, thread, time::Duration};

use bxcore::paths::Dirs;
use bxwire::links::control::{Health, ItemNote, Reply, Request, Sync, SyncAction, WorkspaceSync};
use serde::Serialize;

use crate::{
    commands::{self, Retry},
    failure::{Exit, Failure},
    link::memoryd,
    out::{self, Paint, json_line, one_line},
    render,
};

/// How often `--watch` looks.
const WATCH_MS: Duration = Duration::from_secs(1);
/// Characters of the bar that shows a backlog draining.
const BAR_CHARS: u64 = 30;

/// Shows, or carries out an order and then shows.
///
/// # Errors
/// When memoryd cannot answer, or refuses.
pub fn run(dirs: &Dirs, arguments: &commands::Sync) -> Result<Exit, Failure> {
    let json = arguments.json.json;
    if arguments.watch {
        return watch(dirs, json);
    }
    let order = match &arguments.retry {
        Some(Retry::All) => Some(SyncAction::RetryAll {}),
        Some(Retry::Item(item)) => Some(SyncAction::Retry { item: item.clone() }),
        None => arguments.now.then_some(SyncAction::Now {}),
    };
    let sync = match order {
        None => ask(dirs, SyncAction::Show {})?,
        Some(order) => {
            let answer = memoryd(dirs, &Request::MemorySync { action: order })?;
            out::say(match arguments.retry {
                Some(Retry::Item(_)) => "queued for another try; this is how it stands now:",
                Some(Retry::All) => {
                    "whatever failed or was in doubt is queued for another try; this is how it stands now:"
                }
                None => "trying now; this is how it stands now:",
            });
            match answer {
                Reply::Sync(sync) => sync,
                _ => ask(dirs, SyncAction::Show {})?,
            }
        }
    };
    let sync = if arguments.failed {
        failed_only(sync)
    } else {
        sync
    };
    if json {
        out::print(&json_lines(&sync)?)?;
    } else if arguments.failed && sync.failed.is_empty() && sync.in_doubt.is_empty() {
        out::say("nothing failed and nothing is in doubt");
    } else {
        out::print(&shown(&sync, Paint::of(&std::io::stdout())))?;
    }
    Ok(Exit::attention(needs_attention(&sync)))
}

fn ask(dirs: &Dirs, action: SyncAction) -> Result<Sync, Failure> {
    match memoryd(dirs, &Request::MemorySync { action })? {
        Reply::Sync(sync) => Ok(sync),
        _ => Err(Failure::Answer { daemon: "memoryd" }),
    }
}

fn failed_only(sync: Sync) -> Sync {
    Sync {
        workspaces: Vec::new(),
        undecided: Vec::new(),
        skipped: Vec::new(),
        health: None,
        ..sync
    }
}

fn needs_attention(sync: &Sync) -> bool {
    let stuck = |w: &WorkspaceSync| w.waiting + w.failed + w.in_doubt > 0 || w.wait.is_some();
    sync.workspaces.iter().any(stuck)
        || !(sync.undecided.is_empty() && sync.failed.is_empty() && sync.in_doubt.is_empty())
        || sync.health.iter().any(|health| !health.warnings.is_empty())
}

fn watch(dirs: &Dirs, json: bool) -> Result<Exit, Failure> {
    let paint = Paint::of(&std::io::stdout());
    let terminal = std::io::stdout().is_terminal();
    let mut last = None;
    loop {
        let sync = ask(dirs, SyncAction::Show {})?;
        if last.as_ref() != Some(&sync) {
            if json {
                out::print(&json_lines(&sync)?)?;
            } else {
                // Home, then clear: a redraw in place.
                let home = if terminal { "\x1b[H\x1b[2J" } else { "" };
                let bar = bar(&sync).unwrap_or_default();
                out::print(&format!("{home}{bar}{}", shown(&sync, paint)))?;
                if terminal {
                    out::say(&paint.dim("· Ctrl-C ends this"));
                }
            }
            last = Some(sync);
        }
        thread::sleep(WATCH_MS);
    }
}

/// How much of what was decided has left, while something waits.
fn bar(sync: &Sync) -> Option<String> {
    let waiting: u64 = sync.workspaces.iter().map(|w| w.waiting + w.in_doubt).sum();
    let sent: u64 = sync.workspaces.iter().map(|w| w.sent).sum();
    if waiting == 0 {
        return None;
    }
    let all = waiting + sent;
    let full = usize::try_from(sent * BAR_CHARS / all).unwrap_or(0);
    let rest = usize::try_from(BAR_CHARS).unwrap_or(0).saturating_sub(full);
    let (done, open) = ("█".repeat(full), "░".repeat(rest));
    Some(format!(
        "{done}{open} {}%, {waiting} to go\n",
        sent * 100 / all
    ))
}

fn shown(sync: &Sync, paint: Paint) -> String {
    if !sync.configured {
        return "Honcho is not configured: memory stays on this machine ([honcho] in memoryd.toml)\n"
            .into();
    }
    let mut text = render::table(&count_rows(&sync.workspaces));
    // Before it is decided, a turn belongs to no workspace's row.
    if sync.undecided.is_empty() && !sync.workspaces.is_empty() {
        text.push_str("0 undecided\n");
    }
    let undecided = format!("{} undecided", sync.undecided.len());
    for workspace in &sync.workspaces {
        if let Some(line) = waiting(workspace) {
            text.push_str(&format!("{}\n", paint.yellow(&line)));
        }
    }
    for (title, items) in [
        (undecided.as_str(), &sync.undecided),
        ("failed", &sync.failed),
        ("in doubt", &sync.in_doubt),
    ] {
        if !items.is_empty() {
            let rows: Vec<_> = items.iter().map(render::item_note).collect();
            text.push_str(&format!("{}\n{}", paint.bold(title), render::table(&rows)));
        }
    }
    if !sync.skipped.is_empty() {
        let reasons: Vec<_> = sync
            .skipped
            .iter()
            .map(|(reason, count)| format!("{count} {}", one_line(reason)))
            .collect();
        text.push_str(&format!("kept here: {}\n", reasons.join(", ")));
    }
    if let Some(health) = &sync.health {
        text.push_str(&healthy(health, paint));
    }
    text
}

/// How Honcho does with what it was sent, and what is wrong with it.
fn healthy(health: &Health, paint: Paint) -> String {
    let mut text = String::new();
    if let (Some(at), Some(pending)) = (&health.asked_at, health.pending) {
        let at = render::time_to_the_second(at);
        text += &match health.derives {
            // What waits then waits for nothing: a count would read as if something hung.
            Some(false) => format!("Honcho says that it derives nothing (asked at {at})\n"),
            Some(true) | None => format!("Honcho's queue: {pending} waiting at {at}\n"),
        };
    }
    for notice in &health.warnings {
        let see = notice.runbook.as_deref().map(render::see);
        let line = format!("{}{}", one_line(&notice.text), see.unwrap_or_default());
        text += &format!("{}\n", paint.yellow(&line));
    }
    text
}

/// A row a workspace; the numbers of a column end in the same place.
fn count_rows(workspaces: &[WorkspaceSync]) -> Vec<Vec<String>> {
    type Column = (&'static str, fn(&WorkspaceSync) -> u64);
    let always: [Column; 5] = [
        ("decided", |w| w.decided),
        ("sent", |w| w.sent),
        ("waiting", |w| w.waiting),
        ("failed", |w| w.failed),
        ("in doubt", |w| w.in_doubt),
    ];
    let when_any: [Column; 2] = [
        ("withdrawn", |w| w.withdrawn),
        ("cancelled", |w| w.cancelled),
    ];
    let any = |column: &Column| workspaces.iter().any(|w| column.1(w) > 0);
    let columns: Vec<Column> = always
        .into_iter()
        .chain(when_any.into_iter().filter(any))
        .collect();
    let digits = |column: &Column| {
        let widths = workspaces.iter().map(|w| column.1(w).to_string().len());
        widths.max().unwrap_or(1)
    };
    let row = |workspace: &WorkspaceSync| {
        let cell = |column: &Column| {
            let width = digits(column);
            format!("{:>width$} {}", column.1(workspace), column.0)
        };
        let role = one_line(&workspace.role);
        [role].into_iter().chain(columns.iter().map(cell)).collect()
    };
    workspaces.iter().map(row).collect()
}

/// Why a workspace gets nothing now, or how long its oldest item has waited.
fn waiting(workspace: &WorkspaceSync) -> Option<String> {
    let age = workspace
        .oldest_waiting_s
        .map(|age| format!("oldest waiting {}", render::seconds(age)));
    let role = one_line(&workspace.role);
    let Some(wait) = &workspace.wait else {
        return age.map(|age| format!("{role}: {age}"));
    };
    let tries = match wait.tries {
        1 => "1 try".into(),
        tries => format!("{tries} tries"),
    };
    let next = match &wait.next {
        Some(next) => format!("next try {}", render::time_to_the_second(next)),
        None => "not tried again until you act".into(),
    };
    let age = age.map(|age| format!(", {age}")).unwrap_or_default();
    Some(format!(
        "{role}: {} since {}, {tries}, {next}{age}{}",
        one_line(&wait.reason),
        render::time(&wait.since),
        render::see(&wait.runbook)
    ))
}

#[derive(Serialize)]
struct WorkspaceLine<'a> {
    /// The role, which is what the owner calls it.
    workspace: &'a str,
    name: &'a str,
    decided: u64,
    sent: u64,
    waiting: u64,
    failed: u64,
    in_doubt: u64,
    withdrawn: u64,
    cancelled: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_waiting_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<&'a bxwire::links::control::Wait>,
}

#[derive(Serialize)]
struct ItemLine<'a> {
    state: &'static str,
    #[serde(flatten)]
    note: &'a ItemNote,
}

#[derive(Serialize)]
struct SkippedLine<'a> {
    skipped: &'a str,
    count: u64,
}

fn json_lines(sync: &Sync) -> Result<String, Failure> {
    if !sync.configured {
        return json_line(&serde_json::json!({"configured": false}));
    }
    let mut text = String::new();
    for w in &sync.workspaces {
        text.push_str(&json_line(&WorkspaceLine {
            workspace: &w.role,
            name: &w.name,
            decided: w.decided,
            sent: w.sent,
            waiting: w.waiting,
            failed: w.failed,
            in_doubt: w.in_doubt,
            withdrawn: w.withdrawn,
            cancelled: w.cancelled,
            oldest_waiting_s: w.oldest_waiting_s,
            wait: w.wait.as_ref(),
        })?);
    }
    for (state, items) in [
        ("undecided", &sync.undecided),
        ("failed", &sync.failed),
        ("in_doubt", &sync.in_doubt),
    ] {
        for note in items {
            text.push_str(&json_line(&ItemLine { state, note })?);
        }
    }
    for (reason, count) in &sync.skipped {
        text.push_str(&json_line(&SkippedLine {
            skipped: reason,
            count: *count,
        })?);
    }
    if let Some(health) = &sync.health {
        text.push_str(&json_line(&serde_json::json!({ "health": health }))?);
    }
    Ok(text)
}
