//! The tools as a model is told of them, in their fixed order, and the digest of that. Their schemas are what
//! `arguments` checks against, so that what is told and what is checked cannot differ.

use bxwire::links::tools::Tool;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// A tool of brokerd's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    Memory,
    Recall,
    AskMemory,
    Facts,
    ReadFile,
    ListFiles,
}

impl Name {
    /// In the order of the list.
    pub const ALL: [Self; 6] = [
        Self::Memory,
        Self::Recall,
        Self::AskMemory,
        Self::Facts,
        Self::ReadFile,
        Self::ListFiles,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Recall => "recall",
            Self::AskMemory => "ask_memory",
            Self::Facts => "facts",
            Self::ReadFile => "read_file",
            Self::ListFiles => "list_files",
        }
    }

    /// Whether memoryd serves it.
    #[must_use]
    pub fn is_memorys(self) -> bool {
        match self {
            Self::Memory | Self::Recall | Self::AskMemory | Self::Facts => true,
            Self::ReadFile | Self::ListFiles => false,
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }

    fn description(self) -> &'static str {
        match self {
            Self::Memory => {
                "Changes what you remember for good. Entries (about `user` or `agent`) are short and \
                 always in view: add, replace or remove one by its id. note keeps a dated note. \
                 consolidate says of every entry: keep, note or drop."
            }
            Self::Recall => "Searches notes and earlier conversations, other agents' too.",
            Self::AskMemory => {
                "Asks what all that was said and noted adds up to; slow (up to minutes), so recall first."
            }
            Self::Facts => {
                "What was concluded about the owner: search, snapshot (all of it), profile (the card; with `card`, \
                 replaces it), conclude (keep a fact), forget (delete one)."
            }
            Self::ReadFile => "Reads a text file; the path starts with the name of a root.",
            Self::ListFiles => "Lists a folder; without a path, the roots.",
        }
    }

    /// The schema of its arguments.
    #[must_use]
    pub fn schema(self) -> Value {
        let (properties, required) = match self {
            Self::Memory => (
                json!({
                    "op": {"type": "string", "enum": ["add", "replace", "remove", "note", "consolidate"]},
                    "about": {"type": "string", "enum": ["user", "agent"],
                        "description": "add, replace, remove: whom it is about"},
                    "text": {"type": "string", "description": "add, replace, note: the new text"},
                    "id": {"type": "string", "description": "replace, remove: the entry's id"},
                    "match": {"type": "string",
                        "description": "replace, remove: a part of the entry's text, instead of its id"},
                    "entries": {"type": "array", "description": "consolidate: every entry",
                        "items": {"type": "object", "additionalProperties": false,
                            "properties": {
                                "id": {"type": "string"},
                                "fate": {"type": "string", "enum": ["keep", "note", "drop"]}},
                            "required": ["id", "fate"]}}
                }),
                json!(["op"]),
            ),
            Self::Recall => (
                json!({
                    "query": {"type": "string"},
                    "k": {"type": "integer", "minimum": 1, "maximum": 20, "description": "hits wanted"},
                    "since": {"type": "string", "description": "a date, YYYY-MM-DD"},
                    "until": {"type": "string", "description": "a date, YYYY-MM-DD"},
                    "untrusted": {"type": "boolean", "description": "also search what strangers wrote"},
                    "class": {"type": "string", "enum": ["public", "private", "secret"],
                        "description": "the highest class searched; the session's own when left out"}
                }),
                json!(["query"]),
            ),
            Self::AskMemory => (
                json!({
                    "question": {"type": "string", "description": "at most 2000 characters"},
                    "workspaces": {"type": "array", "items": {"type": "string"},
                        "description": "own (the default), untrusted, fleet, or another agent's name"},
                    "reasoning": {"type": "string", "enum": ["minimal", "low"]}
                }),
                json!(["question"]),
            ),
            Self::Facts => (
                json!({
                    "op": {"type": "string", "enum": ["search", "snapshot", "profile", "conclude", "forget"]},
                    "query": {"type": "string", "description": "search, snapshot"},
                    "k": {"type": "integer", "minimum": 1, "maximum": 20, "description": "search: facts wanted"},
                    "text": {"type": "string", "description": "conclude: one fact"},
                    "id": {"type": "string", "description": "forget: as search shows it"},
                    "card": {"type": "array", "items": {"type": "string"}, "description": "profile: all new lines"}
                }),
                json!(["op"]),
            ),
            Self::ReadFile => (
                json!({"path": {"type": "string", "description": "for example inbox/letter.txt"}}),
                json!(["path"]),
            ),
            Self::ListFiles => (
                json!({"path": {"type": "string", "description": "for example inbox"}}),
                json!([]),
            ),
        };
        json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false})
    }
}

/// The tools that `offered` lets through, and their digest.
#[must_use]
pub fn list(offered: impl Fn(Name) -> bool) -> (Vec<Tool>, String) {
    let tools: Vec<_> = Name::ALL
        .into_iter()
        .filter(|name| offered(*name))
        .map(|name| Tool {
            name: name.as_str().into(),
            description: name.description().into(),
            parameters: name.schema(),
        })
        .collect();
    // Members of a `Value` are in one order always, so equal tools are equal bytes.
    let canonical = serde_json::to_vec(&tools).unwrap_or_default();
    (tools, hex(&Sha256::digest(canonical)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_changes_exactly_when_the_tools_do() {
        let (all, digest) = list(|_| true);
        let names: Vec<_> = all.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "memory",
                "recall",
                "ask_memory",
                "facts",
                "read_file",
                "list_files"
            ]
        );
        assert_eq!(list(|_| true).1, digest);
        assert_ne!(list(|name| name != Name::Recall).1, digest);
        assert_eq!(digest.len(), 64);
    }

    #[test]
    fn all_tools_together_are_short() {
        let bytes = serde_json::to_string(&list(|_| true).0).unwrap().len();
        assert!(bytes < 4_000, "{bytes} bytes in every prompt");
    }
}
