//! Keeps memory: identity, notes, journal, index; and what of it goes to Honcho.
#![forbid(unsafe_code)]

pub mod edit;
pub mod logs;
