//! Other clients against a server of either kind, with their own locks, and beside ours.
//!
//! The tests are in a module for each client, so that they can be chosen by it: `curator::`, `go::`, `kazoo::`. `cargo xtask test`
//! brings the clients, and runs this on every kind of server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod agent;
mod curator;
#[path = "../../../curator-recipes/tests/support/environment.rs"]
mod environment;
mod go;
mod kazoo;
#[path = "../support/numbers.rs"]
mod numbers;
mod ours;
#[path = "../../../curator-recipes/tests/support/still_waits.rs"]
mod still_waits;
mod turns;

use std::time::Duration;

use curator_test::{TestingServer, until};

/// A session that no test means to lose.
const LONG: Duration = Duration::from_secs(30);
/// A session that a test means to lose.
const SHORT: Duration = Duration::from_secs(2);

/// Waits until somebody watches a node of the queue in `dir`: whoever does has looked, and found that it is not its turn.
async fn until_watched(server: &TestingServer, dir: &str) {
    until(async || server.watches_by_path().await.unwrap().keys().any(|watched| watched.starts_with(dir))).await;
}
