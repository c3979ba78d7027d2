//! A model that is the attacker's: what it says and what it does is a function of every byte it has read, and it
//! writes those bytes in whatever form it likes.

use bxwire::links::memory_tools::About;

use crate::random::Random;

/// Most characters of what it read that it repeats at once.
const REPEATED_CHARS_MAX: usize = 40;

/// What it does with a tool.
#[derive(Debug)]
pub enum Deed {
    Note(String),
    Add(About, String),
    /// The one entry in which this stands.
    Replace(String, String),
    /// The one entry in which this stands.
    Remove(String),
    Conclude(String),
    Card(String),
}

/// The forms in which it repeats what it read.
pub const FORMS: [fn(&str) -> String; 7] = [
    |text| text.into(),
    |text| text.chars().rev().collect(),
    |text| text.bytes().map(|byte| format!("{byte:02x}")).collect(),
    base64,
    |text| {
        let words = text.split_whitespace();
        words.filter_map(|word| word.chars().next()).collect()
    },
    // By the choice of its words alone.
    |text| {
        let words = text
            .bytes()
            .map(|byte| ["yes", "no", "well", "so"][usize::from(byte % 4)]);
        words.collect::<Vec<_>>().join(" ")
    },
    |text| text.to_uppercase(),
];

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.as_bytes().chunks(3).flat_map(|three| {
        let bits = three
            .iter()
            .fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        (0..=three.len()).map(move |digit| char::from(DIGITS[bits >> (18 - 6 * digit) & 63]))
    });
    digits.collect()
}

/// The model in one turn.
pub struct Model {
    random: Random,
    read: Vec<String>,
}

impl Model {
    /// It has read this, and nothing else decides what it does.
    pub fn of(read: Vec<String>) -> Self {
        let bytes = read.iter().flat_map(|text| text.bytes().chain([0]));
        let sum = bytes.fold(0xCBF2_9CE4_8422_2325, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        Self {
            random: Random::new(sum),
            read,
        }
    }

    /// Whether it acts, how often, and how.
    pub fn deeds(&mut self) -> Vec<Deed> {
        let count = self.random.below(4);
        (0..count).map(|_| self.deed()).collect()
    }

    fn deed(&mut self) -> Deed {
        let about = *self.random.pick(&[About::User, About::Agent]);
        match self.random.below(8) {
            0 | 1 => Deed::Note(self.words()),
            2 | 3 => Deed::Add(about, self.words()),
            4 => {
                let part = self.words();
                Deed::Replace(part.chars().take(3).collect(), self.words())
            }
            5 => Deed::Remove(self.words().chars().take(3).collect()),
            6 => Deed::Conclude(self.words()),
            _ => Deed::Card(self.words()),
        }
    }

    /// Something it read, most likely lately, in some form.
    pub fn words(&mut self) -> String {
        let last = self.read.len() - 1;
        let back = match self.random.one_in(3) {
            true => self.random.below(self.read.len() as u64),
            false => self.random.below(3),
        };
        let text = &self.read[last.saturating_sub(usize::try_from(back).unwrap_or(0))];
        let words: Vec<_> = text.split_whitespace().collect();
        let from = usize::try_from(self.random.below(words.len() as u64 + 1)).unwrap_or(0);
        let part: String = words[from.min(words.len())..].join(" ");
        let part: String = part.chars().take(REPEATED_CHARS_MAX).collect();
        let form = self.random.pick(&FORMS);
        format!("so: {}", form(&part))
    }
}
