//! memoryd's read path as it ships: the real program and roncho over real sockets, a real HTTP Honcho at the far
//! end that the test fills with what others wrote.

mod ask;
mod attack;
mod excluded;
mod outage;
mod recall;
mod world;
