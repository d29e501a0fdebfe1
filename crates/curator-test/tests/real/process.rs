//! The process of a real server.

use std::{
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use curator_test::{Error, ServerKind, TestingServer};

use crate::support::folder_of;

#[tokio::test]
async fn a_real_server_is_a_process_of_an_installed_zookeeper() {
    let server = TestingServer::real().await.unwrap();
    assert_eq!(server.kind(), ServerKind::Real);
    assert!(server.as_embedded().is_none());
    assert!(Path::new(&format!("/proc/{}", server.process_id().unwrap())).exists());
    let version = server.distribution().unwrap().version().unwrap();
    let srvr = server.four_letter_word("srvr").await.unwrap();
    assert!(
        srvr.starts_with(&format!("Zookeeper version: {version}")),
        "{srvr}"
    );
    server.stop().await.unwrap();
    assert_eq!(server.process_id(), None);
}

#[tokio::test]
async fn a_failed_start_returns_the_log_in_its_error() {
    let started = Instant::now();
    let builder = TestingServer::builder()
        .kind(ServerKind::Real)
        .property("tickTime", "none");
    let error = builder.start().await.unwrap_err();
    assert!(matches!(error, Error::Ended { .. }), "{error}");
    assert!(
        error.to_string().contains("NumberFormatException"),
        "{error}"
    );
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn the_log_of_a_server_contains_its_warnings() {
    let builder = TestingServer::builder()
        .kind(ServerKind::Real)
        .property("forceSync", "no");
    let server = builder.start().await.unwrap();
    assert!(server.log().contains(" WARN "), "{}", server.log());
}

#[tokio::test]
async fn a_dropped_server_leaves_no_process_port_or_folder() {
    let server = TestingServer::real().await.unwrap();
    let address = server.address();
    let id = server.process_id().unwrap();
    let folder = folder_of(id);
    assert!(folder.is_dir());
    drop(server);
    assert!(TcpListener::bind(address).is_ok());
    assert!(!Path::new(&format!("/proc/{id}")).exists());
    assert!(!folder.exists());
}
