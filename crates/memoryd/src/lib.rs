//! Keeps memory: identity, notes, journal, index; and what of it goes to Honcho.
#![forbid(unsafe_code)]

pub mod accept;
pub mod config;
pub mod control;
pub mod current;
pub mod denied;
pub mod edit;
pub mod facts;
pub mod files;
pub mod fleet;
pub mod hooks;
pub mod identity;
pub mod index;
pub mod items;
pub mod journal;
pub mod knowledge;
pub mod logs;
pub mod memory;
pub mod notes;
pub mod plan;
pub mod purge;
pub mod recall;
pub mod review;
pub mod run;
pub mod screen;
pub mod service;
pub mod store;
pub mod sync;
pub mod undo;
pub mod words;
