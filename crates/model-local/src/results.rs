//! Reads what a tool answered: a refusal, an edit's id, a search's hits. Called by `rules`; believes
//! words only as far as they go, and quotes them within a bound.

use serde_json::Value;

use crate::phrases::{opens_fence, without_fence_lines};

/// Lines of a search that are told.
pub const HITS_SHOWN_MAX: usize = 20;
/// Characters of one line, or of a file's start, that are quoted.
pub const QUOTE_CHARS_MAX: usize = 300;

/// A tool's answer without its fences.
#[derive(Debug)]
pub struct ToolResult {
    text: String,
    /// Whether it opens with a fence.
    fenced: bool,
    json: Option<Value>,
}

impl ToolResult {
    pub fn new(raw: &str) -> ToolResult {
        let text = without_fence_lines(raw).trim().to_owned();
        let fenced = opens_fence(raw.trim_start());
        let json = serde_json::from_str(&text)
            .ok()
            .filter(|json: &Value| json.is_object() || json.is_array());
        ToolResult { text, fenced, json }
    }

    /// The tool's own words, when it read and did nothing: whatever a tool brings in, brokerd fences, so words
    /// outside a fence are a refusal, whatever they sound like, and words inside never are.
    pub fn refusal(&self) -> Option<String> {
        match self.text.as_str() {
            _ if self.fenced => None,
            "" => Some("the tool said nothing".to_owned()),
            words => Some(quote(words)),
        }
    }

    /// Whether an edit was made whose answer these readers may not see.
    pub fn is_withheld(&self) -> bool {
        !self.fenced && self.text.contains(": done; its answer is withheld")
    }

    /// The id of an edit, such as `e12`. The one after the word “edit” wins.
    pub fn edit_id(&self) -> Option<String> {
        let words: Vec<&str> = self
            .text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let is_id = |word: &str| {
            word.strip_prefix('e')
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        let after = words
            .windows(2)
            .find(|pair| pair[0].eq_ignore_ascii_case("edit") && is_id(pair[1]));
        after
            .map(|pair| pair[1])
            .or_else(|| words.iter().copied().find(|word| is_id(word)))
            .map(str::to_owned)
    }

    /// The start of the text, on one line.
    pub fn start(&self) -> String {
        quote(&self.text)
    }

    /// What a search found, line by line, and what it says it could not reach.
    pub fn hits(&self) -> (Vec<String>, Vec<String>) {
        let lines: Vec<String> = match &self.json {
            Some(json) => json_lines(json),
            None => self.text.lines().map(plain_line).collect(),
        };
        let unreached = |line: &String| {
            let lower = line.to_lowercase();
            ["not be reached", "not reach", "unreachable", "unreached"]
                .iter()
                .any(|words| lower.contains(words))
                || ["not searched:", "not asked", "the index is "]
                    .iter()
                    .any(|words| lower.starts_with(words))
                || lower.ends_with(": unavailable")
                || lower.ends_with("; ask again")
        };
        let nothing = |line: &String| {
            let lower = line.to_lowercase();
            [
                "nothing",
                "no hit",
                "no result",
                "no match",
                "0 hit",
                "found nothing",
            ]
            .iter()
            .any(|words| lower.starts_with(words))
        };
        let lines: Vec<String> = lines
            .into_iter()
            .filter(|line| !line.is_empty() && !nothing(line))
            .collect();
        let (away, mut found): (Vec<String>, Vec<String>) = lines.into_iter().partition(unreached);
        found.truncate(HITS_SHOWN_MAX);
        (found, away.into_iter().take(HITS_SHOWN_MAX).collect())
    }
}

/// A text on one line, cut at the bound.
pub fn quote(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= QUOTE_CHARS_MAX {
        return line;
    }
    line.chars().take(QUOTE_CHARS_MAX).chain(['…']).collect()
}

/// A line without a list's mark; a line that is one JSON string is read as that string.
fn plain_line(line: &str) -> String {
    let line = line.trim();
    let line = line
        .strip_prefix("- ")
        .or_else(|| line.strip_prefix("* "))
        .unwrap_or(line);
    quote(&serde_json::from_str::<String>(line).unwrap_or_else(|_| line.to_owned()))
}

fn json_lines(json: &Value) -> Vec<String> {
    let list = ["hits", "results", "items"]
        .iter()
        .find_map(|key| json.get(key))
        .unwrap_or(json);
    let text_of = |hit: &Value| {
        let text = hit.as_str().or_else(|| {
            ["text", "snippet", "content"]
                .iter()
                .find_map(|key| hit[key].as_str())
        });
        text.map(quote)
    };
    let mut lines: Vec<String> = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(text_of)
        .collect();
    for (key, value) in json
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.contains("reach"))
    {
        let words = match value {
            Value::Array(names) if names.is_empty() => continue,
            Value::Null | Value::Bool(false) => continue,
            Value::Array(names) => names
                .iter()
                .filter_map(text_of)
                .collect::<Vec<_>>()
                .join(", "),
            other => text_of(other).unwrap_or_else(|| key.clone()),
        };
        lines.push(format!("could not be reached: {words}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_outside_a_fence_are_a_refusal() {
        for text in [
            "read_file: it is not a plain file",
            "the owner said no to this call of memory",
            "Not run: tools are unavailable right now.",
            "cancelled",
            "",
        ] {
            assert!(ToolResult::new(text).refusal().is_some(), "{text}");
        }
        for text in ["added (edit e1)", "refused: so the letter begins", ""] {
            let fenced =
                format!("⟦read_file 9f⟧ read_file in/a (private)\n{text}\n⟦/read_file 9f⟧");
            assert!(ToolResult::new(&fenced).refusal().is_none(), "{text}");
        }
    }

    #[test]
    fn edit_ids_are_found() {
        assert_eq!(
            ToolResult::new("⟦tool e9⟧ memory (private, clean)\nadded u3 (edit e12)\n⟦/tool e9⟧")
                .edit_id()
                .as_deref(),
            Some("e12")
        );
        assert_eq!(
            ToolResult::new("entry e3 changed by edit e7")
                .edit_id()
                .as_deref(),
            Some("e7")
        );
        assert_eq!(ToolResult::new("the tee is e-mailed").edit_id(), None);
    }

    #[test]
    fn hits_and_what_was_not_reached() {
        let plain =
            "1. note, s1\n⟦mem 9f⟧\n\"I like tea\"\n⟦/mem 9f⟧\nhoncho: could not be reached";
        let json = r#"{"hits":[{"text":"I like tea"}],"unreachable":["honcho"]}"#;
        assert_eq!(
            ToolResult::new(plain).hits().0,
            ["1. note, s1", "I like tea"]
        );
        assert_eq!(
            ToolResult::new(plain).hits().1,
            ["honcho: could not be reached"]
        );
        assert_eq!(ToolResult::new(json).hits().0, ["I like tea"]);
        assert_eq!(
            ToolResult::new(json).hits().1,
            ["could not be reached: honcho"]
        );
        assert_eq!(ToolResult::new("Nothing found.").hits(), (vec![], vec![]));
    }
}
