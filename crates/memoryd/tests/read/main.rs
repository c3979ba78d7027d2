//! memoryd's read path as it ships: the real program over real sockets, with its own client for whole calls within a
//! time (`fleet/reads.rs`), and a real HTTP Honcho at the far end that the test fills, with roncho, with what others
//! wrote.

mod ask;
mod attack;
mod excluded;
mod outage;
mod recall;
mod world;
