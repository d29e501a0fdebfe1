//! A test that pauses tokio's clock: the client's time is real time.

use std::time::{Duration, Instant};

use curator_client::{ConnectionState, Error, RetryNTimes};
use curator_test::{Direction, FaultProxy, OpCode, TestingServer};

use crate::support::{SHORT, builder, proxy, soon, unique_path};

#[tokio::test(start_paused = true)]
async fn a_client_works_as_always() {
    let client = builder(TestingServer::shared().await.connect_string()).connect().await.unwrap();
    let path = client.create().for_path(unique_path("node"), "data").await.unwrap();
    assert_eq!(client.get_data(&path).await.unwrap().0, b"data");
    client.delete().guaranteed().for_path(&path).await.unwrap();
    client.close().await.unwrap();
}

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
    let proxy = proxy().await;
    let limit = Duration::from_millis(300);
    let client = builder(proxy.connect_string()).operation_timeout(limit);
    let client = client.retry_policy(RetryNTimes::new(0, limit).unwrap()).connect().await.unwrap();
    proxy.swallow_next_reply(OpCode::GetData);
    let began = Instant::now();
    let error = client.get_data("/").await.unwrap_err();
    assert!(matches!(error, Error::OperationTimeout { .. }), "{error}");
    assert!(began.elapsed() >= limit);
}

#[tokio::test(start_paused = true)]
async fn an_outage_and_its_pauses_take_their_time() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(proxy.connect_string()).connect().await.unwrap();
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    proxy.black_hole(Direction::Both);
    proxy.cut();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    proxy.heal();
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    assert!(client.session().await.unwrap().is_same(&session));
}
