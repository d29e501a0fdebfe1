//! Worker processes on a server of either kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod alone;
mod deleted;
#[path = "../support/mod.rs"]
mod support;
mod together;
