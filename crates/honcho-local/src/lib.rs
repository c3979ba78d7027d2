//! A small server that speaks Honcho's v3 HTTP API from one SQLite file. The binary serves it; tests
//! start it in their own process and switch faults on. It never listens beyond the address it is given.
#![forbid(unsafe_code)]

mod api;
pub mod auth;
mod call;
mod clock;
pub mod errors;
mod faults;
mod filters;
mod front;
mod model;
mod server;
mod settings;
mod store;
mod validate;

pub use faults::{Controls, Fault, RECORDS_MAX, Record, Rule};
pub use server::{ModelOptions, Options, Server};
