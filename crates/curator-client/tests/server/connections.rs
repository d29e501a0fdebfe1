//! What ends a connection, and what does not.

use std::time::Duration;

use curator_client::SessionEnd;
use curator_test::{Direction, OpCode, soon, until};
use futures_util::FutureExt as _;

use crate::support::{behind_proxy, behind_proxy_with, node};

/// A server that is closing the session answers its requests with the first of these codes.
#[tokio::test]
async fn a_reply_that_the_session_has_expired_or_needs_sasl_ends_the_session() {
    for (code, expected) in [(-112, SessionEnd::Expired), (-124, SessionEnd::AuthFailed)] {
        let (proxy, client) = behind_proxy().await;
        let session = client.session().await.unwrap();
        proxy.alter_next_reply(OpCode::GetData, move |frame| {
            frame.truncate(16);
            frame[12..16].copy_from_slice(&i32::to_be_bytes(code));
        });
        drop(client.get_data("/").await);
        assert_eq!(soon(session.ended()).await, expected);
    }
}

// Runs in real time: each transport has its own code to read replies.
#[tokio::test]
async fn a_dropped_watch_is_removed_after_an_unreadable_reply_to_an_earlier_request() {
    let (proxy, client) = behind_proxy().await;
    let path = node(&client).await;
    proxy.alter_next_reply(OpCode::GetData, |frame| frame.truncate(18));
    let session = client.session().await.unwrap();
    session.watch_data(&path).await.unwrap_err();
    proxy.reset_counts();
    drop(session.watch_data(&path).await.unwrap());
    soon(proxy.wait_for_request(OpCode::RemoveWatches, 1))
        .await
        .unwrap();
}

/// A connection over which nothing arrives is abandoned before the session's lease ends.
// Runs in real time: each transport has its own heartbeat.
#[tokio::test]
async fn a_silent_connection_is_abandoned_well_before_the_session_timeout() {
    let (proxy, client) =
        behind_proxy_with(|client| client.session_timeout(Duration::from_secs(8))).await;
    let session = client.session().await.unwrap();
    proxy.black_hole(Direction::Both);
    until(async || !matches!(session.connected().now_or_never(), Some(Ok(())))).await;
    assert!(session.is_valid());
}
