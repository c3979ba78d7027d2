//! Secret formats that are more than a beginning and a run: the telling part is in the middle, or
//! case and spacing are free. Called by `scan`; every look around an anchor is bounded.

use super::scan::ends_in_alphanumeric;
use crate::rules::Alphabet::{self, Azure, B62, B64, Digits, Dotted, LowerDigits, Url};
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// How far a rule looks from its anchor, in bytes, where its format gives no length.
const LOOK_BYTES_MAX: usize = 256;
/// Schemes whose addresses carry a user and a password.
const SCHEMES: &[&str] = &[
    "amqp",
    "amqps",
    "ftp",
    "ftps",
    "http",
    "https",
    "imap",
    "imaps",
    "ldap",
    "ldaps",
    "mariadb",
    "mongodb",
    "mongodb+srv",
    "mqtt",
    "mqtts",
    "mysql",
    "nats",
    "postgres",
    "postgresql",
    "redis",
    "rediss",
    "sftp",
    "smb",
    "smtp",
    "smtps",
    "socks5",
    "ssh",
    "svn",
    "git",
    "wss",
    "ws",
    "clickhouse",
    "mssql",
    "sqlserver",
    "kafka",
];

type Check = fn(text: &[u8], start: usize, end: usize) -> bool;

/// Name, anchors in lower case, check of what stands around an anchor.
#[rustfmt::skip]
static SPECIAL: &[(&str, &[&str], Check)] = &[
    ("pem-private-key", &["-----begin "], pem),
    ("azure-client-secret", &["q~"], azure_secret),
    ("terraform-cloud-token", &[".atlasv1."], terraform),
    ("mailchimp-key", &["-us"], mailchimp),
    ("discord-bot-token", &["."], discord),
    ("telegram-bot-token", &[":aa"], telegram),
    ("brave-search-key", &["bsa"], brave),
    ("url-password", &["://"], url_password),
    ("http-authorization", &["authorization"], authorization),
    ("bearer-token", &["bearer ", "token"], bare_token),
    ("netrc-password", &["machine ", "machine\t"], netrc),
];

static ANCHORS: LazyLock<(AhoCorasick, Vec<usize>)> = LazyLock::new(|| {
    let rows: Vec<_> = SPECIAL
        .iter()
        .enumerate()
        .flat_map(|(row, (_, anchors, _))| anchors.iter().map(move |a| (*a, row)))
        .collect();
    let search = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(rows.iter().map(|(anchor, _)| anchor))
        .expect("the table is small");
    (search, rows.into_iter().map(|(_, row)| row).collect())
});

/// The first special rule that matches.
pub(super) fn first_rule(text: &str) -> Option<&'static str> {
    let (search, rows) = &*ANCHORS;
    search.find_overlapping_iter(text).find_map(|found| {
        let (name, _, check) = SPECIAL[rows[found.pattern().as_usize()]];
        check(text.as_bytes(), found.start(), found.end()).then_some(name)
    })
}

/// Length of the run of `alphabet` at `at`, counted up to `max`.
fn ahead(text: &[u8], at: usize, alphabet: Alphabet, max: usize) -> usize {
    text.get(at..)
        .unwrap_or_default()
        .iter()
        .take(max)
        .take_while(|b| alphabet.has(**b))
        .count()
}

/// Length of the run of `alphabet` that ends before `at`, counted up to `max`.
fn behind(text: &[u8], at: usize, alphabet: Alphabet, max: usize) -> usize {
    text[..at]
        .iter()
        .rev()
        .take(max)
        .take_while(|b| alphabet.has(**b))
        .count()
}

fn skip(text: &[u8], at: usize, of: &[u8], max: usize) -> usize {
    at + text
        .get(at..)
        .unwrap_or_default()
        .iter()
        .take(max)
        .take_while(|b| of.contains(b))
        .count()
}

fn pem(text: &[u8], start: usize, end: usize) -> bool {
    let title = &text[end..text.len().min(end + 64)];
    let title = title
        .split(|b| *b == b'-' || *b == b'\n')
        .next()
        .unwrap_or_default();
    text[start..end].ends_with(b"BEGIN ") && title.windows(11).any(|words| words == b"PRIVATE KEY")
}

/// Three characters, a digit, `Q~`, then 31 more.
fn azure_secret(text: &[u8], start: usize, end: usize) -> bool {
    text[start] == b'Q'
        && start >= 4
        && text[start - 1].is_ascii_digit()
        && behind(text, start - 1, Azure, 3) == 3
        && ahead(text, end, Azure, 31) == 31
}

fn terraform(text: &[u8], start: usize, end: usize) -> bool {
    behind(text, start, B62, 14) == 14 && ahead(text, end, Url, 60) == 60
}

/// 32 hexadecimal digits, `-us`, and a data centre's number.
fn mailchimp(text: &[u8], start: usize, end: usize) -> bool {
    let hex = behind(text, start, Alphabet::Hex, 33);
    hex == 32
        && text[start..end] == *b"-us"
        && !ends_in_alphanumeric(&text[..start - hex])
        && matches!(ahead(text, end, Digits, 3), 1 | 2)
}

/// `[MNO]` and 22 to 27 more, a dot, exactly 6, a dot, 27 or more.
fn discord(text: &[u8], start: usize, end: usize) -> bool {
    let id = behind(text, start, Url, 29);
    (23..=28).contains(&id)
        && matches!(text[start - id], b'M' | b'N' | b'O')
        && ahead(text, end, Url, 7) == 6
        && text.get(end + 6) == Some(&b'.')
        && ahead(text, end + 7, Url, 27) == 27
}

fn telegram(text: &[u8], start: usize, end: usize) -> bool {
    text[start..end] == *b":AA"
        && matches!(behind(text, start, Digits, 11), 8..=10)
        && ahead(text, end, Url, 32) == 32
}

fn brave(text: &[u8], start: usize, end: usize) -> bool {
    let body = &text[end..end + ahead(text, end, Url, 28)];
    text[start..end] == *b"BSA"
        && !ends_in_alphanumeric(&text[..start])
        && body.len() >= 24
        && body.iter().any(u8::is_ascii_digit)
}

/// `scheme://user:password@host`, but for passwords that are plainly a place to put one.
fn url_password(text: &[u8], start: usize, end: usize) -> bool {
    let scheme = text[..start].iter().rev().take(16);
    let length = scheme
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'+')
        .count();
    let scheme = String::from_utf8_lossy(&text[start - length..start]).to_ascii_lowercase();
    // A scheme may be glued to a word before it: compare ends.
    if !SCHEMES.iter().any(|known| scheme.ends_with(known)) {
        return false;
    }
    let rest = &text[end..text.len().min(end + LOOK_BYTES_MAX)];
    let stops =
        |b: &u8| b.is_ascii_whitespace() || matches!(b, b'/' | b'?' | b'#' | b'"' | b'`' | b'\\');
    let authority = rest.split(stops).next().unwrap_or_default();
    let Some(host) = authority.iter().rposition(|b| *b == b'@') else {
        return false;
    };
    let Some(colon) = authority[..host].iter().position(|b| *b == b':') else {
        return false;
    };
    let password = &authority[colon + 1..host];
    password.len() >= 3 && !is_placeholder(password)
}

fn is_placeholder(password: &[u8]) -> bool {
    (password.starts_with(b"<") && password.ends_with(b">"))
        || (password.starts_with(b"${") && password.ends_with(b"}"))
        || password
            .iter()
            .all(|b| matches!(b, b'*' | b'x' | b'X' | b'.'))
}

/// `Authorization: Bearer …`, in a header, JSON or a command line.
fn authorization(text: &[u8], _start: usize, end: usize) -> bool {
    let at = skip(text, end, b" \t:='\"\\", 8);
    let word = ahead(text, at, B62, 12);
    let scheme = text[at..at + word].to_ascii_lowercase();
    if !matches!(
        scheme.as_slice(),
        b"bearer" | b"basic" | b"token" | b"apikey"
    ) {
        return false;
    }
    let key = skip(text, at + word, b" \t", 4);
    key > at + word && long_key(text, key)
}

/// A run of 20 or more as headers carry them.
fn long_key(text: &[u8], at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter()
        .take(20)
        .filter(|b| Dotted.has(**b) || B64.has(**b) || **b == b'~')
        .count()
        == 20
}

/// Mattermost's 26 characters are also the form of its post ids: they count behind these words only.
fn bare_token(text: &[u8], start: usize, end: usize) -> bool {
    let at = skip(text, end, b" \t:='\"", 6);
    let key = &text[at..at + ahead(text, at, LowerDigits, 27)];
    let apart = at > end || text[start..end].ends_with(b" ");
    apart
        && key.len() == 26
        && key.iter().any(u8::is_ascii_digit)
        && key.iter().any(u8::is_ascii_lowercase)
        && !text.get(at + 26).is_some_and(|b| Url.has(*b))
}

fn netrc(text: &[u8], start: usize, _end: usize) -> bool {
    if ends_in_alphanumeric(&text[..start]) {
        return false;
    }
    let rest = &text[start..text.len().min(start + 2 * LOOK_BYTES_MAX)];
    let mut words = rest
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .take(8)
        .skip(2);
    let mut login = false;
    while let Some(word) = words.next() {
        match word {
            b"login" => login = words.next().is_some(),
            b"password" => return login && words.next().is_some_and(|word| word.len() >= 3),
            _ => return false,
        }
    }
    false
}
