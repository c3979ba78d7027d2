//! What every Boxmaker daemon needs, one idea a file. Decides nothing about turns, tools or memory.
#![forbid(unsafe_code)]

pub mod append;
pub mod clock;
pub mod config;
pub mod connect;
pub mod daemon;
#[cfg(feature = "http")]
pub mod http;
pub mod listen;
pub mod notify;
pub mod paths;
pub mod plain;
pub mod random;
pub mod reload;
pub mod repeated;
pub mod replace;
pub mod report;
pub mod runbook;
pub mod sealed;
pub mod secrets;
pub mod url;
