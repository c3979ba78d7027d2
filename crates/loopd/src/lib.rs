//! loopd: sessions, their logs, their turns, and the model. It runs no tool itself, never lowers a label, and
//! shows nothing as final that is not durable in a log.
#![forbid(unsafe_code)]

mod broker;
mod call;
mod cancel;
mod commands;
pub mod config;
mod control;
mod daemon;
mod epoch;
mod errors;
mod exchange;
mod hosts;
mod ids;
mod judge;
mod log;
mod memory;
mod model;
mod outcome;
mod prompt;
mod purge;
mod room;
pub mod run;
mod serve;
mod server;
mod session;
mod sessions;
mod sse;
mod stream;
mod textcall;
mod think;
mod tokens;
mod transport;
mod turn;
