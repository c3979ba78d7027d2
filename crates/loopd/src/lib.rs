//! loopd: sessions, their logs, their turns, and the model. It runs no tool itself, never lowers a label, and
//! shows nothing as final that is not durable in a log.
#![forbid(unsafe_code)]

mod broker;
mod cancel;
mod commands;
mod config;
mod control;
mod daemon;
mod epoch;
mod errors;
mod hosts;
mod judge;
mod log;
mod memory;
mod model;
mod outcome;
mod prompt;
pub mod run;
mod serve;
mod server;
mod sessions;
mod sse;
mod stream;
mod textcall;
mod think;
mod tokens;
mod transport;
mod turn;
