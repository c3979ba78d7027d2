//! A tool call that a model wrote as text. Called by `judge` and `prompt`; takes values only, and never finds
//! a call inside prose.

use serde_json::Value;

use crate::stream::RawCall;

/// Markers that a model writes when it misses the tool interface.
const MARKERS: [&str; 6] = [
    "<tool_call>",
    "<tool_response>",
    "<function=",
    "[TOOL_CALLS]",
    "<|tool_call",
    "<function_call>",
];

/// The call, when the whole text is one.
#[must_use]
pub fn whole(text: &str) -> Option<RawCall> {
    let text = unfenced(text.trim());
    if let Some(inner) = text.strip_prefix("<function=") {
        let (tool, arguments) = inner.split_once('>')?;
        let arguments = arguments
            .strip_suffix("</function>")
            .unwrap_or(arguments)
            .trim();
        let arguments = serde_json::from_str::<Value>(arguments)
            .ok()
            .filter(Value::is_object)?;
        return Some(RawCall {
            tool: tool.into(),
            arguments: arguments.to_string(),
        });
    }
    let mut inner = text;
    for (open, close) in [
        ("<tool_call>", "</tool_call>"),
        ("<function_call>", "</function_call>"),
        ("[TOOL_CALLS]", ""),
    ] {
        if let Some(rest) = text.strip_prefix(open) {
            inner = rest.strip_suffix(close).unwrap_or(rest).trim();
        }
    }
    let value: Value = serde_json::from_str(inner).ok()?;
    let value = match &value {
        Value::Array(items) if items.len() == 1 => &items[0],
        other => other,
    };
    let call = if value["function"].is_object() {
        &value["function"]
    } else {
        value
    };
    let arguments = match (&call["arguments"], &call["parameters"]) {
        (object @ Value::Object(_), _) | (Value::Null, object @ Value::Object(_)) => object.clone(),
        (Value::String(text), _) => serde_json::from_str(text).ok().filter(Value::is_object)?,
        _ => return None,
    };
    Some(RawCall {
        tool: call["name"].as_str()?.into(),
        arguments: arguments.to_string(),
    })
}

/// Whether a text holds a marker of a call, or of a result that only a tool could give.
#[must_use]
pub fn has_marker(text: &str) -> bool {
    MARKERS.iter().any(|marker| text.contains(marker))
}

fn unfenced(text: &str) -> &str {
    let Some(inner) = text
        .strip_prefix("```")
        .and_then(|inner| inner.strip_suffix("```"))
    else {
        return text;
    };
    match inner.split_once('\n') {
        Some((word, rest)) if word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
            rest.trim()
        }
        _ => inner.trim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_call_is_found_in_each_dress() {
        for text in [
            r#"{"name":"f","arguments":{"a":1}}"#,
            r#"{"name":"f","parameters":{"a":1}}"#,
            r#"{"name":"f","arguments":"{\"a\":1}"}"#,
            "<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>",
            "```json\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n```",
            "<function=f>{\"a\":1}</function>",
            r#"[TOOL_CALLS][{"name":"f","arguments":{"a":1}}]"#,
            r#"{"type":"function","function":{"name":"f","arguments":{"a":1}}}"#,
        ] {
            let call = whole(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (call.tool.as_str(), call.arguments.as_str()),
                ("f", r#"{"a":1}"#),
                "{text}"
            );
        }
    }

    #[test]
    fn prose_around_a_call_is_prose() {
        for text in [
            "I call {\"name\":\"f\",\"arguments\":{}} now",
            "{\"name\":\"f\"}",
            "{\"name\":\"f\",\"arguments\":[1]}",
            "```\nno call\n```",
            "",
        ] {
            assert_eq!(whole(text), None, "{text}");
        }
        assert!(has_marker("so <tool_call>{} it is"));
        assert!(!has_marker("a call, a tool, a function"));
    }
}
