//! Any JSON, written back compactly with its members in the order they came. Called by `prompt`;
//! never sorts, because a client that shuffles its tools' members loses a real prompt cache too.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// The compact text of a JSON value, members in order of arrival.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ordered(pub String);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ordered, D::Error> {
        deserializer.deserialize_any(Writer)
    }
}

struct Writer;

impl<'de> Visitor<'de> for Writer {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
        Ok(Ordered(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
        Ok(Ordered(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
        Ok(Ordered(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
        Ok(Ordered(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
        Ok(Ordered(quoted(value)))
    }

    fn visit_unit<E>(self) -> Result<Ordered, E> {
        Ok(Ordered("null".to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Ordered, A::Error> {
        let mut texts = Vec::new();
        while let Some(Ordered(text)) = items.next_element()? {
            texts.push(text);
        }
        Ok(Ordered(format!("[{}]", texts.join(","))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Ordered, A::Error> {
        let mut texts = Vec::new();
        while let Some((key, Ordered(text))) = members.next_entry::<String, Ordered>()? {
            texts.push(format!("{}:{text}", quoted(&key)));
        }
        Ok(Ordered(format!("{{{}}}", texts.join(","))))
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order() {
        let text = r#"{"z":[1,-2,0.5,true,null],"a":{"y":"\"ü","b":{}}}"#;
        let spaced = text.replace(':', " : ").replace(',', " ,\n");
        let Ordered(written) = serde_json::from_str(&spaced).unwrap();
        assert_eq!(written, text);
    }
}
