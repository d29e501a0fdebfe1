//! The engine of the locks: acquires and holds nodes in queues, from the first request to the last
//! delete. Of the recipes, it knows only `SharedCount`, the number of a semaphore's leases.

mod acquire;
mod attempts;
pub(crate) mod hold;
pub(crate) mod internals;
mod line;
pub(crate) mod log;
pub(crate) mod meter;
pub(crate) mod release;
pub(crate) mod requests;
pub(crate) mod runner;
pub(crate) mod watched_node;
mod watches;
