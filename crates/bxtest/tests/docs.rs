//! Keeps the documents true: the runbook against the code's anchors, links and paths against the tree, the
//! tests that the threats name against the tests there are.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use bxcore::runbook;
use memoryd::{fleet::config::ReadConfig, knowledge::config::ContextConfig};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Every file below a folder with one of these endings, by its path from the top.
fn files(folder: &str, endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if endings
            .iter()
            .any(|ending| path.to_string_lossy().ends_with(ending))
        {
            let name = path
                .strip_prefix(root())
                .unwrap()
                .to_string_lossy()
                .into_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

fn documents() -> Vec<(String, String)> {
    let mut all = files("docs", &[".md"]);
    for name in ["README.md", "AGENTS.md"] {
        all.push((name.into(), fs::read_to_string(root().join(name)).unwrap()));
    }
    all
}

/// All code but this file.
fn code() -> Vec<(String, String)> {
    let mut all = files("crates", &[".rs"]);
    all.retain(|(name, _)| name != "crates/bxtest/tests/docs.rs");
    all
}

/// The code that ships, without the list of anchors itself.
fn shipped() -> Vec<(String, String)> {
    let apart = ["/tests/", "crates/bxtest/", "crates/bxcore/src/runbook.rs"];
    let ships = |name: &String| !apart.iter().any(|part| name.contains(part));
    code().into_iter().filter(|(name, _)| ships(name)).collect()
}

/// What stands between `open` and `close`, each time.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    text.split(open)
        .skip(1)
        .filter_map(move |rest| rest.split_once(close))
        .map(|(inner, _)| inner)
}

/// The words in backticks, outside fenced blocks.
fn quoted(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

fn headings(text: &str) -> Vec<String> {
    let slug = |heading: &str| -> String {
        let kept = heading.trim().to_lowercase();
        kept.chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    let marked = text.lines().filter(|line| line.starts_with('#'));
    marked
        .map(|line| slug(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn the_runbook_has_each_anchor_of_the_code_and_no_other() {
    let text = fs::read_to_string(root().join("docs/runbook.md")).unwrap();
    let entries: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let written: BTreeSet<_> = entries.iter().copied().collect();
    let named: BTreeSet<_> = runbook::ALL.iter().map(|entry| entry.anchor()).collect();
    assert_eq!(written, named);
    assert_eq!(entries.len(), written.len(), "an entry is there twice");
}

#[test]
fn each_entry_of_the_runbook_says_what_to_do_and_when_it_is_over() {
    let text = fs::read_to_string(root().join("docs/runbook.md")).unwrap();
    for entry in text.split("\n## ").skip(1) {
        let name = entry.lines().next().unwrap();
        for part in ["You see", "It means", "`bxctl`", "Do", "Over when"] {
            assert!(entry.contains(&format!("**{part}")), "{name} lacks {part}");
        }
    }
}

#[test]
fn each_anchor_is_named_by_code_that_ships() {
    let list = fs::read_to_string(root().join("crates/bxcore/src/runbook.rs")).unwrap();
    let code = shipped();
    let unused: Vec<_> = list
        .lines()
        .filter_map(|line| line.trim().strip_suffix("\";")?.split_once(" = \""))
        .filter(|(constant, anchor)| {
            let used = |text: &str| {
                text.contains(&format!("runbook::{constant}"))
                    || text.contains(&format!("\"{anchor}\""))
            };
            !code.iter().any(|(_, text)| used(text))
        })
        .collect();
    assert!(unused.is_empty(), "named by no code: {unused:?}");
}

#[test]
fn each_anchor_written_as_text_is_one() {
    let known = |anchor: &str| runbook::ALL.iter().any(|entry| entry.anchor() == anchor);
    for (name, text) in shipped() {
        for anchor in between(&text, "with_runbook(\"", '"') {
            assert!(known(anchor), "{name}: {anchor}");
        }
    }
    let plain = |c: char| c.is_ascii_lowercase() || c == '-';
    for (name, text) in documents() {
        for rest in text.split("runbook.md#").skip(1) {
            let anchor = rest.split(|c| !plain(c)).next().unwrap_or_default();
            assert!(known(anchor), "{name}: {anchor}");
        }
    }
}

#[test]
fn each_link_leads_somewhere() {
    for (name, text) in documents() {
        let folder = root().join(&name).parent().unwrap().to_owned();
        for target in between(&text, "](", ')') {
            if target.contains("://") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() {
                root().join(&name)
            } else {
                folder.join(path)
            };
            assert!(path.exists(), "{name}: {target}");
            if !heading.is_empty() {
                let there = headings(&fs::read_to_string(&path).unwrap());
                assert!(there.iter().any(|slug| slug == heading), "{name}: {target}");
            }
        }
    }
}

/// Every way to read `a/{b,c}.rs`.
fn unfolded(word: &str) -> Vec<String> {
    match word
        .split_once('{')
        .and_then(|(head, rest)| Some((head, rest.split_once('}')?)))
    {
        Some((head, (names, tail))) => names
            .split(',')
            .map(|name| format!("{head}{name}{tail}"))
            .collect(),
        None => vec![word.to_owned()],
    }
}

#[test]
fn each_path_that_a_document_names_is_there() {
    let code: Vec<_> = files("crates", &[".rs"])
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    // One without a folder is named where its crate is spoken of.
    let stands = |path: &str| match path.contains('/') {
        true => ["", "crates", "docs"]
            .iter()
            .any(|folder| root().join(folder).join(path).exists()),
        false => code.iter().any(|name| name.ends_with(&format!("/{path}"))),
    };
    let mut missing = Vec::new();
    for (name, text) in documents() {
        for word in quoted(&text).iter().flat_map(|word| unfolded(word)) {
            let exact = !word.contains(['{', '*', '<', ' ', ':']);
            let ours = word.starts_with("crates/") || word.starts_with("docs/");
            let path = word.split('#').next().unwrap_or_default();
            if exact && (ours || word.ends_with(".rs")) && !stands(path) {
                missing.push(format!("{name}: {word}"));
            }
        }
    }
    assert!(missing.is_empty(), "not there: {missing:#?}");
}

/// The files that a walk of the architecture has one open, one a step.
fn steps(walk: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, part) = text.split_once(&format!("\n## {walk}\n")).unwrap();
    let (part, _) = part.split_once("\n## ").unwrap();
    let numbered = part.lines().filter(|line| {
        line.split_once(". ")
            .is_some_and(|(number, _)| number.parse::<u32>().is_ok())
    });
    numbered
        .map(|line| quoted(line).into_iter().next().unwrap_or_default())
        .collect()
}

#[test]
fn a_turn_is_followed_from_the_words_to_the_ledger_by_six_files() {
    let files = steps("One turn");
    assert_eq!(files.len(), 6, "{files:?}");
    assert!(files.iter().all(|file| file.ends_with(".rs")), "{files:?}");
    let read = |file: &str| fs::read_to_string(root().join("crates").join(file)).unwrap();
    assert!(read(&files[0]).contains("Request::Turn {"), "{files:?}");
    assert!(read(&files[5]).contains("Line::Decided("), "{files:?}");
}

#[test]
fn the_waits_of_the_read_path_are_as_written_and_each_is_longer_than_what_it_waits_for() {
    let read = ReadConfig::default();
    let limits = read.limits;
    let context = ContextConfig::default().answer_ms_max;
    let brokerd = brokerd::config::Limits::default().ask_memory_ms_max;
    let loopd = loopd::config::Limits::default();
    let rows = [
        ("honcho.context.answer_ms_max", "memoryd", context),
        ("limits.memory_wait_ms", "loopd", loopd.memory_wait_ms),
        (
            "limits.recall_source_ms_max",
            "memoryd",
            limits.source_ms_max,
        ),
        ("limits.recall_probe_ms_min", "memoryd", limits.probe_ms_min),
        ("limits.recall_probe_ms_max", "memoryd", limits.probe_ms_max),
        (
            "limits.ask_memory_chat_ms_max",
            "memoryd",
            limits.chat_ms_max,
        ),
        ("limits.ask_memory_ms_max", "memoryd", limits.ask_ms_max),
        ("limits.ask_memory_ms_max", "brokerd", brokerd),
        ("limits.ask_memory_ms_max", "loopd", loopd.ask_memory_ms_max),
        (
            "limits.ask_memory_progress_ms",
            "memoryd",
            limits.progress_ms,
        ),
    ];
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    for (key, daemon, wait) in rows {
        let wait = match wait.subsec_millis() {
            0 => format!("{} s", wait.as_secs()),
            _ => format!("{} ms", wait.as_millis()),
        };
        let row = format!("\n| `{key}` | `{daemon}.toml` | {wait} | ");
        assert!(text.contains(&row), "not written: {row}");
    }
    assert!(context < loopd.memory_wait_ms);
    let around = [
        limits.chat_ms_max,
        limits.ask_ms_max,
        brokerd,
        loopd.ask_memory_ms_max,
    ];
    assert!(
        around.is_sorted_by(|inner, outer| inner < outer),
        "{around:?}"
    );
    assert!(limits.source_ms_max < brokerd::config::Limits::default().memory_call_ms_max);
    let honcho = fs::read_to_string(root().join("docs/honcho.md")).unwrap();
    let distance = f64::from(read.distance_milli) / 1000.0;
    assert!(honcho.contains(&format!("\nrecall_distance = {distance} ")));
}

#[test]
fn each_test_that_the_threats_name_is_there() {
    let text = fs::read_to_string(root().join("docs/threats.md")).unwrap();
    let code = code();
    let mut seen = 0;
    for word in quoted(&text) {
        let is_name = word
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if is_name && word.matches('_').count() >= 2 {
            let wanted = format!("fn {word}(");
            assert!(
                code.iter().any(|(_, text)| text.contains(&wanted)),
                "no test {word}"
            );
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn each_crate_and_each_dependency_is_explained() {
    let architecture = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(architecture.contains(&format!("`{name}`")), "{name}");
    }
    let decision =
        fs::read_to_string(root().join("docs/decisions/0002-further-crates.md")).unwrap();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, further) = manifest.split_once("# Further crates").unwrap();
    let (further, _) = further.split_once("\n[").unwrap();
    for line in further.lines().skip(1) {
        if let Some((name, _)) = line.split_once(" = ") {
            assert!(
                decision.contains(&format!("| `{name}` |")),
                "{name} is not explained"
            );
        }
    }
}

/// docs/egress.md: which certificates are trusted, that no redirect is followed and no proxy is asked.
#[test]
fn each_client_that_ships_begins_in_one_place() {
    let others = [
        "Agent::config_builder",
        "Agent::new",
        "ureq::config",
        "ureq::agent",
        "ureq::get",
        "ureq::post",
        "ureq::put",
    ];
    let (one, rest): (Vec<_>, Vec<_>) = shipped()
        .into_iter()
        .partition(|(name, _)| name == "crates/bxcore/src/http.rs");
    assert!(one[0].1.contains(others[0]));
    for (name, text) in rest {
        for other in others {
            assert!(!text.contains(other), "{name} has {other}");
        }
    }
}

#[test]
fn nothing_names_a_place_that_means_nothing_to_a_user() {
    let places = [concat!("..", "/shared"), concat!("/wo", "rk/")];
    let mut all = documents();
    all.extend(code());
    all.extend(files("crates", &[".toml", ".json"]));
    for name in ["Makefile", "Cargo.toml", "deny.toml", ".ci/run"] {
        all.push((name.into(), fs::read_to_string(root().join(name)).unwrap()));
    }
    for (name, text) in all {
        for place in places {
            assert!(!text.contains(place), "{name} names {place}");
        }
    }
}
