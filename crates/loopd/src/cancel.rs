//! The end of a turn before its time: asked for by one thread, felt by another wherever it waits. Used by
//! `serve`, `turn`, `model` and `broker`; it never ends anything by itself.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The client hung up or asked for it.
    Client,
    /// The daemon stops.
    Stopping,
}

type Hook = Box<dyn FnOnce() + Send>;

/// Clones are the same cancellation.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    reason: Option<Reason>,
    hooks: BTreeMap<u64, Hook>,
    next: u64,
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cancel({:?})", self.reason())
    }
}

impl Cancel {
    /// Cancels, once; the first reason stays. Hooks run on this thread.
    pub fn cancel(&self, reason: Reason) {
        let hooks = {
            let mut state = self.lock();
            if state.reason.is_some() {
                return;
            }
            state.reason = Some(reason);
            std::mem::take(&mut state.hooks)
        };
        self.0.changed.notify_all();
        for hook in hooks.into_values() {
            hook();
        }
    }

    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.lock().reason
    }

    /// Waits that long; true as soon as it is cancelled.
    #[must_use]
    pub fn wait(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.reason.is_some() || left.is_zero() {
                return state.reason.is_some();
            }
            state = self
                .0
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Has `hook` run when it is cancelled, at once if it is already; dropping the guard takes it back.
    #[must_use]
    pub fn hook(&self, hook: impl FnOnce() + Send + 'static) -> Hooked {
        let mut state = self.lock();
        if state.reason.is_some() {
            drop(state);
            hook();
            return Hooked {
                cancel: self.clone(),
                number: None,
            };
        }
        let number = state.next;
        state.next += 1;
        state.hooks.insert(number, Box::new(hook));
        Hooked {
            cancel: self.clone(),
            number: Some(number),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes its hook back when dropped.
#[derive(Debug)]
pub struct Hooked {
    cancel: Cancel,
    number: Option<u64>,
}

impl Drop for Hooked {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.cancel.lock().hooks.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn hooks_run_once_and_not_after_their_guard() {
        let count = Arc::new(AtomicU32::new(0));
        let add = || {
            let count = Arc::clone(&count);
            move || {
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        let cancel = Cancel::default();
        drop(cancel.hook(add()));
        let _kept = cancel.hook(add());
        cancel.cancel(Reason::Client);
        cancel.cancel(Reason::Stopping);
        assert_eq!(count.load(Ordering::SeqCst), 1);
        let _late = cancel.hook(add());
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert_eq!(cancel.reason(), Some(Reason::Client));
    }

    #[test]
    fn a_wait_ends_with_the_cancellation() {
        let cancel = Cancel::default();
        assert!(!cancel.wait(Duration::from_millis(1)));
        let other = cancel.clone();
        let thread = std::thread::spawn(move || other.wait(Duration::from_secs(60)));
        cancel.cancel(Reason::Client);
        assert!(thread.join().unwrap());
    }
}
