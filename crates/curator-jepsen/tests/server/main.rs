//! Worker processes on a server of either kind.
//!
//! Only here: what workers write down is what the checker takes it for, and a worker that loses its lock loses updates in the
//! variant `plain` and in no other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod alone;
mod paused;
#[path = "../support/mod.rs"]
mod support;
mod together;
