//! Thinking that a model left in its text: taken out of a whole reply, and held back while one is shown.
//! Called by `judge` and `turn`; takes values only.

/// Openings after which nothing is shown until the reply is whole and judged.
const MARKS: [&str; 9] = [
    "<think",
    "</think",
    "<reasoning>",
    "</reasoning>",
    "<tool_call",
    "<tool_response",
    "<function",
    "[TOOL_CALLS",
    "<|tool",
];
const TAGS: [(&str, &str); 3] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
];

/// Tags looked at in one reply; what follows the last of them is taken for thinking.
const TAGS_READ_MAX: usize = 128;

/// Splits a reply into its thinking and what remains. A closing tag that nothing opened ends thinking that
/// began with the reply; an opening tag that nothing closes begins thinking to the end.
#[must_use]
pub fn split(text: &str) -> (String, String) {
    let (mut thinking, mut kept, mut rest) = (String::new(), String::new(), text);
    for count in 0.. {
        if count == TAGS_READ_MAX {
            thinking.push_str(rest);
            rest = "";
            break;
        }
        let open = first(rest, |(open, _)| open);
        let close = first(rest, |(_, close)| close);
        match (open, close) {
            (_, Some((at, tag))) if open.is_none_or(|(open, _)| at < open) => {
                thinking.push_str(&kept);
                kept.clear();
                thinking.push_str(&rest[..at]);
                rest = &rest[at + tag.len()..];
            }
            (Some((at, tag)), _) => {
                kept.push_str(&rest[..at]);
                let inner = &rest[at + tag.len()..];
                match first(inner, |(_, close)| close) {
                    Some((end, closing)) => {
                        thinking.push_str(&inner[..end]);
                        rest = &inner[end + closing.len()..];
                    }
                    None => {
                        thinking.push_str(inner);
                        rest = "";
                    }
                }
            }
            _ => break,
        }
    }
    if kept.is_empty() && !thinking.is_empty() {
        rest = rest.trim_start();
    }
    kept.push_str(rest);
    (thinking.trim().to_owned(), kept)
}

/// The first tag of a kind that is not quoted in backticks.
fn first(
    text: &str,
    kind: impl Fn((&'static str, &'static str)) -> &'static str,
) -> Option<(usize, &'static str)> {
    TAGS.iter()
        .filter_map(|pair| {
            let tag = kind(*pair);
            text.match_indices(tag)
                .map(|(at, _)| at)
                .find(|at| !text[..*at].ends_with('`'))
                .map(|at| (at, tag))
        })
        .min()
}

/// What of a reply may be shown while it still comes.
#[derive(Debug)]
pub struct Live {
    text: String,
    shown: usize,
    held: bool,
}

impl Live {
    /// `held`: this model's thinking is known to come without an opening tag, so nothing is shown early.
    #[must_use]
    pub fn new(held: bool) -> Self {
        Self {
            text: String::new(),
            shown: 0,
            held,
        }
    }

    /// Thinking came apart from the text: what follows is no thinking.
    pub fn release(&mut self) {
        if self.text.is_empty() {
            self.held = false;
        }
    }

    /// Adds text and gives the part that may be shown now.
    pub fn push(&mut self, added: &str) -> String {
        self.text.push_str(added);
        let start = self.text.trim_start();
        // The whole reply may turn out to be a call.
        if self.shown == 0 && start.starts_with(['{', '[', '<', '`']) {
            self.held = true;
        }
        if self.held || start.is_empty() {
            return String::new();
        }
        let rest = &self.text[self.shown..];
        let mark = MARKS.iter().filter_map(|mark| rest.find(mark)).min();
        let upto = match mark {
            Some(at) => {
                self.held = true;
                at
            }
            None => rest.len() - unfinished(rest),
        };
        let shown = rest[..upto].to_owned();
        self.shown += upto;
        shown
    }

    /// What is left to show of the final text; `None` when something else was shown already.
    #[must_use]
    pub fn rest<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.strip_prefix(&self.text[..self.shown])
    }

    /// Whether anybody has seen any of it.
    #[must_use]
    pub fn has_shown(&self) -> bool {
        self.shown > 0
    }
}

/// Bytes at the end that may be the beginning of a mark.
fn unfinished(text: &str) -> usize {
    let longest = MARKS.iter().map(|mark| mark.len()).max().unwrap_or(0);
    (1..longest.min(text.len() + 1))
        .rev()
        .find(|len| {
            let at = text.len() - len;
            text.is_char_boundary(at) && MARKS.iter().any(|mark| mark.starts_with(&text[at..]))
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_is_taken_out_however_its_tags_are_broken() {
        for (text, thinking, kept) in [
            ("plain", "", "plain"),
            ("<think>a</think>\n\nb", "a", "b"),
            ("a</think>b", "a", "b"),
            ("<think>a", "a", ""),
            ("b<think>a", "a", "b"),
            ("x <think>a</think> y", "a", "x  y"),
            ("use `<think>` here", "", "use `<think>` here"),
            ("one</think>two</think>three", "onetwo", "three"),
        ] {
            assert_eq!(split(text), (thinking.into(), kept.into()), "{text}");
        }
    }

    #[test]
    fn a_reply_full_of_tags_is_read_in_bounds() {
        let text = "</think>".repeat(20_000) + "end";
        let (thinking, kept) = split(&text);
        assert!(kept.is_empty() && thinking.ends_with("end"));
    }

    fn shown(pieces: &[&str]) -> String {
        let mut live = Live::new(false);
        pieces.iter().map(|piece| live.push(piece)).collect()
    }

    #[test]
    fn no_tag_and_nothing_after_it_is_shown() {
        for text in [
            "Hello <think>secret",
            "Hello <tool_call>{}",
            "Hello </think> x",
        ] {
            assert_eq!(shown(&[text]), "Hello ");
            let singles: Vec<String> = text.chars().map(String::from).collect();
            let singles: Vec<&str> = singles.iter().map(String::as_str).collect();
            assert_eq!(shown(&singles), "Hello ");
        }
        assert_eq!(shown(&["{\"name\":", " \"f\"}"]), "");
        assert_eq!(shown(&["a < b", " and <t", "able>"]), "a < b and <table>");
    }

    #[test]
    fn the_rest_of_a_held_text_is_known() {
        let mut live = Live::new(false);
        assert_eq!(live.push("a<th"), "a");
        assert_eq!(live.rest("a<th"), Some("<th"));
        assert_eq!(live.rest("b"), None);
    }
}
