//! Every message as it looks on a socket, and every record as it looks in a log: `fixtures/<link>/` holds a
//! file a sample, compared both ways. `UPDATE_GOLDEN=1` writes the files anew; the diff is then read.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

#[path = "golden/control.rs"]
mod control;
#[path = "golden/links.rs"]
mod links;
#[path = "golden/log.rs"]
mod log;

/// Members whose value is anybody's JSON, or a log record, which is read patiently; by link.
const OPEN: [(&str, &str); 3] = [
    ("tools/", "arguments"),
    ("tools/", "parameters"),
    ("turns/", "record"),
];

/// The samples by file name; each knows how to read its own type back.
#[derive(Default)]
struct Samples(BTreeMap<String, Sample>);

struct Sample {
    line: String,
    reads_as_itself: Box<Check>,
}

/// Reads a line and says whether it is the sample.
type Check = dyn Fn(&str) -> Result<bool, serde_json::Error>;

impl Samples {
    fn all() -> Self {
        let mut samples = Self::default();
        links::add(&mut samples);
        control::add(&mut samples);
        log::add(&mut samples);
        samples
    }

    /// `kind` tells a request from a reply of the same name; it is empty where there is only one of them.
    fn add<T>(&mut self, folder: &str, kind: &str, value: T)
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug + 'static,
    {
        let line = serde_json::to_string(&value).unwrap();
        let tagged: Value = serde_json::from_str(&line).unwrap();
        let name = tagged["type"].as_str().unwrap().to_owned();
        let file = (1..)
            .map(|n| match n {
                1 => format!("{folder}/{name}{kind}.json"),
                n => format!("{folder}/{name}-{n}{kind}.json"),
            })
            .find(|file| !self.0.contains_key(file))
            .unwrap();
        let reads_as_itself =
            Box::new(move |line: &str| serde_json::from_str::<T>(line).map(|read| read == value));
        let sample = Sample {
            line,
            reads_as_itself,
        };
        self.0.insert(file, sample);
    }

    fn on_the_wire(&self) -> impl Iterator<Item = (&String, &Sample)> {
        self.0.iter().filter(|(file, _)| !file.starts_with("log/"))
    }
}

/// Adds samples of each variant of an enum; a variant that has none does not compile.
macro_rules! samples {
    ($into:expr, $folder:expr, $kind:literal, $message:ident {
        $($variant:ident => [$($sample:expr),+ $(,)?],)+
    }) => {{
        let _every = |message: &$message| match message {
            $($message::$variant { .. } => (),)+
        };
        $($(
            let sample = $sample;
            assert!(matches!(sample, $message::$variant { .. }), "{sample:?}");
            $into.add($folder, $kind, sample);
        )+)+
    }};
}
use samples;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn files_under(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_under(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn each_message_is_its_fixture_both_ways() {
    let samples = Samples::all();
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    if update {
        let _ = std::fs::remove_dir_all(folder());
    }
    for (file, sample) in &samples.0 {
        let path = folder().join(file);
        if update {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, format!("{}\n", sample.line)).unwrap();
        }
        let fixture = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{file}: {error}; UPDATE_GOLDEN=1 writes it"));
        assert_eq!(format!("{}\n", sample.line), fixture, "{file}");
        let same = (sample.reads_as_itself)(&fixture)
            .unwrap_or_else(|error| panic!("{file} does not read: {error}"));
        assert!(same, "{file} reads as another value");
    }
}

#[test]
fn each_fixture_has_a_message() {
    let samples = Samples::all();
    let mut found = Vec::new();
    files_under(&folder(), &mut found);
    for path in found {
        let name = path.strip_prefix(folder()).unwrap().to_str().unwrap();
        assert!(samples.0.contains_key(name), "{name} belongs to no message");
    }
}

/// Calls `visit` with a copy of `value` in which one object more has a member nobody knows, for each of its
/// objects but those below an open member.
fn with_a_stranger(file: &str, value: &Value, visit: &mut dyn FnMut(Value)) {
    match value {
        Value::Object(members) => {
            let mut copy = members.clone();
            copy.insert("stranger".into(), json!(1));
            visit(Value::Object(copy));
            for (name, member) in members {
                if OPEN
                    .iter()
                    .any(|(link, open)| file.starts_with(link) && name == open)
                {
                    continue;
                }
                with_a_stranger(file, member, &mut |changed| {
                    let mut copy = members.clone();
                    copy.insert(name.clone(), changed);
                    visit(Value::Object(copy));
                });
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                with_a_stranger(file, item, &mut |changed| {
                    let mut copy = items.clone();
                    copy[at] = changed;
                    visit(Value::Array(copy));
                });
            }
        }
        _ => {}
    }
}

#[test]
fn the_wire_refuses_a_member_it_does_not_know() {
    let samples = Samples::all();
    let mut tried = 0;
    for (file, sample) in samples.on_the_wire() {
        let value: Value = serde_json::from_str(&sample.line).unwrap();
        with_a_stranger(file, &value, &mut |changed| {
            let line = changed.to_string();
            let read = (sample.reads_as_itself)(&line);
            assert!(read.is_err(), "{file} reads with a stranger in it: {line}");
            tried += 1;
        });
    }
    assert!(tried > samples.on_the_wire().count());
}

#[test]
fn the_wire_refuses_a_message_it_does_not_know_and_one_that_lacks_a_member() {
    for (file, sample) in Samples::all().on_the_wire() {
        let value: Value = serde_json::from_str(&sample.line).unwrap();
        for (name, _) in value.as_object().unwrap() {
            let mut less = value.clone();
            less.as_object_mut().unwrap().remove(name);
            let same = (sample.reads_as_itself)(&less.to_string());
            assert!(
                !matches!(same, Ok(true)),
                "{file} reads the same without {name}"
            );
        }
        let mut other = value;
        other["type"] = json!("no_such_message");
        assert!((sample.reads_as_itself)(&other.to_string()).is_err());
    }
}

#[test]
fn a_log_written_by_a_later_version_still_reads() {
    for (file, sample) in Samples::all().0 {
        if file.starts_with("log/") {
            let mut later: Value = serde_json::from_str(&sample.line).unwrap();
            later["later"] = json!({"a": 1});
            let same = (sample.reads_as_itself)(&later.to_string());
            assert!(matches!(same, Ok(true)), "{file}");
        }
    }
}
