//! Attacks that are known from elsewhere, each carried out end to end: the real daemons over real sockets, a model
//! that obeys the attacker to the letter, and a look at what Honcho, the prompts, the labels and the files hold.
//! `docs/threats.md` names each by its number.
#![allow(clippy::tests_outside_test_module)]

mod honcho;
mod hostile;
mod labels;
mod machine;
mod memory;
mod planted;
mod reading;
mod relay;
mod world;
