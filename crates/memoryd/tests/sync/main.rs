//! memoryd's Honcho half as it ships: the real program over real sockets, a real HTTP Honcho at the far end, a
//! broker that says what the test wants.

mod backlog;
mod cards;
mod context;
mod decisions;
mod doubt;
mod edits;
mod facts;
mod facts_written;
mod health;
mod keys;
mod made;
mod outage;
mod purge;
mod review;
mod world;
