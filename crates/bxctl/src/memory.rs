//! `bxctl memory …` but for `sync`: what is remembered, the edits, taking one back, where an item is. Asks
//! memoryd over its control socket; never opens its files.

use std::time::Duration;

use bxcore::paths::Dirs;
use bxwire::{
    EditId,
    links::{
        control::{Derived, EditLine, MemoryFiles, Reply, Request, Why},
        memory_tools::{AskMemory, Reasoning, Recall},
    },
};
use serde::Serialize;

use crate::{
    ask,
    commands::Item,
    failure::{Exit, Failure},
    link::{control_within, memoryd},
    out::{self, Paint, json_line, one_line, safe},
    render,
};

/// How many edits `undo` without an id offers.
const OFFERED_MAX: u32 = 10;
/// Characters of an edit's text in a line of the log.
const LOG_TEXT_CHARS_MAX: usize = 60;

/// How long an answer of Honcho's own may take; memoryd gives up before.
const ASK_MS_MAX: Duration = Duration::from_secs(180);

const NOT_THE_ANSWER: Failure = Failure::Answer { daemon: "memoryd" };

/// Identity, notes, held files.
///
/// # Errors
/// When memoryd cannot answer.
pub fn show(dirs: &Dirs, json: bool) -> Result<Exit, Failure> {
    let Reply::Memory(files) = memoryd(dirs, &Request::MemoryShow {})? else {
        return Err(NOT_THE_ANSWER);
    };
    if json {
        out::print(&json_line(&files)?)?;
    } else {
        out::print(&shown(&files, Paint::of(&std::io::stdout())))?;
    }
    Ok(Exit::attention(!files.held.is_empty()))
}

fn shown(files: &MemoryFiles, paint: Paint) -> String {
    let mut text = String::new();
    for (title, entries) in [
        ("About you", &files.user),
        ("About the agent", &files.agent),
    ] {
        text.push_str(&format!("{}\n", paint.bold(title)));
        if entries.is_empty() {
            text.push_str("  (nothing)\n");
        }
        let rows: Vec<_> = entries
            .iter()
            .map(|entry| vec![format!("  {}", one_line(&entry.id)), one_line(&entry.text)])
            .collect();
        text.push_str(&render::table(&rows));
    }
    text.push_str(&format!("{}\n", paint.bold("Notes")));
    if files.notes.is_empty() {
        text.push_str("  (none)\n");
    }
    for note in &files.notes {
        let flagged = if note.flagged { ", flagged" } else { "" };
        text.push_str(&format!(
            "  {}  {}  ({}{flagged})\n{}",
            note.edit,
            render::time(&note.at),
            render::label(note.label, paint),
            render::indent(&safe(&note.text), 6)
        ));
    }
    text.push_str(&format!(
        "\n{} of {} characters of identity used\n",
        files.identity_chars, files.identity_chars_max
    ));
    for held in &files.held {
        let line = format!(
            "! {} was changed by hand and is held: `bxctl memory accept` takes it over{}",
            one_line(held),
            render::see("hand-edit-held")
        );
        text.push_str(&format!("{}\n", paint.yellow(&line)));
    }
    text
}

/// The newest edits, newest first.
///
/// # Errors
/// When memoryd cannot answer.
pub fn log(dirs: &Dirs, limit: u32, json: bool) -> Result<Exit, Failure> {
    let edits = edits(dirs, limit)?;
    if json {
        for edit in &edits {
            out::print(&json_line(edit)?)?;
        }
    } else if edits.is_empty() {
        out::say("no edits yet");
    } else {
        out::print(&edit_table(&edits))?;
    }
    Ok(Exit::Done)
}

fn edits(dirs: &Dirs, limit: u32) -> Result<Vec<EditLine>, Failure> {
    match memoryd(dirs, &Request::MemoryLog { limit })? {
        Reply::Edits { edits } => Ok(edits),
        _ => Err(NOT_THE_ANSWER),
    }
}

fn edit_table(edits: &[EditLine]) -> String {
    let head = ["edit", "when", "by", "what", "label", "text"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for edit in edits {
        let undone = edit
            .undone_by
            .map(|by| format!(" (undone by {by})"))
            .unwrap_or_default();
        rows.push(vec![
            edit.edit.to_string(),
            render::time(&edit.at),
            one_line(&edit.by),
            format!("{}{undone}", one_line(&edit.what)),
            edit.label.to_string(),
            shortened(&one_line(&edit.text)),
        ]);
    }
    render::table(&rows)
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= LOG_TEXT_CHARS_MAX {
        return text.into();
    }
    let kept: String = text.chars().take(LOG_TEXT_CHARS_MAX - 1).collect();
    format!("{}…", kept.trim_end())
}

/// Takes an edit back; offers the latest when none is named.
///
/// # Errors
/// When memoryd cannot answer, or refuses.
pub fn undo(dirs: &Dirs, edit: Option<EditId>, yes: bool) -> Result<Exit, Failure> {
    let edit = match edit {
        Some(edit) => edit,
        None => match offered(dirs)? {
            Some(edit) => edit,
            None => return Ok(Exit::Done),
        },
    };
    let request = |confirm| Request::MemoryUndo { edit, confirm };
    change(dirs, request, &format!("undo {edit}?"), "undo", yes)
}

fn offered(dirs: &Dirs) -> Result<Option<EditId>, Failure> {
    let edits = edits(dirs, OFFERED_MAX)?;
    let Some(latest) = edits.iter().find(|edit| edit.undone_by.is_none()) else {
        out::say("there is nothing to undo");
        return Ok(None);
    };
    out::say(edit_table(&edits).trim_end());
    if !ask::somebody() {
        return Err(Failure::Usage(
            "name the edit to undo, for example `bxctl memory undo e3`".into(),
        ));
    }
    let question = format!("undo which? [{}, or q for none]", latest.edit);
    match ask::line(&question)?.as_deref() {
        None | Some("q" | "n" | "no" | "none") => Ok(None),
        Some("") => Ok(Some(latest.edit)),
        Some(answer) => match answer.parse() {
            Ok(edit) => Ok(Some(edit)),
            Err(error) => Err(Failure::Usage(format!("that is {error}"))),
        },
    }
}

/// Takes over hand edits.
///
/// # Errors
/// When memoryd cannot answer, or refuses.
pub fn accept(dirs: &Dirs, yes: bool) -> Result<Exit, Failure> {
    let request = |confirm| Request::MemoryAccept { confirm };
    change(
        dirs,
        request,
        "take this over as your own edits?",
        "accept",
        yes,
    )
}

/// Shows what a change will do, asks, does it.
///
/// # Errors
/// When memoryd cannot answer, or refuses.
pub fn change(
    dirs: &Dirs,
    request: impl Fn(bool) -> Request,
    question: &str,
    verb: &str,
    yes: bool,
) -> Result<Exit, Failure> {
    let act = || changed(dirs, &request(true));
    shown_first(dirs, &request(false), question, verb, yes, act)
}

/// Shows what `preview` answers, asks, acts. `act`: whether something was done, and a line for each thing.
///
/// # Errors
/// When memoryd cannot answer, or refuses.
pub fn shown_first(
    dirs: &Dirs,
    preview: &Request,
    question: &str,
    verb: &str,
    yes: bool,
    act: impl FnOnce() -> Result<(bool, Vec<String>), Failure>,
) -> Result<Exit, Failure> {
    if !yes {
        let (_, lines) = changed(dirs, preview)?;
        if lines.is_empty() {
            out::say(&format!("there is nothing to {verb}"));
            return Ok(Exit::Done);
        }
        out::say(&format!("What it does:\n{}", listed(&lines).trim_end()));
        if !ask::somebody() {
            out::say("nothing was changed; add --yes to do it");
            return Ok(Exit::Attention);
        }
        if !ask::yes(question)? {
            out::say("nothing was changed");
            return Ok(Exit::Done);
        }
    }
    let (done, lines) = act()?;
    out::print(
        &lines
            .iter()
            .map(|l| format!("{}\n", one_line(l)))
            .collect::<String>(),
    )?;
    if !done {
        out::say(&format!("there is nothing to {verb}"));
    }
    Ok(Exit::Done)
}

/// What memoryd does, or would do: whether it did, and a line for each thing.
///
/// # Errors
/// When memoryd cannot answer, or refuses.
pub fn changed(dirs: &Dirs, request: &Request) -> Result<(bool, Vec<String>), Failure> {
    match memoryd(dirs, request)? {
        Reply::Change { done, lines, .. } => Ok((done, lines)),
        _ => Err(NOT_THE_ANSWER),
    }
}

fn listed(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("  {}\n", one_line(line)))
        .collect()
}

/// Searches.
///
/// # Errors
/// When memoryd cannot answer.
pub fn recall(dirs: &Dirs, query: String, k: Option<u32>, json: bool) -> Result<Exit, Failure> {
    let arguments = Recall {
        query,
        k,
        since: None,
        until: None,
        // The owner may see everything that is theirs.
        untrusted: Some(true),
        class: Some(bxwire::Class::Secret),
    };
    let reply = memoryd(dirs, &Request::MemoryRecall { arguments })?;
    recalled(reply, json)
}

/// What `ask` asks.
pub fn question(question: String, workspaces: Vec<String>, low: bool) -> AskMemory {
    AskMemory {
        question,
        workspaces,
        reasoning: low.then_some(Reasoning::Low),
    }
}

/// Asks Honcho through memoryd.
///
/// # Errors
/// When memoryd cannot answer.
pub fn ask(dirs: &Dirs, arguments: AskMemory, json: bool) -> Result<Exit, Failure> {
    out::say("Honcho is asked; this takes a while");
    let request = Request::MemoryAsk { arguments };
    recalled(control_within(dirs, "memoryd", &request, ASK_MS_MAX)?, json)
}

fn recalled(reply: Reply, json: bool) -> Result<Exit, Failure> {
    let Reply::Recalled { text, label } = reply else {
        return Err(NOT_THE_ANSWER);
    };
    if json {
        let line = serde_json::json!({"label": label, "text": text});
        out::print(&json_line(&line)?)?;
    } else {
        let paint = Paint::of(&std::io::stderr());
        out::print(&format!("{}\n", safe(text.trim_end())))?;
        out::say(&paint.dim(&format!("· together these are {label}")));
    }
    Ok(Exit::Done)
}

/// How an item was decided and where it is.
///
/// # Errors
/// When memoryd cannot answer.
pub fn why(dirs: &Dirs, item: Item, json: bool) -> Result<Exit, Failure> {
    let told = ask_why(dirs, item)?;
    if json {
        out::print(&json_line(&told)?)?;
    } else {
        out::print(&why_shown(&told))?;
    }
    Ok(Exit::Done)
}

/// What memoryd tells of an id.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Told {
    Item(Why),
    Derived(Derived),
}

/// Asks memoryd; also the chat's `/why`.
///
/// # Errors
/// When memoryd cannot answer.
pub fn ask_why(dirs: &Dirs, item: Item) -> Result<Told, Failure> {
    let request = match item {
        Item::Ours(item) => Request::MemoryWhy { item },
        Item::Found(id) => Request::MemoryWhyFound { id },
    };
    match memoryd(dirs, &request)? {
        Reply::Why(why) => Ok(Told::Item(why)),
        Reply::Derived(derived) => Ok(Told::Derived(derived)),
        _ => Err(NOT_THE_ANSWER),
    }
}

pub fn why_shown(told: &Told) -> String {
    let why = match told {
        Told::Item(why) => why,
        Told::Derived(derived) => {
            return format!(
                "{}\n{}",
                one_line(&derived.id),
                render::facts(&derived.facts)
            );
        }
    };
    let mut text = format!("{}\n{}", why.item, render::facts(&why.facts));
    if why.steps.is_empty() {
        text.push_str("  nothing of it goes to Honcho\n");
        return text;
    }
    text.push_str("in Honcho\n");
    let rows: Vec<_> = why
        .steps
        .iter()
        .map(|step| {
            let ids = step.ids.iter().map(|id| one_line(id)).collect::<Vec<_>>();
            vec![
                format!("  {}", one_line(&step.what)),
                one_line(&step.state),
                one_line(&step.place),
                ids.join(" "),
            ]
        })
        .collect();
    text.push_str(&render::table(&rows));
    text
}
