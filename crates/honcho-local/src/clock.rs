//! Times as Honcho reads and writes them, and the ids it makes up. Used by the store and by every
//! handler that takes a `created_at`; reads the system clock in one place, `now`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use serde_json::Value;

/// Microseconds since 1970, the finest Honcho keeps.
pub type Micros = i64;

/// Length of a message's or conclusion's id.
const ID_CHARS: usize = 21;
const ID_ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/// Numbers above this are milliseconds, below it seconds.
const SECONDS_MAX: f64 = 2e10;

pub fn now() -> Micros {
    Timestamp::now().as_microsecond()
}

/// `2026-03-01T10:00:00Z`, with six decimals only when they are not all zero.
pub fn show(at: Micros) -> String {
    match Timestamp::from_microsecond(at) {
        Ok(stamp) => format!("{}Z", civil(Offset::UTC.to_datetime(stamp))),
        Err(_) => String::from("1970-01-01T00:00:00Z"),
    }
}

/// `2026-03-01 10:00:00`, as representations and answers print it.
pub fn show_plain(at: Micros) -> String {
    show(at)
        .chars()
        .take(19)
        .map(|c| if c == 'T' { ' ' } else { c })
        .collect()
}

fn civil(at: DateTime) -> String {
    let whole = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        at.year(),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    );
    match at.subsec_nanosecond() / 1_000 {
        0 => whole,
        micros => format!("{whole}.{micros:06}"),
    }
}

/// A time that was sent: the instant, and the text that the answer to a message POST repeats (which
/// keeps the sender's offset, or the lack of one).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub at: Micros,
    pub echo: String,
}

/// Reads an ISO 8601 text or a number of seconds or milliseconds. `None`: not a time.
pub fn parse(value: &Value) -> Option<Sent> {
    match value {
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(number) => from_number(number),
            Err(_) => from_text(text.trim()),
        },
        Value::Number(number) => from_number(number.as_f64()?),
        _ => None,
    }
}

fn from_number(number: f64) -> Option<Sent> {
    let seconds = if number.abs() > SECONDS_MAX {
        number / 1_000.0
    } else {
        number
    };
    let micros = seconds * 1e6;
    if !micros.is_finite() || micros.abs() > 2.5e17 {
        return None;
    }
    let at = micros.round() as i64;
    Timestamp::from_microsecond(at).ok()?;
    Some(Sent { at, echo: show(at) })
}

fn from_text(text: &str) -> Option<Sent> {
    let pieces = Pieces::parse(text).ok()?;
    if pieces.time_zone_annotation().is_some() {
        return None;
    }
    let time = pieces.time().unwrap_or(jiff::civil::Time::midnight());
    let nanos = time.subsec_nanosecond() / 1_000 * 1_000;
    let time = jiff::civil::Time::new(time.hour(), time.minute(), time.second(), nanos).ok()?;
    let local = pieces.date().to_datetime(time);
    let offset = pieces.to_numeric_offset();
    let stamp = offset.unwrap_or(Offset::UTC).to_timestamp(local).ok()?;
    let zone = match offset {
        None => String::new(),
        Some(offset) if offset.seconds() == 0 => String::from("Z"),
        Some(offset) => {
            let minutes = offset.seconds() / 60;
            let sign = if minutes < 0 { '-' } else { '+' };
            format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
        }
    };
    Some(Sent {
        at: stamp.as_microsecond(),
        echo: format!("{}{zone}", civil(local)),
    })
}

/// A new id: 21 characters of a 64-letter alphabet.
///
/// # Errors
/// The system has no randomness to give; the call is answered as an unexpected error.
pub fn new_id() -> Result<String, crate::errors::Refusal> {
    let mut bytes = [0_u8; ID_CHARS];
    getrandom::fill(&mut bytes).map_err(|_| crate::errors::Refusal::unexpected())?;
    Ok(bytes
        .iter()
        .map(|byte| char::from(ID_ALPHABET[usize::from(byte % 64)]))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_sent() {
        let rows = [
            (
                json!("2026-03-01T10:00:00Z"),
                "2026-03-01T10:00:00Z",
                "2026-03-01T10:00:00Z",
            ),
            (
                json!("2026-03-01T10:00:00+02:00"),
                "2026-03-01T10:00:00+02:00",
                "2026-03-01T08:00:00Z",
            ),
            (
                json!("2026-03-01T10:00:00"),
                "2026-03-01T10:00:00",
                "2026-03-01T10:00:00Z",
            ),
            (
                json!("2026-03-01T10:00:00.1234567Z"),
                "2026-03-01T10:00:00.123456Z",
                "2026-03-01T10:00:00.123456Z",
            ),
            (
                json!(1_772_359_200),
                "2026-03-01T10:00:00Z",
                "2026-03-01T10:00:00Z",
            ),
            (
                json!(1_772_359_200_000_i64),
                "2026-03-01T10:00:00Z",
                "2026-03-01T10:00:00Z",
            ),
            (
                json!("0001-01-01T00:00:00Z"),
                "0001-01-01T00:00:00Z",
                "0001-01-01T00:00:00Z",
            ),
            (
                json!("2099-12-31T23:59:59Z"),
                "2099-12-31T23:59:59Z",
                "2099-12-31T23:59:59Z",
            ),
        ];
        for (sent, echo, stored) in rows {
            let parsed = parse(&sent).unwrap_or_else(|| panic!("{sent}"));
            assert_eq!(parsed.echo, echo, "{sent}");
            assert_eq!(show(parsed.at), stored, "{sent}");
        }
        for bad in [json!("yesterday"), json!(true), json!({}), json!("")] {
            assert_eq!(parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn ids_are_21_of_the_alphabet() {
        let id = new_id().expect("randomness");
        assert_eq!(id.len(), 21);
        assert!(id.bytes().all(|byte| ID_ALPHABET.contains(&byte)));
    }
}
