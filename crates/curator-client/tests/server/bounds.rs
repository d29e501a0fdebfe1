//! How many requests may be under way.

use std::time::Duration;

use curator_client::{ConnectionState, Error, Outcome};
use curator_test::OpCode;

use crate::support::{builder, expect, proxy, soon, watch_over};

const MOST: usize = 16;

#[tokio::test]
async fn one_request_too_many_is_refused() {
    let proxy = proxy().await;
    let client = builder(proxy.connect_string()).max_requests_in_flight(MOST).connect().await.unwrap();
    let session = client.session().await.unwrap();
    let path = client.resolve("/").unwrap();
    proxy.hold_replies(OpCode::Exists);
    let requests: Vec<_> = (0..MOST).map(|_| session.exists(&path)).collect();
    let error = soon(session.exists(&path)).await.unwrap_err();
    assert!(matches!(error, Error::TooManyRequests { limit: MOST, .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(error.is_retryable());
    proxy.release_held();
    for request in requests {
        soon(request).await.unwrap();
    }
    session.exists(&path).await.unwrap();
}

#[tokio::test]
async fn a_client_at_its_limit_keeps_its_session() {
    let proxy = proxy().await;
    let builder = builder(proxy.connect_string()).session_timeout(Duration::from_secs(4));
    let client = builder.max_requests_in_flight(MOST).connect().await.unwrap();
    let mut states = client.connection_states();
    expect(&mut states, ConnectionState::Connected).await;
    let session = client.session().await.unwrap();
    let path = client.resolve("/").unwrap();
    // Answers that nobody takes count as under way.
    let requests: Vec<_> = (0..MOST).map(|_| session.exists(&path)).collect();
    assert!(matches!(session.exists(&path).await, Err(Error::TooManyRequests { .. })));
    let until = session.lease().valid_until() + session.timeout();
    while session.lease().valid_until() < until {
        assert!(session.is_valid(), "the session was lost: {:?}", session.end());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(client.connection_state(), ConnectionState::Connected);
    drop(requests);
    client.close().await.unwrap();
    watch_over(session.lease()).await;
}
