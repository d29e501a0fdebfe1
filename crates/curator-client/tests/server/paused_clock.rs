//! A test that pauses tokio's clock: the client's time is real time.

use std::time::{Duration, Instant};

use curator_client::Error;
use curator_test::{OpCode, TestingServer};

use crate::support::{SHORT, behind_proxy_with, builder, once};

#[tokio::test(start_paused = true)]
async fn a_session_is_kept_alive_while_the_clock_jumps() {
    let client = builder(TestingServer::shared().await.connect_string()).session_timeout(SHORT);
    let client = client.connect().await.unwrap();
    let session = client.session().await.unwrap();
    // Each jumps over the whole session timeout.
    for _ in 0..10 {
        tokio::time::sleep(2 * session.timeout()).await;
        client.get_data("/").await.unwrap();
    }
    assert!(session.is_valid(), "{:?}", session.end());
    assert!(client.session().await.unwrap().is_same(&session));
}

/// Blocking work stops a paused clock altogether.
#[tokio::test(start_paused = true)]
async fn a_session_is_kept_alive_while_the_clock_stands_still() {
    let client = builder(TestingServer::shared().await.connect_string()).session_timeout(SHORT);
    let client = client.connect().await.unwrap();
    let session = client.session().await.unwrap();
    let outlived = 2 * session.timeout();
    tokio::task::spawn_blocking(move || std::thread::sleep(outlived)).await.unwrap();
    assert!(session.is_valid(), "{:?}", session.end());
    assert!(client.session().await.unwrap().is_same(&session));
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_its_answer_as_long_as_it_may() {
    let limit = Duration::from_millis(300);
    let (proxy, client) = behind_proxy_with(|client| client.operation_timeout(limit).retry_policy(once())).await;
    proxy.swallow_next_reply(OpCode::GetData);
    let began = Instant::now();
    let error = client.get_data("/").await.unwrap_err();
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
    assert!(began.elapsed() >= limit);
}
