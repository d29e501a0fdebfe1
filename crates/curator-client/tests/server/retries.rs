//! The retry policy is asked, and obeyed.

use std::time::Duration;

use curator_client::{CuratorClient, Error, RetryForever, RetryNTimes, RetryPolicy};
use curator_test::{FaultProxy, OpCode};

use crate::support::{behind_proxy_with, soon, unique_path};

const PAUSE: Duration = Duration::from_millis(20);

async fn with_policy(policy: impl RetryPolicy) -> (FaultProxy, CuratorClient) {
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(policy)).await;
    proxy.reset_counts();
    (proxy, client)
}

#[tokio::test]
async fn a_read_is_tried_again_until_it_succeeds() {
    let (proxy, client) = with_policy(RetryNTimes::new(3, PAUSE).unwrap()).await;
    let path = client.create().for_path(unique_path("node"), "data").await.unwrap();
    for _ in 0..3 {
        proxy.cut_before_reply(OpCode::GetData);
    }
    assert_eq!(soon(client.get_data(&path)).await.unwrap().0, b"data");
    assert_eq!(proxy.requests()[&OpCode::GetData], 4);
}

#[tokio::test]
async fn a_word_of_the_server_is_not_tried_again() {
    let (proxy, client) = with_policy(RetryForever::new(PAUSE).unwrap()).await;
    let error = soon(client.get_data(unique_path("node"))).await.unwrap_err();
    assert!(matches!(error, Error::NoNode { .. }), "{error}");
    assert_eq!(proxy.requests()[&OpCode::GetData], 1);
}

/// Notes what it is asked.
#[derive(Debug)]
struct Noted(std::sync::Arc<std::sync::Mutex<Vec<(u32, Duration)>>>);

impl RetryPolicy for Noted {
    fn next_delay(&self, retries: u32, elapsed: Duration) -> Option<Duration> {
        self.0.lock().unwrap().push((retries, elapsed));
        (retries < 3).then_some(PAUSE)
    }
}

#[tokio::test]
async fn a_policy_is_told_how_often_and_since_when() {
    let notes = std::sync::Arc::default();
    let (proxy, client) = with_policy(Noted(std::sync::Arc::clone(&notes))).await;
    for _ in 0..4 {
        proxy.cut_before_reply(OpCode::Exists);
    }
    soon(client.check_exists("/")).await.unwrap_err();
    let notes = notes.lock().unwrap();
    let retries: Vec<u32> = notes.iter().map(|(retries, _)| *retries).collect();
    assert_eq!(retries, [0, 1, 2, 3]);
    // The time of the first try is none of it.
    assert_eq!(notes[0].1, Duration::ZERO);
    for pair in notes.windows(2) {
        assert!(pair[1].1 >= pair[0].1 + PAUSE, "{notes:?}");
    }
}
