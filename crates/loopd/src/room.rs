//! How much of a long text a request still has room for, and the text cut to it. Called by `prompt`; takes values
//! only, and the same values always give the same bytes, since the server's cache depends on them.

/// A text up to this long is never cut for want of room, in characters.
const KEPT_CHARS_MIN: usize = 500;
/// Longest line that ends data from outside, in bytes.
const FENCE_BYTES_MAX: usize = 200;
/// What a message costs besides its text, in thirds of a token: its role, its marks, its call's number.
const MESSAGE_THIRDS: u64 = 3 * 16;

/// Room in a model's context, in thirds of a token.
///
/// No tokenizer is at hand, and another call to the server for each text would be slow: three letters count as a
/// token, and so does every sign of another kind. Most texts cost less, some (keys, other scripts) up to twice that.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    thirds: Option<u64>,
}

impl Room {
    /// What the reply leaves of a context. `None`: the server does not say how much it holds, and nothing is cut.
    #[must_use]
    pub fn of(context_tokens: Option<u64>, reply_tokens: u64) -> Self {
        let tokens = context_tokens.map(|tokens| tokens.saturating_sub(reply_tokens));
        Self {
            thirds: tokens.map(|tokens| tokens.saturating_mul(3)),
        }
    }

    /// What is left after a message, or a part of one, of these texts.
    pub fn spend<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        if let Some(thirds) = &mut self.thirds {
            let cost = texts.into_iter().flat_map(str::chars).map(thirds_of).sum();
            *thirds = thirds.saturating_sub(cost).saturating_sub(MESSAGE_THIRDS);
        }
    }

    /// The text, or as much of it as half of the room holds: the other half is for what comes after it, and for
    /// texts that cost more than they seem to.
    #[must_use]
    pub fn fit(self, text: String) -> String {
        let Some(thirds) = self.thirds else {
            return text;
        };
        let (mut left, mut kept) = (thirds / 2, 0);
        for c in text.chars() {
            let cost = thirds_of(c);
            if cost > left && kept >= KEPT_CHARS_MIN {
                return shorten(&text, kept);
            }
            left = left.saturating_sub(cost);
            kept += 1;
        }
        text
    }
}

/// As much of the text as is always kept.
#[must_use]
pub fn least(text: String) -> String {
    if text.chars().nth(KEPT_CHARS_MIN).is_some() {
        shorten(&text, KEPT_CHARS_MIN)
    } else {
        text
    }
}

fn shorten(text: &str, chars: usize) -> String {
    let end = text
        .char_indices()
        .nth(chars)
        .map_or(text.len(), |(at, _)| at);
    let all = text.chars().count();
    let fence = end_of_fence(&text[end..]);
    format!(
        "{}{fence}\n(cut: {chars} of {all} characters)",
        &text[..end]
    )
}

/// The line that ends data from outside, with the newline before it: data that is cut still ends where it ends.
fn end_of_fence(rest: &str) -> &str {
    rest.rfind('\n')
        .map(|at| &rest[at..])
        .filter(|line| line.starts_with("\n⟦/") && line.len() <= FENCE_BYTES_MAX)
        .unwrap_or_default()
}

fn thirds_of(c: char) -> u64 {
    if c.is_ascii_alphanumeric() || c == ' ' {
        1
    } else {
        3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_gets_half_of_what_is_left() {
        let room = Room::of(Some(10_000), 2_000);
        assert_eq!(room.fit("x".repeat(12_000)).len(), 12_000);
        let cut = room.fit("x".repeat(12_001));
        assert!(
            cut.ends_with("x\n(cut: 12000 of 12001 characters)"),
            "{cut}"
        );
        let cut = room.fit("č".repeat(5_000));
        assert!(cut.ends_with("č\n(cut: 4000 of 5000 characters)"), "{cut}");
    }

    #[test]
    fn a_short_text_is_whole_without_any_room() {
        let mut room = Room::of(Some(1_000), 2_000);
        room.spend(["x"]);
        assert_eq!(room.fit("<".repeat(500)), "<".repeat(500));
        assert!(
            room.fit("<".repeat(501))
                .ends_with("(cut: 500 of 501 characters)")
        );
        assert_eq!(least("<".repeat(500)), "<".repeat(500));
        assert!(least("<".repeat(501)).ends_with("(cut: 500 of 501 characters)"));
    }

    #[test]
    fn data_from_outside_ends_where_it_ended() {
        let text = format!("⟦text ab12⟧ inbox/a\n{}\n⟦/text ab12⟧", "x".repeat(600));
        let cut = least(text);
        let end = "x\n⟦/text ab12⟧\n(cut: 500 of 633 characters)";
        assert!(cut.ends_with(end), "{cut}");
    }

    #[test]
    fn nothing_is_cut_for_a_server_that_does_not_say_its_size() {
        let text = "<".repeat(300_000);
        assert_eq!(Room::of(None, 2_000).fit(text.clone()), text);
    }
}
