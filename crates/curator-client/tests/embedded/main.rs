//! The client on servers that only the embedded one can imitate.
//!
//! Only this suite finds wrong stats of nodes that a transaction has created on a server that does not return them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is the test's failure")]

mod old_server;
#[path = "../support/mod.rs"]
mod support;
