//! Shards that are divided among members: in simulated time, and on a server.

mod attacks;
mod claims;
mod costs;
mod ends;
mod faults;
mod hand_over;
mod members;
mod moves;
mod on_server;
