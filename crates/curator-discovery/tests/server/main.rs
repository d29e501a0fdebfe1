//! Service discovery on a server, embedded or real.
//!
//! All tests share one server, each on its own path.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod balance;
mod cache;
mod query;
mod registration_faults;
mod releases;
#[path = "../support/mod.rs"]
mod support;
