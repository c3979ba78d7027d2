//! What of a turn or an edit is sent: neutralised, split, refused once more. Pure; called when something is
//! decided (is there too much of it, a key in it?) and again when it is sent.

use bxsanitize::{Outcome, Refuser};
use bxwire::ItemId;

use super::{
    config::HonchoConfig,
    decide::{Content, Who},
    naming,
    request::Message,
};
use crate::{edit::Change, logs::Turn};

/// Longest message Honcho takes, in characters.
/// Source: recorded, `crates/honcho-local/fixtures/recorded/20-messages-too-long.json`.
pub const MESSAGE_CHARS_MAX: usize = 25_000;
/// Most parts a turn may have; Honcho takes as many messages in one request.
pub const TURN_PARTS_MAX: usize = 100;
/// Longest text that is neutralised at all, in characters: more parts than a turn may have.
const TEXT_CHARS_MAX: usize = MESSAGE_CHARS_MAX * (TURN_PARTS_MAX + 1);

/// What a turn's texts are, as far as a decision needs to know. `known`: whether Honcho gave this id for something that
/// was sent there.
#[must_use]
pub fn content(turn: &Turn, refuser: &Refuser, known: impl Fn(&str) -> bool) -> Content {
    if turn.purged {
        return Content::Purged;
    }
    if turn.text.trim().is_empty() || turn.reply.trim().is_empty() {
        return Content::Empty;
    }
    match refuser.check_joined(&[&turn.text, &turn.reply]) {
        Outcome::Secret(_) => return Content::Secret,
        Outcome::MaybeSecret => {
            let without = [&turn.text, &turn.reply].map(|text| without_ids(text, &known));
            let without = without.each_ref().map(String::as_str);
            if refuser.check_joined(&without) != Outcome::Clear {
                return Content::MaybeSecret;
            }
        }
        Outcome::Clear => {}
    }
    let (words, reply) = (clean(&turn.text), clean(&turn.reply));
    if words.trim().is_empty() || reply.trim().is_empty() {
        return Content::Empty;
    }
    let chars = words.chars().count() + reply.chars().count();
    // Splitting loses nothing, so only a long turn needs counting.
    if chars > MESSAGE_CHARS_MAX && split(&words).len() + split(&reply).len() > TURN_PARTS_MAX {
        return Content::TooLong;
    }
    Content::Plain
}

/// Characters of an id that Honcho made.
const HONCHO_ID_CHARS: usize = 21;

/// A text without the ids that recall shows (`fleet:` and one of Honcho's, and the like), and without those that stand
/// alone and are known: they look like keys, and a turn that quotes one is no secret.
fn without_ids(text: &str, known: impl Fn(&str) -> bool) -> String {
    let of_id = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_word = false;
    while let Some(begin) = rest.find(of_id) {
        let (between, from) = rest.split_at(begin);
        let (word, after) = from.split_at(from.find(|c| !of_id(c)).unwrap_or(from.len()));
        let named = after_word && between == ":" && word.len() == HONCHO_ID_CHARS;
        after_word = !named && !known(word);
        kept.push_str(between);
        if after_word {
            kept.push_str(word);
        }
        rest = after;
    }
    kept + rest
}

/// Whose words a turn is, and the peer they come from.
#[must_use]
pub fn who(turn: &Turn, config: &HonchoConfig) -> (Who, Option<String>) {
    let Some(speaker) = &turn.speaker else {
        return (Who::Nobody, None);
    };
    if config.excludes(Some(speaker), Some(&turn.source)) {
        return (Who::Excluded, None);
    }
    match naming::peer(config, speaker) {
        Some(peer) => (Who::Known, Some(peer)),
        None => (Who::Unnameable, None),
    }
}

/// A turn's messages: the speaker's words, then the agent's reply, each in parts.
#[must_use]
pub fn messages(turn: &Turn, peer: &str, agent: &str) -> Vec<Message> {
    let item = ItemId::Turn {
        session: turn.session.clone(),
        turn: turn.turn,
    };
    let words = split(&clean(&turn.text))
        .into_iter()
        .map(|part| (peer, part, &turn.said_at));
    let reply = split(&clean(&turn.reply))
        .into_iter()
        .map(|part| (agent, part, &turn.ended_at));
    words
        .chain(reply)
        .enumerate()
        .map(|(part, (peer, content, at))| Message {
            item: item.clone(),
            part,
            name: item.to_string(),
            peer: peer.into(),
            // Again: a cut can leave a marker at a part's edge that was harmless inside.
            content: clean(&content),
            created_at: at.clone(),
            origin: Some((turn.session.clone(), turn.turn)),
            retracts: None,
        })
        .collect()
}

/// The text that a change has Honcho hold; `None` for one that only takes something out, and for a card.
#[must_use]
pub fn new_text(change: &Change) -> Option<&str> {
    match change {
        Change::Kept { text, .. } | Change::Restored { text, .. } => Some(text),
        _ => change.new_text(),
    }
}

/// The lines that a change puts on the owner's card.
#[must_use]
pub fn new_card(change: &Change) -> Option<&[String]> {
    match change {
        Change::Carded { after, .. } => Some(&after.lines),
        _ => None,
    }
}

/// A text as it is stored by others.
#[must_use]
pub fn clean(text: &str) -> String {
    bxsanitize::neutralise(text, TEXT_CHARS_MAX)
}

/// Cuts a text into parts that fit a message, each at the last place a reader would choose: a blank line, a
/// line's end, a sentence's end, a space. The parts together are the text.
#[must_use]
pub fn split(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((limit, _)) = rest.char_indices().nth(MESSAGE_CHARS_MAX) {
        let window = &rest[..limit];
        // Not in the first half: a tiny part is no better to read than a hard cut.
        let floor = window.len() / 2;
        let cut = ["\n\n", "\n", ". ", " "]
            .iter()
            .filter_map(|mark| window.rfind(mark).map(|at| at + mark.len()))
            .find(|cut| *cut > floor)
            .unwrap_or(limit);
        parts.push(rest[..cut].to_owned());
        rest = &rest[cut..];
    }
    if !rest.is_empty() {
        parts.push(rest.to_owned());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_and_together_are_the_text() {
        let texts = [
            "short".to_owned(),
            "é".repeat(MESSAGE_CHARS_MAX * 2 + 1),
            "word ".repeat(20_000),
            format!("{}\n\n{}", "a".repeat(20_000), "b".repeat(20_000)),
        ];
        for text in texts {
            let parts = split(&text);
            assert_eq!(parts.concat(), text);
            assert!(
                parts
                    .iter()
                    .all(|part| part.chars().count() <= MESSAGE_CHARS_MAX)
            );
        }
        assert!(split("").is_empty());
    }

    #[test]
    fn an_id_that_recall_shows_is_no_key_and_a_key_beside_it_still_is() {
        let id = "4YUGjWGoXRV0ttPWSwC34";
        let refuser = Refuser::new(&[]);
        let quoted = format!("the note fleet:{id} is nice");
        assert_eq!(refuser.check(&quoted), Outcome::MaybeSecret);
        let nobody = |_: &str| false;
        assert_eq!(refuser.check(&without_ids(&quoted, nobody)), Outcome::Clear);
        for kept in [
            id.to_owned(),
            format!("key: {id}"),
            format!("key:{id}x9"),
            format!("fleet:{id} and {id}"),
        ] {
            assert_eq!(
                refuser.check(&without_ids(&kept, nobody)),
                Outcome::MaybeSecret,
                "{kept}"
            );
        }
    }

    #[test]
    fn only_the_very_id_that_is_known_is_no_key() {
        let id = "4YUGjWGoXRV0ttPWSwC34";
        let refuser = Refuser::new(&[]);
        let known = |word: &str| word == id;
        for text in [
            id.to_owned(),
            format!("e1 is `{id}`, fleet:{id}"),
            format!("e1 is at {id}/{id}; {id}."),
        ] {
            assert_eq!(
                refuser.check(&without_ids(&text, known)),
                Outcome::Clear,
                "{text}"
            );
        }
        for text in [
            format!("{id}x9"),
            format!("-{id}"),
            id.to_lowercase().replace('w', "W"),
            format!("{id} 5ZVHkXHpYSW1uuQXTxD45"),
        ] {
            assert_eq!(
                refuser.check(&without_ids(&text, known)),
                Outcome::MaybeSecret,
                "{text}"
            );
        }
    }

    #[test]
    fn a_reader_would_cut_there() {
        let text = format!("{}. {}", "a".repeat(20_000), "b ".repeat(10_000));
        assert!(split(&text)[0].ends_with(". ") || split(&text)[0].ends_with(' '));
        let blank = format!("{}\n\n{}", "a b ".repeat(5_000), "b".repeat(20_000));
        assert!(split(&blank)[0].ends_with("\n\n"));
    }
}
