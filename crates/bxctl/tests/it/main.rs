//! The real bxctl against daemons whose answers the test chooses, and `up` with the real ones.

mod chat;
mod fakes;
mod golden;
mod memory;
mod terminal;
mod up;
