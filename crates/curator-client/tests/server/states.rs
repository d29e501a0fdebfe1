//! Connection states: what a subscriber is told, and what becomes of the session.

use std::time::Duration;

use curator_client::ConnectionState::{Connected, Lost, Reconnected, Suspended};
use curator_client::{ClockInstant, Error, Outcome, SessionEnd};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{
    DEFAULT_TIMEOUT, LONG, behind_proxy, builder, direct, end_session, ephemeral, expect, proxy, soon, watch_over,
    within,
};

/// What a loaded machine may need to run a task that is due.
const SCHEDULING: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_subscription_begins_with_the_state_of_now() {
    let client = direct().await;
    assert_eq!(client.connection_state(), Connected);
    expect(&mut client.connection_states(), Connected).await;
}

#[tokio::test]
async fn a_short_outage_keeps_the_session_and_its_nodes() {
    let (proxy, client) = behind_proxy().await;
    let mut states = client.connection_states();
    let session = client.session().await.unwrap();
    let node = ephemeral(&client).await;
    proxy.cut();
    for state in [Connected, Suspended, Reconnected] {
        expect(&mut states, state).await;
    }
    assert!(session.is_valid());
    assert_eq!(client.session().await.unwrap().id(), session.id());
    let stat = client.check_exists(&node).await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, session.id());
}

#[tokio::test]
async fn a_reset_is_an_outage_like_any_other() {
    let (proxy, client) = behind_proxy().await;
    let mut states = client.connection_states();
    let session = client.session().await.unwrap();
    proxy.reset();
    for state in [Connected, Suspended, Reconnected] {
        expect(&mut states, state).await;
    }
    assert_eq!(client.session().await.unwrap().epoch(), session.epoch());
}

#[tokio::test]
async fn a_late_reader_is_told_of_every_outage() {
    let (proxy, client) = behind_proxy().await;
    let (mut prompt, mut late) = (client.connection_states(), client.connection_states());
    expect(&mut prompt, Connected).await;
    for _ in 0..5 {
        proxy.cut();
        expect(&mut prompt, Suspended).await;
        expect(&mut prompt, Reconnected).await;
    }
    client.close().await.unwrap();
    expect(&mut late, Connected).await;
    for _ in 0..5 {
        expect(&mut late, Suspended).await;
        expect(&mut late, Reconnected).await;
    }
    assert_eq!(soon(late.next()).await, None);
}

#[tokio::test]
async fn reconnected_means_that_a_request_was_answered() {
    let (proxy, client) = behind_proxy().await;
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    // The client crate says that it is connected as soon as it has sent its handshake.
    proxy.hold_replies(OpCode::Sync);
    proxy.reset_counts();
    proxy.cut();
    expect(&mut states, Suspended).await;
    soon(proxy.wait_for_reply(OpCode::Sync, 1)).await.unwrap();
    assert_eq!(client.connection_state(), Suspended);
    proxy.release_held();
    expect(&mut states, Reconnected).await;
}

#[tokio::test]
async fn an_answer_that_is_overdue_is_doubt_too() {
    let proxy = proxy().await;
    let client = builder(proxy.connect_string()).session_timeout(Duration::from_secs(6)).connect().await.unwrap();
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    let session = client.session().await.unwrap();
    proxy.hold_replies(OpCode::Sync);
    expect(&mut states, Suspended).await;
    proxy.release_held();
    expect(&mut states, Reconnected).await;
    assert_eq!(client.session().await.unwrap().id(), session.id());
    assert_eq!(proxy.handshakes(), 1, "the connection was never broken");
}

#[tokio::test]
async fn a_pause_past_the_lease_is_a_loss_in_time_and_then_a_new_session() {
    let server = TestingServer::start().await.unwrap();
    let client =
        builder(server.connect_string()).session_timeout(Duration::from_millis(1_500)).connect().await.unwrap();
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    let session = client.session().await.unwrap();
    server.pause().unwrap();
    let paused_at = ClockInstant::now();
    let (promised, lost_at) = tokio::join!(watch_over(session.lease()), async {
        assert!(soon(states.wait_for(Lost)).await);
        ClockInstant::now()
    });
    assert!(promised < paused_at + session.timeout(), "the lease was renewed by nobody");
    assert!(lost_at >= promised, "the lease was given up before its end");
    let late = lost_at.saturating_duration_since(promised);
    assert!(late < SCHEDULING, "Lost came {late:?} after the end of the lease");
    assert_eq!(session.end(), Some(SessionEnd::LeaseOver));
    assert!(client.current_session().is_none());

    server.resume().unwrap();
    expect(&mut states, Reconnected).await;
    let next = client.session().await.unwrap();
    assert_ne!(next.id(), session.id());
    assert_eq!(next.epoch(), session.epoch() + 1);
    assert!(!session.is_valid());
}

#[tokio::test]
async fn a_server_that_dies_and_comes_back_in_time_keeps_the_session() {
    let server = TestingServer::start().await.unwrap();
    let client = builder(server.connect_string()).connect().await.unwrap();
    let mut states = client.connection_states();
    let session = client.session().await.unwrap();
    let node = ephemeral(&client).await;
    server.kill().unwrap();
    expect(&mut states, Connected).await;
    expect(&mut states, Suspended).await;
    server.restart().await.unwrap();
    expect(&mut states, Reconnected).await;
    assert_eq!(client.session().await.unwrap().id(), session.id());
    assert!(client.check_exists(&node).await.unwrap().is_some());
}

#[tokio::test]
async fn a_session_that_is_closed_on_the_server_is_lost_at_once() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(proxy.connect_string()).session_timeout(DEFAULT_TIMEOUT).connect().await.unwrap();
    let mut states = client.connection_states();
    let session = client.session().await.unwrap();
    let node = ephemeral(&client).await;
    end_session(server, &proxy).await;
    // Long before the lease is over.
    let end = within(DEFAULT_TIMEOUT / 6, session.ended()).await;
    assert_eq!(end, SessionEnd::Expired);
    assert!(!session.is_valid());
    assert!(soon(states.wait_for(Lost)).await);
    expect(&mut states, Reconnected).await;
    let next = client.session().await.unwrap();
    assert_eq!(next.epoch(), 2);
    assert!(next.is_valid());
    assert!(client.check_exists(&node).await.unwrap().is_none());
}

#[tokio::test]
async fn a_handle_to_a_lost_session_sends_nothing_more() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(proxy.connect_string()).session_timeout(LONG).connect().await.unwrap();
    let session = client.session().await.unwrap();
    end_session(server, &proxy).await;
    soon(session.ended()).await;
    let path = client.resolve("/").unwrap();
    let error = session.get_children(&path).await.unwrap_err();
    assert!(matches!(error, Error::SessionEnded { end: SessionEnd::Expired, .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(error.is_retryable());
}
