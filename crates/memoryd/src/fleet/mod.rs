//! What other agents know, and what Honcho makes of it: `recall` over their workspaces and the fleet's, and
//! `ask_memory`. Cores that work on values (`hits`, `config`) and a shell of one thread a source (`source`,
//! `chat`, `able`, and `reads`, which asks). Reads only: nothing here creates anything in a workspace.

pub mod able;
pub mod chat;
pub mod config;
pub mod hits;
pub mod mark;
pub mod reads;
pub mod service;
pub mod slots;
pub mod source;
