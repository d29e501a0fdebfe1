//! The client and what only a real ZooKeeper is: an ensemble, and a server that speaks TLS, or knows users by SASL.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is the test's failure")]

mod cluster;
mod local_sessions;
mod sasl;
#[path = "../support/mod.rs"]
mod support;
mod tls;
