//! memoryd's local half: the real program over its real sockets.
#![forbid(unsafe_code)]

mod control;
mod crash;
mod hand_edits;
mod index;
mod tools;
mod world;
