//! Names what in a text reads like instructions to a model, or is hidden from its reader. Called by
//! the memory write path, which keeps flagged text local; it is depth, never a boundary, and nothing
//! may be trusted because no flag was raised.
//!
//! Rules match words, not letters: a pattern is a row of word lists with the number of other words
//! allowed between them. Text is folded first, so full-width letters and Cyrillic look-alikes count.

mod patterns;

use crate::neutralise::strip;
use crate::unicode::{fold, latin_lookalike};
use patterns::PATTERNS;
use std::collections::HashMap;
use std::sync::LazyLock;
use unicode_normalization::char::is_combining_mark;

/// Hidden characters from which a text is flagged.
pub const HIDDEN_CHARS_MIN: usize = 8;
/// Characters of one encoded run from which it is decoded and looked at.
pub const ENCODED_CHARS_MIN: usize = 40;

/// What a text was flagged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// Puts earlier instructions out of force.
    Override,
    /// Opens a turn of a speaker it is not.
    RoleSpoof,
    /// Carries a model's template token, or says that a document ends and instructions begin.
    FakeBoundary,
    /// Speaks to the assistant rather than the reader.
    AddressedToModel,
    /// Claims the authority of a system or an operator.
    AuthorityFrame,
    /// Asks for something before the model may answer.
    Precondition,
    /// Asks to be kept in memory, or to hold in later sessions.
    MemoryWrite,
    /// Waits for a later word or event.
    DelayedTrigger,
    /// Sends secrets or the conversation somewhere.
    Exfiltration,
    /// Orders a tool to be called.
    ToolOrder,
    /// Asks for the prompt.
    RevealPrompt,
    /// Gives the model another character.
    PersonaSwitch,
    /// Keeps something from the user.
    Secrecy,
    /// Holds text in base64 or hexadecimal.
    EncodedText,
    /// Holds characters nobody sees.
    HiddenText,
    /// Mixes Latin with look-alike letters in one word.
    MixedScript,
}

impl Flag {
    /// The rule's name as a daemon writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flag::Override => "override",
            Flag::RoleSpoof => "role-spoof",
            Flag::FakeBoundary => "fake-boundary",
            Flag::AddressedToModel => "addressed-to-model",
            Flag::AuthorityFrame => "authority-frame",
            Flag::Precondition => "precondition",
            Flag::MemoryWrite => "memory-write",
            Flag::DelayedTrigger => "delayed-trigger",
            Flag::Exfiltration => "exfiltration",
            Flag::ToolOrder => "tool-order",
            Flag::RevealPrompt => "reveal-prompt",
            Flag::PersonaSwitch => "persona-switch",
            Flag::Secrecy => "secrecy",
            Flag::EncodedText => "encoded-text",
            Flag::HiddenText => "hidden-text",
            Flag::MixedScript => "mixed-script",
        }
    }
}

/// Every rule the text meets, in order, each once. Takes time linear in the text.
#[must_use]
pub fn flag(text: &str) -> Vec<Flag> {
    let stripped = strip(text);
    let mut flags = Vec::new();
    if stripped.hidden_chars >= HIDDEN_CHARS_MIN {
        flags.push(Flag::HiddenText);
    }
    let visible = stripped.text.as_deref().unwrap_or(text);
    if has_mixed_script(visible) {
        flags.push(Flag::MixedScript);
    }
    if has_encoded_text(visible) {
        flags.push(Flag::EncodedText);
    }
    let mut skeleton = String::with_capacity(visible.len());
    for c in visible.chars().flat_map(char::to_lowercase) {
        fold(c, |part| {
            if !is_combining_mark(part) {
                skeleton.push(latin_lookalike(part).unwrap_or(part));
            }
        });
    }
    flags.extend(markup_flags(&skeleton));
    flags.extend(pattern_flags(&skeleton));
    flags.sort_unstable();
    flags.dedup();
    flags
}

/// Where a word stands in the patterns: pattern, step.
static STEPS: LazyLock<HashMap<&'static str, Vec<(usize, usize)>>> = LazyLock::new(|| {
    let mut steps: HashMap<_, Vec<_>> = HashMap::new();
    for (pattern, (_, row)) in PATTERNS.iter().enumerate() {
        for (step, (_, words)) in row.iter().enumerate() {
            for word in words.split(' ') {
                steps.entry(word).or_default().push((pattern, step));
            }
        }
    }
    // Late steps first: a word must not be two steps of one match.
    steps.values_mut().for_each(|places| {
        places.sort_by_key(|(pattern, step)| (*pattern, std::cmp::Reverse(*step)))
    });
    steps
});

fn pattern_flags(skeleton: &str) -> Vec<Flag> {
    // For each step of each pattern the last word where the pattern was met that far: the nearest
    // start is the best one, for only the gap counts.
    let mut reached: Vec<Vec<Option<usize>>> = PATTERNS
        .iter()
        .map(|(_, row)| vec![None; row.len()])
        .collect();
    let mut flags = Vec::new();
    let words = skeleton
        .split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’')
        .filter(|word| !word.is_empty());
    for (at, word) in words.enumerate() {
        for &(pattern, step) in STEPS.get(word).into_iter().flatten() {
            let (flag, row) = PATTERNS[pattern];
            let follows = match step.checked_sub(1) {
                None => true,
                Some(earlier) => {
                    reached[pattern][earlier].is_some_and(|before| at - before - 1 <= row[step].0)
                }
            };
            if follows {
                reached[pattern][step] = Some(at);
                if step + 1 == row.len() {
                    flags.push(flag);
                }
            }
        }
    }
    flags.sort_unstable();
    flags.dedup();
    flags
}

/// Signs, not words: tokens, tags, image links that carry something.
fn markup_flags(skeleton: &str) -> Vec<Flag> {
    const TOKENS: &[&str] = &[
        "<|im_start",
        "<|im_end",
        "<|system",
        "<|user",
        "<|assistant",
        "<|endoftext",
        "<|eot_id",
        "<|start_header",
        "[inst]",
        "[/inst]",
        "<<sys>>",
        "</system>",
        "<system>",
        "<start_of_turn>",
        "<end_of_turn>",
        "</tool_response>",
        "<tool_call>",
        "<function_calls>",
        "</conversation>",
        "<system-reminder>",
        "[system]",
        "### instruction:",
        "<tool_result>",
        "</tool_result>",
    ];
    const FRAMES: &[&str] = &[
        "<important>",
        "[important instruction",
        "<admin>",
        "[admin override",
        "<priority>",
    ];
    let mut flags = Vec::new();
    if TOKENS.iter().any(|token| skeleton.contains(token)) {
        flags.push(Flag::FakeBoundary);
    }
    if FRAMES.iter().any(|frame| skeleton.contains(frame)) {
        flags.push(Flag::AuthorityFrame);
    }
    if skeleton.lines().any(is_role_line) {
        flags.push(Flag::RoleSpoof);
    }
    if image_with_query(skeleton) {
        flags.push(Flag::Exfiltration);
    }
    flags
}

/// `system:` or `assistant:` leading a line. People do write `user:` and `human:`.
fn is_role_line(line: &str) -> bool {
    let line =
        line.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '#' | '*' | '>' | '_'));
    ["system", "assistant", "developer"].iter().any(|role| {
        line.strip_prefix(role).is_some_and(|rest| {
            rest.trim_start_matches(['*', '_', ' '])
                .strip_prefix(':')
                .is_some_and(|rest| !rest.trim().is_empty())
        })
    })
}

/// `![…](http…?…)`: an image whose address carries data away when it is shown.
fn image_with_query(skeleton: &str) -> bool {
    skeleton.split("![").skip(1).any(|rest| {
        let line = rest.split(['\n', ')']).next().unwrap_or_default();
        line.split_once("](")
            .is_some_and(|(_, address)| address.starts_with("http") && address.contains(['?', '{']))
    })
}

/// A word with both Latin letters and Cyrillic or Greek ones that look Latin. Symbols and units that
/// put one Greek letter beside Latin ones (`μm`, `Δx`) are too short to count.
fn has_mixed_script(text: &str) -> bool {
    const LETTERS_MIN: usize = 4;
    let mut words = text.split(|c: char| !c.is_alphabetic());
    words.any(|word| {
        let latin = word.bytes().filter(u8::is_ascii_alphabetic).count();
        let alike = || {
            word.chars()
                .flat_map(char::to_lowercase)
                .filter(|c| is_foreign_lookalike(*c))
                .count()
        };
        latin >= 1 && latin < word.len() && latin + alike() >= LETTERS_MIN && alike() >= 1
    })
}

fn is_foreign_lookalike(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{58F}') && latin_lookalike(c).is_some()
}

fn has_encoded_text(text: &str) -> bool {
    let in_run = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '-' | '_');
    text.split(|c| !in_run(c))
        .filter(|run| run.len() >= ENCODED_CHARS_MIN)
        .any(|run| {
            let run = run.trim_end_matches('=');
            decode_hex(run)
                .or_else(|| decode_base64(run))
                .is_some_and(|bytes| reads_as_text(&bytes))
        })
}

fn decode_hex(run: &str) -> Option<Vec<u8>> {
    if !run.bytes().all(|b| b.is_ascii_hexdigit()) || run.len() % 2 == 1 {
        return None;
    }
    let digit = |b: u8| {
        char::from(b)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    run.as_bytes()
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

fn decode_base64(run: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    // Cut to whole groups: a run may go on with something else.
    let whole = &run[..run.len() / 4 * 4];
    STANDARD_NO_PAD
        .decode(whole)
        .or_else(|_| URL_SAFE_NO_PAD.decode(whole))
        .ok()
}

/// Words and blanks: random bytes are all visible ASCII once in many billions at this length.
fn reads_as_text(bytes: &[u8]) -> bool {
    bytes.contains(&b' ')
        && bytes
            .iter()
            .all(|b| b.is_ascii_graphic() || matches!(b, b' ' | b'\n' | b'\r' | b'\t'))
}

#[cfg(test)]
mod tests;
