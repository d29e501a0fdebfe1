//! Other clients against a server of either kind, with their own locks, and beside ours.
//!
//! Only this suite finds a name, an order or a way to wait of ours that Java Curator, kazoo or go-zookeeper does not share, and a
//! server that one of them cannot live on.
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
mod sharing;
#[path = "../../../curator-recipes/tests/support/still_waits.rs"]
mod still_waits;
mod turns;

use std::time::Duration;

use curator_test::{TestingServer, until};

use self::{
    environment::{new_seed, number, say},
    numbers::Numbers,
};

/// A session's timeout: so long that a session ends only when a test ends it.
const LONG: Duration = Duration::from_secs(30);
/// A session's timeout: so short that a test can wait for its end, and long enough for a machine that is busy.
const SHORT: Duration = Duration::from_secs(3);

/// A seed for all that a test draws: that of the environment, or a new one, which is printed.
fn seed() -> Numbers {
    let seed = number("INTEROP_SEED", new_seed());
    say(&format!("INTEROP_SEED={seed}"));
    Numbers(seed)
}

/// Waits until sessions watch a node as wanted. Who watches a node of a queue has looked, and found that it is not its turn.
async fn until_watched(server: &TestingServer, wanted: impl Fn(&str, &[i64]) -> bool) {
    until(async || server.watches_by_path().await.unwrap().iter().any(|(node, by)| wanted(node, by))).await;
}
