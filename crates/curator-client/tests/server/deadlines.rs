//! Every operation ends in bounded time.

use std::time::{Duration, Instant};

use curator_client::{CuratorClient, CuratorClientBuilder, Error, Outcome, SessionEnd, ZPath};
use curator_test::{Direction, FaultProxy, OpCode};

use crate::support::{SLACK, begin_outage, behind_proxy_with, once, soon, until};

const OPERATION: Duration = Duration::from_millis(300);
/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(600);
const CONNECTION: Duration = Duration::from_secs(2);

/// A client with a short operation timeout that makes one attempt.
async fn impatient() -> (FaultProxy, CuratorClient) {
    behind_proxy_with(|client| client.operation_timeout(OPERATION).retry_policy(once())).await
}

/// Checks that an operation fails after `least`, and not much later.
async fn assert_fails_after<T: std::fmt::Debug>(
    least: Duration,
    operation: impl Future<Output = curator_client::Result<T>>,
) -> Error {
    let started = Instant::now();
    let error = soon(operation).await.unwrap_err();
    let took = started.elapsed();
    assert!((least..least + SLACK).contains(&took), "{error} after {took:?}");
    error
}

/// The error contains the cause. A request that stayed queued could be applied at any time later, even after its
/// session was given up and the operation was repeated in the next one.
#[tokio::test]
async fn an_operation_during_an_outage_ends_at_the_connection_timeout_and_is_never_sent() {
    let (proxy, client) = behind_proxy_with(|client| client.connection_timeout(CONNECTION).retry_policy(once())).await;
    let session = client.session().await.unwrap();
    begin_outage(&proxy, &client).await;
    let error = assert_fails_after(CONNECTION, client.delete().for_path("/no-such-node")).await;
    assert!(matches!(error, Error::NotConnected { after: CONNECTION, .. }), "{error}");
    assert_eq!((error.outcome(), error.is_retryable()), (Outcome::NotApplied, true));
    let refused = format!("{}: connection refused", proxy.connect_string());
    assert!(error.to_string().ends_with(&refused), "{error}");
    // A request of the session itself is not sent either.
    assert!(!session.is_connected());
    let error = session.delete(&client.resolve("/no-such-node").unwrap(), None).await.unwrap_err();
    assert!(matches!(error, Error::Disconnected { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);

    proxy.refuse(false).unwrap();
    soon(session.connected()).await.unwrap();
    client.get_data("/").await.unwrap();
    assert_eq!(proxy.requests().get(&OpCode::Delete), None);
}

#[tokio::test]
async fn the_operation_timeout_does_not_apply_to_lease_probes() {
    let (timeout, operation) = (Duration::from_secs(8), Duration::from_millis(20));
    let (proxy, client) =
        behind_proxy_with(|client| client.session_timeout(timeout).operation_timeout(operation)).await;
    let session = client.session().await.unwrap();
    let first = session.lease().valid_until();
    proxy.set_delay(Duration::from_millis(50));
    until(async || session.lease().valid_until() > first + session.timeout() / 3).await;
    assert_eq!(session.end(), None);
}

#[tokio::test]
async fn an_operation_without_a_reply_ends_at_the_operation_timeout() {
    let (proxy, client) = impatient().await;
    proxy.swallow_next_reply(OpCode::GetData);
    let error = assert_fails_after(OPERATION, client.get_data("/")).await;
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
    // The connection is unaffected.
    until(async || client.get_data("/").await.is_ok()).await;
    assert_eq!(proxy.handshakes(), 1);
}

#[tokio::test]
async fn the_operation_timeout_of_an_unpolled_request_counts_from_the_call() {
    let operation = Duration::from_secs(3);
    let (proxy, client) = behind_proxy_with(|client| client.operation_timeout(operation).retry_policy(once())).await;
    proxy.swallow_next_reply(OpCode::Exists);
    let session = client.session().await.unwrap();
    let started = Instant::now();
    let (swallowed, answered) = (session.exists(&ZPath::root()), session.exists(&ZPath::root()));
    answered.await.unwrap();
    tokio::time::sleep(operation).await;
    let error = soon(swallowed).await.unwrap_err();
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
    assert!(started.elapsed() < 2 * operation);
}

#[tokio::test]
async fn without_an_operation_timeout_the_session_timeout_applies() {
    let timeout = Duration::from_secs(4);
    let (proxy, client) = behind_proxy_with(|client| client.session_timeout(timeout).retry_policy(once())).await;
    let session = client.session().await.unwrap();
    proxy.swallow_next_reply(OpCode::GetData);
    let error = assert_fails_after(session.timeout(), client.get_data("/")).await;
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
}

/// Until there is another session, the client does not return the ended one.
#[tokio::test]
async fn an_operation_without_a_session_ends_at_the_connection_timeout() {
    let brief = |client: CuratorClientBuilder| client.session_timeout(Duration::from_secs(3)).retry_policy(once());
    let (proxy, client) = behind_proxy_with(|client| brief(client).connection_timeout(CONNECTION)).await;
    let session = client.session().await.unwrap();
    proxy.refuse(true).unwrap();
    proxy.black_hole(Direction::Both);
    soon(session.ended()).await;
    let error = assert_fails_after(CONNECTION, client.get_data("/")).await;
    assert!(matches!(error, Error::NotConnected { after: CONNECTION, .. }), "{error}");
    let error = assert_fails_after(CONNECTION, client.session()).await;
    assert!(matches!(error, Error::NotConnected { .. }), "{error}");
}

/// The connection stays open, but the session is no longer confirmed.
#[tokio::test]
async fn an_operation_under_way_ends_with_its_session() {
    let brief = |client: CuratorClientBuilder| client.session_timeout(Duration::from_secs(3));
    let (proxy, client) = behind_proxy_with(|client| brief(client).operation_timeout(FOREVER)).await;
    let session = client.session().await.unwrap();
    proxy.swallow_next_reply(OpCode::GetData);
    let reading = session.get_data(&ZPath::root());
    proxy.wait_for_faults().await.unwrap();
    for probe in 1..1_000 {
        proxy.swallow_nth_reply(OpCode::Sync, probe);
    }
    // Replies to other requests keep the connection open.
    let others = async {
        while session.exists(&ZPath::root()).await.is_ok() {}
        session.ended().await
    };
    let (end, read) = soon(async { tokio::join!(others, reading) }).await;
    assert_eq!(end, SessionEnd::LeaseOver);
    // The client also gives up the connection of an ended session. Another thread may report that first.
    let error = read.unwrap_err();
    let is_over = matches!(error, Error::SessionEnded { end: SessionEnd::LeaseOver, .. });
    assert!(is_over || matches!(error, Error::ConnectionLost { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn an_operation_on_a_silent_connection_ends_with_the_connection_or_the_session() {
    let (timeout, operation) = (Duration::from_secs(1), FOREVER);
    let (proxy, client) =
        behind_proxy_with(|client| client.session_timeout(timeout).operation_timeout(operation)).await;
    let session = client.session().await.unwrap();
    proxy.refuse(true).unwrap();
    proxy.black_hole(Direction::Both);
    let error = soon(session.get_data(&ZPath::root())).await.unwrap_err();
    let is_over = matches!(error, Error::SessionEnded { end: SessionEnd::LeaseOver, .. });
    assert!(is_over || matches!(error, Error::ConnectionLost { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
}
