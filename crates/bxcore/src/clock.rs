//! The time, as Boxmaker writes it: UTC, RFC 3339, milliseconds. Cores take these values and never ask.

use jiff::Timestamp;

/// Milliseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub i64);

impl serde::Serialize for Millis {
    fn serialize<S: serde::Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Millis {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(input)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}

impl Millis {
    /// Now, by the system's clock.
    #[must_use]
    pub fn now() -> Self {
        Self(Timestamp::now().as_millisecond())
    }

    /// Reads RFC 3339; `None` when it is not that.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<Timestamp>()
            .ok()
            .map(|at| Self(at.as_millisecond()))
    }

    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from an earlier time to this one; 0 when it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// `YYYYMMDD`, for session ids.
    #[must_use]
    pub fn date(self) -> String {
        self.to_string()
            .chars()
            .take(10)
            .filter(char::is_ascii_digit)
            .collect()
    }
}

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::UNIX_EPOCH);
        write!(f, "{at:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_back_to_the_millisecond() {
        let at = Millis(1_769_853_600_007);
        assert_eq!(at.to_string(), "2026-01-31T10:00:00.007Z");
        assert_eq!(Millis::parse(&at.to_string()), Some(at));
        assert_eq!(at.date(), "20260131");
    }
}
