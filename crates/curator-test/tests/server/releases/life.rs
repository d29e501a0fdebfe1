//! A server's life cycle, its data, and what it reports about itself.

use std::{
    collections::BTreeMap,
    net::{TcpListener, TcpStream},
    time::Duration,
};

use curator_test::{Error, Mode, ServerVersion, TestingServer, until};

use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::{EPHEMERAL, PERSISTENT, RawClient, client};

#[tokio::test]
async fn a_stopped_or_killed_server_refuses_connections_and_restarts_with_its_port_and_data() {
    for end in ["stop", "kill"] {
        let server = TestingServer::start().await.expect(end);
        let address = server.address();
        client(address)
            .await
            .create("/kept", b"", &PERSISTENT)
            .await
            .expect(end);
        let stopped = if end == "kill" {
            server.kill()
        } else {
            server.stop().await
        };
        stopped.expect(end);
        assert!(TcpStream::connect(address).is_err(), "{end}");
        assert!(matches!(server.pause(), Err(Error::NotRunning(_))), "{end}");
        assert_eq!(server.process_id(), None, "{end}");
        server.restart().await.expect(end);
        assert_eq!(server.address(), address, "{end}");
        assert!(
            client(address)
                .await
                .check_stat("/kept")
                .await
                .expect(end)
                .is_some(),
            "{end}"
        );
    }
}

#[tokio::test]
async fn a_paused_server_is_silent_until_it_is_resumed() {
    let server = TestingServer::start().await.unwrap();
    server.pause().unwrap();
    assert_eq!(server.mode().await, None);
    server.resume().unwrap();
    until(async || server.mode().await == Some(Mode::Standalone)).await;
    server.pause().unwrap();
    server.stop().await.unwrap();
    assert!(TcpStream::connect(server.address()).is_err());
    // A restarted server is not paused.
    server.restart().await.unwrap();
    until(async || server.mode().await == Some(Mode::Standalone)).await;
}

#[tokio::test]
async fn packets_are_counted_exactly() {
    let server = TestingServer::start().await.unwrap();
    let client = client(server.address()).await;
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    let before = server.packets_received().await.unwrap();
    assert_eq!(server.packets_received().await.unwrap(), before);
    server.sessions().await.unwrap();
    for _ in 0..3 {
        client.get_data("/a").await.unwrap();
    }
    assert_eq!(server.packets_received().await.unwrap(), before + 3);
}

#[tokio::test]
async fn queries_of_a_stopped_server_return_not_running() {
    let server = TestingServer::start().await.unwrap();
    server.stop().await.unwrap();
    assert!(matches!(
        server.four_letter_word("ruok").await,
        Err(Error::NotRunning(_))
    ));
    assert!(matches!(
        server.packets_received().await,
        Err(Error::NotRunning(_))
    ));
    assert!(matches!(
        server.watch_count().await,
        Err(Error::NotRunning(_))
    ));
    assert!(matches!(
        server.wait_until_serving().await,
        Err(Error::NotRunning(_))
    ));
    assert_eq!(server.mode().await, None);
}

#[tokio::test]
async fn watches_and_sessions_are_listed() {
    let server = TestingServer::start().await.unwrap();
    let client = client(server.address()).await;
    client.create("/watched", b"", &PERSISTENT).await.unwrap();
    assert_eq!(server.watch_count().await.unwrap(), 0);
    let (_, _, _watcher) = client.get_and_watch_data("/watched").await.unwrap();
    assert_eq!(server.watch_count().await.unwrap(), 1);
    let id = client.session_id().0;
    assert_eq!(
        server.watches_by_path().await.unwrap(),
        BTreeMap::from([("/watched".to_owned(), vec![id])])
    );
    let sessions = server.sessions().await.unwrap();
    assert_eq!(
        sessions.iter().map(|s| s.session_id).collect::<Vec<_>>(),
        [id]
    );
    assert!(sessions[0].client.ip().is_loopback());
}

#[tokio::test]
async fn create_counters_can_be_set_without_other_changes() {
    // The session outlasts two restarts of the server, even on a busy machine. Not longer: the
    // client waits 2/5 of it for the reply of a server that stops during the handshake.
    let server = TestingServer::builder().property("maxSessionTimeout", "120000");
    let server = server.start().await.unwrap();
    let client = Client::connector().with_session_timeout(Duration::from_secs(120));
    let client = client.connect(&server.address().to_string()).await.unwrap();
    client.create("/a", b"data", &PERSISTENT).await.unwrap();
    client.create("/b", b"", &PERSISTENT).await.unwrap();
    client.create("/b/e", b"", &EPHEMERAL).await.unwrap();
    client.create("/c", b"", &PERSISTENT).await.unwrap();
    server
        .set_create_counters(&[("/a", i32::MAX), ("/c", -1)])
        .await
        .unwrap();
    until(async || {
        client
            .check_stat("/b/e")
            .await
            .is_ok_and(|stat| stat.is_some())
    })
    .await;
    assert_eq!(client.get_data("/a").await.unwrap().0, b"data");
    let sequential = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    let number = async |path: &str| {
        client
            .create(path, b"", &sequential)
            .await
            .unwrap()
            .1
            .to_string()
    };
    assert_eq!(number("/a/x-").await, "2147483647");
    // After `i32::MAX`, the counter of ZooKeeper 3.5 continues with negative numbers.
    if server.version().unwrap() >= ServerVersion::new(3, 6, 0) {
        assert_eq!(number("/a/y-").await, "2147483647");
    }
    assert_eq!(number("/b/x-").await, "0000000001");
    assert_eq!(number("/c/x-").await, "-000000001");
    let missing = server
        .set_create_counters(&[("/missing", 1)])
        .await
        .unwrap_err();
    assert!(
        matches!(&missing, Error::NoNode(path) if path == "/missing"),
        "{missing}"
    );
    // The server continues after the refusal.
    until(async || {
        client
            .check_stat("/b/e")
            .await
            .is_ok_and(|stat| stat.is_some())
    })
    .await;
}

#[tokio::test]
async fn a_dropped_server_frees_its_port() {
    let server = TestingServer::start().await.unwrap();
    let address = server.address();
    drop(server);
    assert!(TcpListener::bind(address).is_ok());
}

#[tokio::test]
async fn a_connection_without_a_handshake_is_closed_after_a_timeout() {
    let builder =
        TestingServer::builder().system_property("zookeeper.nio.sessionlessCnxnTimeout", "300");
    let server = builder.start().await.unwrap();
    let mut silent = RawClient::silent(server.address());
    tokio::task::spawn_blocking(move || silent.receive_end())
        .await
        .unwrap();
}
