//! Whatever a server replies, every operation of a client ends in bounded time and memory, and the
//! client works again as soon as its server does.
//!
//! A proxy in front of a good server corrupts its replies, at a place and in a way that follow from
//! a seed. `HOSTILE_CASES` is the number of cases, 400 by default. `HOSTILE_SEED` is the seed of
//! the first case, random by default; with `HOSTILE_CASES=1`, it repeats one case.
//! `HOSTILE_UNLIMITED=1` removes the memory limits, for `AddressSanitizer`.
//!
//! Only this target tests replies that no correct server sends, and the memory and panics that they
//! cause.
//!
//! The clients run in a separate process with limited memory.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

#[macro_use]
#[path = "../support/named.rs"]
mod named;

mod act;
mod case;
mod lies;
mod process;
mod reply;
mod server;
mod survey;

use self::process::Limited;
use self::survey::Survey;
use curator_recipes::client::Transport;
use curator_test::EmbeddedServer;
use test_support::environment::{new_seed, number, say};
use test_support::numbers::Numbers;
use test_support::transport::transport;

/// The environment variable that is set in the process with the clients.
const CLIENTS: &str = "HOSTILE_CLIENTS";
const SEED: &str = "HOSTILE_SEED";
/// The number of concurrent cases. At any time, most of them wait for a timeout.
const CONCURRENT: usize = 32;

#[test]
fn operations_end_and_clients_recover_whatever_a_server_replies() {
    if std::env::var_os(CLIENTS).is_some() {
        return run_cases(number("HOSTILE_CASES", 400), number(SEED, 0));
    }
    let seed = number(SEED, new_seed());
    say(&format!("hostile servers: {SEED}={seed}"));
    let process = Limited::run(
        "operations_end_and_clients_recover_whatever_a_server_replies",
        &[(CLIENTS, 1), (SEED, seed)],
    );
    process.assert_success();
}

/// A limitation of the default transport that cannot be fixed here: see "Servers that lie" in
/// `docs/guarantees.md`. When this fails, `zookeeper-client` has improved, and the page can promise
/// more.
#[test]
fn the_announced_count_of_a_list_is_allocated_without_a_check() {
    if std::env::var_os(CLIENTS).is_some() {
        process::limit_memory();
        return case::list_children_with_huge_count();
    }
    let process = Limited::run(
        "the_announced_count_of_a_list_is_allocated_without_a_check",
        &[(CLIENTS, 1)],
    );
    if transport() == Transport::Native {
        return process.assert_success();
    }
    let died_of = process
        .died_of()
        .expect("the process survived an announced count of two billion names");
    assert!(
        died_of.contains("memory allocation of 51539607528 bytes failed"),
        "{died_of}"
    );
}

/// Runs the cases, in the process with the clients.
fn run_cases(cases: u64, first: u64) {
    process::limit_memory();
    let panics = process::count_panics();
    // The servers have a separate runtime, because the tasks of the clients' runtime are counted.
    let servers = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let good = EmbeddedServer::start().unwrap();
    let survey = runtime.block_on(Survey::take(
        servers.handle(),
        &good,
        first..first + cases,
        CONCURRENT,
    ));
    survey.say(&panics);
    survey.assert_passed(&panics);
}
