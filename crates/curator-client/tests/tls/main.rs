//! The client with TLS, and servers of the test kit.
//!
//! Only this suite finds a client that takes a server without TLS, or one that only refuses, for a
//! server whose certificate is wrong.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod plain_servers;
#[path = "../support/mod.rs"]
mod support;
