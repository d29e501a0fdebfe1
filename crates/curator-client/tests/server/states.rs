//! Connection states: what a subscriber receives, and the state of the session.

use std::time::Duration;

use curator_client::ConnectionState::{Connected, Lost, Reconnected, Suspended};
use curator_client::{ClockInstant, Error, Outcome, SessionEnd};
use curator_test::OpCode;

use crate::support::{
    DEFAULT_TIMEOUT, behind_proxy, behind_proxy_with, end_session, ephemeral, expect, simulated,
    soon, watch_over,
};

#[tokio::test]
async fn the_state_becomes_reconnected_only_after_a_reply() {
    let (proxy, client) = behind_proxy().await;
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    // `zookeeper-client` reports a connection as soon as it has sent its handshake.
    proxy.hold_replies(OpCode::Sync);
    proxy.reset_counts();
    proxy.cut();
    expect(&mut states, Suspended).await;
    soon(proxy.wait_for_reply(OpCode::Sync, 1)).await.unwrap();
    assert_eq!(client.connection_state(), Suspended);
    proxy.release_held();
    expect(&mut states, Reconnected).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_pause_past_the_lease_loses_the_session_in_time_and_a_new_one_opens() {
    let (simulation, client) = simulated(|client| client).await;
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    simulation.pause_server(1);
    let paused_at = ClockInstant::now();
    let (promised, lost_at) = tokio::join!(watch_over(session.lease()), async {
        assert!(states.wait_for(Lost).await);
        ClockInstant::now()
    });
    assert!(
        promised < paused_at + session.timeout(),
        "the lease was renewed without a reply"
    );
    let late = lost_at.saturating_duration_since(promised);
    assert!(
        lost_at >= promised && late < Duration::from_millis(50),
        "Lost came {late:?} after the end of the lease"
    );
    assert_eq!(session.end(), Some(SessionEnd::LeaseOver));
    assert!(client.current_session().is_none());

    simulation.resume_server(1);
    assert_eq!(states.next().await, Some(Reconnected));
    let next = client.session().await.unwrap();
    assert_ne!(next.id(), session.id());
    assert_eq!(next.epoch(), session.epoch() + 1);
    assert!(!session.is_valid());
}

#[tokio::test]
async fn a_session_that_is_closed_on_the_server_is_lost_immediately() {
    let (proxy, client) = behind_proxy_with(|client| client.session_timeout(DEFAULT_TIMEOUT)).await;
    let mut states = client.connection_states();
    let session = client.session().await.unwrap();
    let node = ephemeral(&client).await;
    end_session(&proxy).await;
    // The session ends with the reply of a server, not at the end of the lease.
    assert_eq!(soon(session.ended()).await, SessionEnd::Expired);
    assert!(!session.is_valid());
    // An ended session sends no more requests.
    let error = session
        .get_children(&client.resolve("/").unwrap())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::SessionEnded {
                end: SessionEnd::Expired,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        (error.outcome(), error.is_retryable()),
        (Outcome::NotApplied, true)
    );
    assert!(soon(states.wait_for(Lost)).await);
    expect(&mut states, Reconnected).await;
    let next = client.session().await.unwrap();
    assert_eq!(next.epoch(), 2);
    assert!(next.is_valid());
    assert!(client.check_exists(&node).await.unwrap().is_none());
}
