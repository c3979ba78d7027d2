//! A small server that speaks Honcho's v3 HTTP API from one SQLite file. The binary serves it; tests
//! start it in their own process and switch faults on. It never listens beyond the address it is given.
//!
//! ```
//! use honcho_local::{Fault, Options, Rule, Server};
//!
//! let server = Server::start(Options::default())?; // A free port; the data in memory.
//! server.controls().add(Rule::new(Fault::CommitAndDrop).on("POST", "*/messages").times(1));
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! assert!(server.dump("nothing-here").is_ok_and(|dump| dump.is_null()));
//! # Ok::<(), honcho_local::errors::StartError>(())
//! ```
//!
//! Where it differs from a Honcho with its models and providers:
//!
//! - Search and queries go by words, at once; there is no embedding to wait for or to fail.
//! - Nothing is derived or summarised; [`Server::summarise`] puts a summary for a test. Queue status counts what would wait, and its extra member
//!   `derivation` says that nothing does. A dream is accepted and not dreamt.
//! - Token counts are estimates.
//! - A deletion goes through after a fixed time, or when the server stops or starts before it; then nothing of
//!   what was deleted is left in the file or its log.
//! - In `metadata`, numbers beyond 64 bits lose digits.
//! - Only text and JSON files can be uploaded.
//! - Idle connections are kept open.
#![forbid(unsafe_code)]

mod api;
pub mod auth;
mod call;
mod clock;
pub mod errors;
mod faults;
mod filters;
mod front;
mod misbehave;
mod model;
mod serve;
mod server;
mod settings;
mod store;
mod validate;

pub use faults::{Controls, Fault, RECORDS_MAX, Record, Rule};
pub use server::{ModelOptions, Options, Server};
