//! The locks on old servers, which only the embedded server can imitate. Only this suite finds, on every machine, what
//! does not work there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod cache_watches;
mod old_server;
#[path = "../support/mod.rs"]
mod support;
