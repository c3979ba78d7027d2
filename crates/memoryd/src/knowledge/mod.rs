//! What Honcho itself made of the agent's own trusted workspace: said before a turn, and asked for with the tool
//! `facts`.

pub mod before;
pub mod client;
pub mod config;
pub mod context;
pub mod edits;
pub mod origin;
pub mod tool;
mod write;

use bxcore::secrets::Secret;

use self::{context::Context, tool::Facts};

/// Both.
pub struct Knowledge {
    pub context: Context,
    pub facts: Facts,
}

impl Knowledge {
    /// Without Honcho.
    #[must_use]
    pub fn none() -> Self {
        Self {
            context: Context::none(),
            facts: Facts::none(),
        }
    }

    /// A new key of the trusted workspace.
    pub fn reload(&self, key: Option<&Secret>) {
        self.context.reload(key);
        self.facts.reload(key);
    }
}
