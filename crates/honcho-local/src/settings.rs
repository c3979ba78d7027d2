//! The configuration of a workspace, session or message: its known keys are checked, the others kept as
//! sent. Used by the handlers that take one.

use serde_json::{Map, Value};

use crate::validate::{At, Problems};

/// A section's switches, and its counts with the least each may be.
struct Section {
    name: &'static str,
    switches: &'static [&'static str],
    counts: &'static [(&'static str, i64)],
}

const SECTIONS: [Section; 4] = [
    Section {
        name: "reasoning",
        switches: &["enabled"],
        counts: &[],
    },
    Section {
        name: "peer_card",
        switches: &["use", "create"],
        counts: &[],
    },
    Section {
        name: "summary",
        switches: &["enabled"],
        counts: &[
            ("messages_per_short_summary", 10),
            ("messages_per_long_summary", 20),
        ],
    },
    Section {
        name: "dream",
        switches: &["enabled"],
        counts: &[],
    },
];

/// The member `key` of `at` as a configuration, its switches made truth values.
pub fn configuration(
    problems: &mut Problems,
    at: &At<'_>,
    key: &str,
) -> Option<Map<String, Value>> {
    let given = problems.map(at, key)?;
    let inside = at.inside(key, given);
    let mut kept = given.clone();
    for section in &SECTIONS {
        let Some(map) = problems.map(&inside, section.name) else {
            continue;
        };
        let here = inside.inside(section.name, map);
        let mut section_kept = map.clone();
        for switch in section.switches {
            if let Some(truth) = problems.boolean(&here, switch, true) {
                section_kept.insert((*switch).to_owned(), Value::Bool(truth));
            }
        }
        for (count, min) in section.counts {
            problems.integer(&here, count, *min, i64::MAX);
        }
        kept.insert(section.name.to_owned(), Value::Object(section_kept));
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(configuration: Value) -> (Option<Map<String, Value>>, bool) {
        let body = Map::from_iter([(String::from("configuration"), configuration)]);
        let mut problems = Problems::default();
        let read = super::configuration(&mut problems, &At::body(&body), "configuration");
        (read, problems.done().is_ok())
    }

    #[test]
    fn switches_and_counts() {
        let (kept, fine) = read(json!({ "reasoning": { "enabled": "false" }, "other": 1 }));
        let want = json!({ "reasoning": { "enabled": false }, "other": 1 });
        assert_eq!((kept.map(Value::Object), fine), (Some(want), true));
        assert!(!read(json!({ "reasoning": { "enabled": "maybe" } })).1);
        assert!(!read(json!({ "summary": { "messages_per_short_summary": 9 } })).1);
        assert!(read(json!({ "summary": { "messages_per_long_summary": 20 } })).1);
    }
}
