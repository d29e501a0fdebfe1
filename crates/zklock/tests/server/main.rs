//! The built program on a server of either kind: what it prints, how it exits, and which nodes and processes it leaves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod leading;
mod looking;
mod losing;
mod running;
mod support;
