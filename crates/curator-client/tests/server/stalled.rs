//! A process that does not run for a while, or a thread that is stuck in a log line: the
//! connections are healthy, and must be kept.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use curator_client::CuratorClient;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{alone, direct_with, is_native, node, soon};

/// Longer than the watchdog allows for a poll that never stops reading.
const STALL: Duration = Duration::from_secs(4);

/// Whether the next line of `zookeeper-client` blocks.
static BLOCKS: AtomicBool = AtomicBool::new(false);

/// A log whose reader has stopped reading for a while. `zookeeper-client` logs while it polls its
/// connection.
struct Blocking;

impl Subscriber for Blocking {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("zookeeper_client")
    }

    fn event(&self, _event: &Event<'_>) {
        if BLOCKS.swap(false, Ordering::Relaxed) {
            sleep(STALL);
        }
    }

    fn new_span(&self, _attributes: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _id: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _id: &Id, _follows: &Id) {}
    fn enter(&self, _id: &Id) {}
    fn exit(&self, _id: &Id) {}
}

/// Connects, calls `stall` at a moment when the client sends and receives, and checks that the
/// session still has its first connection.
fn survives(stall: impl AsyncFnOnce(&CuratorClient)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = direct_with(|client| client.session_timeout(Duration::from_secs(40))).await;
        let session = client.session().await.unwrap();
        stall(&client).await;
        node(&client).await;
        assert_eq!(session.connections(), 1, "{}", client.health());
        assert!(session.is_valid() && session.is_connected());
    });
}

// Runs in real time: a thread blocks.
#[test]
fn a_connection_outlives_a_log_line_that_blocks() {
    // Only `zookeeper-client` logs there.
    if is_native() {
        return;
    }
    alone(
        "stalled::a_connection_outlives_a_log_line_that_blocks",
        || {
            tracing::subscriber::set_global_default(Blocking).unwrap();
            survives(async |client| {
                BLOCKS.store(true, Ordering::Relaxed);
                // The next line logs one of these requests or its reply. Other replies arrive
                // meanwhile.
                let other = client.clone();
                let requests = tokio::spawn(async move {
                    for _ in 0..100 {
                        other.get_data("/").await.unwrap();
                    }
                });
                soon(requests).await.unwrap();
                assert!(!BLOCKS.load(Ordering::Relaxed), "nothing was logged");
            });
        },
    );
}

// Runs in real time: a process pauses.
#[test]
fn a_connection_outlives_a_pause_of_its_process() {
    alone(
        "stalled::a_connection_outlives_a_pause_of_its_process",
        || {
            survives(async |client| {
                let reading = client.clone();
                let requests = tokio::spawn(async move {
                    loop {
                        reading.get_data("/").await.unwrap();
                    }
                });
                let script = format!(
                    "kill -STOP {0}; sleep {1}; kill -CONT {0}",
                    std::process::id(),
                    STALL.as_secs()
                );
                let mut pause = Command::new("sh").args(["-c", &script]).spawn().unwrap();
                soon(tokio::task::spawn_blocking(move || pause.wait()))
                    .await
                    .unwrap()
                    .unwrap();
                requests.abort();
            });
        },
    );
}
