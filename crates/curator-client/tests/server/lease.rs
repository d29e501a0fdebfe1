//! The lease ends before another client can see that the session has ended.

use std::time::Duration;

use curator_client::ConnectionState::Reconnected;
use curator_client::{ClockInstant, CuratorClient, SaslOptions, SessionEnd, WatchEvent};
use curator_test::{OpCode, Simulation};
use tokio::time::sleep;

use crate::support::{
    behind_proxy_with, builder, direct, direct_with, ephemeral, is_native, proxy, reconnect,
    simulated, soon, watch_over,
};

/// A session timeout that a test waits for.
const SHORT: Duration = Duration::from_secs(4);

/// A lease is normally renewed by two probes. Here the lease would end before the second one.
#[tokio::test(start_paused = true)]
async fn a_session_resumed_near_the_end_of_its_lease_renews_it_and_outlives_it() {
    let (simulation, client) = simulated(|client| client).await;
    let session = client.session().await.unwrap();
    let process = simulation.main();
    let node = ephemeral(&client).await;
    simulation.partition(process, 1);
    let rest = session.timeout() / 4;
    sleep(session.lease().remaining() - rest).await;
    let before = session.lease().valid_until();
    process.cut();
    simulation.heal_partition(process, 1);
    session.connected().await.unwrap();
    // Without the new connect, only the probe before the outage would renew the lease, and by less
    // than `rest`.
    assert!(session.lease().valid_until() > before + rest, "{session:?}");

    simulation.partition(process, 1);
    watch_over(session.lease()).await;
    assert!(
        simulation.node(&node).is_some(),
        "the session has ended before its lease"
    );
}

/// The lease counts from the connect, which comes after the cut, because a quorum has committed the
/// write of the first probe.
#[tokio::test]
async fn a_reconnect_renews_the_lease_from_the_time_of_the_cut() {
    let mut options = vec![None];
    // With SASL, the write fails. The native transport does not accept a server without SASL.
    if !is_native() {
        options.push(Some(SaslOptions::digest_md5("alice", "wonderland")));
    }
    for sasl in options {
        let (proxy, client) = behind_proxy_with(|client| match sasl {
            Some(sasl) => client
                .authorization("digest", "alice:wonderland")
                .sasl(sasl),
            None => client,
        })
        .await;
        let session = client.session().await.unwrap();
        for round in 0..3 {
            let cut_at = ClockInstant::now();
            reconnect(&proxy, &client).await;
            let until = session.lease().valid_until();
            assert!(
                until >= cut_at + session.timeout() / 16 * 15,
                "round {round}: {cut_at:?}, {session:?}"
            );
        }
    }
}

/// The reply to the write has no result, so only the leader has confirmed the session, and it may
/// be deposed.
#[tokio::test]
async fn a_reconnect_does_not_renew_a_young_lease_if_the_server_refuses_the_write_of_the_first_probe()
 {
    const UNIMPLEMENTED: i32 = -6;
    // So long that no probe renews the lease during the test.
    let (proxy, client) =
        behind_proxy_with(|client| client.session_timeout(Duration::from_secs(60))).await;
    let session = client.session().await.unwrap();
    let opened = session.lease().valid_until();
    proxy.alter_next_reply(OpCode::Multi, |reply| {
        reply.truncate(12);
        reply.extend_from_slice(&UNIMPLEMENTED.to_be_bytes());
    });
    reconnect(&proxy, &client).await;
    assert_eq!(session.lease().valid_until(), opened);
    // A quorum confirms the next connection.
    let cut_at = ClockInstant::now();
    reconnect(&proxy, &client).await;
    assert!(session.lease().valid_until() >= cut_at + session.timeout() / 16 * 15);
}

#[tokio::test]
async fn a_lease_is_computed_from_the_granted_session_timeout() {
    let before = ClockInstant::now();
    let client = direct_with(|client| client.session_timeout(Duration::from_secs(3_600))).await;
    let session = client.session().await.unwrap();
    assert_eq!(session.timeout(), Duration::from_secs(60));
    assert!(session.lease().valid_until() < before + session.timeout());
    assert!(session.lease().remaining() > session.timeout() / 2);
}

/// The next two probes might not be answered within the rest of the lease, so the client opens
/// another session.
#[tokio::test(start_paused = true)]
async fn a_session_is_not_used_if_opening_it_has_taken_half_of_its_lease() {
    let simulation = Simulation::new(1);
    let timeout = Duration::from_secs(8);
    // Together the delays leave less than half of the session timeout. Neither alone makes the
    // client abandon the connection.
    for op in [OpCode::CreateSession, OpCode::Sync] {
        simulation.main().delay_nth_reply(op, 1, timeout / 4);
    }
    let client = CuratorClient::builder(simulation.connect_string())
        .session_timeout(timeout)
        .connect()
        .await
        .unwrap();
    assert_ne!(
        client.session().await.unwrap().id(),
        simulation.main().sessions()[0].session_id
    );
}

// Runs in real time: a simulation has no other thread.
#[tokio::test]
async fn a_lease_ends_in_time_while_the_runtime_is_stuck() {
    let proxy = proxy().await;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let connecting = builder(proxy.connect_string())
        .session_timeout(SHORT)
        .connect();
    let client = runtime.spawn(connecting).await.unwrap().unwrap();
    let session = client.session().await.unwrap();
    let (release_tx, release_rx) = std::sync::mpsc::channel::<()>();
    runtime.spawn(async move { release_rx.recv().unwrap_err() });
    watch_over(session.lease()).await;
    assert_eq!(session.end(), Some(SessionEnd::LeaseOver));
    drop(release_tx);
    // The supervisor finds an expired lease, and a session that may be alive.
    let mut states = client.connection_states();
    assert!(soon(states.wait_for(Reconnected)).await);
    assert!(!session.is_valid());
    assert_eq!(client.session().await.unwrap().epoch(), session.epoch() + 1);
    runtime.shutdown_background();
}

/// `zookeeper-client` alone would keep the session alive for as long as the process runs.
// Runs in real time: a simulation has no other thread.
#[tokio::test]
async fn the_servers_end_the_session_of_a_client_whose_runtime_is_stuck() {
    let proxy = proxy().await;
    let observer = direct().await;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let connecting = builder(proxy.connect_string())
        .session_timeout(SHORT)
        .connect();
    let client = runtime.spawn(connecting).await.unwrap().unwrap();
    let node = ephemeral(&client).await;
    let (_, _, mut watch) = observer.watch_data(&node).await.unwrap();
    let (release_tx, release_rx) = std::sync::mpsc::channel::<()>();
    runtime.spawn(async move { release_rx.recv().unwrap_err() });
    assert_eq!(soon(watch.fired()).await, WatchEvent::Deleted);
    drop(release_tx);
    runtime.shutdown_background();
}
