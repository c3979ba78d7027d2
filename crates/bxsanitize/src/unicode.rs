//! Character classes the other files share. Called by `neutralise`, `reveal` and `flag`; holds tables
//! and predicates only, never a policy.

use unicode_normalization::char::decompose_compatible;

/// True for a character that shows nothing but can carry or steer text: format characters, fillers,
/// variation selectors, tags, private use and noncharacters.
///
/// # Source
/// Unicode 17 general category Cf, `Default_Ignorable_Code_Point`, private use areas, noncharacters.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    let code = c as u32;
    if code < 0xAD {
        return false;
    }
    matches!(code,
        0xAD | 0x34F
        | 0x600..=0x605 | 0x61C | 0x6DD | 0x70F | 0x890..=0x891 | 0x8E2
        | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F
        | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F
        | 0x3164
        | 0xE000..=0xF8FF
        | 0xFDD0..=0xFDEF
        | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFC | 0xFFFE..=0xFFFF
        | 0x110BD | 0x110CD | 0x13430..=0x1343F
        | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A
        | 0xE0000..=0xE0FFF
        | 0xF0000..=0x10FFFF)
        || code & 0xFFFE == 0xFFFE
}

/// True for a control that never survives neutralising: C0 but newline and tab, DEL, C1.
#[must_use]
pub fn is_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

/// True for a character read as a line break: the ones `neutralise` turns into `\n`.
#[must_use]
pub fn is_line_break(c: char) -> bool {
    matches!(c, '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// True for white space within a line.
#[must_use]
pub fn is_blank(c: char) -> bool {
    c != '\n' && c.is_whitespace()
}

/// True in the scripts whose compatibility decompositions hold no ASCII but blanks and a plus sign.
/// They are matched as they are: some of them decompose to 18 characters.
fn is_apart_from_ascii(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{DFF}' | '\u{F00}'..='\u{1CFF}' | '\u{3400}'..='\u{A69F}' | '\u{AC00}'..='\u{FAFF}' | '\u{FB07}'..='\u{FDFF}')
}

/// Calls `emit` with what `c` becomes when ASCII text is looked for: what NFKC makes of it, but with
/// accents apart from their letters.
pub fn decompose(c: char, emit: impl FnMut(char)) {
    let mut emit = emit;
    if c.is_ascii() || is_apart_from_ascii(c) {
        emit(c);
    } else {
        decompose_compatible(c, emit);
    }
}

/// `decompose` with ASCII in lower case and sharp s as two letters. Marks stay, so an accented letter
/// never equals a plain one.
pub fn fold(c: char, mut emit: impl FnMut(char)) {
    match c {
        'ß' | 'ẞ' => {
            emit('s');
            emit('s');
        }
        _ => decompose(c, |part| emit(part.to_ascii_lowercase())),
    }
}

/// The Latin letter a Cyrillic or Greek look-alike (in lower case) stands for.
///
/// # Source
/// UTS 39 `confusables.txt`, the rows whose target is one lower-case ASCII letter.
#[must_use]
pub fn latin_lookalike(c: char) -> Option<char> {
    Some(match c {
        'а' | 'α' | 'ɑ' => 'a',
        'Ь' | 'ь' => 'b',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'ҽ' => 'e',
        'ɡ' => 'g',
        'һ' => 'h',
        'і' | 'ι' | 'ı' => 'i',
        'ј' => 'j',
        'κ' | 'к' => 'k',
        'ӏ' => 'l',
        'м' => 'm',
        'ո' => 'n',
        'о' | 'ο' | 'օ' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'г' => 'r',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'ս' => 'u',
        'ѵ' | 'ν' => 'v',
        'ԝ' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_normalization::char::is_combining_mark;

    fn folded(text: &str) -> String {
        let mut out = String::new();
        text.chars().for_each(|c| fold(c, |part| out.push(part)));
        out
    }

    #[test]
    fn fold_reaches_ascii() {
        assert_eq!(folded("ＳＹＳﬆEM"), "sysstem");
        assert_eq!(folded("aßiſtant"), "assistant");
        assert_eq!(folded("é"), "e\u{301}");
    }

    #[test]
    fn what_is_matched_as_it_is_holds_no_ascii_word() {
        for c in (0..0xFFFF)
            .filter_map(char::from_u32)
            .filter(|c| is_apart_from_ascii(*c))
        {
            let mut parts = Vec::new();
            decompose_compatible(c, |part| parts.push(part));
            assert!(
                parts
                    .iter()
                    .all(|part| !part.is_ascii() || matches!(part, ' ' | '+')),
                "{:04X}",
                c as u32
            );
            let leads = |c: &char| is_combining_mark(*c);
            assert_eq!(leads(&parts[0]), leads(&c), "{:04X}", c as u32);
        }
    }

    #[test]
    fn hidden_covers_the_edges() {
        for c in [
            '\u{AD}',
            '\u{200B}',
            '\u{206F}',
            '\u{E0001}',
            '\u{1FFFE}',
            '\u{F8FF}',
            '\u{10FFFF}',
        ] {
            assert!(is_hidden(c), "{:04X}", c as u32);
        }
        for c in [
            'a',
            'é',
            '\u{2010}',
            '\u{2070}',
            '한',
            '\u{1F600}',
            '\u{FFFD}',
        ] {
            assert!(!is_hidden(c), "{:04X}", c as u32);
        }
    }
}
