//! The layout of a mutex's nodes, and how a long queue is read.

use std::time::Duration;

use curator_recipes::client::{
    CreateMode, CuratorClient, NodeSpec, RetryForever, TransactionOperation,
};
use curator_test::{FaultProxy, OpCode};

use crate::support::{
    adjusted_server, behind_proxy_with, children, client, connect, id_and_number, mutex, path,
    requests_of, soon, until,
};

/// Creates a queue of this length at `path`.
async fn create_queue(client: &CuratorClient, path: &str, length: usize) {
    client
        .create()
        .creating_parent_containers()
        .for_path(path, "")
        .await
        .unwrap();
    let node = NodeSpec {
        path: client.resolve(format!("{path}/lock-")).unwrap(),
        data: [].into(),
        mode: CreateMode::EphemeralSequential,
        acl: client.default_acl().clone(),
    };
    let creates = vec![TransactionOperation::Create(node); length];
    client
        .session()
        .await
        .unwrap()
        .transact(creates)
        .await
        .unwrap();
}

/// A client that retries forever, with the minimum limit of requests in flight, and a queue of this
/// length.
async fn with_few_requests_in_flight(length: usize) -> (FaultProxy, CuratorClient, String) {
    let policy = RetryForever::new(Duration::from_millis(50)).unwrap();
    let (proxy, client) =
        behind_proxy_with(|builder| builder.max_requests_in_flight(16).retry_policy(policy)).await;
    let path = path("long");
    create_queue(&client, &path, length).await;
    proxy.reset_counts();
    (proxy, client, path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_longer_than_the_requests_in_flight_is_read_with_one_request_for_each_node() {
    let (proxy, client, path) = with_few_requests_in_flight(300).await;
    let participants = soon(mutex(&client, &path).participants()).await.unwrap();
    assert_eq!(
        participants
            .iter()
            .map(|node| node.sequence)
            .collect::<Vec<_>>(),
        (0..300).collect::<Vec<_>>()
    );
    assert!(
        participants
            .iter()
            .all(|node| node.owns == (node.sequence == 0))
    );
    assert_eq!(
        (
            requests_of(&proxy, OpCode::GetChildren),
            requests_of(&proxy, OpCode::GetData)
        ),
        (1, 300)
    );

    // A failure repeats the batch that was being read.
    proxy.reset_counts();
    proxy.cut_before_nth_reply(OpCode::GetData, 30);
    assert_eq!(
        soon(mutex(&client, &path).participants()).await.unwrap(),
        participants
    );
    let lists = requests_of(&proxy, OpCode::GetChildren);
    let reads = requests_of(&proxy, OpCode::GetData);
    assert!(
        lists == 1 && (301..=308).contains(&reads),
        "{lists} lists, {reads} reads"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_long_queue_is_read_the_client_can_send_other_requests() {
    let (proxy, client, path) = with_few_requests_in_flight(50).await;
    proxy.hold_replies(OpCode::GetData);
    let lock = mutex(&client, &path);
    let reading = tokio::spawn(async move { lock.participants().await });
    soon(proxy.wait_for_request(OpCode::GetData, 8))
        .await
        .unwrap();
    let other = tokio::spawn(async move { client.check_exists("/").await });
    soon(proxy.wait_for_request(OpCode::Exists, 1))
        .await
        .unwrap();
    assert_eq!(requests_of(&proxy, OpCode::GetData), 8);
    proxy.release_held();
    soon(other).await.unwrap().unwrap();
    assert_eq!(soon(reading).await.unwrap().unwrap().len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutex_nodes_have_the_names_and_data_of_curator() {
    let client = client().await;
    let path = path("wire");
    let guard = mutex(&client, &path).acquire().await.unwrap();
    assert_eq!(id_and_number(guard.node().name(), "-lock-").1, 0);
    let (data, _) = client.get_data(&path).await.unwrap();
    assert!(data.is_empty());
    // As in Curator, the data is the client's address, unless configured.
    assert_eq!(client.get_data(guard.node()).await.unwrap().0, b"127.0.0.1");
    assert_eq!(
        guard.fencing_token().as_i64(),
        client.get_data(guard.node()).await.unwrap().1.czxid
    );
    guard.release().await.unwrap();
    let guard = mutex(&client, &path)
        .with_lock_data(*b"the holder")
        .acquire()
        .await
        .unwrap();
    assert_eq!(
        client.get_data(guard.node()).await.unwrap().0,
        b"the holder"
    );
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_directory_is_a_container_that_the_server_removes_when_unused() {
    // The chroot is a container too, so the server may also remove it.
    let client = connect(&format!(
        "{}{}",
        adjusted_server().await.connect_string(),
        path("unused")
    ))
    .await;
    let mutex = mutex(&client, "/deep/down/lock");
    for _ in 0..2 {
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(children(&client, "/").await, ["deep"]);
        guard.release().await.unwrap();
        until(async || children(&client, "/").await.is_empty()).await;
    }
}
