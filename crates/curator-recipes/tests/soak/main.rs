//! Two hundred tasks acquire, release, cancel and time out on twenty locks while connections break:
//! no resource level grows, and everything is released at the end.
//!
//! Only this target finds leaks that appear after many operations under concurrent faults,
//! including leaks in the client's process.
//!
//! - `SOAK_SECONDS`: the duration of the load, 15 by default and at least 12; each kind of fault
//!   occurs at least once.
//! - `SOAK_SEED`: the seed of the faults and of the work, random by default.
//! - `SOAK_TABLE`: a file for the table, in Markdown.
//!
//! `cargo xtask soak` sets all of them.
//!
//! The clients run in the test's process, which is measured. The server, the proxies and the faults
//! run in a separate process.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod faults;
mod network;
mod sample;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_recipes::client::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use self::network::Network;
use self::sample::{Sample, Source};
use self::support::{builder, new_seed, number, say, soon};
use self::table::Record;
use self::work::{Done, task, use_each};

/// The name of the test, which starts itself again as the process with the server.
const TEST: &str = "no_resource_leaks_while_locks_are_used_and_connections_break";
const SEED: &str = "SOAK_SEED";
/// Each client has a separate proxy.
const CLIENT_COUNT: usize = 4;
/// The number of tasks in total, divided evenly among the clients.
const TASKS: usize = 200;
/// Short, because a lost session lasts for its timeout; and long enough for any kind of server.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// How long the initial state may take to return: a session that could not be closed lasts for its
/// timeout.
const TO_SETTLE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_resource_leaks_while_locks_are_used_and_connections_break() {
    let seed = number(SEED, new_seed());
    if Network::is_this_process() {
        return network::run(seed).await;
    }
    let seconds = number("SOAK_SECONDS", 15).max(12);
    // Printed first, because the test may fail at any time from now on.
    say(&format!("soak: {SEED}={seed}"));
    let mut network = Network::start(seed);
    let mut record = Record::new(seconds, seed, &network.about);
    let done = Arc::new(Done::default());
    let mut clients = Vec::new();
    for proxy in &network.proxies {
        clients.push(builder(proxy, SESSION_TIMEOUT).connect().await.unwrap());
    }
    let source = Source {
        clients: clients.clone(),
        done: Arc::clone(&done),
        server: network.server,
    };
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is immediate. The second comes a second later, when the clients, which have
    // just started, have settled.
    ticks.tick().await;
    ticks.tick().await;
    record.idle = source.sample().await;

    say(&format!(
        "soak: {seconds} seconds on {}, seed {seed}",
        record.server
    ));
    let (resting_tx, resting_rx) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let client = clients[number % CLIENT_COUNT].clone();
        let seed = seed.wrapping_add(number as u64);
        tasks.spawn(task(
            client,
            number / CLIENT_COUNT,
            seed,
            Arc::clone(&done),
            resting_rx.clone(),
        ));
    }
    network.begin();
    while record.samples.len() < seconds as usize {
        ticks.tick().await;
        record.samples.push(source.sample().await);
        if record.samples.len().is_multiple_of(10) {
            say(&format!(
                "soak: {}",
                record.samples[record.samples.len() - 1]
            ));
        }
    }
    record.faults = network.heal();
    resting_tx.send_replace(true);
    soon(tasks.join_all()).await;
    soon(use_each(&clients[0])).await;
    record.at_rest = settled(&source, |rest| record.left_at(rest)).await;
    for client in &clients {
        match client.close().await {
            // An unconfirmed close is not a failure here: the samples below include what it leaves
            // on the server.
            Ok(()) | Err(Error::CloseUnconfirmed { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    record.closed = settled(&source, |closed| record.not_released(closed)).await;

    network.end();

    let table = record.table();
    say(&table);
    if let Some(file) = std::env::var_os("SOAK_TABLE") {
        std::fs::write(file, &table).unwrap();
    }
    assert_eq!(record.problems(), [""; 0], "{SEED}={seed}");
}

/// Takes samples until one has no leftovers, or until [`TO_SETTLE`] has passed. Returns the last.
async fn settled(source: &Source, left: impl Fn(&Sample) -> Vec<String>) -> Sample {
    let deadline = Instant::now() + TO_SETTLE;
    loop {
        let sample = source.sample().await;
        if left(&sample).is_empty() || Instant::now() > deadline {
            return sample;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
