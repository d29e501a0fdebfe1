//! What only a real ZooKeeper is: processes, and ensembles of them.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod cluster;
mod process;
#[path = "../support/mod.rs"]
mod support;
mod watchdog;
