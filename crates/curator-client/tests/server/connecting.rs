//! Connecting to a server, to a dead address, and to a server that does not answer.

use std::time::{Duration, Instant};

use curator_client::{Error, Outcome};
use curator_test::{Direction, FaultProxy, OpCode, TestingServer};
use futures_util::future::join_all;

use crate::support::{LONG, builder, once, proxy, refusal, soon, until};

/// Long enough for a client on a busy machine to find out why a server does not answer.
const CONNECTION: Duration = Duration::from_secs(4);

// Runs in real time: each transport has its own code to find out why a server does not answer.
#[tokio::test]
async fn a_connect_without_a_server_or_a_reply_ends_at_the_connection_timeout() {
    type Fault = fn(&FaultProxy);
    let silent = "connected, but no reply to the handshake";
    // The last row has a longer timeout, because the server first answers the handshake, which
    // takes time on a busy machine.
    let rows: [(Fault, u64, Duration, &str); 4] = [
        (
            |proxy| proxy.refuse(true).unwrap(),
            60,
            CONNECTION,
            "connection refused",
        ),
        (
            |proxy| proxy.black_hole(Direction::Both),
            5,
            CONNECTION,
            silent,
        ),
        (
            |proxy| proxy.black_hole(Direction::Both),
            60,
            CONNECTION,
            silent,
        ),
        (
            |proxy| proxy.hold_replies(OpCode::Sync),
            60,
            Duration::from_secs(8),
            "connected, but no reply to the first request",
        ),
    ];
    join_all(rows.map(
        async |(fault, session_timeout, connection_timeout, expected)| {
            let proxy = proxy().await;
            fault(&proxy);
            let connect_string = proxy.connect_string();
            let started = Instant::now();
            let connect = builder(&connect_string)
                .session_timeout(Duration::from_secs(session_timeout))
                .connection_timeout(connection_timeout)
                .retry_policy(once())
                .connect();
            let error = soon(connect).await.unwrap_err();
            let took = started.elapsed();
            let Error::ConnectFailed { after, cause, .. } = &error else {
                panic!("{error}")
            };
            assert!((connection_timeout..=took).contains(after), "{error}");
            assert!(
                cause.starts_with(&format!("{connect_string}: {expected}")),
                "{error}, not {expected}"
            );
            assert_eq!(
                (error.outcome(), error.is_retryable()),
                (Outcome::NotApplied, true)
            );
        },
    ))
    .await;
}

// Runs in real time: each transport limits its own attempts.
#[tokio::test]
async fn a_client_connects_despite_a_silent_and_a_refusing_server() {
    let dead = proxy().await;
    let alive = proxy().await;
    dead.black_hole(Direction::Both);
    let refusing = proxy().await;
    refusing.refuse(true).unwrap();
    let connect_string = [&dead, &alive, &refusing]
        .map(FaultProxy::connect_string)
        .join(",");
    // A client tries the servers in random order, so eventually one tries the silent server before
    // `alive`.
    let mut clients = 0;
    while dead.handshakes() == 0 || clients < 6 {
        assert!(clients < 64, "no client has tried the silent server");
        clients += 1;
        let client = builder(&connect_string)
            .session_timeout(Duration::from_secs(60))
            .connection_timeout(Duration::from_secs(3))
            .connect()
            .await
            .unwrap();
        client.get_data("/").await.unwrap();
        client.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_connect_fails_immediately_if_the_server_refuses_the_credentials() {
    let connect_string = TestingServer::shared().await.connect_string();
    let error = refusal(builder(&connect_string).authorization("no-such-scheme", "x")).await;
    assert!(matches!(error, Error::ConnectRefused { .. }), "{error}");
    assert!(error.to_string().contains(&connect_string), "{error}");
}

#[tokio::test]
async fn a_connect_that_failed_or_was_dropped_leaves_no_task_behind() {
    let proxy = proxy().await;
    proxy.refuse(true).unwrap();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let connect = |timeout| {
        builder(proxy.connect_string())
            .connection_timeout(timeout)
            .retry_policy(once())
            .connect()
    };
    connect(Duration::from_millis(100)).await.unwrap_err();
    until(async || tasks() == before).await;
    tokio::time::timeout(Duration::from_millis(100), connect(LONG))
        .await
        .unwrap_err();
    until(async || tasks() == before).await;
    // The same for a connect that succeeded, when its client is dropped.
    proxy.refuse(false).unwrap();
    drop(connect(LONG).await.unwrap());
    until(async || tasks() == before).await;
}
