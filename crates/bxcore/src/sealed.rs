//! A JSON line with a checksum as its last member, so that a changed bit on the disk is found. Used for
//! memoryd's journal and ledger and for brokerd's labels.

/// A line whose checksum is missing or does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its checksum does not fit")]
pub struct BrokenSeal;

const MEMBER: &str = ",\"crc\":\"";
/// `xxxxxxxx"}` after the member's name.
const TAIL_BYTES: usize = 10;

/// Adds the checksum to a JSON object.
#[must_use]
pub fn seal(object: &str) -> String {
    let open = object.strip_suffix('}').unwrap_or(object);
    format!("{open}{MEMBER}{:08x}\"}}", crc32fast::hash(open.as_bytes()))
}

/// Whether a line has a checksum at all, whether or not it fits: in a text a quotation mark has a backslash before it.
#[must_use]
pub fn is_sealed(line: &str) -> bool {
    line.contains(MEMBER)
}

/// Checks a line's checksum. The line itself, checksum included, is the JSON to read.
///
/// # Errors
/// [`BrokenSeal`]: the line is not what was written.
pub fn check(line: &str) -> Result<(), BrokenSeal> {
    let cut = line
        .len()
        .checked_sub(TAIL_BYTES + MEMBER.len())
        .ok_or(BrokenSeal)?;
    let (open, seal) = line.split_at_checked(cut).ok_or(BrokenSeal)?;
    let stored = seal
        .strip_prefix(MEMBER)
        .and_then(|rest| rest.strip_suffix("\"}"))
        .ok_or(BrokenSeal)?;
    let wanted = u32::from_str_radix(stored, 16).map_err(|_| BrokenSeal)?;
    if crc32fast::hash(open.as_bytes()) == wanted {
        Ok(())
    } else {
        Err(BrokenSeal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_is_found() {
        let sealed = seal(r#"{"type":"opened","n":1}"#);
        check(&sealed).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&sealed).is_ok());
        for at in 0..sealed.len() * 8 {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at / 8] ^= 1 << (at % 8);
            if let Ok(changed) = String::from_utf8(bytes) {
                // The checksum's own letters may change case without harm.
                let same = changed.eq_ignore_ascii_case(&sealed) && at / 8 >= sealed.len() - 10;
                assert!(same || check(&changed).is_err(), "bit {at}");
            }
        }
    }

    #[test]
    fn a_line_without_a_seal_is_broken() {
        for line in ["", "{}", r#"{"a":1}"#, r#"{"crc":"00000000"}"#] {
            assert_eq!(check(line), Err(BrokenSeal), "{line}");
            assert!(!is_sealed(line));
        }
    }
}
