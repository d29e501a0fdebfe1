//! Another client against a server of either kind: kazoo, from Python, with its own locks, and beside ours.
//!
//! `cargo xtask test` brings kazoo, and runs this on an embedded server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod agent;
mod locks;
mod nodes;
mod our_mutex;
#[path = "../../../curator-recipes/tests/support/still_waits.rs"]
mod still_waits;

use std::time::Duration;

use agent::Agent;
use curator_test::{TestingServer, until};

/// A session that no test means to lose.
const LONG: Duration = Duration::from_secs(30);
/// A session that a test means to lose.
const SHORT: Duration = Duration::from_secs(2);

/// Waits until somebody watches a node of the queue in `dir`: whoever does has looked, and found that it is not its turn.
async fn until_watched(server: &TestingServer, dir: &str) {
    until(async || server.watches_by_path().await.unwrap().keys().any(|watched| watched.starts_with(dir))).await;
}

/// A server, and two clients named `a` and `b`.
async fn two_clients() -> (TestingServer, Agent, Agent) {
    let server = TestingServer::start().await.unwrap();
    let (a, b) = (Agent::start("a", &server, LONG), Agent::start("b", &server, LONG));
    (server, a, b)
}
