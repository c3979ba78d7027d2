//! Where a day ended: what Honcho holds, what became of each item, what memory says, with ids and times replaced by
//! what they are ids and times of. Two runs of a day are compared by it.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use bxcore::clock::Millis;
use bxwire::links::control;
use memoryd::{journal, sync::ledger::StepState};
use serde_json::Value;

use crate::world::World;

/// Lines, so that a difference can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndOfDay(Vec<String>);

impl EndOfDay {
    /// Looks at everything; memoryd is stopped for it.
    pub fn of(world: &mut World) -> Self {
        let status = world.status();
        world.stop();
        let mut text = String::new();
        let mut names = BTreeMap::new();
        let mut dump = world.honcho.dump();
        name_all(&mut dump, &mut names, world);
        let ledger = world.ledger();
        names.insert(ledger.installation().into(), "(the installation)".into());
        let pretty = serde_json::to_string_pretty(&dump).unwrap_or_default();
        let _ = writeln!(text, "-- Honcho\n{}", renamed(&pretty, &names));
        let _ = writeln!(text, "-- outcomes");
        for entry in ledger.entries() {
            let mut decided = serde_json::to_value(&entry.decided).unwrap_or_default();
            for member in decided.as_object_mut().into_iter().flatten() {
                if member.1.as_str().and_then(Millis::parse).is_some() {
                    *member.1 = Value::from("(then)");
                }
            }
            let states: Vec<_> = entry
                .states
                .iter()
                .map(|state| show(state, &names))
                .collect();
            let _ = writeln!(text, "{decided}: {}", states.join("; "));
        }
        let _ = writeln!(text, "-- memory");
        let journal = fs::read_to_string(world.memory_file("journal.jsonl")).unwrap_or_default();
        let mut times = BTreeMap::new();
        for line in journal.lines() {
            let mut edit = journal::parse(line).unwrap_or_else(|bad| panic!("{bad:?}"));
            times.insert(std::mem::take(&mut edit.at), "(then)".to_owned());
            // A note's file holds its time, and so does its hash.
            edit.files.clear();
            let _ = writeln!(text, "{}", serde_json::to_string(&edit).unwrap_or_default());
        }
        let mut files = vec![world.memory_file("user.md"), world.memory_file("memory.md")];
        let notes = fs::read_dir(world.memory_file("notes"));
        files.extend(
            notes
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path()),
        );
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let held = fs::read_to_string(&file).unwrap_or_else(|_| "(not there)\n".into());
            let _ = writeln!(text, "-- {name}\n{}", renamed(&held, &times));
        }
        let left = fs::read_dir(world.memory_file(""));
        let left = left
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        let mut left: Vec<_> = left
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        left.retain(|name| name.ends_with(".new") || name.ends_with(".unsynced"));
        let _ = writeln!(text, "-- left over: {left:?}");
        let ledger = fs::read_to_string(world.memory_file("honcho.jsonl")).unwrap_or_default();
        let _ = writeln!(
            text,
            "-- a text in the ledger: {}",
            ledger.contains("canary")
        );
        let _ = writeln!(
            text,
            "-- a text in the log: {}",
            world.said.contains("canary")
        );
        if let control::Reply::Status(status) = status {
            let _ = writeln!(text, "-- notices: {:?}", status.notices);
        }
        Self(text.lines().map(str::to_owned).collect())
    }

    /// What of `self` differs from the undisturbed `other`; `None`: nothing.
    pub fn differs_from(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let lines = differences(&other.0, &self.0);
        Some(lines.join("\n"))
    }
}

/// Gives every message and conclusion a name by its place, and every time a name by whose it is. Conclusions of
/// different sessions have no order among them.
fn name_all(dump: &mut Value, names: &mut BTreeMap<String, String>, world: &World) {
    for (workspace, held) in dump.as_object_mut().into_iter().flatten() {
        held["created_at"] = Value::Null;
        for session in held["sessions"].as_array_mut().into_iter().flatten() {
            let place = format!("{workspace} {}", text(session, "id"));
            for (n, message) in session["messages"]
                .as_array_mut()
                .into_iter()
                .flatten()
                .enumerate()
            {
                // A note may have been made in the very millisecond in which somebody spoke.
                let known = Millis::parse(text(message, "created_at"))
                    .and_then(|at| world.times.get(&at.0))
                    .filter(|what| what.ends_with(text(message, "content")));
                let known = known.map_or("(when it was noted)", String::as_str);
                message["created_at"] = Value::from(known);
                names.insert(
                    text(message, "id").into(),
                    format!("(message {} of {place})", n + 1),
                );
            }
        }
        if let Some(all) = held["conclusions"].as_array_mut() {
            all.sort_by_key(|conclusion| text(conclusion, "session_id").to_owned());
            for (n, conclusion) in all.iter_mut().enumerate() {
                conclusion["created_at"] = Value::Null;
                let place = format!("(conclusion {} of {workspace})", n + 1);
                names.insert(text(conclusion, "id").into(), place);
            }
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn renamed(text: &str, names: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (id, name) in names {
        text = text.replace(id, name);
    }
    text
}

fn show(state: &StepState, names: &BTreeMap<String, String>) -> String {
    match state {
        StepState::Sent { ids, .. } => {
            let known = ids
                .iter()
                .map(|id| names.get(id).map_or("(deleted)", String::as_str));
            format!("sent as {}", known.collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}

/// Lines that only one side has, in order, with where they are in it.
fn differences(wanted: &[String], found: &[String]) -> Vec<String> {
    let same_start = wanted.iter().zip(found).take_while(|(a, b)| a == b).count();
    let (wanted, found) = (&wanted[same_start..], &found[same_start..]);
    let ends = wanted.iter().rev().zip(found.iter().rev());
    let same_end = ends.take_while(|(a, b)| a == b).count();
    let (wanted, found) = (
        &wanted[..wanted.len() - same_end],
        &found[..found.len() - same_end],
    );
    let mut lines = vec![format!("after {same_start} lines that are the same:")];
    for (sign, side, other) in [("-", wanted, found), ("+", found, wanted)] {
        let only = side
            .iter()
            .filter(|line| !other.contains(line) || side.len() < 12);
        lines.extend(only.map(|line| format!("{sign} {line}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_both_sides() {
        let lines = |text: &str| EndOfDay(text.lines().map(str::to_owned).collect());
        let wanted = lines("a\nb\nc");
        assert_eq!(wanted.differs_from(&lines("a\nb\nc")), None);
        let shown = lines("a\nx\nc").differs_from(&wanted).unwrap_or_default();
        assert_eq!(shown, "after 1 lines that are the same:\n- b\n+ x");
    }
}
