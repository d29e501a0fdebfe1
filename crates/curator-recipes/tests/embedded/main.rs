//! The locks on servers as only the embedded one can be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod expired;
mod old_server;
#[path = "../support/mod.rs"]
mod support;
