//! Tests of the server over real HTTP: what was recorded, each rule, each fault, and the program itself.

mod contract;
mod deletions;
mod durability;
mod faults;
mod http;
mod keys;
mod limits;
mod rules;
mod search;
