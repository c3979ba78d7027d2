//! brokerd: runs the tools and keeps every session's label. A result leaves only after the label it brings
//! is on the disk; no network connection is ever opened here.
#![forbid(unsafe_code)]

mod arguments;
mod audit;
mod call;
pub mod config;
mod files;
pub mod labels;
mod memory;
mod policy;
mod roots;
mod run;
mod running;
mod serve;
mod status;
mod store;
mod tools;

pub use run::run;
