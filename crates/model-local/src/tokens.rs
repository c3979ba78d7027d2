//! Cuts text into pieces that stand for tokens, and remembers earlier prompts to tell how much of a
//! new one is known. Called by `prompt`, `completion` and `server`; never sees a model's vocabulary.

use std::collections::VecDeque;

/// Longest piece, in characters: long words cost several tokens with a real tokenizer too.
const PIECE_CHARS_MAX: usize = 8;
/// Prompts kept for comparison; the oldest goes first.
pub const PROMPTS_KEPT_MAX: usize = 32;
/// The size of the vocabulary that ids are folded into.
pub const VOCABULARY: u64 = 49_152;

/// Cuts `text` into pieces; joined again they are `text`.
///
/// A piece is a run of letters and digits, or one other character, with the blank before it. `":`
/// is one piece, as it is in the vocabularies that were looked at.
pub fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut chars, mut before) = (0, 0, None::<char>);
    for (at, c) in text.char_indices() {
        let joins = match before {
            None => true,
            Some(' ') => chars == 1 && c != ' ',
            Some('"') => c == ':',
            Some(before) => {
                before.is_alphanumeric() && c.is_alphanumeric() && chars < PIECE_CHARS_MAX
            }
        };
        if !joins {
            pieces.push(&text[start..at]);
            (start, chars) = (at, 0);
        }
        before = Some(c);
        chars += 1;
    }
    if chars > 0 {
        pieces.push(&text[start..]);
    }
    pieces
}

/// A number for a piece: the same for the same text, on every machine (FNV-1a).
pub fn hash(piece: &str) -> u64 {
    piece.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The earlier prompts, each with the reply that followed it.
#[derive(Debug, Default)]
pub struct PromptCache {
    seen: VecDeque<Vec<u64>>,
}

impl PromptCache {
    /// How many of `prompt`'s first tokens are known. The last one never counts: a real server has
    /// to evaluate it to go on from there.
    pub fn known(&self, prompt: &[u64]) -> usize {
        let common = |seen: &Vec<u64>| seen.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        self.seen
            .iter()
            .map(common)
            .max()
            .unwrap_or(0)
            .min(prompt.len().saturating_sub(1))
    }

    /// Keeps a prompt and the reply generated from it.
    pub fn keep(&mut self, evaluated: Vec<u64>) {
        // A prompt that only continues an earlier one replaces it, as in a server's slot.
        self.seen.retain(|seen| !evaluated.starts_with(seen));
        while self.seen.len() >= PROMPTS_KEPT_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(evaluated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_text() {
        for text in [
            "",
            " ",
            "a",
            "Hello  world, it's 12345678 \n{\"path\": \"g.txt\"}",
            "čaj ☕ über",
        ] {
            assert_eq!(pieces(text).concat(), text);
        }
        assert_eq!(
            pieces("say hello,  extraordinary"),
            ["say", " hello", ",", " ", " extraor", "dinary"]
        );
        assert_eq!(
            pieces("{\"path\": \"g\"}"),
            ["{", "\"", "path", "\":", " \"", "g", "\"", "}"]
        );
    }

    #[test]
    fn cache_counts_the_common_beginning() {
        let mut cache = PromptCache::default();
        assert_eq!(cache.known(&[1, 2, 3]), 0);
        cache.keep(vec![1, 2, 3, 4]);
        assert_eq!(cache.known(&[1, 2, 3, 4, 5]), 4);
        assert_eq!(
            cache.known(&[1, 2, 3, 4]),
            3,
            "the last token is always evaluated"
        );
        assert_eq!(cache.known(&[1, 9, 3, 4]), 1);
        assert_eq!(cache.known(&[]), 0);
    }

    #[test]
    fn cache_is_bounded_and_drops_the_oldest() {
        let mut cache = PromptCache::default();
        for first in 0..=PROMPTS_KEPT_MAX as u64 {
            cache.keep(vec![first, 7]);
        }
        assert_eq!(cache.seen.len(), PROMPTS_KEPT_MAX);
        assert_eq!(cache.known(&[0, 7, 7]), 0);
        assert_eq!(cache.known(&[1, 7, 7]), 2);
    }
}
