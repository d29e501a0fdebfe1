//! Worker processes on a server of either kind.
//!
//! Only these tests show that the recorded events have the meaning that the checker assumes, and
//! that a worker that loses its lock loses updates in the variant `plain` only.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod alone;
mod paused;
#[path = "../support/mod.rs"]
mod support;
mod together;
