//! The locks on a real ZooKeeper.
//!
//! Most tests share one server, each on a path of its own; a test that counts the server's packets, stops it or kills
//! its sessions starts its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod bad_input;
mod cancel;
mod cost;
mod custom_driver;
mod directory;
mod exclusive;
mod loss;
mod participants;
mod reentry;
mod release;
mod session_loss;
mod support;
mod timeouts;
