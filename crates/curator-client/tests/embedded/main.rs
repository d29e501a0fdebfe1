//! The client on servers as only the embedded one can be.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is the test's failure")]

mod old_server;
#[path = "../support/mod.rs"]
mod support;
