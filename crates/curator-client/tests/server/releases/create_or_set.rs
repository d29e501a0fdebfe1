//! Creating a node, or setting its data if it exists.

use std::time::Duration;

use curator_client::{CreateBuilder, CreateMode, CuratorClient, Error, Outcome, RetryNTimes};
use curator_test::{FaultProxy, OpCode};

use crate::support::{behind_proxy, behind_proxy_with, direct, soon, unique_path};

fn create_or_set(client: &CuratorClient) -> CreateBuilder {
    client.create().or_set_data()
}

#[tokio::test]
async fn a_missing_node_is_created_and_the_data_of_an_existing_one_is_set() {
    let client = direct().await;
    let created = create_or_set(&client)
        .for_path_with_stat(unique_path("node"), "one")
        .await
        .unwrap();
    let path = created.path;
    let (_, stat) = client.get_data(&path).await.unwrap();
    assert_eq!((stat.version, created.stat), (0, stat));
    let set = create_or_set(&client)
        .with_mode(CreateMode::Ephemeral)
        .for_path_with_stat(&path, "two")
        .await
        .unwrap();
    let (data, stat) = client.get_data(&path).await.unwrap();
    assert_eq!((set.path, set.stat), (path.clone(), stat));
    // The node was not recreated, so it is still persistent.
    assert_eq!(
        (data.as_slice(), stat.version, stat.ephemeral_owner),
        (b"two".as_slice(), 1, 0)
    );
    let below = format!("{path}/a/b");
    assert!(matches!(
        create_or_set(&client).for_path(&below, "").await,
        Err(Error::NoNode { .. })
    ));
    create_or_set(&client)
        .creating_parent_containers()
        .for_path(&below, "three")
        .await
        .unwrap();
    assert_eq!(client.get_data(&below).await.unwrap().0, b"three");
}

#[tokio::test]
async fn sequential_and_protected_nodes_are_always_created() {
    let client = direct().await;
    let dir = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    for mode in [
        CreateMode::PersistentSequential,
        CreateMode::EphemeralSequential,
    ] {
        create_or_set(&client)
            .with_mode(mode)
            .for_path(format!("{dir}/n"), "")
            .await
            .unwrap();
    }
    for _ in 0..2 {
        let created = create_or_set(&client)
            .with_protection()
            .for_path_with_stat(format!("{dir}/n"), "")
            .await
            .unwrap();
        let (_, stat) = client.get_data(&created.path).await.unwrap();
        assert_eq!(created.stat, stat);
    }
    assert_eq!(client.get_children(&dir).await.unwrap().len(), 4);
}

/// A plain create, in contrast, is not retried after an unknown outcome.
// Runs in real time: each transport loses requests and replies in its own way.
#[tokio::test]
async fn create_or_set_succeeds_after_lost_requests_and_replies() {
    let faults: [fn(&FaultProxy, OpCode); 3] = [
        FaultProxy::cut_before_reply,
        FaultProxy::cut_before_request,
        |proxy, op| {
            proxy.cut_before_reply(op);
            proxy.cut_before_nth_request(OpCode::SetData, 1);
        },
    ];
    for fault in faults {
        let (proxy, client) = behind_proxy().await;
        let path = unique_path("node");
        fault(&proxy, OpCode::Create2);
        soon(create_or_set(&client).for_path(&path, "one"))
            .await
            .unwrap();
        assert_eq!(client.get_data(&path).await.unwrap().0, b"one");
        fault(&proxy, OpCode::SetData);
        soon(create_or_set(&client).for_path(&path, "two"))
            .await
            .unwrap();
        assert_eq!(client.get_data(&path).await.unwrap().0, b"two");
    }
}

// Runs in real time: each transport loses requests and replies in its own way.
#[tokio::test]
async fn a_sequential_create_with_a_lost_reply_is_not_repeated() {
    let (proxy, client) = behind_proxy().await;
    let dir = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    proxy.cut_before_reply(OpCode::Create2);
    let error = create_or_set(&client)
        .with_mode(CreateMode::PersistentSequential)
        .for_path(format!("{dir}/n"), "")
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Ambiguous { .. }) && error.outcome() == Outcome::Unknown,
        "{error}"
    );
    assert_eq!(client.get_children(&dir).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_node_deleted_between_create_and_set_is_recreated() {
    let (proxy, client) = behind_proxy().await;
    let other = direct().await;
    let path = client
        .create()
        .for_path(unique_path("node"), "one")
        .await
        .unwrap();
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Create2);
    let setting = tokio::spawn(create_or_set(&client).for_path(path.clone(), "two"));
    proxy.wait_for_reply(OpCode::Create2, 1).await.unwrap();
    other.delete().for_path(&path).await.unwrap();
    proxy.release_held();
    soon(setting).await.unwrap().unwrap();
    let (data, stat) = client.get_data(&path).await.unwrap();
    assert_eq!((data.as_slice(), stat.version), (b"two".as_slice(), 0));
}

/// Another client deletes the node before each set, and creates it again before each create.
#[tokio::test]
async fn a_node_that_keeps_changing_is_reported_as_such() {
    let never = RetryNTimes::new(0, Duration::from_millis(1)).unwrap();
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(never)).await;
    let other = direct().await;
    let path = unique_path("node");
    other.create().for_path(&path, "one").await.unwrap();
    proxy.hold_nth_reply(OpCode::Create2, 1);
    let setting = tokio::spawn(create_or_set(&client).for_path(path.clone(), "two"));
    for _ in 0..16 {
        soon(proxy.wait_for_reply(OpCode::Create2, 1))
            .await
            .unwrap();
        other.delete().for_path(&path).await.unwrap();
        proxy.reset_counts();
        proxy.hold_nth_reply(OpCode::SetData, 1);
        proxy.release_held();
        soon(proxy.wait_for_reply(OpCode::SetData, 1))
            .await
            .unwrap();
        other.create().for_path(&path, "one").await.unwrap();
        proxy.reset_counts();
        proxy.hold_nth_reply(OpCode::Create2, 1);
        proxy.release_held();
    }
    let error = soon(setting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::KeepsChanging { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(error.is_retryable());
    assert_eq!(client.get_data(&path).await.unwrap().0, b"one");
}
