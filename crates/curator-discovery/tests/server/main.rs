//! Service discovery on a server, embedded or real.
//!
//! All tests share one server, each on its own path.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod balance;
mod cache;
mod query;
mod registration;
mod registration_faults;
#[path = "../support/mod.rs"]
mod support;
