//! A condition that peers can repeat as often as they like, and what of it is logged: its start, and a count at
//! intervals and at its end. Used by `listen`; takes the time as a value and logs nothing itself.

use std::time::{Duration, Instant};

/// How long the condition stays away until it counts as ended, and the least time between two counts.
pub const QUIET_MS_MAX: Duration = Duration::from_secs(60);

/// What is to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// It begins.
    Began,
    /// It happened this many more times than was logged, and goes on.
    More(u64),
    /// It has ended, after this many more times.
    Ended(u64),
}

/// One condition of one link.
#[derive(Debug, Default)]
pub struct Repeated {
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    said: Instant,
    last: Instant,
    unsaid: u64,
}

impl Repeated {
    /// It happened.
    pub fn happened(&mut self, now: Instant) -> Option<Word> {
        match &mut self.run {
            Some(run) if now.duration_since(run.last) < QUIET_MS_MAX => {
                run.last = now;
                run.unsaid += 1;
                if now.duration_since(run.said) < QUIET_MS_MAX {
                    return None;
                }
                run.said = now;
                Some(Word::More(std::mem::take(&mut run.unsaid)))
            }
            _ => {
                self.run = Some(Run {
                    said: now,
                    last: now,
                    unsaid: 0,
                });
                Some(Word::Began)
            }
        }
    }

    /// Something else happened on the link: is the condition over?
    pub fn passed(&mut self, now: Instant) -> Option<Word> {
        let run = self.run.as_ref()?;
        if now.duration_since(run.last) < QUIET_MS_MAX {
            return None;
        }
        self.ended()
    }

    /// The link is closed, or the condition is over.
    pub fn ended(&mut self) -> Option<Word> {
        let unsaid = self.run.take()?.unsaid;
        (unsaid > 0).then_some(Word::Ended(unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_start_is_said_then_counts_at_intervals_and_at_its_end() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut frames = Repeated::default();
        assert_eq!(frames.passed(at(0)), None);
        assert_eq!(frames.happened(at(0)), Some(Word::Began));
        let said: Vec<_> = (1..150)
            .filter_map(|second| frames.happened(at(second)))
            .collect();
        assert_eq!(said, [Word::More(60), Word::More(60)]);
        assert_eq!(frames.passed(at(160)), None);
        assert_eq!(frames.passed(at(209)), Some(Word::Ended(29)));
        assert_eq!(frames.ended(), None);
    }

    #[test]
    fn once_is_one_word() {
        let start = Instant::now();
        let mut frames = Repeated::default();
        assert_eq!(frames.happened(start), Some(Word::Began));
        assert_eq!(frames.ended(), None);
        assert_eq!(frames.happened(start), Some(Word::Began));
        // It came back after a silence in which nothing else happened.
        assert_eq!(frames.happened(start + QUIET_MS_MAX), Some(Word::Began));
    }
}
