//! Processes that are temporarily out of descriptors or threads. Each test runs in a separate
//! process and exhausts its resources. The tests run in real time: a simulation uses neither
//! descriptors nor threads.

use std::fs::File;
use std::time::{Duration, Instant};

use curator_client::{CuratorClient, Error};
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
use curator_test::EmbeddedServer;
use curator_test::TestingServer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Builder;

use crate::support::{DEFAULT_TIMEOUT, alone, builder, soon};

/// The limit on descriptors that a test sets for its process: far more than it needs, and quickly
/// exhausted.
const DESCRIPTORS: u64 = 256;

/// Waits until the client reports this cause. On a busy machine, its first attempt takes a long
/// time to fail.
///
/// Does not use `until`, whose timer starts the event loop.
async fn until_cause(client: &CuratorClient, expected: &str) {
    let began = Instant::now();
    loop {
        match client.wait_connected(Duration::from_millis(500)).await {
            Err(Error::NotConnected { cause, .. }) if cause.contains(expected) => return,
            Err(Error::NotConnected { .. }) if began.elapsed() < DEFAULT_TIMEOUT => {}
            other => panic!("{other:?}, not {expected:?}"),
        }
    }
}

/// Opens descriptors until only `free` of them are left.
fn use_up_all_descriptors_but(free: usize) -> Vec<File> {
    let limit = Rlimit {
        current: Some(DESCRIPTORS),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut used: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    used.truncate(used.len() - free);
    used
}

/// Checks that a client that starts with this many free descriptors connects when there are more.
fn assert_connects_once_descriptors_are_free(free: usize) {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let server = TestingServer::shared().await.connect_string();
            let used = use_up_all_descriptors_but(free);
            let client = builder(server).start().unwrap();
            until_cause(&client, "too few file descriptors left").await;
            drop(used);
            client.wait_connected(DEFAULT_TIMEOUT).await.unwrap();
            client.get_data("/").await.unwrap();
            soon(client.close()).await.unwrap();
        });
}

/// The event loop that all connections share needs three descriptors.
#[test]
fn a_client_that_starts_without_a_free_descriptor_connects_when_there_are_some() {
    alone(
        "exhausted::a_client_that_starts_without_a_free_descriptor_connects_when_there_are_some",
        || {
            assert_connects_once_descriptors_are_free(0);
        },
    );
}

#[test]
fn a_client_that_starts_with_two_free_descriptors_connects_when_there_are_more() {
    alone(
        "exhausted::a_client_that_starts_with_two_free_descriptors_connects_when_there_are_more",
        || {
            assert_connects_once_descriptors_are_free(2);
        },
    );
}

/// This happens, for example, when a container has reached its limit of processes.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[test]
fn a_client_that_starts_while_no_thread_can_be_spawned_connects_once_one_can() {
    alone(
        "exhausted::a_client_that_starts_while_no_thread_can_be_spawned_connects_once_one_can",
        || {
            // Waiting for a real server would start the event loop.
            let server = EmbeddedServer::start().unwrap();
            let home = Builder::new_current_thread().enable_all().build().unwrap();
            let client = home.block_on(async { builder(server.connect_string()).start().unwrap() });
            std::thread::scope(|scope| {
                let without_threads = scope.spawn(|| {
                    forbid_threads();
                    home.block_on(until_cause(
                        &client,
                        "the attempt has panicked: cannot spawn async-io thread",
                    ));
                });
                without_threads.join().unwrap();
            });
            home.block_on(async {
                client.wait_connected(DEFAULT_TIMEOUT).await.unwrap();
                client.get_data("/").await.unwrap();
                soon(client.close()).await.unwrap();
            });
        },
    );
}

/// Prevents the calling thread from starting threads: `clone` and `clone3` fail as if a limit had
/// been reached.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn forbid_threads() {
    const CALLS: [i64; 2] = if cfg!(target_arch = "x86_64") {
        [56, 435]
    } else {
        [220, 435]
    };
    let try_again =
        seccompiler::SeccompAction::Errno(rustix::io::Errno::AGAIN.raw_os_error().unsigned_abs());
    crate::sandbox::forbid(&CALLS, try_again);
}
