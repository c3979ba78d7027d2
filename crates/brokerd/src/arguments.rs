//! Checks a call's arguments against its tool's schema and makes them typed. What is wrong is said so that a
//! model can put it right: which argument, and what it should be. Values only.

use bxwire::links::memory_tools::{AskMemory, FactsOp, MemoryOp, Recall};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::tools::Name;

/// Mistakes named in one answer.
const MISTAKES_MAX: usize = 5;

/// Arguments of their tool.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    Memory(MemoryOp),
    Recall(Recall),
    AskMemory(AskMemory),
    Facts(FactsOp),
    ReadFile(ReadFile),
    ListFiles(ListFiles),
}

/// The `read_file` tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadFile {
    pub path: String,
}

/// The `list_files` tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListFiles {
    #[serde(default)]
    pub path: Option<String>,
}

/// Reads a tool's arguments.
///
/// # Errors
/// What to change, for the model; it quotes names of arguments and nothing else of them.
pub fn read(tool: Name, arguments: &Value) -> Result<Arguments, String> {
    let Value::Object(given) = arguments else {
        return Err(format!(
            "the arguments of {} must be a JSON object",
            tool.as_str()
        ));
    };
    // Models write null for what they leave out.
    let given: Map<String, Value> = given
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let given = Value::Object(given);
    let mut mistakes = Vec::new();
    check("", &given, &tool.schema(), &mut mistakes);
    if !mistakes.is_empty() {
        mistakes.truncate(MISTAKES_MAX);
        return Err(format!(
            "wrong arguments for {}: {}",
            tool.as_str(),
            mistakes.join("; ")
        ));
    }
    match tool {
        Name::Memory => typed(tool, given).map(Arguments::Memory),
        Name::Recall => typed(tool, given).map(Arguments::Recall),
        Name::AskMemory => typed(tool, given).map(Arguments::AskMemory),
        Name::Facts => typed(tool, given).map(Arguments::Facts),
        Name::ReadFile => typed(tool, given).map(Arguments::ReadFile),
        Name::ListFiles => typed(tool, given).map(Arguments::ListFiles),
    }
}

/// Every type is right by now; what is left is an argument too few or too many for the `op`, and serde's words
/// name just that.
fn typed<T: DeserializeOwned>(tool: Name, given: Value) -> Result<T, String> {
    let op = given.get("op").and_then(Value::as_str).unwrap_or_default();
    let what = match op {
        "" => tool.as_str().to_owned(),
        op => format!("{} {op}", tool.as_str()),
    };
    serde_json::from_value(given).map_err(|error| format!("wrong arguments for {what}: {error}"))
}

/// The part of JSON Schema that the tools use.
fn check(place: &str, value: &Value, schema: &Value, mistakes: &mut Vec<String>) {
    let shown = if place.is_empty() { "it" } else { place };
    let fits = match schema["type"].as_str().unwrap_or_default() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => true,
    };
    if !fits {
        mistakes.push(format!("`{shown}` must be {}", wanted(schema)));
        return;
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        mistakes.push(format!("`{shown}` must be {}", wanted(schema)));
    }
    if value.is_number() {
        let number = value.as_i64().unwrap_or(i64::MAX);
        let low = schema["minimum"].as_i64().unwrap_or(i64::MIN);
        let high = schema["maximum"].as_i64().unwrap_or(i64::MAX);
        if !(low..=high).contains(&number) {
            mistakes.push(format!("`{shown}` must be {}", wanted(schema)));
        }
    }
    if let Some(items) = value.as_array() {
        for (n, item) in items.iter().enumerate() {
            check(&format!("{place}[{n}]"), item, &schema["items"], mistakes);
        }
    }
    if let Some(members) = value.as_object() {
        check_members(place, members, schema, mistakes);
    }
}

fn check_members(
    place: &str,
    members: &Map<String, Value>,
    schema: &Value,
    mistakes: &mut Vec<String>,
) {
    let full = |name: &str| match place {
        "" => name.to_owned(),
        place => format!("{place}.{name}"),
    };
    let nothing = Map::new();
    let known = schema["properties"].as_object().unwrap_or(&nothing);
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if !members.contains_key(name) {
            let wanted = wanted(&known[name]);
            mistakes.push(format!("`{}` is missing; it must be {wanted}", full(name)));
        }
    }
    for (name, value) in members {
        match known.get(name) {
            Some(schema) => check(&full(name), value, schema, mistakes),
            None => {
                let names: Vec<_> = known.keys().map(String::as_str).collect();
                mistakes.push(format!(
                    "`{}` is not an argument (known: {})",
                    full(&crate::labels::words(name)),
                    names.join(", ")
                ));
            }
        }
    }
}

fn wanted(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words.iter().map(Value::to_string).collect();
        return format!("one of {}", words.join(", "));
    }
    match schema["type"].as_str().unwrap_or_default() {
        "object" => "an object".into(),
        "array" => "a list".into(),
        "boolean" => "true or false".into(),
        "integer" => match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            (Some(low), Some(high)) => format!("a whole number from {low} to {high}"),
            _ => "a whole number".into(),
        },
        _ => "a string".into(),
    }
}

#[cfg(test)]
mod tests {
    use bxwire::links::memory_tools::About;
    use serde_json::json;

    use super::*;

    #[test]
    fn right_arguments_become_typed() {
        assert_eq!(
            read(
                Name::Memory,
                &json!({"op": "add", "about": "user", "text": "x", "id": null})
            ),
            Ok(Arguments::Memory(MemoryOp::Add {
                about: About::User,
                text: "x".into()
            }))
        );
        for (tool, arguments) in [
            (Name::Memory, json!({"op": "note", "text": "x"})),
            (
                Name::Memory,
                json!({"op": "remove", "about": "agent", "match": "x"}),
            ),
            (
                Name::Memory,
                json!({"op": "consolidate", "entries": [{"id": "m1", "fate": "keep"}]}),
            ),
            (
                Name::Recall,
                json!({"query": "x", "k": 3, "untrusted": true, "class": "public"}),
            ),
            (Name::AskMemory, json!({"question": "x"})),
            (
                Name::AskMemory,
                json!({"question": "x", "workspaces": ["own"], "reasoning": "low"}),
            ),
            (Name::ReadFile, json!({"path": "inbox/a"})),
            (Name::ListFiles, json!({})),
            (Name::ListFiles, json!({"path": null})),
        ] {
            assert!(read(tool, &arguments).is_ok(), "{arguments}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_what_is_wanted() {
        for (tool, arguments, want) in [
            (Name::ReadFile, json!("inbox/a"), "must be a JSON object"),
            (
                Name::ReadFile,
                json!({}),
                "`path` is missing; it must be a string",
            ),
            (
                Name::ReadFile,
                json!({"path": 3}),
                "`path` must be a string",
            ),
            (
                Name::ReadFile,
                json!({"path": "a", "lines": 3}),
                "`lines` is not an argument (known: path)",
            ),
            (
                Name::Recall,
                json!({"query": "x", "k": 21}),
                "`k` must be a whole number from 1 to 20",
            ),
            (
                Name::Recall,
                json!({"query": "x", "untrusted": "yes"}),
                "`untrusted` must be true or false",
            ),
            (
                Name::Memory,
                json!({"op": "forget"}),
                r#"`op` must be one of "add", "replace", "remove", "note", "consolidate""#,
            ),
            (
                Name::Memory,
                json!({"op": "add", "text": "x"}),
                "missing field `about`",
            ),
            (
                Name::Memory,
                json!({"op": "note", "text": "x", "about": "user"}),
                "unknown field `about`",
            ),
            (
                Name::Memory,
                json!({"op": "consolidate", "entries": [{"id": "m1", "fate": "eat"}]}),
                r#"`entries[0].fate` must be one of "keep", "note", "drop""#,
            ),
        ] {
            let told = read(tool, &arguments).unwrap_err();
            assert!(told.contains(want), "{arguments}: {told}");
        }
    }

    #[test]
    fn values_are_not_repeated_and_many_mistakes_are_cut() {
        let told = read(Name::Recall, &json!({"query": ["canary"]})).unwrap_err();
        assert!(!told.contains("canary"), "{told}");
        let many: Map<_, _> = (0..500).map(|n| (format!("x{n}"), json!(1))).collect();
        assert!(read(Name::Recall, &Value::Object(many)).unwrap_err().len() < 1_000);
    }
}
