//! The client with TLS, and servers of the test kit.
//!
//! Only this suite finds a client that mistakes a server without TLS, or a server that only refuses
//! connections, for a server with a wrong certificate.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod plain_servers;
#[path = "../support/mod.rs"]
mod support;
