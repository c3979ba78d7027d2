//! Markdown list items with an id at the end of the line, `- text ^u7`: the form of every memory file. Called
//! by `identity` and `notes`. Values only.

use crate::memory::FACT_LETTER;

/// A list item as a file shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Missing in an item written by hand.
    pub id: Option<String>,
    pub text: String,
}

/// A file with its heading.
#[must_use]
pub fn render<'a>(heading: &str, items: impl Iterator<Item = (&'a str, String)>) -> String {
    use std::fmt::Write as _;
    let mut file = format!("# {heading}\n");
    let mut first = true;
    for (id, text) in items {
        if std::mem::take(&mut first) {
            file.push('\n');
        }
        let _ = writeln!(file, "- {text} ^{id}"); // Writing to a String cannot fail.
    }
    file
}

/// Every item of a file, in order. Headings are layout; any other text that stands alone is an item without an
/// id, so that nothing an owner writes is lost.
#[must_use]
pub fn parse(file: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut open = false;
    for line in file.lines() {
        let text = line.trim();
        if text.is_empty() || is_heading(line) {
            open = false;
            continue;
        }
        match marked(line) {
            Some(text) => items.push(item(text)),
            // An indented or plain line goes on with the item above it.
            None if open => {
                if let Some(last) = items.last_mut() {
                    let more = item(text);
                    last.text = format!("{} {}", last.text, more.text).trim().to_owned();
                    last.id = more.id;
                }
            }
            None => items.push(item(text)),
        }
        open = items.last().is_some_and(|item| item.id.is_none());
    }
    items.retain(|item| !item.text.is_empty());
    items
}

fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    let depth = line.len() - rest.len();
    (1..=6).contains(&depth) && rest.starts_with([' ', '\t'])
}

fn marked(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(['-', '*', '+'])?;
    (rest.is_empty() || rest.starts_with([' ', '\t'])).then(|| rest.trim())
}

fn item(text: &str) -> Item {
    let (rest, id) = match text.rsplit_once('^') {
        Some((rest, id))
            if is_id(id) && (rest.is_empty() || rest.ends_with(char::is_whitespace)) =>
        {
            (rest.trim_end(), Some(id.to_owned()))
        }
        _ => (text, None),
    };
    Item {
        id,
        text: rest.into(),
    }
}

/// Whether a word has the form of an entry's or note's id: `u7`, `a12-2`, `n4`, `f9`.
#[must_use]
pub fn is_id(word: &str) -> bool {
    let number = |digits: &str| {
        (1..=19).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !digits.starts_with('0')
    };
    let Some(rest) = word.strip_prefix(['u', 'a', 'n', FACT_LETTER]) else {
        return false;
    };
    match rest.split_once('-') {
        None => number(rest),
        Some((edit, place)) => number(edit) && number(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: Option<&str>, text: &str) -> Item {
        Item {
            id: id.map(str::to_owned),
            text: text.into(),
        }
    }

    #[test]
    fn what_is_rendered_reads_back() {
        let texts = [
            "tea",
            "- a dash",
            "# no heading",
            "ends like ^u3",
            "^u9",
            "* x",
            "a ^ b",
            "x^u4",
            "1. one",
            "> q",
        ];
        let ids: Vec<_> = (1..=texts.len()).map(|n| format!("u{n}")).collect();
        let pairs = || ids.iter().map(String::as_str).zip(texts.map(str::to_owned));
        let read = parse(&render("About the owner", pairs()));
        let wanted: Vec<_> = pairs().map(|(id, text)| item(Some(id), &text)).collect();
        assert_eq!(read, wanted);
        assert_eq!(parse(&render("About the owner", std::iter::empty())), []);
    }

    #[test]
    fn what_a_hand_writes_is_read_and_nothing_is_lost() {
        let file = "# About\n\nA line alone\ngoes on\n\n* star\n- dash ^u1\n  more\n- over\n  two lines ^u2\n-\n\
                    #hash\n";
        let wanted = [
            item(None, "A line alone goes on"),
            item(None, "star"),
            item(Some("u1"), "dash"),
            item(None, "more"),
            item(Some("u2"), "over two lines"),
            item(None, "#hash"),
        ];
        assert_eq!(parse(file), wanted);
    }

    #[test]
    fn only_ids_are_ids() {
        for id in ["u1", "a20", "n3", "u7-2"] {
            assert!(is_id(id), "{id}");
        }
        for word in [
            "", "u", "u0", "u01", "x1", "u1-", "u1-0", "u-1", "U1", "u1a",
        ] {
            assert!(!is_id(word), "{word}");
        }
    }
}
