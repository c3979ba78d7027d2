//! What goes to Honcho, and how: cores that decide on values (`decide`, `mirror`, `naming`, `prepare`,
//! `ledger`, `space`, `outbox`, `status`) and a shell that does what they say (`worker`, `honcho`).

pub mod config;
pub mod decide;
pub mod handle;
pub mod health;
pub mod honcho;
pub mod hooks;
pub mod ledger;
pub mod made;
pub mod mirror;
pub mod naming;
pub mod outbox;
pub mod prepare;
pub mod request;
pub mod review;
pub mod space;
pub mod status;
pub mod texts;
pub mod worker;
