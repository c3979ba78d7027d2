//! Refusing through the public door: special formats, own keys, split keys, near misses. Each key is
//! made while the test runs.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bxsanitize::refuse::OWN_KEY_RULE;
use bxsanitize::{Outcome, Refuser};

fn body(count: usize) -> String {
    (0..count)
        .map(|n| char::from(b"aZ3kQ9xLm2Vt7RcW"[n * 7 % 16]))
        .collect()
}

fn lower(count: usize) -> String {
    body(count).to_ascii_lowercase()
}

fn hex(count: usize) -> String {
    (0..count)
        .map(|n| char::from(b"0123456789abcdef"[n * 7 % 16]))
        .collect()
}

fn check(text: &str) -> Outcome {
    Refuser::new(&[]).check(text)
}

#[test]
fn special_formats_are_refused() {
    let dashes = "-".repeat(5);
    let rows = [
        (
            "pem-private-key",
            format!("{dashes}BEGIN {} {dashes}", "PRIVATE KEY"),
        ),
        (
            "pem-private-key",
            format!("{dashes}BEGIN OPENSSH {}{dashes}", "PRIVATE KEY"),
        ),
        (
            "pem-private-key",
            format!("{dashes}BEGIN PGP {} BLOCK{dashes}", "PRIVATE KEY"),
        ),
        ("azure-client-secret", format!("aB38{}~{}", "Q", lower(31))),
        (
            "terraform-cloud-token",
            format!("{}.atlasv1.{}", lower(14), lower(60)),
        ),
        ("mailchimp-key", format!("{}-us12", hex(32))),
        (
            "discord-bot-token",
            format!("M{}.{}.{}", lower(23), lower(6), lower(27)),
        ),
        ("telegram-bot-token", format!("123456789:AA{}", lower(33))),
        ("brave-search-key", format!("BSA{}", lower(24))),
        ("url-password", format!("postgres://app:{}@db/x", lower(6))),
        ("url-password", format!("redis://:{}@cache", lower(6))),
        (
            "url-password",
            format!("see HTTPS://Me:{}@host.example", lower(6)),
        ),
        (
            "http-authorization",
            format!("Authorization: Bearer {}", lower(20)),
        ),
        (
            "http-authorization",
            format!("{{\"authorization\":\"Basic {}\"}}", lower(20)),
        ),
        ("bearer-token", format!("Bearer {}", lower(26))),
        ("bearer-token", format!("MM_TOKEN={}", lower(26))),
        (
            "netrc-password",
            format!("machine h.example login me password {}", lower(8)),
        ),
        (
            "netrc-password",
            format!("machine h.example\n  login me\n  password {}", lower(8)),
        ),
        (
            "openai-key",
            format!("sk-x-{}T3Blbk{}{}", body(9), "FJ", body(9)),
        ),
    ];
    for (name, text) in rows {
        assert_eq!(
            check(&format!("x: {text} y")),
            Outcome::Secret(name),
            "{text}"
        );
    }
}

#[test]
fn near_misses_pass() {
    let dashes = "-".repeat(5);
    let rows = [
        format!("{dashes}BEGIN CERTIFICATE{dashes}"),
        format!("{dashes}BEGIN PUBLIC KEY{dashes}"),
        format!("age1{}", lower(58)),
        format!("aBc{}~{}", "Q", lower(31)),
        format!("aB38{}~{}", "Q", lower(30)),
        format!("{}-us12", hex(31)),
        format!("{}-use", hex(32)),
        format!("m{}.{}.{}", lower(23), lower(6), lower(27)),
        format!("12345:AA{}", lower(33)),
        format!("BSA{}", "abcdefgh".repeat(3)),
        "https://host.example/path:x@y".to_owned(),
        "https://user:${PASSWORD}@host and https://user:<password>@host, https://u:***@h"
            .to_owned(),
        "mailto:me@host, git@host:repo, gopher://a:bcd@host".to_owned(),
        "Authorization: Bearer <token>".to_owned(),
        format!("Authorization: Bearer {}", lower(19)),
        format!("post {} is mine", lower(26)),
        format!("token {}", lower(25)),
        format!("tokenise{}", lower(26)),
        "machine learning login page and password policy".to_owned(),
        "machine h login me account x password yyyy".to_owned(),
        "20260131-k3j9x0q2m4zt and 550e8400-e29b-41d4-a716-446655440000".to_owned(),
    ];
    for text in rows {
        // Some look random, and so they may; none has a known format.
        assert!(!matches!(check(&text), Outcome::Secret(_)), "{text}");
    }
}

#[test]
fn own_keys_are_found_in_each_form() {
    let key = format!("own+key/{}?", lower(9));
    let refuser = Refuser::new(&[&key, "short", ""]);
    let found = |text: &str| refuser.check(text) == Outcome::Secret(OWN_KEY_RULE);
    assert_eq!(refuser.own_keys_skipped(), 1);
    assert!(found(&format!("a{key}b")));
    for around in ["", "x", "xy", "xyz"] {
        let text = format!("{around}{key}{around}");
        assert!(found(&STANDARD.encode(&text)), "{around}");
        assert!(found(&URL_SAFE_NO_PAD.encode(&text)), "{around}");
    }
    let escaped = |hex: fn(u8) -> String| {
        key.bytes()
            .map(|b| {
                if b.is_ascii_alphanumeric() {
                    char::from(b).to_string()
                } else {
                    hex(b)
                }
            })
            .collect::<String>()
    };
    assert!(found(&escaped(|b| format!("%{b:02X}"))));
    assert!(found(&escaped(|b| format!("%{b:02x}"))));
    assert!(found(
        &key.bytes().map(|b| format!("{b:02x}")).collect::<String>()
    ));
    assert!(found(&key.replace('k', "\u{200B}k")));
    assert!(!found(&key[..key.len() - 1]));
    assert!(!found("short"));
    assert_eq!(format!("{refuser:?}"), "Refuser");
}

#[test]
fn a_key_in_two_messages_is_found() {
    let key = format!("glpat-{}", lower(20));
    let refuser = Refuser::new(&[]);
    let (first, second) = key.split_at(12);
    assert_eq!(refuser.check(first), Outcome::Clear);
    assert_eq!(
        refuser.check_joined(&[&format!("here: {first}"), second]),
        Outcome::Secret("gitlab-token")
    );
    assert_eq!(
        refuser.check_joined(&["a", &key]),
        Outcome::Secret("gitlab-token")
    );
    let bounded = format!("AKIA{}", "ABCD".repeat(4));
    assert_eq!(
        refuser.check_joined(&["a", &bounded]),
        Outcome::Secret("aws-access-key-id")
    );
    assert_eq!(refuser.check_joined(&[]), Outcome::Clear);
}

#[test]
fn a_hidden_key_is_found() {
    let key = format!("ghp_{}", lower(36));
    let split = |by: &str| format!("{}{by}{}", &key[..9], &key[9..]);
    let wide: String = key
        .chars()
        .map(|c| {
            if c == '_' {
                c
            } else {
                char::from_u32(c as u32 + 0xFEE0).unwrap()
            }
        })
        .collect();
    for text in [
        split("\u{200B}"),
        split("\u{1b}[1m"),
        split("\u{1b}]0;t\u{7}"),
        split("\u{2060}\u{AD}"),
        split("\0"),
        wide,
    ] {
        assert_eq!(
            check(&text),
            Outcome::Secret("github-token"),
            "{}",
            text.escape_debug()
        );
    }
    assert_eq!(check(&split(" ")), Outcome::Clear);
}

#[test]
fn a_random_run_is_maybe_a_secret() {
    assert_eq!(check(&format!("x {} y", body(24))), Outcome::MaybeSecret);
    assert_eq!(check(&lower(40)), Outcome::Clear);
    assert_eq!(check(&body(19)), Outcome::Clear);
    assert!(Outcome::MaybeSecret < Outcome::Secret("x") && Outcome::Clear < Outcome::MaybeSecret);
}
