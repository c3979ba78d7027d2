//! The server over real sockets: one file a question. Never sleeps; each wait has a deadline.
#![forbid(unsafe_code)]

mod client;

mod bad_requests;
mod cache;
mod program;
mod rules;
mod script;
mod wire;
