//! Steps 7 and 8 of neutralising: openings that a model, a template or a renderer would act on lose
//! their first character to a look-alike of equal length. Called by `neutralise` only; it never
//! deletes or adds a character.
//!
//! Matching is done on a folded view (compatibility decomposition, lower case), so that full-width
//! or ligature spellings count. No substitute has a compatibility decomposition: NFKC further down
//! cannot bring the opening back.

use crate::unicode::{fold, is_blank};
use unicode_normalization::char::is_combining_mark;

/// Tag names, in order: chat templates, tool calls, then HTML that loads or runs. A tag with such an attribute
/// loses its opening whatever its name.
pub(super) const TAGS: &[&str] = &[
    "a",
    "agent",
    "antml",
    "applet",
    "assistant",
    "audio",
    "base",
    "bos",
    "button",
    "context",
    "conversation",
    "developer",
    "document",
    "embed",
    "end_of_turn",
    "eos",
    "form",
    "function",
    "function_call",
    "function_calls",
    "function_result",
    "function_results",
    "human",
    "iframe",
    "image",
    "img",
    "important",
    "input",
    "inst",
    "instruction",
    "instructions",
    "invoke",
    "link",
    "mask",
    "math",
    "memories",
    "memory",
    "meta",
    "object",
    "observation",
    "pad",
    "parameter",
    "parameters",
    "prompt",
    "reasoning",
    "reminder",
    "result",
    "s",
    "script",
    "secret",
    "source",
    "start_of_turn",
    "style",
    "summary",
    "svg",
    "sys",
    "system",
    "system_prompt",
    "template",
    "think",
    "thinking",
    "tool",
    "tool_call",
    "tool_calls",
    "tool_output",
    "tool_response",
    "tool_result",
    "tool_results",
    "tool_use",
    "tools",
    "unk",
    "user",
    "video",
];
/// Words that open a turn or a block when they stand alone in square brackets.
pub(super) const BRACKETED: &[&str] = &[
    "assistant",
    "available_tools",
    "developer",
    "end",
    "human",
    "inst",
    "instruction",
    "instructions",
    "sys",
    "system",
    "system_prompt",
    "tool",
    "tool_call",
    "tool_calls",
    "tool_content",
    "tool_results",
    "user",
];
/// Words that open a turn when they lead a line before a colon.
pub(super) const ROLES: &[&str] = &["assistant", "developer", "human", "system", "tool", "user"];

/// Attributes that load or run something in a tag of any name; so do those that begin with `on`.
pub(super) const ATTRIBUTES: &[&str] = &[
    "background",
    "dynsrc",
    "href",
    "lowsrc",
    "ping",
    "poster",
    "src",
    "srcdoc",
    "srcset",
    "style",
];

/// Longest word any list holds.
const WORD_CHARS_MAX: usize = 24;
/// Characters a link label may have. Source: CommonMark 0.31, section 4.7.
const LABEL_CHARS_MAX: usize = 999;
/// Blanks and emphasis between a role word and its colon.
const ROLE_GAP_CHARS_MAX: usize = 8;

/// `None`: nothing to defang.
pub(super) fn defang(text: &str) -> Option<String> {
    if text.is_ascii() && !text.bytes().any(|b| matches!(b, b'<' | b'[' | b':')) {
        return None; // `!` matters before `[` only.
    }
    let view = View::new(text);
    let mut swaps = Vec::new();
    let (mut leads, mut leads_reference) = (true, true);
    for (at, &c) in view.chars.iter().enumerate() {
        match c {
            '<' if view.opens_tag(at) => swaps.push((view.origin[at], '\u{2039}')),
            '[' if view.opens_bracket(at) || (leads_reference && view.opens_reference(at)) => {
                swaps.push((view.origin[at], '\u{2045}'));
            }
            '!' if view.is(at + 1, '[') => swaps.push((view.origin[at], '\u{1C3}')),
            _ if leads => {
                if let Some(colon) = view.role_colon(at) {
                    swaps.push((view.origin[colon], '\u{A789}'));
                }
            }
            _ => {}
        }
        leads = c == '\n' || (leads && leads_line(c));
        leads_reference = c == '\n' || (leads_reference && leads_item(c));
    }
    if swaps.is_empty() {
        return None;
    }
    swaps.sort_by_key(|(origin, _)| *origin);
    let mut swaps = swaps.into_iter().peekable();
    let mut out = String::with_capacity(text.len() + swaps.len() * 2);
    for (index, c) in text.chars().enumerate() {
        let mut kept = c;
        while let Some((_, new)) = swaps.next_if(|(origin, _)| *origin == index) {
            kept = new;
        }
        out.push(kept);
    }
    Some(out)
}

/// What may stand before a role word or a link definition and leave it in effect: blanks, quotes,
/// headings, emphasis.
fn leads_line(c: char) -> bool {
    is_blank(c) || matches!(c, '>' | '#' | '*' | '_')
}

/// The same for a link definition alone: the mark of a list's item.
fn leads_item(c: char) -> bool {
    leads_line(c) || c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | ')')
}

/// The folded text, each of its characters with the index of the one it came from.
struct View {
    chars: Vec<char>,
    origin: Vec<usize>,
    /// For each place the next `]` not after a backslash, and the next `]:`; `usize::MAX`: none.
    closes: Vec<(usize, usize)>,
    tags: Tags,
}

/// For each place the next character of a kind, at the place or after it; `usize::MAX`: none. Empty where the text
/// has no tag with an attribute.
#[derive(Default)]
struct Tags {
    /// What ends a tag's name: white space or `/`.
    gap: Vec<usize>,
    /// The `=` of an attribute that loads or runs something.
    loads: Vec<usize>,
    quote: Vec<usize>,
    end: Vec<usize>,
}

impl Tags {
    fn new(chars: &[char]) -> Tags {
        if !chars.contains(&'<') || !chars.contains(&'=') {
            return Tags::default();
        }
        let next = |is: &dyn Fn(usize) -> bool| {
            let mut found = vec![usize::MAX; chars.len() + 1];
            for at in (0..chars.len()).rev() {
                found[at] = if is(at) { at } else { found[at + 1] };
            }
            found
        };
        Tags {
            gap: next(&|at| chars[at].is_whitespace() || chars[at] == '/'),
            loads: next(&|at| chars[at] == '=' && loads(&chars[..at])),
            quote: next(&|at| matches!(chars[at], '"' | '\'')),
            end: next(&|at| chars[at] == '>'),
        }
    }

    /// Whether the tag whose name begins at `name` has an attribute that loads or runs something.
    fn has_attribute(&self, name: usize) -> bool {
        let Some(gap) = self.gap.get(name).filter(|gap| **gap != usize::MAX) else {
            return false;
        };
        let (loads, end) = (self.loads[*gap], self.end[name]);
        // In quotes a `>` ends nothing. A tag without an end here may find one in what follows the text.
        loads != usize::MAX && (loads < end || self.quote[*gap] < end)
    }
}

/// Whether what stands before an `=` is an attribute that loads or runs something.
fn loads(before: &[char]) -> bool {
    // Never past another `=`, so all of a text's are read once.
    let blanks = before.iter().rev().take_while(|c| c.is_whitespace());
    let name_end = before.len() - blanks.count();
    let letters = before[..name_end]
        .iter()
        .rev()
        .take(WORD_CHARS_MAX)
        .take_while(|c| c.is_ascii_alphabetic());
    let name: String = before[name_end - letters.count()..name_end]
        .iter()
        .collect();
    ATTRIBUTES.binary_search(&name.as_str()).is_ok() || (name.len() > 3 && name.starts_with("on"))
}

impl View {
    fn new(text: &str) -> View {
        let (mut chars, mut origin) = (
            Vec::with_capacity(text.len()),
            Vec::with_capacity(text.len()),
        );
        for (index, c) in text.chars().enumerate() {
            fold(c, |part| {
                chars.push(part);
                origin.push(index);
            });
        }
        let mut closes = Vec::new();
        if chars.contains(&']') {
            closes.resize(chars.len(), (usize::MAX, usize::MAX));
            let mut next = (usize::MAX, usize::MAX);
            for at in (0..chars.len()).rev() {
                if chars[at] == ']' {
                    if at == 0 || chars[at - 1] != '\\' {
                        next.0 = at;
                    }
                    if chars.get(at + 1) == Some(&':') {
                        next.1 = at;
                    }
                }
                closes[at] = next;
            }
        }
        let tags = Tags::new(&chars);
        View {
            chars,
            origin,
            closes,
            tags,
        }
    }

    fn is(&self, at: usize, c: char) -> bool {
        self.chars.get(at) == Some(&c)
    }

    /// The word at `at` and, where a mark sits on its last letter, the word without that letter:
    /// composing takes the letter out of the word.
    fn words_at(&self, at: usize) -> [String; 2] {
        let rest = self.chars.get(at..).unwrap_or_default();
        let is_word = |c: &&char| c.is_ascii_alphanumeric() || **c == '_';
        let word: String = rest
            .iter()
            .take(WORD_CHARS_MAX + 1)
            .take_while(is_word)
            .collect();
        let marked = rest.get(word.len()).is_some_and(|c| is_combining_mark(*c));
        let shorter = if marked && !word.is_empty() {
            &word[..word.len() - 1]
        } else {
            ""
        };
        [shorter.to_owned(), word]
    }

    fn opens_tag(&self, at: usize) -> bool {
        let named = self
            .chars
            .get(at + 1)
            .is_some_and(char::is_ascii_alphabetic);
        if self.is(at + 1, '|') || (named && self.tags.has_attribute(at + 1)) {
            return true;
        }
        let doubled = usize::from(self.is(at + 1, '<'));
        let name = at + 1 + doubled;
        let name = name + usize::from(self.is(name, '/'));
        let words = self.words_at(name);
        if doubled == 1 {
            return words.iter().any(|word| word == "sys");
        }
        words
            .iter()
            .any(|word| TAGS.binary_search(&word.as_str()).is_ok())
    }

    fn opens_bracket(&self, at: usize) -> bool {
        let name = at + 1 + usize::from(self.is(at + 1, '/'));
        let [_, word] = self.words_at(name);
        self.is(name + word.len(), ']') && BRACKETED.binary_search(&word.as_str()).is_ok()
    }

    /// `[label]: target` at the start of a line defines a link used elsewhere.
    fn opens_reference(&self, at: usize) -> bool {
        let Some((plain, with_colon)) = self.closes.get(at + 1) else {
            return false;
        };
        with_colon <= plain && *with_colon != usize::MAX && with_colon - at <= LABEL_CHARS_MAX + 1
    }

    /// The colon that makes the word at `at` a speaker.
    fn role_colon(&self, at: usize) -> Option<usize> {
        if !self.chars[at].is_ascii_alphabetic() {
            return None;
        }
        let [_, word] = self.words_at(at);
        ROLES.binary_search(&word.as_str()).ok()?;
        let after = at + word.len();
        let gap = self.chars[after..]
            .iter()
            .take(ROLE_GAP_CHARS_MAX)
            .take_while(|c| is_blank(**c) || matches!(c, '*' | '_'))
            .count();
        self.is(after + gap, ':').then_some(after + gap)
    }
}
