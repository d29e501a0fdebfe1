//! Tests whose outcome may depend on the release of ZooKeeper. Before a commit lands, they also run
//! on the oldest supported releases; the other tests do so every night.

mod atomic;
pub(crate) mod cache;
mod cache_watches;
pub(crate) mod config;
pub(crate) mod contract;
pub(crate) mod cost;
mod cost_of_waiting;
pub(crate) mod leader_latch;
pub(crate) mod leader_observer;
pub(crate) mod persistent_node;
pub(crate) mod typed_cache;
mod typed_cache_in_doubt;
