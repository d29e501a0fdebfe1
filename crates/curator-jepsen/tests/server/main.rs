//! Worker processes on a server of either kind.
//!
//! Covers what no other test does: the recorded events mean what the checker takes them for, and a worker that loses
//! its lock loses updates in the variant `plain` only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod alone;
mod paused;
#[path = "../support/mod.rs"]
mod support;
mod together;
