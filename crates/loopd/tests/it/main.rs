//! The real daemon between a scripted model server, a fake brokerd and a fake memoryd.

mod crash;
mod fakes;
mod link;
mod models;
mod purge;
mod start;
mod tools;
mod turns;
mod world;
