//! If a test pauses tokio's clock, the client uses real time.

use std::time::Duration;

use crate::support::direct_with;

// Runs in real time, which is what the test checks.
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
    tokio::task::spawn_blocking(move || std::thread::sleep(outlived))
        .await
        .unwrap();
    assert!(session.is_valid(), "{:?}", session.end());
    assert!(client.session().await.unwrap().is_same(&session));
}
