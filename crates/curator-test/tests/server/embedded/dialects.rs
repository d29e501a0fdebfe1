//! Dialects over the network.

use std::{net::SocketAddr, time::Duration};

use curator_client::{CuratorClient, Error};
use curator_test::{Dialect, EmbeddedServer, OpCode, soon, until};

use crate::support::RawClient;

async fn connect(server: &EmbeddedServer) -> CuratorClient {
    let builder = CuratorClient::builder(server.connect_string());
    builder.connect().await.unwrap()
}

#[test]
fn a_server_without_a_quorum_closes_connections_and_accepts_none_until_it_has_one_again() {
    for dialect in Dialect::ALL {
        let server = EmbeddedServer::builder().dialect(dialect).start().unwrap();
        let mut client = RawClient::connect(server.address());
        server.set_quorum(false);
        client.receive_end();
        let mut late = RawClient::silent(server.address());
        late.send_handshake();
        late.receive_end();
        server.set_quorum(true);
        RawClient::connect(server.address()).send(&[OpCode::Exists]);
    }
}

#[tokio::test]
async fn a_client_reads_the_changed_members_of_the_ensemble() {
    let server = EmbeddedServer::start().unwrap();
    let client = connect(&server).await;
    let config = async || client.get_data("/zookeeper/config").await.unwrap().0;
    assert_eq!(config().await, b"");
    let member: SocketAddr = "127.0.0.1:2181".parse().unwrap();
    server.set_ensemble(&[member]);
    let text = String::from_utf8(config().await).unwrap();
    assert!(
        text.starts_with("server.1=127.0.0.1:2888:3888:participant;127.0.0.1:2181\nversion="),
        "{text}"
    );
    server.restart().unwrap();
    until(async || {
        client
            .get_data("/zookeeper/config")
            .await
            .is_ok_and(|(data, _)| data == text.as_bytes())
    })
    .await;
}

#[tokio::test]
async fn an_eager_server_removes_a_container_that_never_had_a_child() {
    let server = EmbeddedServer::builder()
        .dialect(Dialect::ZooKeeper3_10)
        .unused_container_timeout(Duration::from_millis(100))
        .container_check_interval(Duration::from_millis(10))
        .start()
        .unwrap();
    let client = connect(&server).await;
    let create = client
        .create()
        .with_mode(curator_client::CreateMode::Container);
    soon(create.for_path("/c", "")).await.unwrap();
    until(async || matches!(client.get_data("/c").await, Err(Error::NoNode { .. }))).await;
}
