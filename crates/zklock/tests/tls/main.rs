//! The built program with TLS files in its configuration.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the tests use a part of what the target `server` uses"
)]

#[path = "../server/configuration.rs"]
mod configuration;
mod keys;
#[path = "../server/pseudo_terminal.rs"]
mod pseudo_terminal;
mod rotating;
#[path = "../server/support.rs"]
mod support;
mod tls_server;
