//! The client with features of a real ZooKeeper: an ensemble, TLS, and SASL users.
//!
//! Only this suite finds a lease that outlives a session of an ensemble, a TLS or SASL exchange
//! that ZooKeeper ends differently than the client expects, and a session that does not move to
//! another member.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod cluster;
mod local_sessions;
mod reconfigured;
mod sasl;
#[path = "../support/mod.rs"]
mod support;
mod tls;
