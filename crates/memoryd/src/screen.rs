//! What a text must pass before memory keeps it: one line, nothing hidden, no known secret. Called by the
//! planners for every text that comes in. Values only; never repeats the text it refuses.

use bxsanitize::{Outcome, Refuser, flag, neutralise};

use crate::{denied::Denied, edit::KeptLocal};

/// A text that may be kept, and what it was found to look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screened {
    /// One line, inert.
    pub text: String,
    pub maybe_secret: bool,
    pub flagged: bool,
}

impl Screened {
    /// Why it stays on this machine, if it does.
    #[must_use]
    pub fn kept_local(&self) -> Option<KeptLocal> {
        if self.flagged {
            Some(KeptLocal::Flagged)
        } else {
            self.maybe_secret.then_some(KeptLocal::MaybeSecret)
        }
    }
}

/// Checks and cleans a text.
///
/// # Errors
/// [`Denied::Empty`], [`Denied::Secret`] with the rule's name.
pub fn screen(raw: &str, refuser: &Refuser) -> Result<Screened, Denied> {
    let text = clean(raw);
    if text.is_empty() {
        return Err(Denied::Empty);
    }
    let outcome = refuser.check(raw).max(refuser.check(&text));
    if let Outcome::Secret(rule) = outcome {
        return Err(Denied::Secret(rule));
    }
    Ok(Screened {
        text,
        maybe_secret: outcome == Outcome::MaybeSecret,
        flagged: !flag(raw).is_empty(),
    })
}

/// One inert line. What neutralising takes out may leave two blanks, so both run twice.
#[must_use]
pub fn clean(raw: &str) -> String {
    let once = |text: &str| one_line(&neutralise(&one_line(text), usize::MAX));
    once(&once(raw))
}

/// White space of every kind folded to single blanks.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_inert_line_and_stays_it() {
        let raw = "  two\n\nlines \u{200b} of <|im_start|>\ttext\u{1b}[31m ";
        let text = clean(raw);
        assert!(!text.contains(['\n', '\t', '\u{200b}', '\u{1b}']), "{text}");
        assert!(!text.contains("<|"), "{text}");
        assert_eq!(clean(&text), text);
    }

    #[test]
    fn a_key_is_refused_by_its_rule_and_never_shown() {
        let key = format!("AKIA{}", "Z7Q2M4X6W3B5N7K5");
        let denied = screen(&format!("my key is {key}"), &Refuser::new(&[])).unwrap_err();
        assert!(matches!(denied, Denied::Secret(_)));
        assert!(!denied.to_string().contains(&key));
        let own = Refuser::new(&["correct-horse-battery"]);
        assert!(screen("it is correct-horse-battery", &own).is_err());
        assert!(screen("correct horse battery", &own).is_ok());
        assert_eq!(screen(" \n ", &own), Err(Denied::Empty));
    }
}
