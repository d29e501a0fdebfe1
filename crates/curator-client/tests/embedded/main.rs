//! The client on old servers, which only the embedded server can imitate.
//!
//! Only this suite finds wrong stats of created nodes if a server does not return stats from a transaction.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the way to fail")]

mod old_server;
#[path = "../support/mod.rs"]
mod support;
