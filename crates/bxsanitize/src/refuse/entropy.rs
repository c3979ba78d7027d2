//! Finds runs that look random though no format is known. Called by `refuse`; never names anything.

/// Shortest run that counts, in characters.
pub const RUN_CHARS_MIN: usize = 20;
/// Shannon entropy of a run's characters from which it looks random, in bits a character.
pub const ENTROPY_BITS_MIN: f64 = 3.6;
/// Shortest run that counts when it holds slashes, as paths do; it must also change between capital,
/// small letter and digit at least at every second character, as paths do not.
pub const SLASHED_RUN_CHARS_MIN: usize = 32;

/// True if the text has a run of both cases and digits with the entropy of a key. Identifiers in one
/// case (hashes, UUIDs, session and post ids) are none.
#[must_use]
pub fn looks_random(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+');
    let slashed = |b: u8| plain(b) || matches!(b, b'/' | b'=');
    text.as_bytes()
        .split(|b| !slashed(*b))
        .filter(|run| run.len() >= RUN_CHARS_MIN)
        .any(|run| {
            run.split(|b| !plain(*b))
                .any(|part| part.len() >= RUN_CHARS_MIN && is_random(part))
                || (run.len() >= SLASHED_RUN_CHARS_MIN
                    && is_random(run)
                    && kind_changes(run) * 2 >= run.len())
        })
}

fn is_random(run: &[u8]) -> bool {
    run.iter().any(u8::is_ascii_uppercase)
        && run.iter().any(u8::is_ascii_lowercase)
        && run.iter().any(u8::is_ascii_digit)
        && entropy_bits(run) >= ENTROPY_BITS_MIN
}

fn entropy_bits(run: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    run.iter().for_each(|b| counts[usize::from(*b)] += 1);
    let total = run.len() as f64;
    counts
        .iter()
        .filter(|n| **n > 0)
        .map(|n| f64::from(*n) / total)
        .map(|p| -p * p.log2())
        .sum()
}

fn kind_changes(run: &[u8]) -> usize {
    let kind = |b: u8| match b {
        b'A'..=b'Z' => 0,
        b'a'..=b'z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    run.windows(2)
        .filter(|pair| kind(pair[0]) != kind(pair[1]))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_and_identifiers_do_not() {
        let key: String = (0..40_u32)
            .map(|n| char::from(b"aZ3kQ9xLm2Vt7RcW"[(n * 7 % 16) as usize]))
            .collect();
        let rows = [
            (key.clone(), true),
            (format!("{}/{}", &key[..17], &key[17..34]), true),
            (key[..19].to_owned(), false),
            (key.to_ascii_lowercase(), false),
            ("20260131-k3j9x0q2m4zt".to_owned(), false),
            ("550e8400-e29b-41d4-a716-446655440000".to_owned(), false),
            (
                "crates/BxSanitize2/src/Neutralise/Defang3.rs".to_owned(),
                false,
            ),
            ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAa1".to_owned(), false),
        ];
        for (text, want) in rows {
            assert_eq!(looks_random(&format!("see {text}, ok")), want, "{text}");
        }
    }
}
