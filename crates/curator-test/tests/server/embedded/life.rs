//! Servers that are stopped, restarted with or without their data, and paused.

use std::{
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use curator_test::{EmbeddedServer, Error, OpCode, until};
use zookeeper_client::{Client, SessionState};

use crate::support::{EPHEMERAL, PERSISTENT, RawClient, client};

const TICK: Duration = Duration::from_millis(10);
/// A session timeout that a test exceeds. Long enough that a busy machine does not exceed it by
/// accident.
const SHORT: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_restart_keeps_sessions_and_their_nodes() {
    let server = EmbeddedServer::start().unwrap();
    let owner = client(server.address()).await;
    owner.create("/e", b"", &EPHEMERAL).await.unwrap();
    server.stop();
    assert!(!server.is_running());
    assert!(TcpStream::connect(server.address()).is_err());
    server.restart().unwrap();
    assert!(server.is_running());
    until(async || {
        owner
            .check_stat("/e")
            .await
            .is_ok_and(|stat| stat.is_some())
    })
    .await;
    assert_eq!(server.session_ids(), [owner.session_id().0]);
}

#[tokio::test]
async fn an_empty_restart_loses_nodes_and_sessions() {
    let server = EmbeddedServer::start().unwrap();
    let owner = client(server.address()).await;
    owner.create("/a", b"", &PERSISTENT).await.unwrap();
    server.restart_empty().unwrap();
    assert!(server.session_ids().is_empty());
    let newcomer = client(server.address()).await;
    assert_eq!(newcomer.check_stat("/a").await.unwrap(), None);
    assert_eq!(
        newcomer
            .create("/b", b"", &PERSISTENT)
            .await
            .unwrap()
            .0
            .czxid,
        2
    );
}

// Runs in real time: the embedded server uses the real clock.
#[tokio::test]
async fn a_session_whose_timeout_passes_in_a_pause_expires_on_resume() {
    let server = EmbeddedServer::builder().tick_time(TICK).start().unwrap();
    let connector = Client::connector().with_session_timeout(SHORT);
    let owner = connector.connect(&server.connect_string()).await.unwrap();
    owner.create("/e", b"", &EPHEMERAL).await.unwrap();
    let steady = client(server.address()).await;
    server.pause();
    let mut states = owner.state_watcher();
    // The client detects the silence long before the timeout.
    while states.state() == SessionState::SyncConnected {
        states.changed().await;
    }
    // Sleeps for the session timeout, because a paused server cannot be queried.
    tokio::time::sleep(SHORT + TICK).await;
    assert_eq!(server.session_ids().len(), 2);
    server.resume();
    assert_eq!(server.session_ids(), [steady.session_id().0]);
    assert_eq!(steady.check_stat("/e").await.unwrap(), None);
}

#[tokio::test]
async fn a_request_to_a_paused_server_is_applied_when_the_server_is_resumed() {
    let server = EmbeddedServer::start().unwrap();
    let client = client(server.address()).await;
    server.pause();
    let before = server.requests();
    let create = client.create("/a", b"", &PERSISTENT);
    let mut create = std::pin::pin!(create);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), &mut create)
            .await
            .is_err()
    );
    assert_eq!(server.requests(), before);
    server.resume();
    create.await.unwrap();
}

#[test]
fn a_request_sent_during_a_pause_is_lost_in_a_restart() {
    // Repeated, because the server's thread races this thread.
    for round in 0..50 {
        let server = EmbeddedServer::start().unwrap();
        let mut client = RawClient::connect(server.address());
        server.pause();
        client.send(&[OpCode::Exists]);
        server.restart().unwrap();
        client.receive_end();
        assert!(server.requests().is_empty(), "round {round}");
    }
}

#[test]
fn a_stopped_server_cannot_be_paused() {
    let server = EmbeddedServer::start().unwrap();
    server.stop();
    server.pause();
    assert!(!server.is_running());
    server.resume();
    assert!(!server.is_running());
    assert!(TcpStream::connect(server.address()).is_err());
    server.restart().unwrap();
    assert!(TcpStream::connect(server.address()).is_ok());
}

#[test]
fn a_server_whose_restart_fails_stays_stopped() {
    let server = EmbeddedServer::start().unwrap();
    server.stop();
    let other = TcpListener::bind(server.address()).unwrap();
    assert!(matches!(server.restart(), Err(Error::Io { .. })));
    assert!(!server.is_running());
    drop(other);
    server.restart().unwrap();
    RawClient::connect(server.address());
}

#[test]
fn a_server_that_is_concurrently_stopped_and_restarted_is_either_stopped_or_running() {
    let server = EmbeddedServer::start().unwrap();
    // Repeated, because the threads race.
    for round in 0..2000 {
        thread::scope(|scope| {
            scope.spawn(|| server.stop());
            server.restart().unwrap();
        });
        let listens = TcpStream::connect(server.address()).is_ok();
        assert_eq!(listens, server.is_running(), "round {round}");
    }
}

// Runs in real time: the embedded server uses the real clock.
#[test]
fn a_delayed_reply_is_held_back_during_a_pause() {
    let server = EmbeddedServer::start().unwrap();
    let mut client = RawClient::connect(server.address());
    let delay = Duration::from_secs(1);
    server.set_delay(delay);
    client.send(&[OpCode::Ping]);
    while server.pings() == 0 {
        thread::yield_now();
    }
    server.pause();
    // Waits for something that must not happen.
    thread::sleep(2 * delay);
    assert!(client.is_open(), "the reply was sent during the pause");
    server.resume();
    client.receive(1);
}
