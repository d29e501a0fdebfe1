//! Tests the recipes of other clients, alone and together with ours, on either kind of server.
//! "Ours" and "we" stand for this library.
//!
//! Only this suite finds node names, queue orders and waits of this library that differ from Java
//! Curator, kazoo or go-zookeeper, and servers that one of these clients does not work with.
//!
//! Each client has a module, so that its tests can be selected: `curator::`, `go::`, `kazoo::`.
//! `cargo xtask test` installs the clients, and runs this on every kind of server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here is the test's failure"
)]

mod curator;
mod go;
mod kazoo;
mod ours;
mod sharing;
mod turns;

use std::time::Duration;

use curator_test::{TestingServer, until};
use test_support::{
    agent::{self, LONG},
    environment::{self, new_seed, number, say},
    numbers::{self, Numbers},
    still_waits, transport,
};

/// A session timeout that is short enough for a test to wait until the session expires, and long
/// enough for a busy machine.
const SHORT: Duration = Duration::from_secs(5);

/// The random numbers of a test. Their seed is set by `INTEROP_SEED` or is new, and is printed.
fn seed() -> Numbers {
    let seed = number("INTEROP_SEED", new_seed());
    say(&format!("INTEROP_SEED={seed}"));
    Numbers(seed)
}

/// Waits until `wanted` is true for a node and the sessions that watch it. A session that watches a
/// node of a queue has read the queue, and found that it does not own the lock.
async fn until_watched(server: &TestingServer, wanted: impl Fn(&str, &[i64]) -> bool) {
    until(async || {
        server
            .watches_by_path()
            .await
            .unwrap()
            .iter()
            .any(|(node, by)| wanted(node, by))
    })
    .await;
}
