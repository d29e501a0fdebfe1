//! A real server: its life, its data, and what it tells about itself.

mod support;

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    time::{Duration, Instant},
};

use curator_test::{Error, Mode, TestingServer};
use support::{PERSISTENT, client, eventually};

#[tokio::test]
async fn a_server_serves() {
    let server = TestingServer::start().await.unwrap();
    assert!(server.address().ip().is_loopback());
    assert_eq!(server.connect_string(), server.address().to_string());
    assert_eq!(server.mode().await, Some(Mode::Standalone));
    assert_eq!(server.four_letter_word("ruok").await.unwrap(), "imok");
    let client = client(server.address()).await;
    client.create("/a", b"data", &PERSISTENT).await.unwrap();
    assert_eq!(client.get_data("/a").await.unwrap().0, b"data");
}

#[tokio::test]
async fn a_restart_keeps_port_and_data() {
    let server = TestingServer::start().await.unwrap();
    let address = server.address();
    client(address).await.create("/kept", b"", &PERSISTENT).await.unwrap();
    server.stop().await.unwrap();
    assert!(TcpStream::connect(address).is_err());
    assert_eq!(server.process_id(), None);
    server.restart().await.unwrap();
    assert_eq!(server.address(), address);
    assert!(client(address).await.check_stat("/kept").await.unwrap().is_some());
}

#[tokio::test]
async fn a_killed_server_is_gone_at_once_and_comes_back() {
    let server = TestingServer::start().await.unwrap();
    client(server.address()).await.create("/kept", b"", &PERSISTENT).await.unwrap();
    server.kill().unwrap();
    assert!(TcpStream::connect(server.address()).is_err());
    assert!(matches!(server.pause(), Err(Error::NotRunning(_))));
    server.restart().await.unwrap();
    assert!(client(server.address()).await.check_stat("/kept").await.unwrap().is_some());
}

#[tokio::test]
async fn a_paused_server_is_silent_until_it_is_resumed() {
    let server = TestingServer::start().await.unwrap();
    server.pause().unwrap();
    assert_eq!(server.mode().await, None);
    server.resume().unwrap();
    assert_eq!(server.mode().await, Some(Mode::Standalone));
    server.pause().unwrap();
    server.stop().await.unwrap();
    assert!(TcpStream::connect(server.address()).is_err());
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
async fn watches_and_sessions_are_known() {
    let server = TestingServer::start().await.unwrap();
    let client = client(server.address()).await;
    client.create("/watched", b"", &PERSISTENT).await.unwrap();
    assert_eq!(server.watch_count().await.unwrap(), 0);
    let (_, _, _watcher) = client.get_and_watch_data("/watched").await.unwrap();
    assert_eq!(server.watch_count().await.unwrap(), 1);
    let id = client.session_id().0;
    assert_eq!(server.watches_by_path().await.unwrap(), BTreeMap::from([("/watched".to_owned(), vec![id])]));
    let sessions = server.sessions().await.unwrap();
    assert_eq!(sessions.iter().map(|s| s.session_id).collect::<Vec<_>>(), [id]);
    assert!(sessions[0].client.ip().is_loopback());
}

#[tokio::test]
async fn containers_are_removed_as_often_as_asked() {
    let builder = TestingServer::builder().container_check_interval(Duration::from_millis(50));
    let server = builder.tick_time(Duration::from_millis(200)).start().await.unwrap();
    let client = client(server.address()).await;
    client.create("/c", b"", &support::CONTAINER).await.unwrap();
    client.create("/c/child", b"", &PERSISTENT).await.unwrap();
    client.delete("/c/child", None).await.unwrap();
    eventually(async || client.check_stat("/c").await.unwrap().is_none()).await;
    assert!(server.four_letter_word("conf").await.unwrap().contains("tickTime=200"));
}

#[tokio::test]
async fn a_failing_start_shows_the_log() {
    let started = Instant::now();
    let error = TestingServer::builder().property("tickTime", "none").start().await.unwrap_err();
    assert!(matches!(error, Error::Ended { .. }), "{error}");
    assert!(error.to_string().contains("NumberFormatException"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_dropped_server_leaves_nothing() {
    let server = TestingServer::start().await.unwrap();
    let (address, id) = (server.address(), server.process_id().unwrap());
    let folder = support::folder_of(id);
    assert!(folder.is_dir());
    drop(server);
    assert!(TcpListener::bind(address).is_ok());
    assert!(!Path::new(&format!("/proc/{id}")).exists());
    assert!(!folder.exists());
}

#[tokio::test]
async fn all_tests_share_one_server() {
    let first = TestingServer::shared().await;
    assert!(std::ptr::eq(first, TestingServer::shared().await));
    let address: SocketAddr = first.connect_string().parse().unwrap();
    assert_eq!(address, first.address());
}
