//! Clients of `curator-client` on simulated servers that serve over the network.
//!
//! Only this suite finds a simulated server that differs from others when it is paused, stopped or
//! restarted.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]

use std::time::Duration;

use curator_client::CuratorClient;
use curator_test::{Error, ServerKind, TestingServer, soon, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn simulated() -> TestingServer {
    TestingServer::builder()
        .kind(ServerKind::Simulated)
        .start()
        .await
        .unwrap()
}

/// Sends a four-letter word over the network.
async fn ask(server: &TestingServer) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"ruok").await.unwrap();
    stream
}

#[tokio::test]
async fn a_paused_server_answers_when_it_is_resumed() {
    let server = simulated().await;
    server.pause().unwrap();
    let mut asked = ask(&server).await;
    let mut answer = String::new();
    let early = tokio::time::timeout(
        Duration::from_millis(200),
        asked.read_to_string(&mut answer),
    );
    assert!(early.await.is_err());
    assert!(matches!(
        server.set_create_counters(&[("/", 7)]).await,
        Err(Error::Timeout { .. })
    ));
    server.resume().unwrap();
    soon(asked.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "imok");
}

#[tokio::test]
async fn a_stopped_server_keeps_its_nodes_and_sessions() {
    let server = simulated().await;
    let client = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    client.create().for_path("/a", "data").await.unwrap();
    let session = client.session().await.unwrap().id();
    server.stop().await.unwrap();
    assert!(TcpStream::connect(server.address()).await.is_err());
    assert!(matches!(
        server.set_create_counters(&[("/a", 7)]).await,
        Err(Error::NotRunning(_))
    ));
    server.restart().await.unwrap();
    until(async || {
        client
            .get_data("/a")
            .await
            .is_ok_and(|(data, _)| data == b"data")
    })
    .await;
    assert_eq!(client.session().await.unwrap().id(), session);
    client.close().await.unwrap();
    until(async || server.sessions().await.unwrap().is_empty()).await;
}
