//! The client of a workspace that calls are made with: replaced when there is a new key, while others call. Used by
//! `fleet` and `knowledge`.

use std::sync::{Arc, PoisonError, RwLock};

/// The client to call with now: a new key makes a new one.
pub struct Current<T>(RwLock<Arc<T>>);

impl<T> Current<T> {
    #[must_use]
    pub fn new(client: T) -> Self {
        Self(RwLock::new(Arc::new(client)))
    }

    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Every call from now on is this one's.
    pub fn replace(&self, client: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(client);
    }
}
