//! Searches over schedules in simulated time.
//!
//! A *schedule* is a run that a seed determines: three client processes use recipes against
//! simulated servers, while the network, the servers and the processes fail. Everything runs in one
//! thread, in simulated time, so a schedule can be repeated. Its [checks] run at every step; in the
//! end, all faults are healed, and all calls must complete.

// A seed must repeat a run exactly, so nothing may depend on the order of a hash map.
#![cfg_attr(not(test), warn(clippy::disallowed_types, clippy::iter_over_hash_type))]

pub mod checks;
pub mod life;
pub mod memory;
mod mutex;
pub mod planted;
pub mod schedule;
pub mod search;
pub mod servers;
pub mod simulated;
pub mod workload;
pub mod world;
