//! Deletes of nodes with all their descendants.

use curator_client::{CuratorClient, DeleteBuilder, Error, ZPath};
use curator_test::{FaultProxy, OpCode};

use crate::support::{behind_proxy, behind_proxy_with, direct, node, once, sent, soon};

/// A node with three children, each with twenty, and a chain below one of these.
async fn tree(client: &CuratorClient) -> ZPath {
    let top = node(client).await;
    let mut creating = Vec::new();
    for child in ["a", "b", "c"] {
        client
            .create()
            .for_path(format!("{top}/{child}"), "")
            .await
            .unwrap();
        creating
            .extend((0..20).map(|i| client.create().for_path(format!("{top}/{child}/{i}"), "")));
    }
    for created in creating {
        created.await.unwrap();
    }
    client
        .create()
        .creating_parent_containers()
        .for_path(format!("{top}/b/7/deep/deeper/deepest"), "")
        .await
        .unwrap();
    top
}

fn with_children(client: &CuratorClient) -> DeleteBuilder {
    client.delete().deleting_children_if_needed()
}

async fn is_gone(path: &ZPath) -> bool {
    direct().await.check_exists(path).await.unwrap().is_none()
}

#[tokio::test]
async fn a_node_is_deleted_with_all_its_descendants_and_nothing_else() {
    let client = direct().await;
    let top = tree(&client).await;
    let beside = node(&client).await;
    let longer_name = client
        .create()
        .for_path(format!("{top}0"), "")
        .await
        .unwrap();
    assert!(matches!(
        client.delete().for_path(&top).await,
        Err(Error::NotEmpty { .. })
    ));
    soon(with_children(&client).for_path(&top)).await.unwrap();
    assert!(is_gone(&top).await);
    assert!(!is_gone(&beside).await && !is_gone(&longer_name).await);
    let error = with_children(&client).for_path(&top).await.unwrap_err();
    assert!(matches!(error, Error::NoNode { .. }), "{error}");
}

#[tokio::test]
async fn deleting_a_node_without_children_takes_one_request() {
    let (proxy, client) = behind_proxy().await;
    let path = node(&client).await;
    proxy.reset_counts();
    with_children(&client).for_path(&path).await.unwrap();
    assert_eq!(sent(&proxy), [(OpCode::Delete, 1)]);
}

/// Starts to delete a tree, and runs `meanwhile` while the reply to the first level's list is in
/// flight.
async fn delete_and_meanwhile(
    top: &ZPath,
    proxy: &FaultProxy,
    delete: DeleteBuilder,
    meanwhile: impl Future,
) {
    proxy.reset_counts();
    proxy.hold_replies(OpCode::GetChildren);
    let deleting = tokio::spawn(delete.for_path(top.clone()));
    proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
    meanwhile.await;
    proxy.release_held();
    soon(deleting).await.unwrap().unwrap();
    assert!(is_gone(top).await);
}

#[tokio::test]
async fn a_tree_delete_succeeds_while_others_create_and_delete_nodes() {
    let (proxy, client) = behind_proxy().await;
    let other = direct().await;
    let top = tree(&client).await;
    delete_and_meanwhile(&top, &proxy, with_children(&client), async {
        with_children(&other)
            .for_path(format!("{top}/a"))
            .await
            .unwrap();
        other
            .create()
            .creating_parent_containers()
            .for_path(format!("{top}/new/newer"), "")
            .await
            .unwrap();
        other
            .create()
            .for_path(format!("{top}/c/new"), "")
            .await
            .unwrap();
    })
    .await;
    let top = tree(&client).await;
    delete_and_meanwhile(&top, &proxy, with_children(&client), async {
        with_children(&other).for_path(&top).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_tree_delete_fails_if_new_children_keep_appearing() {
    let (proxy, client) = behind_proxy().await;
    let top = tree(&client).await;
    // Each list is empty, as if all children were deleted before the list and other children
    // created after it.
    for pass in 1..1_000 {
        proxy.alter_nth_reply(OpCode::GetChildren, pass, |reply| {
            reply.truncate(16);
            reply.extend([0; 4]);
        });
    }
    proxy.reset_counts();
    let error = soon(with_children(&client).for_path(&top))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::NotEmpty { path, .. } if *path == top),
        "{error}"
    );
    let passes = proxy.requests()[&OpCode::GetChildren];
    assert!((10..100).contains(&passes), "{passes}");
    assert_eq!(direct().await.get_children(&top).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_wrong_version_deletes_nothing() {
    let client = direct().await;
    let top = tree(&client).await;
    let error = with_children(&client)
        .with_version(7)
        .for_path(&top)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::BadVersion { .. }), "{error}");
    assert_eq!(
        client.get_children(format!("{top}/b")).await.unwrap().len(),
        20
    );
    soon(with_children(&client).with_version(0).for_path(&top))
        .await
        .unwrap();
    assert!(is_gone(&top).await);
}

// Runs in real time: each transport loses requests and replies in its own way.
#[tokio::test]
async fn a_tree_delete_succeeds_after_lost_requests_and_replies() {
    let faults: [fn(&FaultProxy); 5] = [
        |proxy| proxy.cut_before_reply(OpCode::GetChildren),
        |proxy| proxy.cut_before_nth_reply(OpCode::GetChildren, 9),
        |proxy| proxy.cut_before_nth_reply(OpCode::Delete, 20),
        |proxy| proxy.cut_before_nth_request(OpCode::Delete, 40),
        // The delete of the top node.
        |proxy| proxy.cut_before_nth_reply(OpCode::Delete, 68),
    ];
    for (number, fault) in faults.iter().enumerate() {
        let (proxy, client) = behind_proxy().await;
        let top = tree(&client).await;
        fault(&proxy);
        let deleted = soon(with_children(&client).for_path(&top)).await;
        deleted.unwrap_or_else(|error| panic!("fault {number}: {error}"));
        assert!(is_gone(&top).await, "fault {number}");
    }
}

// Runs in real time: each transport loses requests and replies in its own way.
#[tokio::test]
async fn a_guaranteed_tree_delete_continues_in_the_background() {
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(once())).await;
    let top = tree(&client).await;
    proxy.cut_before_nth_reply(OpCode::Delete, 20);
    let error = soon(with_children(&client).guaranteed().for_path(&top))
        .await
        .unwrap_err();
    assert!(error.is_retryable(), "{error}");
    soon(client.janitor().idle()).await;
    assert!(is_gone(&top).await);
    // The same for a dropped delete.
    let top = tree(&client).await;
    proxy.reset_counts();
    proxy.hold_replies(OpCode::GetChildren);
    let deleting = tokio::spawn(with_children(&client).guaranteed().for_path(top.clone()));
    proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
    deleting.abort();
    assert!(deleting.await.unwrap_err().is_cancelled());
    proxy.release_held();
    soon(client.janitor().idle()).await;
    assert!(is_gone(&top).await);
}
