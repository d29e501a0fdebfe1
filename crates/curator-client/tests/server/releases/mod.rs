//! Tests whose outcome may depend on the release of ZooKeeper. Before a commit lands, they also run
//! on the oldest supported releases; the other tests do so every night.

mod create;
mod create_or_set;
mod joint_deletes;
mod limits;
mod multi_read;
mod resuming;
mod transactions;
mod transactions_in_session;
mod tree_deletes;
mod watches;
