//! A client that follows the configuration of its ensemble: which servers it tries, and what that
//! costs. Each server is a separate one, so a client that moves to another server has a new session
//! there.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, SystemTime};

use curator_client::{ConnectionState, CuratorClient, EnsembleTracker, Session};
use curator_test::{EmbeddedServer, FaultProxy, OpCode, Process, Simulation};

use crate::support::{builder, soon, until};

/// An address at which no server listens.
fn closed() -> SocketAddr {
    // Dropped, so that the port is closed.
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// A server whose sessions have other ids than those of the servers started before: the ids contain
/// the millisecond of the start. Otherwise, a client could take over a session of another server.
fn server() -> EmbeddedServer {
    let millis = || {
        SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |since| since.as_millis())
    };
    let before = millis();
    while millis() == before {
        std::thread::yield_now();
    }
    EmbeddedServer::start().unwrap()
}

async fn connect(connect_string: &str, tracker: EnsembleTracker) -> CuratorClient {
    builder(connect_string)
        .ensemble_tracker(tracker)
        .connection_timeout(Duration::from_secs(4))
        .connect()
        .await
        .unwrap()
}

/// Waits until the client tries these servers.
async fn until_tried(client: &CuratorClient, servers: &[SocketAddr]) {
    let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
    until(async || client.health().servers == servers).await;
}

fn reads(server: &EmbeddedServer) -> u64 {
    server
        .requests()
        .get(&OpCode::GetData)
        .copied()
        .unwrap_or_default()
}

/// Ends all connections of `client`, and waits until it is connected again.
async fn reconnected(client: &CuratorClient, end: impl FnOnce()) {
    let mut states = client.connection_states();
    end();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
}

#[tokio::test]
async fn a_client_follows_each_configuration_with_one_read_and_one_watch() {
    let first = server();
    let others = [closed(), closed()];
    first.set_ensemble(&[first.address(), others[0]]);
    let client = connect(&first.connect_string(), EnsembleTracker::Auto).await;
    until_tried(&client, &[first.address(), others[0]]).await;
    // The first read is without a watch, because most ensembles name no addresses for clients.
    until(async || client.health().watches == 1).await;
    assert_eq!(reads(&first), 2);
    first.set_ensemble(&[first.address(), others[1]]);
    until_tried(&client, &[first.address(), others[1]]).await;
    until(async || client.health().watches == 1).await;
    assert_eq!(reads(&first), 3);
    reconnected(&client, || first.cut()).await;
    until(async || reads(&first) == 4 && client.health().watches == 1).await;
    first.set_ensemble(&[first.address()]);
    until_tried(&client, &[first.address()]).await;
    client.close().await.unwrap();
    // The watch ends with the session, and its removal is no request.
    assert_eq!(first.requests().get(&OpCode::RemoveWatches), None);
    assert_eq!(first.requests()[&OpCode::CloseSession], 1);
}

#[tokio::test]
async fn a_new_member_is_tried_and_a_removed_server_is_not() {
    let first = server();
    let removed = server();
    let added = server();
    first.set_ensemble(&[first.address(), added.address()]);
    let connect_string = format!("{},{}", first.address(), removed.address());
    removed.refuse(true).unwrap();
    let client = connect(&connect_string, EnsembleTracker::Auto).await;
    removed.refuse(false).unwrap();
    until_tried(&client, &[first.address(), added.address()]).await;
    reconnected(&client, || first.stop()).await;
    until(async || client.health().server == Some(added.connect_string())).await;
    assert_eq!(removed.handshakes(), 0);
    // That server has no configuration, which does not make the client forget the ensemble.
    until(async || reads(&added) > 0).await;
    assert_eq!(
        client.health().servers,
        [first.connect_string(), added.connect_string()]
    );
}

#[tokio::test]
async fn the_connect_string_is_the_fallback_when_no_member_is_reached() {
    let first = server();
    let named = server();
    first.set_ensemble(&[first.address(), closed()]);
    let connect_string = format!("{},{}", first.address(), named.address());
    named.refuse(true).unwrap();
    let client = connect(&connect_string, EnsembleTracker::Auto).await;
    named.refuse(false).unwrap();
    until(async || !client.health().servers.contains(&named.connect_string())).await;
    reconnected(&client, || first.stop()).await;
    assert_eq!(client.health().server, Some(named.connect_string()));
}

#[tokio::test]
async fn a_client_behind_a_proxy_does_not_bypass_it() {
    let hidden = server();
    let proxy = FaultProxy::start(hidden.address()).unwrap();
    hidden.set_ensemble(&[hidden.address(), closed()]);
    let client = connect(&proxy.connect_string(), EnsembleTracker::Auto).await;
    for connection in 1..=3 {
        until(async || reads(&hidden) == connection).await;
        assert_eq!(client.health().servers, [proxy.connect_string()]);
        assert_eq!(client.health().watches, 0);
        reconnected(&client, || proxy.cut()).await;
        assert_eq!(client.health().server, Some(proxy.connect_string()));
    }
}

#[tokio::test]
async fn a_list_of_unreachable_members_does_not_replace_a_working_connect_string() {
    let hidden = server();
    let proxy = FaultProxy::start(hidden.address()).unwrap();
    let members = [closed(), closed()];
    hidden.set_ensemble(&members);
    let client = connect(&proxy.connect_string(), EnsembleTracker::Always).await;
    until_tried(&client, &[proxy.address(), members[0], members[1]]).await;
    for _ in 0..3 {
        let session = client.session().await.unwrap();
        reconnected(&client, || proxy.cut()).await;
        // The same session, because the server is the same.
        assert_eq!(client.session().await.unwrap().id(), session.id());
    }
}

#[tokio::test]
async fn a_client_that_follows_on_request_reaches_the_members_past_its_proxy() {
    let hidden = server();
    let proxy = FaultProxy::start(hidden.address()).unwrap();
    hidden.set_ensemble(&[hidden.address()]);
    let client = connect(&proxy.connect_string(), EnsembleTracker::Always).await;
    until_tried(&client, &[proxy.address(), hidden.address()]).await;
    proxy.refuse(true).unwrap();
    reconnected(&client, || proxy.cut()).await;
    assert_eq!(client.health().server, Some(hidden.connect_string()));
    // Reached as the configuration names it: the members alone are tried.
    until_tried(&client, &[hidden.address()]).await;
}

#[tokio::test]
async fn a_client_that_does_not_follow_reads_nothing() {
    let only = server();
    only.set_ensemble(&[only.address(), closed()]);
    let client = connect(&only.connect_string(), EnsembleTracker::Never).await;
    reconnected(&client, || only.cut()).await;
    client.check_exists("/").await.unwrap();
    assert_eq!(reads(&only), 0);
    assert_eq!(client.health().servers, [only.connect_string()]);
}

#[tokio::test]
async fn a_refused_read_is_repeated_only_in_the_next_session() {
    let only = server();
    only.set_ensemble(&[only.address(), closed()]);
    let proxy = FaultProxy::start(only.address()).unwrap();
    let client = builder(proxy.connect_string())
        .ensemble_tracker(EnsembleTracker::Always)
        .start()
        .unwrap();
    // The error `NoAuth` instead of the data.
    proxy.alter_next_reply(OpCode::GetData, |reply| {
        reply.truncate(16);
        reply[12..16].copy_from_slice(&(-102_i32).to_be_bytes());
    });
    let session = soon(client.session()).await.unwrap();
    soon(proxy.wait_for_reply(OpCode::GetData, 1))
        .await
        .unwrap();
    for _ in 0..2 {
        reconnected(&client, || proxy.cut()).await;
        client.check_exists("/").await.unwrap();
    }
    assert_eq!(reads(&only), 1);
    assert_eq!(client.health().servers, [proxy.connect_string()]);
    let mut states = client.connection_states();
    only.expire_session(session.id()).unwrap();
    assert!(soon(states.wait_for(ConnectionState::Lost)).await);
    until(async || client.health().servers.len() == 3).await;
    // Of the next session: a read without a watch, and one with a watch.
    until(async || reads(&only) == 3).await;
}

#[tokio::test]
async fn the_session_of_the_caches_shares_the_members_and_has_no_watch_on_the_configuration() {
    let first = server();
    let added = server();
    first.set_ensemble(&[first.address(), added.address()]);
    added.refuse(true).unwrap();
    let client = connect(&first.connect_string(), EnsembleTracker::Auto).await;
    until_tried(&client, &[first.address(), added.address()]).await;
    let watching = client.watching_client().unwrap();
    soon(watching.session()).await.unwrap();
    added.refuse(false).unwrap();
    until(async || client.health().watches == 1).await;
    assert_eq!(reads(&first), 2);
    let mut states = watching.connection_states();
    first.stop();
    assert!(soon(states.wait_for(ConnectionState::Lost)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    // Both sessions.
    until(async || added.session_ids().len() == 2).await;
}

/// Waits in simulated time until the client tries these servers.
async fn until_tried_in_simulation(client: &CuratorClient, servers: &[&str]) {
    let tried = async {
        while client.health().servers != servers {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), tried)
        .await
        .unwrap_or_else(|_| panic!("{:?} instead of {servers:?}", client.health().servers));
}

#[tokio::test(start_paused = true)]
async fn each_reconnect_is_to_a_member_and_keeps_the_session() {
    let simulation = Simulation::builder().servers(3).start();
    let process = simulation.process("client");
    let builder = builder(simulation.connect_string()).ensemble_tracker(EnsembleTracker::Auto);
    let client = process.run(builder.connect()).await.unwrap();
    let session = client.session().await.unwrap();
    assert!(simulation.set_ensemble(&[1, 2, 3]));
    // Without a configuration, there was no watch: the next connection reads it.
    let reconnect = async || {
        let mut states = client.connection_states();
        process.cut();
        assert!(states.wait_for(ConnectionState::Suspended).await);
        assert!(states.wait_for(ConnectionState::Reconnected).await);
        client.health().server.unwrap()
    };
    reconnect().await;
    until_tried_in_simulation(&client, &["zk1:2181", "zk2:2181", "zk3:2181"]).await;
    for (members, names) in [
        ([1, 2], ["zk1:2181", "zk2:2181"]),
        ([2, 3], ["zk2:2181", "zk3:2181"]),
        ([1, 3], ["zk1:2181", "zk3:2181"]),
    ] {
        // The server of the connection may be the one that is removed.
        assert!(simulation.set_ensemble(&members));
        until_tried_in_simulation(&client, &names).await;
        for _ in 0..10 {
            let server = reconnect().await;
            assert!(names.contains(&&*server), "{server} is none of {names:?}");
        }
    }
    // No member is left: the servers of the connect string are the fallback.
    simulation.partition(&process, 1);
    simulation.partition(&process, 3);
    assert_eq!(reconnect().await, "zk2:2181");
    assert!(client.session().await.unwrap().is_same(&session));
    assert!(session.is_valid());
}

/// Ends the connections of the process of `client`, and waits until it is connected again.
async fn reconnected_in_simulation(client: &CuratorClient, process: &Process) {
    let mut states = client.connection_states();
    process.cut();
    assert!(states.wait_for(ConnectionState::Suspended).await);
    assert!(states.wait_for(ConnectionState::Reconnected).await);
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_the_connect_string_is_tried_before_a_short_lease_ends() {
    for seed in 0..10 {
        let simulation = Simulation::builder().servers(3).seed(seed).start();
        let process = simulation.process("client");
        let builder = builder(simulation.connect_string())
            .ensemble_tracker(EnsembleTracker::Auto)
            .session_timeout(Duration::from_secs(6));
        let client = process.run(builder.connect()).await.unwrap();
        let session = client.session().await.unwrap();
        assert!(simulation.set_ensemble(&[1, 2]));
        while client.health().servers.len() != 2 {
            reconnected_in_simulation(&client, &process).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // The members no longer reply.
        simulation.partition(&process, 1);
        simulation.partition(&process, 2);
        reconnected_in_simulation(&client, &process).await;
        assert_eq!(
            client.health().server.as_deref(),
            Some("zk3:2181"),
            "{seed}"
        );
        assert!(client.session().await.unwrap().is_same(&session), "{seed}");
        assert!(session.is_valid(), "{seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn reads_that_fail_are_repeated_over_the_same_connection_after_longer_and_longer_pauses() {
    let simulation = Simulation::builder().servers(3).start();
    let process = simulation.process("client");
    let builder = builder(simulation.connect_string()).ensemble_tracker(EnsembleTracker::Always);
    let client = process.run(builder.connect()).await.unwrap();
    let session = client.session().await.unwrap();
    let reads = || {
        let requests = simulation.requests();
        requests.get(&OpCode::GetData).copied().unwrap_or_default()
    };
    // The read over the first connection has arrived.
    while reads() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = reads();
    assert!(simulation.set_ensemble(&[1, 2, 3]));
    for _ in 0..3 {
        simulation.throttle(|request| request.op() == OpCode::GetData);
    }
    reconnected_in_simulation(&client, &process).await;
    let connections = session.connections();
    // The pauses: one minute, two, and four.
    for (seconds, count) in [(50, 1), (20, 2), (100, 2), (20, 3), (220, 3)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(reads(), before + count);
        assert_eq!(client.health().watches, 0);
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    // One without a watch, and one with a watch.
    assert_eq!(reads(), before + 5);
    assert_eq!(client.health().watches, 1);
    assert_eq!(session.connections(), connections);
}

/// A client whose connect string names one of five members, which alone exists.
async fn one_of_five(
    process: &Process,
    simulation: &Simulation,
    connection_timeout: u64,
) -> CuratorClient {
    let builder = builder(simulation.connect_string())
        .ensemble_tracker(EnsembleTracker::Auto)
        .connection_timeout(Duration::from_secs(connection_timeout));
    let client = process.run(builder.connect()).await.unwrap();
    assert!(simulation.set_ensemble(&[1, 2, 3, 4, 5]));
    while client.health().servers.len() != 5 {
        reconnected_in_simulation(&client, process).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    client
}

/// Waits until the client has another session, and returns it.
async fn replaced(client: &CuratorClient, session: &Session) -> Session {
    let replaced = async {
        loop {
            if let Ok(next) = client.session().await
                && !next.is_same(session)
            {
                break next;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), replaced)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_be_as_silent_as_without_members() {
    let simulation = Simulation::builder().servers(1).start();
    let process = simulation.process("client");
    // A share of the connect string is 2/5 of the session timeout: 8 s; one of five servers, 3 s.
    let client = one_of_five(&process, &simulation, 15).await;
    let paused = async |session: &Session| {
        let connections = session.connections();
        simulation.pause_server(1);
        tokio::time::sleep(Duration::from_secs(6)).await;
        simulation.resume_server(1);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(session.is_valid() && session.is_connected());
        assert_eq!(session.connections(), connections);
    };
    let resumed = client.session().await.unwrap();
    paused(&resumed).await;
    simulation.expire_session(resumed.id()).unwrap();
    // Opened while the members are known.
    let opened = replaced(&client, &resumed).await;
    paused(&opened).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_to_connect_stays_reachable_when_members_are_known() {
    let simulation = Simulation::builder().servers(1).start();
    let process = simulation.process("client");
    // A share of the connect string is 4 s, and one of five servers, at first, 1 s.
    let client = one_of_five(&process, &simulation, 4).await;
    let session = client.session().await.unwrap();
    let latency = Duration::from_millis(700);
    simulation.set_latency(latency..=latency);
    simulation.expire_session(session.id()).unwrap();
    let next = replaced(&client, &session).await;
    assert!(next.is_connected());
}
