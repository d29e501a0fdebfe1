//! The locks and what only a real ZooKeeper has: connections by TLS.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

#[path = "../support/mod.rs"]
mod support;
mod tls;
