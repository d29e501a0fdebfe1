//! Another client against a server of either kind: kazoo, from Python, with its own locks, and beside ours.
//!
//! `cargo xtask test` brings kazoo, and runs this on an embedded server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod agent;
mod locks;
mod nodes;
mod our_mutex;

use std::time::Duration;

use agent::Agent;
use curator_test::TestingServer;

/// A session that no test means to lose.
const LONG: Duration = Duration::from_secs(30);
/// A session that a test means to lose.
const SHORT: Duration = Duration::from_secs(2);

/// A server, and two clients named `a` and `b`.
async fn two_clients() -> (TestingServer, Agent, Agent) {
    let server = TestingServer::start().await.unwrap();
    let (a, b) = (Agent::start("a", &server, LONG), Agent::start("b", &server, LONG));
    (server, a, b)
}
