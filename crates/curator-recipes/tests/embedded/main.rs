//! The locks and caches on old servers, which the embedded server imitates. Only this suite finds, on every machine,
//! what fails on such servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test, a panic is the way to fail")]

mod cache_watches;
mod old_server;
#[path = "../support/mod.rs"]
mod support;
