//! Honcho's filter language: read once from a request, then asked row by row. Used by every list,
//! search and query; an unknown field is refused, never skipped.

mod models;

use serde_json::{Map, Value};

use crate::clock;
use crate::errors::Refusal;

pub use models::{CONCLUSION, Kind, MESSAGE, Model, PEER, SESSION, WORKSPACE};

/// How deep `AND`, `OR` and `NOT` may nest.
pub const FILTER_DEPTH_MAX: usize = 5;

const OPERATORS: [&str; 8] = [
    "gte",
    "lte",
    "gt",
    "lt",
    "ne",
    "in",
    "contains",
    "icontains",
];

/// One column of one row.
pub enum Cell<'a> {
    Null,
    Text(&'a str),
    Number(i64),
    /// JSON as stored: compact text.
    Json(&'a str),
}

pub trait Row {
    fn cell(&self, column: &str) -> Cell<'_>;
}

#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    None(Vec<Filter>),
    Column {
        column: &'static str,
        test: Test,
    },
    Metadata {
        key: String,
        needle: Option<String>,
        test: Test,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    Anything,
    Nothing,
    Unset,
    Equal(Value),
    OneOf(Vec<Value>),
    Compare {
        op: &'static str,
        value: Value,
    },
    /// Of metadata: the member contains this.
    Holds(Value),
}

/// Reads a `filters` member.
///
/// # Errors
/// 422 with a text for a field that cannot be filtered on, 500 for a shape Honcho trips over.
pub fn read(filters: Option<&Value>, model: &Model) -> Result<Filter, Refusal> {
    match filters {
        None | Some(Value::Null) => Ok(Filter::All(Vec::new())),
        Some(Value::Object(map)) => read_map(map, model, 0),
        Some(_) => Err(Refusal::unprocessable("filters must be a dictionary")),
    }
}

fn read_map(map: &Map<String, Value>, model: &Model, depth: usize) -> Result<Filter, Refusal> {
    if depth > FILTER_DEPTH_MAX {
        return Err(Refusal::unprocessable(format!(
            "Filters may nest at most {FILTER_DEPTH_MAX} levels deep"
        )));
    }
    let mut all = Vec::new();
    for (key, value) in map {
        if matches!(key.as_str(), "AND" | "OR" | "NOT") {
            let Some(list) = value.as_array() else {
                return Err(Refusal::unprocessable(format!(
                    "{key} must be a list of filters"
                )));
            };
            let mut parts = Vec::new();
            for part in list {
                let Some(part) = part.as_object() else {
                    return Err(Refusal::unprocessable(format!(
                        "{key} must be a list of filters"
                    )));
                };
                parts.push(read_map(part, model, depth + 1)?);
            }
            all.push(match key.as_str() {
                "AND" => Filter::All(parts),
                // An empty `OR` asks for nothing in particular, so it does not narrow.
                "OR" if parts.is_empty() => Filter::All(parts),
                "OR" => Filter::Any(parts),
                _ => Filter::None(parts),
            });
            continue;
        }
        let Some((_, column, kind)) = model.columns.iter().find(|(name, ..)| name == key) else {
            return Err(Refusal::unprocessable(format!(
                "Column '{key}' is not allowed to be filtered on or does not exist on {}",
                model.name
            )));
        };
        if *kind == Kind::Metadata {
            all.push(read_metadata(value)?);
        } else {
            all.extend(read_column(column, *kind, value)?);
        }
    }
    Ok(Filter::All(all))
}

fn read_column(column: &'static str, kind: Kind, value: &Value) -> Result<Vec<Filter>, Refusal> {
    let one = |test| Filter::Column { column, test };
    Ok(match value {
        Value::Null => vec![one(Test::Unset)],
        Value::String(text) if text == "*" => vec![one(Test::Anything)],
        Value::Array(list) if kind != Kind::List => vec![one(one_of(kind, list)?)],
        Value::Object(map) => {
            let mut tests = Vec::new();
            for (op, value) in map {
                tests.push(one(operator(op, kind, value)?));
            }
            tests
        }
        plain => vec![one(Test::Equal(scalar(kind, plain)?))],
    })
}

fn operator(op: &str, kind: Kind, value: &Value) -> Result<Test, Refusal> {
    let Some(op) = OPERATORS.iter().find(|known| **known == op) else {
        return Err(Refusal::unexpected());
    };
    if value.as_str() == Some("*") {
        return Ok(Test::Anything);
    }
    if *op == "in" {
        let Some(list) = value.as_array() else {
            return Err(Refusal::unexpected());
        };
        return one_of(kind, list);
    }
    let value = if matches!(*op, "contains" | "icontains") {
        value.clone()
    } else {
        scalar(kind, value)?
    };
    Ok(Test::Compare { op, value })
}

fn one_of(kind: Kind, list: &[Value]) -> Result<Test, Refusal> {
    if list.iter().any(|value| value.as_str() == Some("*")) {
        return Ok(Test::Anything);
    }
    if list.is_empty() {
        return Ok(Test::Nothing);
    }
    Ok(Test::OneOf(
        list.iter()
            .map(|value| scalar(kind, value))
            .collect::<Result<_, _>>()?,
    ))
}

/// The value in the column's own kind: times become microseconds.
fn scalar(kind: Kind, value: &Value) -> Result<Value, Refusal> {
    match (kind, value) {
        (_, Value::Null) => Ok(Value::Null),
        (Kind::Time, value) => match clock::parse(value) {
            Some(sent) => Ok(Value::from(sent.at)),
            None => Err(Refusal::unprocessable("Invalid datetime in filters")),
        },
        (Kind::Text, Value::String(_)) | (Kind::Number, Value::Number(_)) | (Kind::List, _) => {
            Ok(value.clone())
        }
        (Kind::Flag, value) => match crate::validate::truth(value) {
            Some(truth) => Ok(Value::from(u8::from(truth))),
            None => Err(Refusal::unexpected()),
        },
        (Kind::Number, Value::String(text)) => match text.parse::<f64>() {
            Ok(number) => Ok(Value::from(number)),
            Err(_) => Err(Refusal::unexpected()),
        },
        _ => Err(Refusal::unexpected()),
    }
}

fn read_metadata(value: &Value) -> Result<Filter, Refusal> {
    if value.as_str() == Some("*") {
        return Ok(Filter::All(Vec::new()));
    }
    let Some(map) = value.as_object() else {
        return Err(Refusal::unexpected());
    };
    let mut all = Vec::new();
    for (key, value) in map {
        let operators = value
            .as_object()
            .filter(|map| !map.is_empty() && map.keys().all(|op| OPERATORS.contains(&op.as_str())));
        let Some(operators) = operators else {
            let needle = value
                .as_str()
                .map(|_| format!("{}:{value}", Value::from(key.as_str())));
            let test = match value.as_str() {
                Some("*") => Test::Anything,
                _ => Test::Holds(value.clone()),
            };
            let needle = needle.filter(|_| test != Test::Anything);
            all.push(Filter::Metadata {
                key: key.clone(),
                needle,
                test,
            });
            continue;
        };
        for (op, value) in operators {
            let test = match (OPERATORS.iter().find(|known| *known == op), value) {
                (Some(&"in"), Value::Array(list)) => Test::OneOf(list.clone()),
                (Some(&"in"), _) | (None, _) => return Err(Refusal::unexpected()),
                (Some(op), value) => Test::Compare {
                    op,
                    value: value.clone(),
                },
            };
            all.push(Filter::Metadata {
                key: key.clone(),
                needle: None,
                test,
            });
        }
    }
    Ok(Filter::All(all))
}

impl Filter {
    /// A text that stored metadata must hold for the row to match, where there is one. Most rows of a
    /// lookup by metadata are ruled out by it alone, without being decoded.
    pub fn needle(&self) -> Option<&str> {
        match self {
            Self::All(parts) => parts.iter().find_map(Self::needle),
            Self::Metadata { needle, .. } => needle.as_deref(),
            _ => None,
        }
    }

    pub fn matches(&self, row: &dyn Row) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.matches(row)),
            Self::Any(parts) => parts.iter().any(|part| part.matches(row)),
            Self::None(parts) => !parts.iter().any(|part| part.matches(row)),
            Self::Column { column, test } => match row.cell(column) {
                Cell::Null => matches!(test, Test::Anything | Test::Unset),
                Cell::Text(text) => test.accepts(&Value::from(text)),
                Cell::Number(number) => test.accepts(&Value::from(number)),
                Cell::Json(text) => match serde_json::from_str(text) {
                    Ok(value) => test.accepts(&value),
                    Err(_) => false,
                },
            },
            Self::Metadata { key, test, .. } => {
                let Cell::Json(text) = row.cell("metadata") else {
                    return false;
                };
                let Ok(Value::Object(map)) = serde_json::from_str::<Value>(text) else {
                    return false;
                };
                map.get(key)
                    .is_some_and(|member| !member.is_null() && test.accepts(member))
            }
        }
    }
}

impl Test {
    fn accepts(&self, found: &Value) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing | Self::Unset => false,
            Self::Equal(value) => same(found, value),
            Self::OneOf(values) => values.iter().any(|value| same(found, value)),
            Self::Holds(value) => holds(found, value),
            Self::Compare { op, value } => compare(op, found, value),
        }
    }
}

fn compare(op: &str, found: &Value, value: &Value) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (found, value) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a
            .as_f64()
            .and_then(|a| b.as_f64().and_then(|b| a.partial_cmp(&b))),
        _ => None,
    };
    match op {
        "gte" => matches!(order, Some(Greater | Equal)),
        "lte" => matches!(order, Some(Less | Equal)),
        "gt" => order == Some(Greater),
        "lt" => order == Some(Less),
        "ne" => !same(found, value),
        "contains" => match (found, value) {
            (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
            (Value::Array(_), Value::Array(_)) => holds(found, value),
            (Value::Array(list), value) => list.iter().any(|item| same(item, value)),
            _ => false,
        },
        "icontains" => match (found, value) {
            (Value::String(text), Value::String(part)) => {
                text.to_lowercase().contains(&part.to_lowercase())
            }
            _ => false,
        },
        _ => false,
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// Containment as PostgreSQL defines it for JSON: types matter, extra members do not.
fn holds(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| found.get(key).is_some_and(|member| holds(member, value))),
        (Value::Array(found), Value::Array(wanted)) => wanted
            .iter()
            .all(|value| found.iter().any(|item| holds(item, value))),
        _ => same(found, wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Sample;

    impl Row for Sample {
        fn cell(&self, column: &str) -> Cell<'_> {
            match column {
                "peer_id" => Cell::Text("owner"),
                "token_count" => Cell::Number(8),
                "created_at" => Cell::Number(1_772_359_200_000_000),
                "metadata" => Cell::Json(r#"{"list":["a","b"],"n":2,"outbox":"ob-1","seq":1}"#),
                _ => Cell::Null,
            }
        }
    }

    #[test]
    fn what_matches() {
        let rows = [
            (json!({}), true),
            (json!({"peer_id": "owner"}), true),
            (json!({"peer_id": "other"}), false),
            (json!({"peer_id": ["x", "owner"]}), true),
            (json!({"peer_id": {"in": []}}), false),
            (json!({"peer_id": "*"}), true),
            (json!({"peer_id": null}), false),
            (json!({"session_id": null}), true),
            (json!({"peer_id": {"icontains": "OWN"}}), true),
            (json!({"token_count": {"gte": 8, "lt": 9}}), true),
            (json!({"created_at": {"gte": "2026-03-01T10:00:00Z"}}), true),
            (json!({"created_at": {"gt": "2026-03-01T10:00:00Z"}}), false),
            (json!({"metadata": {"outbox": "ob-1", "seq": 1}}), true),
            (json!({"metadata": {"seq": "1"}}), false),
            (
                json!({"metadata": {"outbox": {"in": ["ob-0", "ob-1"]}}}),
                true,
            ),
            (json!({"metadata": {"n": {"gte": 2}}}), true),
            (json!({"metadata": {"gone": {"ne": 1}}}), false),
            (json!({"metadata": {"gone": null}}), false),
            (json!({"metadata": {"list": ["b"]}}), true),
            (json!({"metadata": {"list": {"contains": "b"}}}), true),
            (json!({"metadata": {"list": "b"}}), false),
            (
                json!({"OR": [{"peer_id": "x"}, {"metadata": {"n": 2}}]}),
                true,
            ),
            (json!({"NOT": [{"peer_id": "owner"}]}), false),
            (
                json!({"AND": [{"peer_id": "owner"}, {"NOT": [{"peer_id": "x"}]}]}),
                true,
            ),
        ];
        for (filters, want) in rows {
            let filter = read(Some(&filters), &MESSAGE)
                .unwrap_or_else(|error| panic!("{filters}: {error:?}"));
            assert_eq!(filter.matches(&Sample), want, "{filters}");
        }
    }

    #[test]
    fn what_is_refused() {
        let mut deep = json!({"peer_id": "a"});
        for _ in 0..=FILTER_DEPTH_MAX {
            deep = json!({ "AND": [deep] });
        }
        for (filters, status) in [
            (json!({"id": "x"}), 422),
            (json!({"content": "x"}), 422),
            (json!({"created_at": "soon"}), 422),
            (json!({"peer_id": {"like": "x"}}), 500),
            (deep, 422),
        ] {
            let refused = read(Some(&filters), &MESSAGE).expect_err("refused");
            assert_eq!(refused.status, status, "{filters}");
        }
    }
}
