//! Text hygiene: refuse secrets, flag instructions, neutralise and fence text. Called by the daemons
//! before anything is stored, sent or shown to a model; never does I/O and never logs what it reads.
//!
//! Nothing here is a boundary by itself. Labels decide where text may go; this crate only lowers what
//! a mistake costs.
#![forbid(unsafe_code)]

pub mod fence;
pub mod flag;
pub mod neutralise;
pub mod refuse;
pub mod reveal;
pub mod rules;
pub mod unicode;

pub use fence::Fence;
pub use flag::{Flag, flag};
pub use neutralise::{neutralise, neutralise_cow};
pub use refuse::{Outcome, Refuser};
pub use reveal::{RevealError, reveal, unreveal};
