//! If a test pauses tokio's clock, the client uses real time.

use std::time::{Duration, Instant};

use curator_client::Error;
use curator_test::OpCode;

use crate::support::{behind_proxy_with, direct_with, once};

#[tokio::test(start_paused = true)]
async fn a_session_is_kept_alive_while_the_clock_jumps_and_while_it_stands_still() {
    let client = direct_with(|client| client.session_timeout(Duration::from_secs(6))).await;
    let session = client.session().await.unwrap();
    let outlived = session.timeout() * 5 / 4;
    for _ in 0..10 {
        tokio::time::sleep(outlived).await;
        client.get_data("/").await.unwrap();
    }
    assert!(session.is_valid(), "{:?}", session.end());
    // Blocking work stops a paused clock entirely.
    tokio::task::spawn_blocking(move || std::thread::sleep(outlived)).await.unwrap();
    assert!(session.is_valid(), "{:?}", session.end());
    assert!(client.session().await.unwrap().is_same(&session));
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_shorten_the_operation_timeout() {
    let limit = Duration::from_millis(300);
    let (proxy, client) = behind_proxy_with(|client| client.operation_timeout(limit).retry_policy(once())).await;
    proxy.swallow_next_reply(OpCode::GetData);
    let began = Instant::now();
    let error = client.get_data("/").await.unwrap_err();
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
    assert!(began.elapsed() >= limit);
}
