//! Tests whose outcome may depend on the release of ZooKeeper. Before a commit lands, they also run
//! on the oldest supported releases; the other tests do so every night.

mod certifying;
mod listing;
mod operator_commands;
