//! A server of either kind, the proxy before it, and sessions that end on it.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]

mod close_session;
mod kinds;
mod life;
mod proxy;
mod proxy_late;
#[path = "../support/mod.rs"]
mod support;
