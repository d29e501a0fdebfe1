//! What the retry policy is told by a lock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use curator_recipes::client::{RetryPolicy, ZPath};
use curator_recipes::revoke;
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{LONG_SESSION, acquiring, builder, client, mutex, path, queue_of, soon};

/// Never gives up, and notes what it is told.
#[derive(Debug, Default, Clone)]
struct Noted(Arc<Mutex<Vec<(u32, Duration)>>>);

impl RetryPolicy for Noted {
    fn next_delay(&self, retries: u32, elapsed: Duration) -> Option<Duration> {
        self.0.lock().unwrap().push((retries, elapsed));
        Some(Duration::from_millis(10))
    }
}

/// A policy with a limit of time would give up at the first lost answer, had the wait been longer than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_that_a_waiter_has_waited_is_no_time_of_failures() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let notes = Noted::default();
    let waiting = builder(&proxy.connect_string(), LONG_SESSION)
        .operation_timeout(Duration::from_millis(300))
        .retry_policy(notes.clone())
        .connect()
        .await
        .unwrap();
    let (steady, path) = (client().await, path("long-wait"));
    let held = mutex(&steady, &path).acquire().await.unwrap();
    let node: ZPath = held.node().clone();
    proxy.reset_counts();
    let waiter = acquiring(&waiting, &path);
    queue_of(&steady, &path, 2).await;
    // It watches the holder and itself, and waits.
    proxy.wait_for_reply(OpCode::GetData, 2).await.unwrap();
    notes.0.lock().unwrap().clear();
    // The write uses its watch up, and the answer to the next one is lost.
    proxy.swallow_next_reply(OpCode::GetData);
    revoke(&steady, &node).await.unwrap();
    proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
    held.release().await.unwrap();
    soon(waiter).await.unwrap().unwrap().release().await.unwrap();
    let notes = notes.0.lock().unwrap();
    assert_eq!(notes.first(), Some(&(0, Duration::ZERO)), "{notes:?}");
}
