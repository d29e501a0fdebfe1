//! The client and what only a real ZooKeeper is: an ensemble.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is the test's failure")]

mod cluster;
#[path = "../server/support.rs"]
#[allow(dead_code, reason = "each test program uses its own part")]
mod support;
