//! Makes text inert before it is stored, sent or shown to a model: no controls, nothing hidden, no
//! template tokens, markup or role lines that take effect. Called by the memory write path and by
//! `fence`; never decides whether a text may be kept.
//!
//! The steps run in a fixed order, each mapping to at most as many characters (but what NFC expands,
//! and that is cut afterwards), and the whole is idempotent. `defang` holds the last two.

mod defang;

use crate::unicode::{is_blank, is_control, is_hidden, is_line_break};
use std::borrow::Cow;
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Combining marks kept in a row.
pub const MARKS_MAX: usize = 8;
/// Blanks kept in a row.
pub const BLANKS_MAX: usize = 64;
/// Newlines kept in a row.
pub const NEWLINES_MAX: usize = 3;
/// Parameter and intermediate characters a control sequence may have and still be deleted whole.
pub const CSI_CHARS_MAX: usize = 256;
/// Characters a control string may have and still be deleted whole.
pub const CONTROL_STRING_CHARS_MAX: usize = 4_096;
/// Ends a text that was cut; counts inside the cap. Neither blank, nor changed by NFKC, nor part of
/// any secret's alphabet at its left edge, so that it can complete nothing.
pub const CUT_MARKER: &str = "⟨cut⟩";

/// The inert form of `text`, at most `cap_chars` characters (not bytes).
///
/// A cap shorter than the cut marker cuts without one.
#[must_use]
pub fn neutralise(text: &str, cap_chars: usize) -> String {
    neutralise_cow(text, cap_chars).into_owned()
}

/// `neutralise` that borrows when nothing has to change.
#[must_use]
pub fn neutralise_cow(text: &str, cap_chars: usize) -> Cow<'_, str> {
    let text = then(Cow::Borrowed(text), |text| strip(text).text);
    let text = then(text, compose);
    let text = then(text, limit_runs);
    let text = then(text, |text| cut(text, cap_chars));
    then(text, defang::defang)
}

/// What stripping left, and how much of it was hidden.
pub(crate) struct Stripped {
    /// `None`: unchanged.
    pub text: Option<String>,
    /// Characters deleted, without the joiners and selectors ordinary emoji are made with.
    pub hidden_chars: usize,
}

/// Steps 1 to 3: one kind of line break, no controls or escape sequences, nothing hidden.
pub(crate) fn strip(text: &str) -> Stripped {
    let is_clean = |c: char| !is_line_break(c) && !is_control(c) && !is_hidden(c);
    let Some(first) = text.find(|c| !is_clean(c)) else {
        return Stripped {
            text: None,
            hidden_chars: 0,
        };
    };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    let mut hidden_chars = 0;
    let mut before = text[..first].chars().next_back().unwrap_or('\n');
    let mut terminators = Terminators {
        text,
        found: Some(0..0),
    };
    let mut at = first;
    while let Some(c) = text[at..].chars().next() {
        let mut step = c.len_utf8();
        if is_line_break(c) {
            if c == '\r' && text[at + 1..].starts_with('\n') {
                step += 1;
            }
            out.push('\n');
        } else if is_control(c) {
            step = terminators.sequence_len(at, c);
            hidden_chars += text[at..at + step].chars().count();
        } else if is_hidden(c) {
            hidden_chars += usize::from(!joins_emoji(before, c));
        } else {
            out.push(c);
        }
        before = c;
        at += step;
    }
    Stripped {
        text: Some(out),
        hidden_chars,
    }
}

/// True where ordinary emoji have an invisible part: a selector or joiner after a symbol.
fn joins_emoji(before: char, c: char) -> bool {
    let symbol =
        |c: char| matches!(c as u32, 0x2190..=0x2BFF | 0x3030 | 0x303D | 0x1F000..=0x1FAFF);
    match c {
        '\u{FE0F}' => symbol(before) || before.is_ascii_digit() || before == '#',
        '\u{200D}' => symbol(before) || before == '\u{FE0F}',
        _ => false,
    }
}

/// Finds where control strings end. It remembers its last find, so that a text full of openings is
/// still read once.
struct Terminators<'a> {
    text: &'a str,
    /// The terminator found last; `None`: there is none further on.
    found: Option<std::ops::Range<usize>>,
}

impl Terminators<'_> {
    /// Bytes of the escape sequence at `at`, or of its introducer where it is no whole sequence.
    ///
    /// # Source
    /// ECMA-48 5th edition, sections 5.3 to 5.6.
    fn sequence_len(&mut self, at: usize, c: char) -> usize {
        let bytes = self.text.as_bytes();
        let (kind, introducer) = match c {
            '\u{1b}' => match bytes.get(at + 1).copied() {
                Some(next @ (b'[' | b']' | b'P' | b'X' | b'^' | b'_')) => (next, 2),
                Some(0x20..=0x2F) => return self.two_byte_len(at),
                Some(0x30..=0x7E) => return 2,
                _ => return 1,
            },
            '\u{90}' => (b'P', 2),
            '\u{98}' => (b'X', 2),
            '\u{9b}' => (b'[', 2),
            '\u{9d}' => (b']', 2),
            '\u{9e}' => (b'^', 2),
            '\u{9f}' => (b'_', 2),
            _ => return c.len_utf8(),
        };
        let body = at + introducer;
        let end = if kind == b'[' {
            self.csi_end(body)
        } else {
            self.string_end(body)
        };
        end.unwrap_or(body) - at
    }

    fn two_byte_len(&self, at: usize) -> usize {
        let rest = &self.text.as_bytes()[at + 1..];
        let between = rest
            .iter()
            .take(CSI_CHARS_MAX)
            .take_while(|b| matches!(b, 0x20..=0x2F))
            .count();
        match rest.get(between) {
            Some(0x30..=0x7E) => 2 + between,
            _ => 1,
        }
    }

    fn csi_end(&self, body: usize) -> Option<usize> {
        let rest = &self.text.as_bytes()[body..];
        let params = rest
            .iter()
            .take(CSI_CHARS_MAX + 1)
            .take_while(|b| matches!(b, 0x30..=0x3F))
            .count();
        let between = rest[params..]
            .iter()
            .take(CSI_CHARS_MAX + 1)
            .take_while(|b| matches!(b, 0x20..=0x2F))
            .count();
        let last = rest.get(params + between)?;
        (params + between <= CSI_CHARS_MAX && matches!(last, 0x40..=0x7E))
            .then_some(body + params + between + 1)
    }

    fn string_end(&mut self, body: usize) -> Option<usize> {
        if self.found.as_ref()?.start < body {
            self.found = self.next_from(body);
        }
        let found = self.found.clone()?;
        let far = found.start - body > CONTROL_STRING_CHARS_MAX * 4;
        let within = || self.text[body..found.start].chars().count() <= CONTROL_STRING_CHARS_MAX;
        (!far && within()).then_some(found.end)
    }

    fn next_from(&self, from: usize) -> Option<std::ops::Range<usize>> {
        let rest = &self.text[from..];
        rest.char_indices().find_map(|(offset, c)| {
            let start = from + offset;
            match c {
                '\u{7}' => Some(start..start + 1),
                '\u{9c}' => Some(start..start + 2),
                '\u{1b}' if rest[offset + 1..].starts_with('\\') => Some(start..start + 2),
                _ => None,
            }
        })
    }
}

/// Step 4. NFC, not NFKC: what the text means stays (`²`), and NFKC is used to match only.
fn compose(text: &str) -> Option<String> {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        return None;
    }
    Some(text.nfc().collect())
}

/// Step 5: no towers of marks, no wide or high emptiness.
fn limit_runs(text: &str) -> Option<String> {
    let (mut marks, mut blanks, mut newlines) = (0, 0, 0);
    let mut keep = |c: char| {
        let blank = is_blank(c);
        blanks = if blank { blanks + 1 } else { 0 };
        newlines = if c == '\n' { newlines + 1 } else { 0 };
        marks = if !c.is_ascii() && is_combining_mark(c) {
            marks + 1
        } else {
            0
        };
        blanks <= BLANKS_MAX && newlines <= NEWLINES_MAX && marks <= MARKS_MAX
    };
    let first = text.char_indices().find(|(_, c)| !keep(*c))?.0;
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    // The counters stand just after the first refused character: go on behind it.
    out.extend(text[first..].chars().skip(1).filter(|c| keep(*c)));
    Some(out)
}

/// Step 6. Before defanging: a cut afterwards could bare a token at its edge.
fn cut(text: &str, cap_chars: usize) -> Option<String> {
    if text.len() <= cap_chars {
        return None;
    }
    text.char_indices().nth(cap_chars)?;
    let marker_chars = CUT_MARKER.chars().count();
    let (keep, marker) = match cap_chars.checked_sub(marker_chars) {
        Some(keep) => (keep, CUT_MARKER),
        None => (cap_chars, ""),
    };
    let end = text
        .char_indices()
        .nth(keep)
        .map_or(text.len(), |(at, _)| at);
    Some(format!("{}{marker}", &text[..end]))
}

fn then<'a>(text: Cow<'a, str>, step: impl FnOnce(&str) -> Option<String>) -> Cow<'a, str> {
    match step(&text) {
        Some(changed) => Cow::Owned(changed),
        None => text,
    }
}

#[cfg(test)]
mod tests;
