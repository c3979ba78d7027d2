//! How many chats run at a time: each keeps a model busy, whoever asked. Used by `chat`; waits no longer than told.

use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Chats at a time, of all calls together.
pub const CHATS_MAX: usize = 2;

/// How many chats run, of all calls together.
#[derive(Default)]
pub struct Slots {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// One of them, free again when dropped.
pub struct Slot<'a>(&'a Slots);

impl Slots {
    /// `None`: none became free in time, or nobody waits any more.
    pub fn take(&self, end: Instant, over: &AtomicBool) -> Option<Slot<'_>> {
        let mut taken = self.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if over.load(Ordering::SeqCst) || left == Duration::ZERO {
                return None;
            }
            if *taken < CHATS_MAX {
                *taken += 1;
                return Some(Slot(self));
            }
            let waited = self.freed.wait_timeout(taken, left);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
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
        *self.0.lock() -= 1;
        self.0.freed.notify_all();
    }
}
