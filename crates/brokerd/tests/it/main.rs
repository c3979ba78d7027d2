//! brokerd as a program: real sockets, a memoryd that the test plays, full disks, kills and restarts.
#![forbid(unsafe_code)]

mod faults;
mod labels;
mod memory;
mod policy;
mod start;
mod tools;
mod world;
