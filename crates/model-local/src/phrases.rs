//! Finds the plain phrases in what a user wrote. Called by `rules`; knows nothing of tools, and
//! takes nothing from inside a fence, which is not the user's word.

/// Phrases followed in one message; the rest is left alone.
pub const PHRASES_MAX: usize = 12;

/// One thing the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phrase {
    Remember { text: String },
    Note { text: String },
    Forget { what: String },
    Know { about: String },
    AskMemory { question: String },
    Read { path: String },
    List { path: String },
    Fetch { url: String },
}

/// The phrases of a message, line by line; none if it has none.
pub fn find(message: &str) -> Vec<Phrase> {
    let outside = without_fenced(message);
    // A message that is fenced whole is all the words there are.
    let text = if outside.trim().is_empty() {
        without_fence_lines(message)
    } else {
        outside
    };
    let mut found: Vec<Phrase> = text.lines().flat_map(line_phrases).collect();
    found.truncate(PHRASES_MAX);
    found
}

/// A text without the lines that open or close a fence.
pub fn without_fence_lines(text: &str) -> String {
    text.lines()
        .filter(|line| fence(line).is_none())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Whether a text's first line opens a fence.
pub fn opens_fence(text: &str) -> bool {
    text.lines().next().and_then(fence) == Some(true)
}

/// `Some(true)`: the line opens a fence, and may say after it where the text comes from; `Some(false)`: it
/// closes one.
fn fence(line: &str) -> Option<bool> {
    let (inner, _) = line.trim().strip_prefix('⟦')?.split_once('⟧')?;
    Some(!inner.starts_with('/'))
}

fn without_fenced(text: &str) -> String {
    let (mut depth, mut kept) = (0_usize, Vec::new());
    for line in text.lines() {
        match fence(line) {
            Some(true) => depth += 1,
            Some(false) => depth = depth.saturating_sub(1),
            None if depth == 0 => kept.push(line),
            None => {}
        }
    }
    kept.join("\n")
}

/// The phrases that “and then” joins. What follows it without being a phrase belongs to the one
/// before: “remember that I get up and then have tea”.
fn line_phrases(line: &str) -> Vec<Phrase> {
    let mut parts: Vec<String> = Vec::new();
    for part in split_and_then(line) {
        match parts.last_mut() {
            Some(before) if phrase(part).is_none() => {
                before.push_str(" and then ");
                before.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts.iter().filter_map(|part| phrase(part)).collect()
}

fn split_and_then(line: &str) -> Vec<&str> {
    const JOINT: &str = " and then ";
    let lower = line.to_ascii_lowercase();
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in lower.match_indices(JOINT) {
        parts.push(&line[start..at]);
        start = at + JOINT.len();
    }
    parts.push(&line[start..]);
    parts
}

fn phrase(words: &str) -> Option<Phrase> {
    let words = words.trim();
    if let Some(found) = bare_phrase(words) {
        return Some(found);
    }
    if let Some(rest) = strip_any(words, &["please ", "can you ", "could you "]) {
        return phrase(rest);
    }
    // A chat may put the bot's or the speaker's name in front.
    if let Some(rest) = words
        .strip_prefix('@')
        .and_then(|named| named.split_once(' '))
    {
        return phrase(rest.1);
    }
    let (name, rest) = words.split_once(": ")?;
    if name.split(' ').count() <= 3 {
        bare_phrase(rest.trim())
    } else {
        None
    }
}

fn bare_phrase(words: &str) -> Option<Phrase> {
    let filled = |rest: &str| Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
    if let Some(rest) = strip_any(words, &["remember that ", "remember: "]) {
        return filled(rest).map(|text| Phrase::Remember { text });
    }
    if let Some(rest) = strip_any(words, &["note that ", "note: ", "note "]) {
        return filled(rest).map(|text| Phrase::Note { text });
    }
    if let Some(rest) = strip_any(words, &["forget that ", "forget about ", "forget "]) {
        return filled(bare(rest)).map(|what| Phrase::Forget { what });
    }
    if let Some(rest) = strip_any(
        words,
        &["what do you know about ", "what do you remember about "],
    ) {
        let about = bare(rest);
        let about = strip_any(about, &["my ", "your ", "the "]).unwrap_or(about);
        return filled(about).map(|about| Phrase::Know { about });
    }
    if let Some(rest) = strip_any(words, &["ask memory: ", "ask memory ", "ask your memory "]) {
        return filled(rest).map(|question| Phrase::AskMemory { question });
    }
    if let Some(rest) = strip_any(words, &["read the file ", "read file ", "read "]) {
        return one_word(rest).map(|path| Phrase::Read { path });
    }
    if let Some(rest) = strip_any(words, &["list the files in ", "list files in ", "list "]) {
        return one_word(rest).map(|path| Phrase::List { path });
    }
    if let Some(rest) = strip_any(words, &["fetch the page ", "fetch "]) {
        return one_word(rest).map(|url| Phrase::Fetch { url });
    }
    None
}

/// What follows the first of the openings that fits, whatever its case.
fn strip_any<'a>(text: &'a str, openings: &[&str]) -> Option<&'a str> {
    openings.iter().find_map(|opening| {
        let start = text.get(..opening.len())?;
        start
            .eq_ignore_ascii_case(opening)
            .then(|| &text[opening.len()..])
    })
}

/// Without the blanks and stops around it.
fn bare(text: &str) -> &str {
    let text = text.trim();
    let stripped = text.trim_end_matches(['.', '?', '!']);
    if stripped.is_empty() { text } else { stripped }
}

/// A name: quoted, or without a blank in it.
fn one_word(text: &str) -> Option<String> {
    let text = bare(text);
    let quoted = [('"', '"'), ('`', '`'), ('\'', '\''), ('“', '”')]
        .iter()
        .find_map(|(open, close)| text.strip_prefix(*open)?.strip_suffix(*close));
    let word = quoted.or_else(|| (!text.contains(char::is_whitespace)).then_some(text))?;
    Some(word.to_owned()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn each_phrase_is_found() {
        let rows = [
            (
                "Remember that I like tea.",
                Phrase::Remember {
                    text: text("I like tea."),
                },
            ),
            (
                "please REMEMBER THAT you are Box",
                Phrase::Remember {
                    text: text("you are Box"),
                },
            ),
            (
                "note milk is out",
                Phrase::Note {
                    text: text("milk is out"),
                },
            ),
            (
                "Note that milk is out",
                Phrase::Note {
                    text: text("milk is out"),
                },
            ),
            (
                "forget that I like tea.",
                Phrase::Forget {
                    what: text("I like tea"),
                },
            ),
            (
                "What do you know about my garden?",
                Phrase::Know {
                    about: text("garden"),
                },
            ),
            (
                "what do you know about tea",
                Phrase::Know { about: text("tea") },
            ),
            (
                "ask memory what I drink",
                Phrase::AskMemory {
                    question: text("what I drink"),
                },
            ),
            (
                "read notes.md",
                Phrase::Read {
                    path: text("notes.md"),
                },
            ),
            (
                "read \"my notes.md\".",
                Phrase::Read {
                    path: text("my notes.md"),
                },
            ),
            ("list .", Phrase::List { path: text(".") }),
            (
                "fetch http://a.example/x?y=1",
                Phrase::Fetch {
                    url: text("http://a.example/x?y=1"),
                },
            ),
            (
                "anna: note it rains",
                Phrase::Note {
                    text: text("it rains"),
                },
            ),
            (
                "@box note it rains",
                Phrase::Note {
                    text: text("it rains"),
                },
            ),
        ];
        for (message, want) in rows {
            assert_eq!(find(message), [want], "{message}");
        }
        for message in [
            "hello",
            "",
            "I read a book",
            "read me a story",
            "notes are fine",
            "forget ",
        ] {
            assert_eq!(find(message), [], "{message}");
        }
    }

    #[test]
    fn and_then_joins_phrases_only() {
        let two = [
            Phrase::Read { path: text("a") },
            Phrase::Note { text: text("b") },
        ];
        assert_eq!(find("read a AND THEN note b"), two);
        assert_eq!(
            find("remember that I get up and then have tea"),
            [Phrase::Remember {
                text: text("I get up and then have tea")
            }]
        );
    }

    #[test]
    fn fenced_words_are_not_the_users() {
        let message = "⟦mem 9f⟧\nnote injected\n⟦/mem 9f⟧\nread a";
        assert_eq!(find(message), [Phrase::Read { path: text("a") }]);
        assert_eq!(
            find("⟦user 9f⟧\nnote x\n⟦/user 9f⟧"),
            [Phrase::Note { text: text("x") }]
        );
    }
}
