//! Closing a client.

use std::time::Duration;

use curator_client::{
    ConnectionState, CuratorClient, CuratorClientBuilder, Error, SessionEnd, ZPath,
};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{
    behind_proxy, behind_proxy_with, builder, direct, ephemeral, patient, proxy, reading,
    simulated, soon, unique_path, until,
};

/// A close timeout that a test waits for.
const CLOSE: Duration = Duration::from_millis(200);

/// A client that is opening its first session, and the session's id: the session exists on the
/// server, but the client's first request has not been answered.
async fn opening(builder: CuratorClientBuilder, proxy: &FaultProxy) -> (CuratorClient, i64) {
    proxy.hold_replies(OpCode::Sync);
    let client = builder.start().unwrap();
    soon(proxy.wait_for_request(OpCode::Sync, 1)).await.unwrap();
    let id = proxy.sessions().last().unwrap().session_id;
    assert!(has_session(id).await);
    assert_eq!(client.connection_state(), ConnectionState::Connecting);
    (client, id)
}

async fn has_session(id: i64) -> bool {
    TestingServer::shared()
        .await
        .sessions()
        .await
        .unwrap()
        .iter()
        .any(|session| session.session_id == id)
}

async fn id_of(client: &CuratorClient) -> i64 {
    client.session().await.unwrap().id()
}

#[tokio::test]
async fn a_closed_client_leaves_no_session_and_no_ephemeral_node_on_the_server() {
    let (proxy, client) = behind_proxy().await;
    let observer = direct().await;
    let node = ephemeral(&client).await;
    let id = id_of(&client).await;
    assert!(has_session(id).await);
    // With this delay, the test fails if the client does not wait for the reply.
    proxy.set_delay(Duration::from_millis(50));
    client.close().await.unwrap();
    assert_eq!(observer.check_exists(&node).await.unwrap(), None);
    assert!(!has_session(id).await);
}

#[tokio::test]
async fn a_close_also_closes_a_session_that_is_being_opened() {
    let proxy = proxy().await;
    let (client, id) = opening(builder(proxy.connect_string()), &proxy).await;
    // With this delay, the test fails if the client does not wait for the reply.
    proxy.set_delay(Duration::from_millis(50));
    let mut close = Box::pin(client.close());
    assert!(futures_util::FutureExt::now_or_never(&mut close).is_none());
    proxy.release_held();
    soon(close).await.unwrap();
    assert!(!has_session(id).await);
}

#[tokio::test]
async fn a_close_is_unconfirmed_if_a_session_that_was_being_opened_may_be_alive() {
    let proxy = proxy().await;
    let (client, _) = opening(builder(proxy.connect_string()).close_timeout(CLOSE), &proxy).await;
    proxy.refuse(true).unwrap();
    let error = soon(client.close()).await.unwrap_err();
    assert!(matches!(error, Error::CloseUnconfirmed { .. }), "{error}");
}

#[tokio::test]
async fn a_dropped_close_continues() {
    let client = direct().await;
    let id = id_of(&client).await;
    let mut close = Box::pin(client.close());
    assert!(futures_util::FutureExt::now_or_never(&mut close).is_none());
    drop(close);
    until(async || !has_session(id).await).await;
}

#[tokio::test]
async fn calls_after_a_close_fail_immediately() {
    let client = direct().await;
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    client.close().await.unwrap();
    let errors = [
        client.get_data("/").await.unwrap_err(),
        client
            .create()
            .for_path(unique_path("node"), "")
            .await
            .unwrap_err(),
        client
            .create()
            .with_protection()
            .for_path(unique_path("node"), "")
            .await
            .unwrap_err(),
        client
            .delete()
            .guaranteed()
            .for_path(unique_path("node"))
            .await
            .unwrap_err(),
        client
            .transaction()
            .check("/", None)
            .unwrap()
            .commit()
            .await
            .unwrap_err(),
        client.session().await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Closed), "{error}");
        assert!(!error.is_retryable());
    }
    let error = session.get_data(&ZPath::root()).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::SessionEnded {
                end: SessionEnd::Closed,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(session.end(), Some(SessionEnd::Closed));
    assert!(!session.is_valid());
    assert!(client.current_session().is_none());
    assert!(soon(states.next()).await.is_some());
    assert_eq!(soon(states.next()).await, None);
    soon(client.closing()).await;
    assert_eq!(client.janitor().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_close_during_an_outage_ends_in_time_and_abandons_pending_deletes() {
    let (simulation, client) = simulated(|client| client.close_timeout(CLOSE)).await;
    let mut states = client.connection_states();
    simulation.main().refuse(true);
    simulation.main().cut();
    assert!(states.wait_for(ConnectionState::Suspended).await);
    for _ in 0..100 {
        client
            .janitor()
            .delete(&client.resolve(unique_path("node")).unwrap());
    }
    let started = tokio::time::Instant::now();
    let error = client.close().await.unwrap_err();
    // The error contains the total time, not only the close timeout.
    let Error::CloseUnconfirmed { after } = error else {
        panic!("{error}")
    };
    assert!(
        (2 * CLOSE..=started.elapsed()).contains(&after) && after < 3 * CLOSE,
        "{error}"
    );
    // A second close reports the same time.
    let again = client.close().await.unwrap_err();
    assert!(
        matches!(again, Error::CloseUnconfirmed { after: again } if again == after),
        "{again}"
    );
    // The deletes were abandoned.
    client.janitor().idle().await;
    assert_eq!(client.janitor().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_close_after_a_session_loss_does_not_wait_for_a_new_session() {
    let (simulation, client) = simulated(|client| client.close_timeout(CLOSE)).await;
    let session = client.session().await.unwrap();
    simulation.stop(1);
    session.ended().await;
    // Whether the old session has ended on the server is unknown; only the time matters.
    drop(
        tokio::time::timeout(3 * CLOSE, client.close())
            .await
            .unwrap(),
    );
}

#[tokio::test]
async fn a_pause_between_retries_ends_when_the_client_closes() {
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(patient())).await;
    proxy.cut_before_reply(OpCode::GetData);
    let read = reading(&client);
    let mut states = client.connection_states();
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    client.close().await.unwrap();
    let error = soon(read).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Closed), "{error}");
}

#[tokio::test]
async fn dropping_the_last_clone_closes_the_session() {
    let client = direct().await;
    let clone = client.clone();
    let id = id_of(&client).await;
    drop(client);
    clone.get_data("/").await.unwrap();
    drop(clone);
    until(async || !has_session(id).await).await;
}
