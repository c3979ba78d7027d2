//! Shows the owner every hidden character of a text, and reads that form back. Called by whatever
//! prints stored text to a person; never changes what is stored.

use crate::unicode::{is_control, is_hidden, is_line_break};

/// Why a shown text cannot be turned back. Positions are bytes into the shown text.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RevealError {
    #[error("byte {at}: a backslash must be followed by a backslash or by u{{HEX}}")]
    UnknownEscape { at: usize },
    #[error(
        "byte {at}: this escape is not how the character is shown; copy the shown text unchanged"
    )]
    NotCanonical { at: usize },
    #[error("byte {at}: a hidden character stands here unescaped; copy the shown text unchanged")]
    Unescaped { at: usize },
}

/// True for what `reveal` spells out: whatever `neutralise` deletes or maps, and blanks that look
/// like a space but are not one.
#[must_use]
pub fn is_special(c: char) -> bool {
    is_hidden(c) || is_control(c) || is_line_break(c) || (!c.is_ascii() && c.is_whitespace())
}

/// The text with each special character as `\u{200B}` and each backslash doubled.
#[must_use]
pub fn reveal(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\\' {
            shown.push_str("\\\\");
        } else if is_special(c) {
            shown.push_str(&escape(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The text `reveal` was given. Only text `reveal` can produce is accepted, so the two are inverse
/// both ways.
///
/// # Errors
/// Anything `reveal` would not have written. The caller shows the error to the owner.
pub fn unreveal(shown: &str) -> Result<String, RevealError> {
    let mut text = String::with_capacity(shown.len());
    let mut at = 0;
    while let Some(c) = shown[at..].chars().next() {
        if is_special(c) {
            return Err(RevealError::Unescaped { at });
        }
        if c != '\\' {
            text.push(c);
            at += c.len_utf8();
            continue;
        }
        let rest = &shown[at + 1..];
        if rest.starts_with('\\') {
            text.push('\\');
            at += 2;
            continue;
        }
        let (hex, _) = rest
            .strip_prefix("u{")
            .and_then(|rest| rest.split_once('}'))
            .ok_or(RevealError::UnknownEscape { at })?;
        let c = u32::from_str_radix(hex, 16)
            .ok()
            .and_then(char::from_u32)
            .ok_or(RevealError::UnknownEscape { at })?;
        let canonical = escape(c);
        if !is_special(c) || !shown[at..].starts_with(&canonical) {
            return Err(RevealError::NotCanonical { at });
        }
        text.push(c);
        at += canonical.len();
    }
    Ok(text)
}

fn escape(c: char) -> String {
    format!("\\u{{{:04X}}}", c as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_is_spelled_out() {
        assert_eq!(
            reveal("a\u{200B}b\\c\u{1b}[0m\n\u{a0}"),
            "a\\u{200B}b\\\\c\\u{001B}[0m\n\\u{00A0}"
        );
    }

    #[test]
    fn every_special_character_comes_back() {
        for c in (0..=0x10FFFF)
            .filter_map(char::from_u32)
            .filter(|c| is_special(*c))
            .step_by(7)
        {
            let text = format!("x{c}\\u{{41}}");
            assert_eq!(unreveal(&reveal(&text)).as_deref(), Ok(text.as_str()));
        }
    }

    #[test]
    fn only_shown_text_is_read() {
        let cases = [
            ("\\x", RevealError::UnknownEscape { at: 0 }),
            ("a\\u{D800}", RevealError::UnknownEscape { at: 1 }),
            ("\\u{200B", RevealError::UnknownEscape { at: 0 }),
            ("\\", RevealError::UnknownEscape { at: 0 }),
            ("\\u{41}", RevealError::NotCanonical { at: 0 }),
            ("\\u{200b}", RevealError::NotCanonical { at: 0 }),
            ("\\u{+200B}", RevealError::NotCanonical { at: 0 }),
            ("\u{200B}", RevealError::Unescaped { at: 0 }),
        ];
        for (shown, want) in cases {
            assert_eq!(unreveal(shown), Err(want), "{shown:?}");
        }
    }
}
