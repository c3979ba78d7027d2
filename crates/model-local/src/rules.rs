//! Decides what to say without a model: one tool call at a time, then plain sentences about what the
//! tools answered. Called by `chat`; takes the request, returns the reply, never claims more than a
//! tool said.

use serde_json::{Value, json};

use crate::completion::{Call, Completion};
use crate::phrases::{self, Phrase};
use crate::prompt::content_text;
use crate::results::{HITS_SHOWN_MAX, ToolResult, quote};

/// What is said when no phrase fits.
pub const NO_MODEL: &str = "No language model is configured, so I can only follow a few plain phrases: \
    “remember that …”, “note …”, “forget …”, “what do you know about …?”, “ask memory …”, “read FILE”, \
    “list DIR” and “fetch URL”. To talk freely, set the address of a model server in the configuration.";

/// The reply to a request that was checked.
pub fn answer(request: &Value) -> Completion {
    let none = Vec::new();
    let messages = request["messages"].as_array().unwrap_or(&none);
    let Some(last) = messages
        .iter()
        .rposition(|message| message["role"] == "user")
    else {
        return say(NO_MODEL);
    };
    let found = phrases::find(&content_text(&messages[last]["content"]));
    if found.is_empty() {
        return say(NO_MODEL);
    }
    let mut results = messages[last..]
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| ToolResult::new(&content_text(&message["content"])));
    let system = messages.first().filter(|first| first["role"] == "system");
    let system = system
        .map(|first| content_text(&first["content"]))
        .unwrap_or_default();
    let mut sentences = Vec::new();
    for phrase in &found {
        let (tool, arguments) = tool_call(phrase);
        if !offers(request, tool) {
            sentences.push(without_tool(phrase, tool, &system));
            continue;
        }
        match results.next() {
            Some(result) => sentences.push(sentence(phrase, &result, &system)),
            None => {
                let call = Call {
                    name: tool.to_owned(),
                    arguments: arguments.to_string(),
                    id: None,
                };
                return Completion {
                    calls: vec![call],
                    ..Completion::default()
                };
            }
        }
    }
    say(&sentences.join("\n\n"))
}

fn say(text: &str) -> Completion {
    Completion {
        text: text.to_owned(),
        ..Completion::default()
    }
}

fn offers(request: &Value, tool: &str) -> bool {
    let mut tools = request["tools"].as_array().into_iter().flatten();
    request["tool_choice"] != "none" && tools.any(|offered| offered["function"]["name"] == tool)
}

fn tool_call(phrase: &Phrase) -> (&'static str, Value) {
    match phrase {
        Phrase::Remember { text } => {
            let first = text
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_lowercase();
            let about = if ["you", "your", "you're"].contains(&first.as_str()) {
                "agent"
            } else {
                "user"
            };
            ("memory", json!({"op": "add", "about": about, "text": text}))
        }
        Phrase::Note { text } => ("memory", json!({"op": "note", "text": text})),
        Phrase::Forget { what } => (
            "memory",
            json!({"op": "remove", "about": "user", "match": what}),
        ),
        Phrase::Know { about } => ("recall", json!({"query": about})),
        Phrase::AskMemory { question } => ("ask_memory", json!({"question": question})),
        Phrase::Read { path } => ("read_file", json!({"path": path})),
        Phrase::List { path } => ("list_files", json!({"path": path})),
        Phrase::Fetch { url } => ("fetch_page", json!({"url": url})),
    }
}

fn without_tool(phrase: &Phrase, tool: &str, system: &str) -> String {
    let missing = format!("the tool `{tool}` is not available here");
    match phrase {
        Phrase::Know { about } => match identity_lines(system, about) {
            lines if lines.is_empty() => {
                format!(
                    "I cannot look that up: {missing}, and my instructions say nothing about {about}."
                )
            }
            lines => format!("My instructions say about {about}:\n{}", bullets(&lines)),
        },
        _ => format!("I cannot do that: {missing}."),
    }
}

fn sentence(phrase: &Phrase, result: &ToolResult, system: &str) -> String {
    match phrase {
        Phrase::Remember { text } => edited(
            result,
            &format!("I will remember that {}", unstopped(text)),
            "I could not remember that",
        ),
        Phrase::Note { text } => edited(
            result,
            &format!("I noted: {}", unstopped(text)),
            "I could not note that",
        ),
        Phrase::Forget { what } => edited(
            result,
            &format!("I forgot what I had on “{what}”"),
            "I could not forget that",
        ),
        Phrase::Know { about } => known(about, result, system),
        Phrase::AskMemory { .. } => match result.refusal() {
            Some(why) => format!("Memory did not answer: {why}"),
            None if result.start().is_empty() => "Memory had no answer.".to_owned(),
            None => format!("Memory says: {}", result.start()),
        },
        Phrase::Read { path } => quoted(result, "read", path, "begins"),
        Phrase::List { path } => quoted(result, "list", path, "holds"),
        Phrase::Fetch { url } => quoted(result, "fetch", url, "begins"),
    }
}

fn edited(result: &ToolResult, done: &str, not_done: &str) -> String {
    match (result.refusal(), result.edit_id()) {
        (Some(why), _) if result.is_withheld() => format!("The tool said: {why}"),
        (Some(why), _) => format!("{not_done}: {why}"),
        (None, Some(id)) => format!("{done} (edit {id})."),
        // Whether it was done is for the tool's own words to say.
        (None, None) => format!("{done}. The tool said: {}", result.start()),
    }
}

fn known(about: &str, result: &ToolResult, system: &str) -> String {
    if let Some(why) = result.refusal() {
        return format!("I could not look that up: {why}");
    }
    let (mut found, away) = result.hits();
    if found.is_empty() {
        found = identity_lines(system, about);
    }
    let mut text = if found.is_empty() {
        format!("I found nothing about {about}.")
    } else {
        format!("This is what I found about {about}:\n{}", bullets(&found))
    };
    if !away.is_empty() {
        text.push_str(&format!(
            "\nNot everything was searched:\n{}",
            bullets(&away)
        ));
    }
    text
}

fn quoted(result: &ToolResult, asked: &str, name: &str, verb: &str) -> String {
    match result.refusal() {
        Some(why) => format!("I could not {asked} {name}: {why}"),
        None if result.start().is_empty() => format!("{name} is empty."),
        None => format!("{name} {verb}: “{}”", result.start()),
    }
}

/// The list items of the system text that share every word with what was asked for. Its other lines
/// are orders, not knowledge.
fn identity_lines(system: &str, about: &str) -> Vec<String> {
    let words: Vec<String> = about
        .to_lowercase()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let items = system
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "));
    let fits = |item: &&str| {
        let lower = item.to_lowercase();
        words.iter().all(|word| lower.contains(word))
    };
    items.filter(fits).map(quote).take(HITS_SHOWN_MAX).collect()
}

fn bullets(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("- {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn unstopped(text: &str) -> &str {
    text.trim_end_matches('.')
}
