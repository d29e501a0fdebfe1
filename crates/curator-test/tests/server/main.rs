//! A server of either kind, the proxy in front of it, and sessions that end on it.
//!
//! Only this suite finds a fault or a count of the proxy that is off by one, and a promise of
//! [`TestingServer`] that holds for one kind of server only. It runs in real time, because a real
//! server uses the real clock.
//!
//! [`TestingServer`]: curator_test::TestingServer
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod close_session;
mod embedded;
mod kinds;
mod proxy;
mod releases;
#[path = "../support/mod.rs"]
mod support;
