//! Field checks with Honcho's own words: every problem of a body is collected, then answered as one
//! 422 list that echoes what was sent. Used by every handler that takes a body or a query.

use serde_json::{Map, Value, json};

use crate::errors::Refusal;

/// Characters of a workspace's, peer's or session's id.
pub const NAME_CHARS_MAX: usize = 512;
pub const NAME_PATTERN: &str = "^[a-zA-Z0-9_-]+$";
/// Top-level keys of a `metadata` object, and how deep it may nest (the object itself is 1).
pub const METADATA_KEYS_MAX: usize = 100;
pub const METADATA_DEPTH_MAX: usize = 5;

pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().count() <= NAME_CHARS_MAX
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// An object inside the body, with the way to it.
#[derive(Clone)]
pub struct At<'a> {
    pub loc: Vec<Value>,
    pub map: &'a Map<String, Value>,
}

impl<'a> At<'a> {
    pub fn body(map: &'a Map<String, Value>) -> Self {
        Self {
            loc: vec![json!("body")],
            map,
        }
    }

    fn loc(&self, key: &str) -> Vec<Value> {
        let mut loc = self.loc.clone();
        loc.push(json!(key));
        loc
    }

    /// The object that is this one's member `key`.
    pub fn inside(&self, key: &str, map: &'a Map<String, Value>) -> Self {
        Self {
            loc: self.loc(key),
            map,
        }
    }

    /// The member, unless it is absent or `null`.
    pub fn set(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }
}

/// How long a text may be, and whether it must be there.
#[derive(Clone, Copy)]
pub struct Text {
    pub required: bool,
    pub min: usize,
    pub max: usize,
    pub name: bool,
}

pub const ANY: Text = Text {
    required: false,
    min: 0,
    max: usize::MAX,
    name: false,
};
pub const REQUIRED: Text = Text {
    required: true,
    ..ANY
};
pub const NAME: Text = Text {
    required: true,
    min: 1,
    max: NAME_CHARS_MAX,
    name: true,
};

#[derive(Default)]
pub struct Problems(Vec<Value>);

impl Problems {
    /// # Errors
    /// The collected problems, as one refusal.
    pub fn done(self) -> Result<(), Refusal> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Refusal::unprocessable(Value::Array(self.0)))
        }
    }

    pub fn push(
        &mut self,
        kind: &str,
        loc: Vec<Value>,
        msg: String,
        input: &Value,
        ctx: Option<Value>,
    ) {
        let mut problem = json!({ "type": kind, "loc": loc, "msg": msg, "input": input });
        if let (Some(ctx), Some(map)) = (ctx, problem.as_object_mut()) {
            map.insert(String::from("ctx"), ctx);
        }
        self.0.push(problem);
    }

    fn missing(&mut self, at: &At<'_>, key: &str) {
        let whole = Value::Object(at.map.clone());
        self.push(
            "missing",
            at.loc(key),
            String::from("Field required"),
            &whole,
            None,
        );
    }

    pub fn text(&mut self, at: &At<'_>, key: &str, rule: Text) -> Option<String> {
        let Some(value) = at.map.get(key) else {
            if rule.required {
                self.missing(at, key);
            }
            return None;
        };
        if value.is_null() && !rule.required {
            return None;
        }
        let Some(text) = value.as_str() else {
            self.push(
                "string_type",
                at.loc(key),
                String::from("Input should be a valid string"),
                value,
                None,
            );
            return None;
        };
        let length = text.chars().count();
        if length < rule.min {
            let unit = if rule.min == 1 {
                "character"
            } else {
                "characters"
            };
            let msg = format!("String should have at least {} {unit}", rule.min);
            self.push(
                "string_too_short",
                at.loc(key),
                msg,
                value,
                Some(json!({ "min_length": rule.min })),
            );
            return None;
        }
        if length > rule.max {
            let msg = format!("String should have at most {} characters", rule.max);
            self.push(
                "string_too_long",
                at.loc(key),
                msg,
                value,
                Some(json!({ "max_length": rule.max })),
            );
            return None;
        }
        if rule.name && !is_name(text) {
            let msg = format!("String should match pattern '{NAME_PATTERN}'");
            let ctx = json!({ "pattern": NAME_PATTERN });
            self.push(
                "string_pattern_mismatch",
                at.loc(key),
                msg,
                value,
                Some(ctx),
            );
            return None;
        }
        Some(text.replace('\0', ""))
    }

    /// An object, or nothing when absent or `null`.
    pub fn map<'a>(&mut self, at: &At<'a>, key: &str) -> Option<&'a Map<String, Value>> {
        let value = at.set(key)?;
        if value.is_object() {
            return value.as_object();
        }
        self.push(
            "dict_type",
            at.loc(key),
            String::from("Input should be a valid dictionary"),
            value,
            None,
        );
        None
    }

    /// A `metadata` object within its limits, NUL characters removed.
    pub fn metadata(&mut self, at: &At<'_>, key: &str) -> Option<Map<String, Value>> {
        let map = self.map(at, key)?;
        let value = at.set(key)?;
        let reason = if map.len() > METADATA_KEYS_MAX {
            Some(format!(
                "metadata may have at most {METADATA_KEYS_MAX} top-level keys"
            ))
        } else if depth(value) > METADATA_DEPTH_MAX {
            Some(format!(
                "metadata may nest at most {METADATA_DEPTH_MAX} levels deep"
            ))
        } else {
            None
        };
        if let Some(reason) = reason {
            let ctx = Some(json!({ "error": {} }));
            self.push(
                "value_error",
                at.loc(key),
                format!("Value error, {reason}"),
                value,
                ctx,
            );
            return None;
        }
        match without_nul(value) {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }

    pub fn list<'a>(
        &mut self,
        at: &At<'a>,
        key: &str,
        min: usize,
        max: usize,
    ) -> Option<&'a Vec<Value>> {
        let Some(value) = at.map.get(key) else {
            self.missing(at, key);
            return None;
        };
        let Some(list) = value.as_array() else {
            self.push(
                "list_type",
                at.loc(key),
                String::from("Input should be a valid list"),
                value,
                None,
            );
            return None;
        };
        let (kind, bound, words, limit) = if list.len() < min {
            ("too_short", "min_length", "at least", min)
        } else if list.len() > max {
            ("too_long", "max_length", "at most", max)
        } else {
            return Some(list);
        };
        let unit = if limit == 1 { "item" } else { "items" };
        let msg = format!(
            "List should have {words} {limit} {unit} after validation, not {}",
            list.len()
        );
        let ctx = json!({ "field_type": "List", bound: limit, "actual_length": list.len() });
        self.push(kind, at.loc(key), msg, value, Some(ctx));
        None
    }

    /// An element of a list that must be an object.
    pub fn element<'a>(
        &mut self,
        at: &At<'_>,
        key: &str,
        index: usize,
        value: &'a Value,
    ) -> Option<At<'a>> {
        let mut loc = at.loc(key);
        loc.push(json!(index));
        match value.as_object() {
            Some(map) => Some(At { loc, map }),
            None => {
                let msg = "Input should be a valid dictionary or object to extract fields from";
                self.push("model_attributes_type", loc, String::from(msg), value, None);
                None
            }
        }
    }

    /// A truth value; texts such as `"false"` count, as they do for Honcho. `nullable`: `null` is absent.
    pub fn boolean(&mut self, at: &At<'_>, key: &str, nullable: bool) -> Option<bool> {
        let value = at.map.get(key)?;
        if value.is_null() && nullable {
            return None;
        }
        match truth(value) {
            Some(truth) => Some(truth),
            None => {
                let (kind, msg) = match value {
                    Value::String(_) | Value::Number(_) => (
                        "bool_parsing",
                        "Input should be a valid boolean, unable to interpret input",
                    ),
                    _ => ("bool_type", "Input should be a valid boolean"),
                };
                self.push(kind, at.loc(key), String::from(msg), value, None);
                None
            }
        }
    }

    pub fn integer(&mut self, at: &At<'_>, key: &str, min: i64, max: i64) -> Option<i64> {
        let value = at.set(key)?;
        let number = match value {
            Value::Number(number) => number.as_i64().or_else(|| {
                number
                    .as_f64()
                    .filter(|n| n.fract() == 0.0)
                    .map(|n| n as i64)
            }),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            self.push(
                "int_type",
                at.loc(key),
                String::from("Input should be a valid integer"),
                value,
                None,
            );
            return None;
        };
        self.within(at.loc(key), value, number as f64, min as f64, max as f64)
            .then_some(number)
    }

    pub fn number(&mut self, at: &At<'_>, key: &str, min: f64, max: f64) -> Option<f64> {
        let value = at.set(key)?;
        let Some(number) = value.as_f64() else {
            self.push(
                "float_type",
                at.loc(key),
                String::from("Input should be a valid number"),
                value,
                None,
            );
            return None;
        };
        self.within(at.loc(key), value, number, min, max)
            .then_some(number)
    }

    /// Whether the number lies in the range; a problem is noted when it does not.
    pub fn within(
        &mut self,
        loc: Vec<Value>,
        input: &Value,
        number: f64,
        min: f64,
        max: f64,
    ) -> bool {
        let (kind, key, words, limit) = if number < min {
            ("greater_than_equal", "ge", "greater", min)
        } else if number > max {
            ("less_than_equal", "le", "less", max)
        } else {
            return true;
        };
        let limit = if limit.fract() == 0.0 {
            json!(limit as i64)
        } else {
            json!(limit)
        };
        let msg = format!("Input should be {words} than or equal to {limit}");
        self.push(kind, loc, msg, input, Some(json!({ key: limit })));
        false
    }

    pub fn choice(
        &mut self,
        at: &At<'_>,
        key: &str,
        choices: &[&str],
        required: bool,
    ) -> Option<String> {
        let Some(value) = at.map.get(key) else {
            if required {
                self.missing(at, key);
            }
            return None;
        };
        match value.as_str().filter(|text| choices.contains(text)) {
            Some(text) => Some(String::from(text)),
            None => {
                let quoted: Vec<String> =
                    choices.iter().map(|choice| format!("'{choice}'")).collect();
                let expected = match quoted.split_last() {
                    Some((last, rest)) if !rest.is_empty() => {
                        format!("{} or {last}", rest.join(", "))
                    }
                    _ => quoted.join(""),
                };
                let msg = format!("Input should be {expected}");
                self.push(
                    "literal_error",
                    at.loc(key),
                    msg,
                    value,
                    Some(json!({ "expected": expected })),
                );
                None
            }
        }
    }
}

pub fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::Number(number) => match number.as_f64() {
            Some(0.0) => Some(false),
            Some(1.0) => Some(true),
            _ => None,
        },
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn without_nul(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace('\0', "")),
        Value::Array(list) => Value::Array(list.iter().map(without_nul).collect()),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.replace('\0', ""), without_nul(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}
