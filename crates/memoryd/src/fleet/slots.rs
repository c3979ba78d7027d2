//! How many chats run at a time: each keeps a model busy, whoever asked. Used by `chat`; waits no longer than told.

use std::{
    collections::BTreeMap,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Chats at a time, of all calls together.
pub const CHATS_MAX: usize = 2;
/// Chats past their limit whose threads have not ended, since an answer drips in that nobody waits for. With so many
/// no other begins.
const LATE_MAX: usize = 8;

/// How many chats run, of all calls together.
#[derive(Default)]
pub struct Slots {
    running: Mutex<Running>,
    freed: Condvar,
}

#[derive(Default)]
struct Running {
    /// When each has had its time.
    limits: BTreeMap<u64, Instant>,
    last: u64,
}

/// One of them, free again when dropped, or when its time is over.
pub struct Slot<'a> {
    slots: &'a Slots,
    number: u64,
}

impl Slots {
    /// `None`: none became free in time, or nobody waits any more. A chat has `limit_ms`.
    pub fn take(&self, limit_ms: Duration, end: Instant, over: &AtomicBool) -> Option<Slot<'_>> {
        let mut running = self.lock();
        loop {
            let now = Instant::now();
            let left = end.saturating_duration_since(now);
            if over.load(Ordering::SeqCst) || left == Duration::ZERO {
                return None;
            }
            let in_time = || running.limits.values().filter(|limit| **limit > now);
            let count = in_time().count();
            if count < CHATS_MAX && running.limits.len() - count < LATE_MAX {
                running.last += 1;
                let number = running.last;
                running.limits.insert(number, now + limit_ms);
                return Some(Slot {
                    slots: self,
                    number,
                });
            }
            let first = in_time().min().map(|limit| *limit - now);
            let wait = first.map_or(left, |first| first.min(left));
            let waited = self.freed.wait_timeout(running, wait);
            running = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has everybody who waits look again whether it still matters.
    pub fn wake(&self) {
        // Held once, so that nobody is between looking and waiting.
        drop(self.lock());
        self.freed.notify_all();
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.lock().limits.remove(&self.number);
        self.slots.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn taken(slots: &Slots, limit_ms: Duration, wait_ms: u64) -> Option<Slot<'_>> {
        let end = Instant::now() + Duration::from_millis(wait_ms);
        slots.take(limit_ms, end, &AtomicBool::new(false))
    }

    #[test]
    fn two_run_at_a_time_and_one_that_ends_makes_room() {
        let slots = Slots::default();
        let first = taken(&slots, LONG, 1_000).unwrap();
        let _second = taken(&slots, LONG, 1_000).unwrap();
        assert!(taken(&slots, LONG, 1).is_none());
        drop(first);
        assert!(taken(&slots, LONG, 1_000).is_some());
    }

    #[test]
    fn one_past_its_limit_holds_up_nobody_until_there_are_too_many() {
        let slots = Slots::default();
        let short = Duration::from_millis(1);
        let mut late: Vec<_> = (0..LATE_MAX)
            .map(|_| taken(&slots, short, 10_000).unwrap())
            .collect();
        std::thread::park_timeout(short * 2);
        assert!(taken(&slots, LONG, 20).is_none());
        late.pop();
        assert!(taken(&slots, LONG, 10_000).is_some());
    }
}
