//! The daemon that will stand between chat servers and loopd. It runs, can be asked and can be stopped; no
//! chat server can be configured in this version, so it connects to nothing and decides nothing.
#![forbid(unsafe_code)]

pub mod config;
pub mod run;
