//! The client on servers that only the embedded server can imitate.
//!
//! Only this suite finds wrong stats of created nodes, where a server does not return stats from a transaction.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is the test's failure")]

mod old_server;
#[path = "../support/mod.rs"]
mod support;
