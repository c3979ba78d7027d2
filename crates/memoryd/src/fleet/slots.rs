//! How many chats run at a time: each keeps a model busy, whoever asked. Used by `chat`; waits no longer than told.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Chats at a time, of all calls together.
pub const CHATS_MAX: usize = 2;
/// Chats that nobody waits for any more and whose threads have not ended: past their limit, or of a call that was
/// stopped. With so many no other begins.
const LATE_MAX: usize = 8;

/// How many chats run, of all calls together.
#[derive(Default)]
pub struct Slots {
    running: Mutex<Running>,
    freed: Condvar,
}

#[derive(Default)]
struct Running {
    chats: BTreeMap<u64, Chat>,
    last: u64,
}

struct Chat {
    /// When it has had its time.
    limit: Instant,
    /// Whether its call is over.
    over: Arc<AtomicBool>,
}

/// One of them, free again when dropped, or when its time or its call is over.
pub struct Slot<'a> {
    slots: &'a Slots,
    number: u64,
}

impl Slots {
    /// `None`: none became free in time, or nobody waits any more. A chat has `limit_ms`.
    pub fn take(
        &self,
        limit_ms: Duration,
        end: Instant,
        over: &Arc<AtomicBool>,
    ) -> Option<Slot<'_>> {
        let mut running = self.lock();
        loop {
            let now = Instant::now();
            let left = end.saturating_duration_since(now);
            if over.load(Ordering::SeqCst) || left == Duration::ZERO {
                return None;
            }
            let in_time = || {
                let chats = running.chats.values();
                chats.filter(|chat| chat.limit > now && !chat.over.load(Ordering::SeqCst))
            };
            let count = in_time().count();
            if count < CHATS_MAX && running.chats.len() - count < LATE_MAX {
                running.last += 1;
                let number = running.last;
                let chat = Chat {
                    limit: now + limit_ms,
                    over: Arc::clone(over),
                };
                running.chats.insert(number, chat);
                return Some(Slot {
                    slots: self,
                    number,
                });
            }
            let first = in_time().map(|chat| chat.limit - now).min();
            let wait = first.map_or(left, |first| first.min(left));
            let waited = self.freed.wait_timeout(running, wait);
            running = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has everybody who waits look again: whether it still matters, and what a call that is over left free.
    pub fn wake(&self) {
        // Held once, so that nobody is between looking and waiting.
        drop(self.lock());
        self.freed.notify_all();
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.lock().chats.remove(&self.number);
        self.slots.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn taken(slots: &Slots, limit_ms: Duration, wait_ms: u64) -> Option<Slot<'_>> {
        let end = Instant::now() + Duration::from_millis(wait_ms);
        slots.take(limit_ms, end, &Arc::default())
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
    fn a_call_that_is_over_leaves_its_places_to_others_until_there_are_too_many() {
        let slots = Slots::default();
        let end = Instant::now() + LONG;
        let mut stopped = Vec::new();
        for _ in 0..LATE_MAX / CHATS_MAX {
            let over = Arc::default();
            let both = [(); CHATS_MAX].map(|()| slots.take(LONG, end, &over).unwrap());
            assert!(taken(&slots, LONG, 1).is_none());
            over.store(true, Ordering::SeqCst);
            slots.wake();
            stopped.push(both);
        }
        // Their threads are still there, and have a bound.
        assert!(taken(&slots, LONG, 20).is_none());
        stopped.pop();
        assert!(taken(&slots, LONG, 10_000).is_some());
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
