//! The health that a client reports.

use std::time::Duration;

use curator_client::ConnectionState::{Connected, Connecting, Reconnected, Suspended};
use curator_test::{OpCode, TestingServer};

use crate::support::{LONG, behind_proxy, builder, node, reconnect, replace_session, soon, until};

#[tokio::test]
async fn a_client_that_connects_is_not_ready_until_it_has_a_session() {
    let server = TestingServer::start().await.unwrap();
    server.stop().await.unwrap();
    let client = builder(server.connect_string())
        .name("patient")
        .start()
        .unwrap();
    until(async || client.health().last_failure.is_some()).await;
    let health = client.health();
    assert!(!health.is_ready());
    assert_eq!(
        (health.client.as_str(), health.state, health.session_id),
        ("patient", Connecting, None)
    );
    assert_eq!(health.server, None);
    assert_eq!(health.lease_remaining, Duration::ZERO);
    let line = health.to_string();
    assert!(
        line.starts_with("patient: connecting for ") && line.ends_with("connection refused"),
        "{line}"
    );
    server.restart().await.unwrap();
    let mut states = client.connection_states();
    assert!(soon(states.wait_for(Connected)).await);
    let health = client.health();
    let session = client.session().await.unwrap();
    assert!(health.is_ready());
    assert_eq!(
        (health.state, health.session_id),
        (Connected, Some(session.id()))
    );
    assert_eq!(health.server, Some(server.connect_string()));
    assert!(health.lease_remaining > LONG / 2 && health.lease_remaining <= LONG);
    assert_eq!(
        (health.connections_resumed, health.sessions_replaced),
        (0, 0)
    );
    // The last failure is still reported.
    assert!(health.last_failure.is_some());
}

#[tokio::test]
async fn health_counts_resumed_connections_and_replaced_sessions() {
    let (proxy, client) = behind_proxy().await;
    assert_eq!(client.health().last_failure, None);
    let mut states = client.connection_states();
    for resumed in 1..=2 {
        proxy.hold_replies(OpCode::Sync);
        proxy.cut();
        assert!(soon(states.wait_for(Suspended)).await);
        let health = client.health();
        assert!(!health.is_ready() && health.session_id.is_some());
        assert_eq!(health.connections_resumed, resumed - 1);
        proxy.release_held();
        assert!(soon(states.wait_for(Reconnected)).await);
        let health = client.health();
        assert!(health.is_ready());
        assert_eq!(
            (health.connections_resumed, health.sessions_replaced),
            (resumed, 0)
        );
    }
    replace_session(&proxy, &client).await;
    let health = client.health();
    assert!(health.is_ready());
    assert_eq!(
        (health.connections_resumed, health.sessions_replaced),
        (2, 1)
    );
    assert_eq!(health.last_failure.unwrap().cause, "the server ended it");
}

#[tokio::test]
async fn health_counts_unfired_watches_and_pending_deletes() {
    let (proxy, client) = behind_proxy().await;
    let path = node(&client).await;
    let watches = || client.health().watches;
    let (_, _, mut first) = client.watch_data(&path).await.unwrap();
    let (_, second) = client.watch_children(&path).await.unwrap();
    assert_eq!(watches(), 2);
    drop(second);
    assert_eq!(watches(), 1);
    client.set_data(&path, "", None).await.unwrap();
    soon(&mut first).await;
    assert_eq!(watches(), 0);
    let (_, _, _lost) = client.watch_data(&path).await.unwrap();
    assert_eq!(watches(), 1);
    reconnect(&proxy, &client).await;
    // The watch was on the connection that broke.
    assert_eq!(watches(), 0);
    assert_eq!(client.health().pending_deletes, 0);
    proxy.hold_replies(OpCode::Delete);
    client.janitor().delete(&path);
    assert_eq!(client.health().pending_deletes, 1);
    proxy.release_held();
    until(async || client.health().pending_deletes == 0).await;
}
