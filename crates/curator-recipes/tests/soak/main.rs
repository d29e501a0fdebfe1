//! Two hundred tasks acquire, release, cancel and time out on twenty locks, through connections that break all the time: nothing
//! grows. At the end, all that was there at the beginning is there, and no more.
//!
//! `SOAK_SECONDS` says for how long, 30 if it is not set; `SOAK_SEED` the seed of the faults and of the work, a new one
//! each time by default; `SOAK_TABLE` names a file for the table, in Markdown. `cargo xtask soak` does all of this.
//!
//! The clients are in a process of their own, which is what is measured; server, proxies and faults are in the test's.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod clients;
mod faults;
mod process;
mod sample;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod work;

use std::time::{Duration, Instant};

use curator_test::{FaultProxy, ServerKind, TestingServer};

use self::faults::Faults;
use self::process::Clients;
use self::sample::{Sample, of_server};
use self::support::{new_seed, number, say};
use self::table::Record;

/// The name of the test, which starts itself once more as the process with the clients.
const TEST: &str = "nothing_grows_while_locks_are_used_and_connections_break";
/// Set in that process: the addresses of the proxies.
const CLIENTS: &str = "SOAK_CLIENTS";
const SEED: &str = "SOAK_SEED";
/// Each has a proxy of its own.
const CLIENT_COUNT: usize = 4;
/// How long it may take until all is as it was: a session that nobody could close lasts for its timeout.
const TO_SETTLE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_grows_while_locks_are_used_and_connections_break() {
    let seed = number(SEED, new_seed());
    if let Ok(addresses) = std::env::var(CLIENTS) {
        return clients::run(&addresses, seed).await;
    }
    let seconds = number("SOAK_SECONDS", 30).max(12);
    // Directories without locks are to be seen to go.
    let server = TestingServer::builder().container_check_interval(Duration::from_secs(1)).start().await.unwrap();
    let proxies: Vec<_> = (0..CLIENT_COUNT).map(|_| FaultProxy::start(server.address()).unwrap()).collect();
    let addresses: Vec<_> = proxies.iter().map(FaultProxy::connect_string).collect();
    // Now, as it may fail at any time from now on.
    say(&format!("soak: {SEED}={seed}"));
    let mut clients = Clients::start(&addresses.join(" "), seed);
    let mut record = Record::new(seconds, seed, &about(&server));

    record.idle = whole(clients.says("idle").await, &server).await;
    clients.tell("work").await;
    say(&format!("soak: {seconds} seconds on {}, seed {seed}", record.server));
    let mut faults = Faults::new(proxies, &server, seed);
    let begun = Instant::now();
    while record.samples.len() < seconds as usize {
        faults.do_some().await;
        while let Some(sample) = clients.has_said("sample") {
            record.samples.push(whole(sample, &server).await);
            if record.samples.len().is_multiple_of(10) {
                say(&format!("soak: {:.0?}: {}", begun.elapsed(), record.samples[record.samples.len() - 1]));
            }
        }
    }
    faults.heal();
    clients.tell("rest").await;
    record.rest = settled(&mut clients, &server, "rest", |rest| Record::is_at_rest(&record.idle, rest)).await;
    clients.tell("close").await;
    record.closed = settled(&mut clients, &server, "closed", |closed| record.is_given_back(closed)).await;
    clients.tell("end").await;
    clients.finish().await;

    record.faults = faults.done();
    let table = record.table();
    say(&table);
    if let Some(file) = std::env::var_os("SOAK_TABLE") {
        std::fs::write(file, &table).unwrap();
    }
    assert_eq!(record.problems(), [""; 0], "{SEED}={seed}");
}

/// The sample of a kind at which everything is as it should be, or the one at which the patience ends.
async fn settled(
    clients: &mut Clients,
    server: &TestingServer,
    kind: &str,
    is_good: impl Fn(&Sample) -> bool,
) -> Sample {
    let patience = Instant::now() + TO_SETTLE;
    loop {
        let sample = whole(clients.says(kind).await, server).await;
        if is_good(&sample) || Instant::now() > patience {
            return sample;
        }
    }
}

/// What the clients say of themselves, with what the server says.
async fn whole(mut sample: Sample, server: &TestingServer) -> Sample {
    of_server(&mut sample, &server.four_letter_word("mntr").await.unwrap());
    sample
}

fn about(server: &TestingServer) -> String {
    match (server.kind(), server.version()) {
        (ServerKind::Real, Some(version)) => format!("ZooKeeper {version}"),
        (kind, _) => format!("{kind} server"),
    }
}
