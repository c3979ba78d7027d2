//! A chat server that speaks the OpenAI protocol and holds no model: plain rules for a fresh
//! machine, scripts for tests. Used by `main.rs` and, as a dev-dependency, by every test that
//! needs a model server; it never calls out, writes a file or guesses an answer.
//!
//! ```
//! use model_local::{Behaviour, Reply, Server};
//!
//! let server = Server::start(Behaviour::Script(vec![Reply::text("hello")]));
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! ```
#![forbid(unsafe_code)]

mod chat;
mod check;
mod completion;
mod endpoints;
mod http;
mod ordered;
mod phrases;
mod prompt;
mod record;
mod replay;
mod reply;
mod results;
mod rules;
mod server;
mod tokens;

pub use check::Template;
pub use completion::{Call, Completion};
pub use record::{Outcome, Recorded};
pub use reply::{Behaviour, Gate, Reply};
pub use server::{Options, Server, StartError};
