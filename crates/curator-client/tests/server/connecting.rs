//! Connecting: to somebody, to nobody, to a server that does not answer.

use std::time::{Duration, Instant};

use curator_client::{CuratorClient, Error, Outcome};
use curator_test::{Direction, FaultProxy, TestingServer};

use crate::support::{SLACK, builder, once, patient, proxy, soon, until};

const CONNECTION: Duration = Duration::from_millis(800);

/// A connect whose policy allows no retry.
async fn fails_in_time(connect_string: String, session_timeout: Duration, expected: &str) {
    let started = Instant::now();
    let connect =
        CuratorClient::builder(&connect_string).session_timeout(session_timeout).connection_timeout(CONNECTION);
    let connect = connect.retry_policy(once()).connect();
    let error = soon(connect).await.unwrap_err();
    let took = started.elapsed();
    assert!((CONNECTION..CONNECTION + SLACK).contains(&took), "{error} after {took:?}");
    let Error::ConnectFailed { after, cause, .. } = &error else { panic!("{error}") };
    assert!((CONNECTION..=took).contains(after), "{error}");
    assert!(cause.starts_with(&format!("{connect_string}: {expected}")), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_connect_to_nobody_ends_at_the_connection_timeout() {
    let proxy = proxy().await;
    proxy.refuse(true).unwrap();
    fails_in_time(proxy.connect_string(), Duration::from_secs(60), "connection refused").await;
}

#[tokio::test]
async fn a_connect_to_a_black_hole_ends_at_the_connection_timeout() {
    let proxy = proxy().await;
    proxy.black_hole(Direction::Both);
    for session_timeout in [1, 60] {
        let silent = "connected, but no answer to the handshake";
        fails_in_time(proxy.connect_string(), Duration::from_secs(session_timeout), silent).await;
    }
}

#[tokio::test]
async fn a_connect_to_a_server_that_answers_no_request_ends_at_the_connection_timeout() {
    let proxy = proxy().await;
    proxy.hold_replies(curator_test::OpCode::Sync);
    let silent = "connected, but no answer to the first request";
    fails_in_time(proxy.connect_string(), Duration::from_secs(60), silent).await;
}

#[tokio::test]
async fn one_dead_server_among_others_does_not_matter() {
    let (dead, alive) = (proxy().await, proxy().await);
    dead.black_hole(Direction::Both);
    let refusing = proxy().await;
    refusing.refuse(true).unwrap();
    let connect_string = [&dead, &alive, &refusing].map(FaultProxy::connect_string).join(",");
    // A client begins with any of them, so sooner or later the dead one comes before the one that is alive.
    let mut clients = 0..64;
    while dead.handshakes() == 0 || clients.start < 6 {
        clients.next().unwrap();
        let connect = CuratorClient::builder(&connect_string).session_timeout(Duration::from_secs(60));
        let client = connect.connection_timeout(Duration::from_secs(3)).connect().await.unwrap();
        client.get_data("/").await.unwrap();
        client.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_credentials_is_an_error_at_once() {
    let connect_string = TestingServer::shared().await.connect_string();
    let started = Instant::now();
    // However patient the client is.
    let connect = builder(&connect_string).retry_policy(patient()).authorization("no-such-scheme", "x").connect();
    let error = soon(connect).await.unwrap_err();
    assert!(matches!(error, Error::ConnectRefused { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(!error.is_retryable());
    assert!(error.to_string().contains(&connect_string), "{error}");
}

#[tokio::test]
async fn a_client_knows_its_address_towards_the_servers() {
    let connect_string = TestingServer::shared().await.connect_string();
    let client = builder(&connect_string).connect().await.unwrap();
    assert_eq!(&**client.default_lock_data(), b"127.0.0.1");
    let client = builder(&connect_string).default_lock_data(*b"me").connect().await.unwrap();
    assert_eq!(&**client.default_lock_data(), b"me");
}

#[tokio::test]
async fn a_connect_that_failed_or_was_dropped_leaves_no_task_behind() {
    let proxy = proxy().await;
    proxy.refuse(true).unwrap();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let connect = || builder(proxy.connect_string()).connection_timeout(CONNECTION).retry_policy(once()).connect();
    connect().await.unwrap_err();
    until(async || tasks() == before).await;
    tokio::time::timeout(Duration::from_millis(100), connect()).await.unwrap_err();
    until(async || tasks() == before).await;
    // Nor does one that succeeded, when its client is dropped.
    proxy.refuse(false).unwrap();
    drop(connect().await.unwrap());
    until(async || tasks() == before).await;
}
