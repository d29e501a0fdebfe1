//! A session whose connection breaks is resumed over another connection. Most tests run in real
//! time, because each transport makes its own attempts.

use std::time::Duration;

use curator_client::ConnectionState::{Connected, Reconnected, Suspended};
use curator_client::{ConnectionStates, CuratorClient, Session, SessionEnd};
use curator_test::{EmbeddedServer, FaultProxy, OpCode};
use futures_util::FutureExt as _;
use tokio::time::sleep;

use crate::support::{
    behind_proxy_with, builder, direct, end_session, ephemeral, expect, simulated, soon,
    unique_path, until, within,
};

/// So long that neither the servers nor the lease end a session within half of it.
const OUTLASTING: Duration = Duration::from_secs(60);

/// The client pauses for at most a second between two attempts; the rest allows for a busy machine.
/// The pauses of `zookeeper-client` itself would be longer than this from the seventh on.
const PAUSE: Duration = Duration::from_secs(5);

const FAILURES: u64 = 8;

async fn set_up() -> (FaultProxy, CuratorClient, Session, ConnectionStates) {
    let (proxy, client) = behind_proxy_with(|client| client.session_timeout(OUTLASTING)).await;
    proxy.reset_counts();
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    let session = client.session().await.unwrap();
    (proxy, client, session, states)
}

#[tokio::test]
async fn a_connection_whose_probes_are_answered_is_kept() {
    let (proxy, client) =
        behind_proxy_with(|client| client.session_timeout(Duration::from_secs(8))).await;
    let handshakes = proxy.handshakes();
    // The client sends six probes in a session timeout, and closes a connection over which none of
    // them is answered.
    soon(proxy.wait_for_reply(OpCode::Sync, 8)).await.unwrap();
    assert_eq!(proxy.handshakes(), handshakes);
    drop(client);
}

/// Cuts the connection, holds the replies to handshakes, and waits until the client has abandoned
/// one connection and tries another.
async fn hold_handshakes(proxy: &FaultProxy) {
    proxy.hold_replies(OpCode::CreateSession);
    proxy.cut();
    soon(proxy.wait_for_request(OpCode::CreateSession, 2))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_session_is_resumed_soon_after_repeated_failed_handshakes() {
    type Fault = fn(&FaultProxy, OpCode, u64);
    let before: Fault = FaultProxy::cut_before_nth_reply;
    let after: Fault = FaultProxy::cut_after_nth_reply;
    let (proxy, client, session, mut states) = set_up().await;
    let node = ephemeral(&client).await;
    for (round, fault) in [before, before, after].into_iter().enumerate() {
        proxy.reset_counts();
        for nth in 1..=FAILURES {
            fault(&proxy, OpCode::CreateSession, nth);
        }
        proxy.cut();
        for count in 1..=FAILURES {
            within(PAUSE, proxy.wait_for_request(OpCode::CreateSession, count))
                .await
                .unwrap();
        }
        expect(&mut states, Suspended).await;
        assert!(soon(states.wait_for(Reconnected)).await);
        assert_eq!(
            client.session().await.unwrap().id(),
            session.id(),
            "round {round}"
        );
        assert_eq!(
            client
                .check_exists(&node)
                .await
                .unwrap()
                .unwrap()
                .ephemeral_owner,
            session.id(),
            "round {round}"
        );
        assert!(session.is_valid(), "round {round}");
    }
}

#[tokio::test]
async fn a_session_is_resumed_when_replies_are_slow() {
    let (proxy, client, session, mut states) = set_up().await;
    // A round trip takes longer than the client waits in its first attempt.
    proxy.set_delay(Duration::from_millis(700));
    proxy.cut();
    expect(&mut states, Suspended).await;
    assert!(soon(states.wait_for(Reconnected)).await);
    assert_eq!(client.session().await.unwrap().id(), session.id());
    assert!(session.is_valid());
}

#[tokio::test]
async fn an_abandoned_connection_neither_reconnects_nor_closes_the_session() {
    let (proxy, client, _session, mut states) = set_up().await;
    let node = ephemeral(&client).await;
    hold_handshakes(&proxy).await;
    proxy.release_held();
    assert!(soon(states.wait_for(Reconnected)).await);
    // If the abandoned connection reconnected, it would do so immediately, and cut off the new one,
    // and so on. So the counts show it after the next probe, which is due within ten seconds.
    let handshakes = proxy.handshakes();
    let probes = proxy.requests()[&OpCode::Sync];
    soon(proxy.wait_for_reply(OpCode::Sync, probes + 1))
        .await
        .unwrap();
    assert_eq!((proxy.handshakes(), proxy.connections()), (handshakes, 1));
    assert_eq!(proxy.requests().get(&OpCode::CloseSession), None);
    assert!(client.check_exists(&node).await.unwrap().is_some());
}

#[tokio::test]
async fn a_resumed_session_begins_with_a_confirmed_write() {
    let (proxy, client, session, mut states) = set_up().await;
    hold_handshakes(&proxy).await;
    assert_eq!(proxy.requests().get(&OpCode::Multi), None);
    // The first connection ends before the reply. On the second, only the probe behind the write is
    // answered. Neither connection resumes the session.
    proxy.cut_before_reply(OpCode::Multi);
    proxy.swallow_nth_reply(OpCode::Multi, 2);
    proxy.release_held();
    assert!(soon(states.wait_for(Reconnected)).await);
    assert!(
        proxy.requests()[&OpCode::Multi] >= 3,
        "{:?}",
        proxy.requests()
    );
    assert_eq!(client.session().await.unwrap().id(), session.id());
}

#[tokio::test]
async fn closing_a_client_whose_session_is_being_resumed_completes_pending_deletes_and_closes_the_session()
 {
    let (proxy, client, ..) = set_up().await;
    let observer = direct().await;
    let path = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let session_node = ephemeral(&client).await;
    hold_handshakes(&proxy).await;
    client.janitor().delete(&path);
    let mut closing = std::pin::pin!(client.close());
    assert!((&mut closing).now_or_never().is_none());
    // This attempt fails, and the closing client makes another.
    proxy.cut();
    proxy.release_held();
    soon(closing).await.unwrap();
    for node in [path.as_str(), &session_node] {
        assert_eq!(observer.check_exists(node).await.unwrap(), None, "{node}");
    }
}

#[tokio::test]
async fn a_session_that_ends_while_it_is_being_resumed_is_replaced() {
    let (proxy, client, session, mut states) = set_up().await;
    hold_handshakes(&proxy).await;
    end_session(&proxy).await;
    // The held reply was sent before the session ended, so it confirms the session. The next reply
    // reports its end.
    proxy.cut();
    proxy.release_held();
    assert_eq!(soon(session.ended()).await, SessionEnd::Expired);
    assert!(soon(states.wait_for(Reconnected)).await);
    assert_eq!(client.session().await.unwrap().epoch(), 2);
}

/// A server that grants a shorter timeout would end the session while its lease is still valid.
#[tokio::test]
async fn a_session_that_is_granted_a_shorter_timeout_ends_immediately() {
    let server = EmbeddedServer::start().unwrap();
    let client = builder(server.connect_string())
        .session_timeout(Duration::from_secs(16))
        .connect()
        .await
        .unwrap();
    let session = client.session().await.unwrap();
    let node = ephemeral(&client).await;
    let mut states = client.connection_states();
    let granted = Duration::from_secs(4);
    server.set_session_timeouts(granted / 2, granted).unwrap();
    server.cut();
    assert_eq!(
        soon(session.ended()).await,
        SessionEnd::TimeoutLowered { granted }
    );
    assert!(!session.is_valid());
    assert!(soon(states.wait_for(Reconnected)).await);
    let next = client.session().await.unwrap();
    assert_eq!((next.epoch(), next.timeout()), (2, granted));
    // The old session's node is deleted long before that session would time out.
    until(async || client.check_exists(&node).await.unwrap().is_none()).await;
}

/// The test blocks the only thread of its runtime, so no task can read the reply.
#[tokio::test]
async fn a_shorter_timeout_that_is_granted_while_the_runtime_is_blocked_ends_the_session() {
    let (proxy, client, session, mut states) = set_up().await;
    let node = ephemeral(&client).await;
    proxy.stretch_session_timeouts(0.5);
    proxy.hold_replies(OpCode::CreateSession);
    proxy.cut();
    soon(proxy.wait_for_request(OpCode::CreateSession, 1))
        .await
        .unwrap();
    proxy.release_held();
    while session.is_valid() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(
        session.end(),
        Some(SessionEnd::TimeoutLowered {
            granted: session.timeout() / 2
        })
    );
    assert!(soon(states.wait_for(Reconnected)).await);
    assert_eq!(client.session().await.unwrap().epoch(), 2);
    until(async || client.check_exists(&node).await.unwrap().is_none()).await;
}

#[tokio::test]
async fn a_session_that_is_granted_a_longer_timeout_continues_with_its_old_one() {
    let server = EmbeddedServer::start().unwrap();
    let longest = Duration::from_secs(8);
    let client = builder(server.connect_string())
        .session_timeout(longest)
        .connect()
        .await
        .unwrap();
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    server
        .set_session_timeouts(2 * longest, 2 * longest)
        .unwrap();
    server.cut();
    assert!(soon(states.wait_for(Reconnected)).await);
    assert_eq!(client.session().await.unwrap().id(), session.id());
    assert_eq!(session.timeout(), longest);
    assert!(session.is_valid());
}

/// If the client did not close such a session, its nodes would block others until the session times
/// out.
#[tokio::test(start_paused = true)]
async fn a_session_whose_lease_has_ended_is_closed_as_soon_as_a_server_is_reachable() {
    let (simulation, client) = simulated(|client| client).await;
    let session = client.session().await.unwrap();
    // A renewed lease ends long before the server's timeout.
    sleep(session.timeout()).await;
    simulation.partition(simulation.main(), 1);
    assert_eq!(session.ended().await, SessionEnd::LeaseOver);
    assert!(simulation.session_ids().contains(&session.id()));
    simulation.heal_partition(simulation.main(), 1);
    client.session().await.unwrap();
    simulation
        .main()
        .wait_for_request(OpCode::CloseSession, 1)
        .await
        .unwrap();
    sleep(Duration::from_millis(100)).await;
    assert!(!simulation.session_ids().contains(&session.id()));
}
