//! What Honcho itself made of the agent's own trusted workspace: said before a turn, and asked for with the tool
//! `facts`.

pub mod before;
pub mod client;
pub mod config;
pub mod context;
