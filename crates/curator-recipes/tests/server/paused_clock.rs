//! Locks in a test that pauses tokio's clock: their time is real time.

use std::time::{Duration, Instant};

use curator_test::TestingServer;

use crate::support::{connect, mutex, path, soon};

#[tokio::test(start_paused = true)]
async fn an_acquire_waits_for_its_timeout_and_no_shorter() {
    let server = TestingServer::shared().await;
    let (holder, waiter) = (connect(&server.connect_string()).await, connect(&server.connect_string()).await);
    let (path, timeout) = (path("paused"), Duration::from_millis(200));
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = mutex(&waiter, &path);
    let began = Instant::now();
    assert!(soon(waiting.acquire_timeout(timeout)).await.unwrap().is_none());
    assert!(began.elapsed() >= timeout);
    // The release comes long after the timeout by tokio's clock.
    let release = async {
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        guard.release().await.unwrap();
    };
    let (acquired, ()) = tokio::join!(waiting.acquire_timeout(Duration::from_secs(60)), release);
    assert!(acquired.unwrap().is_some());
}
