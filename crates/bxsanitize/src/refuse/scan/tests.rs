//! Every row of the table, with an example made while the test runs: no key-like text is in the
//! source.

use super::*;
use std::collections::HashSet;

/// `count` characters of the alphabet, mixed as far as it goes.
fn body(alphabet: Alphabet, count: usize) -> String {
    let all: Vec<u8> = (b'0'..=b'z')
        .filter(|b| alphabet.has(*b) && b.is_ascii_alphanumeric())
        .collect();
    (0..count)
        .map(|n| char::from(all[(n * 11 + 5) % all.len()]))
        .collect()
}

fn example(prefix: &str, parts: &[Part]) -> String {
    let tail = parts.iter().map(|part| match part {
        Part::Lit(text) => (*text).to_owned(),
        Part::Run(alphabet, count) | Part::Exactly(alphabet, count) => body(*alphabet, *count),
    });
    prefix.to_owned() + &tail.collect::<String>()
}

fn matches(text: &str, name: &str) -> bool {
    rules(text).any(|found| found == name)
}

#[test]
fn each_row_matches_its_example() {
    for rule in RULES {
        for prefix in rule.prefixes {
            let text = format!("it is {}, he said", example(prefix, rule.parts));
            assert!(matches(&text, rule.name), "{} {prefix}", rule.name);
            assert!(first_rule(&text).is_some(), "{prefix}");
        }
    }
}

#[test]
fn each_row_lets_a_near_miss_pass() {
    for rule in RULES.iter().filter(|rule| !rule.parts.is_empty()) {
        for prefix in rule.prefixes {
            let mut short = example(prefix, rule.parts);
            short.pop();
            assert!(
                !matches(&format!("it is {short} he said"), rule.name),
                "{} {prefix}",
                rule.name
            );
            let broken = format!(
                "it is {prefix} {}",
                &example(prefix, rule.parts)[prefix.len()..]
            );
            assert!(!matches(&broken, rule.name), "{} {prefix}", rule.name);
        }
    }
}

#[test]
fn a_boundary_is_needed_where_the_row_says() {
    for rule in RULES {
        let text = format!("x{}", example(rule.prefixes[0], rule.parts));
        assert_eq!(
            matches(&text, rule.name),
            rule.left == Left::Any,
            "{}",
            rule.name
        );
    }
}

#[test]
fn names_are_unique_and_families_many() {
    let names: HashSet<_> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
    assert!(names.len() >= 150, "{}", names.len());
}

#[test]
fn beginnings_alone_are_read_once() {
    for prefix in [
        "eyJ",
        "SG.",
        "sk-",
        "a.",
        "://",
        "machine ",
        "Q~",
        "authorization:",
    ] {
        let text = prefix.repeat(200_000 / prefix.len());
        let started = std::time::Instant::now();
        let _ = first_rule(&text);
        assert!(started.elapsed().as_secs() < 5, "{prefix}");
    }
}
