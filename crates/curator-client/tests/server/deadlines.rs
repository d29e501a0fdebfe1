//! Every operation ends in bounded time.

use std::time::Duration;

use curator_client::ConnectionState::Suspended;
use curator_client::{CuratorClient, CuratorClientBuilder, Error, Outcome, SessionEnd, ZPath};
use curator_test::{OpCode, Simulation};
use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep};

use crate::support::{once, simulated};

const OPERATION: Duration = Duration::from_millis(300);
/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(600);
const CONNECTION: Duration = Duration::from_secs(2);
/// Longer than a round trip.
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// A client with these options that makes one attempt.
async fn impatient(
    options: impl FnOnce(CuratorClientBuilder) -> CuratorClientBuilder,
) -> (Simulation, CuratorClient) {
    simulated(|client| options(client).retry_policy(once())).await
}

/// Checks that an operation fails after this time, and not much later.
async fn assert_fails_after<T: std::fmt::Debug>(
    time: Duration,
    operation: impl Future<Output = curator_client::Result<T>>,
) -> Error {
    let started = Instant::now();
    let error = operation.await.unwrap_err();
    let took = started.elapsed();
    assert!(
        (time..time + ROUND_TRIP).contains(&took),
        "{error} after {took:?}"
    );
    error
}

/// The error contains the cause. A request that stayed queued could be applied at any later time,
/// even after its session was abandoned and the operation was repeated in the next one.
#[tokio::test(start_paused = true)]
async fn an_operation_during_an_outage_ends_at_the_connection_timeout_and_is_never_sent() {
    let (simulation, client) = impatient(|client| client.connection_timeout(CONNECTION)).await;
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    simulation.main().refuse(true);
    simulation.main().cut();
    assert!(states.wait_for(Suspended).await);
    let error = assert_fails_after(CONNECTION, client.delete().for_path("/no-such-node")).await;
    assert!(
        matches!(
            error,
            Error::NotConnected {
                after: CONNECTION,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        (error.outcome(), error.is_retryable()),
        (Outcome::NotApplied, true)
    );
    assert!(
        error.to_string().ends_with("zk1:2181: connection refused"),
        "{error}"
    );
    // A request of the session itself is not sent either.
    assert!(!session.is_connected());
    let error = session
        .delete(&client.resolve("/no-such-node").unwrap(), None)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Disconnected { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);

    simulation.main().refuse(false);
    session.connected().await.unwrap();
    client.get_data("/").await.unwrap();
    assert_eq!(simulation.requests().get(&OpCode::Delete), None);
}

#[tokio::test(start_paused = true)]
async fn the_operation_timeout_does_not_apply_to_lease_probes() {
    let (simulation, client) =
        impatient(|client| client.operation_timeout(Duration::from_millis(20))).await;
    let session = client.session().await.unwrap();
    let first = session.lease().valid_until();
    simulation.set_latency(ROUND_TRIP..=ROUND_TRIP);
    sleep(session.timeout()).await;
    assert!(session.lease().valid_until() > first + session.timeout() / 3);
    assert_eq!(session.end(), None);
}

#[tokio::test(start_paused = true)]
async fn an_operation_without_a_reply_ends_at_the_operation_timeout() {
    let (simulation, client) = impatient(|client| client.operation_timeout(OPERATION)).await;
    simulation.main().swallow_next_reply(OpCode::GetData);
    let error = assert_fails_after(OPERATION, client.get_data("/")).await;
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
    // The connection is unaffected.
    client.get_data("/").await.unwrap();
    assert_eq!(simulation.main().handshakes(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_operation_timeout_of_an_unpolled_request_counts_from_the_call() {
    let (simulation, client) = impatient(|client| client.operation_timeout(OPERATION)).await;
    simulation.main().swallow_next_reply(OpCode::Exists);
    let session = client.session().await.unwrap();
    let swallowed = session.exists(&ZPath::root());
    let answered = session.exists(&ZPath::root());
    answered.await.unwrap();
    sleep(OPERATION).await;
    let error = swallowed.now_or_never().unwrap().unwrap_err();
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn without_an_operation_timeout_the_session_timeout_applies() {
    let (simulation, client) = impatient(|client| client).await;
    simulation.main().swallow_next_reply(OpCode::GetData);
    let timeout = client.session().await.unwrap().timeout();
    let error = assert_fails_after(timeout, client.get_data("/")).await;
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
}

/// Until there is another session, the client does not return the ended one.
#[tokio::test(start_paused = true)]
async fn an_operation_without_a_session_ends_at_the_connection_timeout() {
    let (simulation, client) = impatient(|client| client.connection_timeout(CONNECTION)).await;
    let session = client.session().await.unwrap();
    simulation.stop(1);
    session.ended().await;
    let error = assert_fails_after(CONNECTION, client.get_data("/")).await;
    assert!(
        matches!(
            error,
            Error::NotConnected {
                after: CONNECTION,
                ..
            }
        ),
        "{error}"
    );
    let error = assert_fails_after(CONNECTION, client.session()).await;
    assert!(matches!(error, Error::NotConnected { .. }), "{error}");
}

/// The connection stays open, but the session is no longer confirmed.
#[tokio::test(start_paused = true)]
async fn an_operation_under_way_ends_with_its_session() {
    let (simulation, client) = impatient(|client| {
        client
            .operation_timeout(FOREVER)
            .session_timeout(CONNECTION)
    })
    .await;
    let session = client.session().await.unwrap();
    let process = simulation.main();
    process.swallow_next_reply(OpCode::GetData);
    let reading = session.get_data(&ZPath::root());
    process.wait_for_faults().await.unwrap();
    for probe in 1..1_000 {
        process.swallow_nth_reply(OpCode::Sync, probe);
    }
    // Replies to other requests keep the connection open.
    let others = async {
        while session.exists(&ZPath::root()).await.is_ok() {}
        session.ended().await
    };
    let (end, read) = tokio::join!(others, reading);
    assert_eq!(end, SessionEnd::LeaseOver);
    // The client also closes the connection of an ended session. Another thread may report that
    // first.
    let error = read.unwrap_err();
    let has_ended = matches!(
        error,
        Error::SessionEnded {
            end: SessionEnd::LeaseOver,
            ..
        }
    );
    assert!(
        has_ended || matches!(error, Error::ConnectionLost { .. }),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::Unknown);
}
