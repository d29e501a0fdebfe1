//! Deletes of several nodes of a session in one call.

use std::sync::Arc;
use std::time::Duration;

use curator_client::{Acl, AuthId, CreateMode, CuratorClient, Error, Permission, Session, ZPath};
use curator_test::{FaultProxy, OpCode};

use crate::support::{
    behind_proxy_with, direct, end_session, node, sent, soon, unique_path, until,
};

/// Creates ephemeral nodes of the client's session in a separate directory, and resets the counts.
async fn nodes(count: usize) -> (FaultProxy, CuratorClient, Session, Vec<ZPath>) {
    let (proxy, client) = behind_proxy_with(|client| client.max_request_size(1024)).await;
    let dir = node(&client).await;
    let mut paths = Vec::new();
    for _ in 0..count {
        let path = client
            .create()
            .with_mode(CreateMode::EphemeralSequential)
            .for_path(dir.child("n-").unwrap(), "")
            .await
            .unwrap();
        paths.push(path);
    }
    proxy.ignore(OpCode::Sync);
    proxy.reset_counts();
    let session = client.session().await.unwrap();
    (proxy, client, session, paths)
}

async fn left_of(paths: &[ZPath]) -> Vec<String> {
    direct()
        .await
        .get_children(paths[0].parent().unwrap())
        .await
        .unwrap()
}

fn pending(client: &CuratorClient) -> Vec<String> {
    client
        .janitor()
        .pending_deletes()
        .into_iter()
        .map(|delete| delete.to_string())
        .collect()
}

fn texts(paths: &[ZPath]) -> Vec<String> {
    paths.iter().map(ZPath::to_string).collect()
}

#[tokio::test]
async fn existing_nodes_are_deleted_in_one_request() {
    let (proxy, client, session, paths) = nodes(3).await;
    let attachment = Arc::new(());
    proxy.hold_replies(OpCode::Multi);
    client.janitor().delete_owned(
        &session,
        paths.clone(),
        Some(Box::new(Arc::clone(&attachment))),
    );
    // The call itself sends the request, before any poll.
    assert_eq!(client.janitor().pending(), 3);
    assert_eq!(pending(&client), texts(&paths));
    proxy.wait_for_reply(OpCode::Multi, 1).await.unwrap();
    assert_eq!(Arc::strong_count(&attachment), 2);
    proxy.release_held();
    soon(client.janitor().idle()).await;
    assert_eq!(sent(&proxy), [(OpCode::Multi, 1)]);
    assert!(left_of(&paths).await.is_empty());
    assert!(pending(&client).is_empty());
    until(async || Arc::strong_count(&attachment) == 1).await;
}

#[tokio::test]
async fn the_other_nodes_are_deleted_when_one_is_already_gone() {
    let (proxy, client, session, paths) = nodes(4).await;
    direct().await.delete().for_path(&paths[1]).await.unwrap();
    let attachment = Arc::new(());
    proxy.set_delay(Duration::from_millis(5));
    proxy.hold_replies(OpCode::Delete);
    client.janitor().delete_owned(
        &session,
        paths.clone(),
        Some(Box::new(Arc::clone(&attachment))),
    );
    // All three deletes are sent before the first is answered.
    proxy.wait_for_reply(OpCode::Delete, 3).await.unwrap();
    assert_eq!(
        pending(&client),
        texts(&[paths[0].clone(), paths[2].clone(), paths[3].clone()])
    );
    assert!(
        client
            .janitor()
            .pending_deletes()
            .iter()
            .all(|delete| !delete.is_refused)
    );
    assert_eq!(Arc::strong_count(&attachment), 2);
    proxy.release_held();
    soon(client.janitor().idle()).await;
    assert_eq!(sent(&proxy), [(OpCode::Delete, 3), (OpCode::Multi, 1)]);
    assert_eq!(proxy.round_trips(), 2);
    assert!(left_of(&paths).await.is_empty());
    until(async || Arc::strong_count(&attachment) == 1).await;
}

#[tokio::test]
async fn a_joint_delete_of_one_node_sends_a_plain_delete_and_of_none_sends_nothing() {
    let (proxy, client, session, paths) = nodes(1).await;
    client.janitor().delete_owned(&session, Vec::new(), None);
    assert_eq!(client.janitor().pending(), 0);
    client.janitor().delete_owned(&session, paths.clone(), None);
    assert_eq!(pending(&client), texts(&paths));
    soon(client.janitor().idle()).await;
    assert_eq!(sent(&proxy), [(OpCode::Delete, 1)]);
    assert!(left_of(&paths).await.is_empty());
}

/// The directory of the first node permits no deletes.
#[tokio::test]
async fn a_refused_delete_is_listed_and_the_other_nodes_are_deleted() {
    let (_proxy, client, session, paths) = nodes(2).await;
    let no_delete = [Acl::new(
        Permission::READ | Permission::CREATE,
        AuthId::anyone(),
    )];
    let locked = client
        .create()
        .with_acl(no_delete)
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let refused = client
        .create()
        .with_mode(CreateMode::Ephemeral)
        .for_path(locked.child("n").unwrap(), "")
        .await
        .unwrap();
    let together = vec![refused.clone(), paths[0].clone(), paths[1].clone()];
    client.janitor().delete_owned(&session, together, None);
    soon(client.janitor().idle()).await;
    assert!(left_of(&paths).await.is_empty());
    let [left] = &*client.janitor().pending_deletes() else {
        panic!("{:?}", pending(&client))
    };
    assert_eq!(
        (left.path.as_str(), left.is_refused),
        (refused.as_str(), true)
    );
    assert!(
        matches!(&left.last_error, Some(Error::NoAuth { path, .. }) if *path == refused),
        "{left:?}"
    );
}

#[tokio::test]
async fn a_delete_owned_by_a_session_ends_with_that_session() {
    for (count, request) in [(1, OpCode::Delete), (3, OpCode::Multi)] {
        let (proxy, client, session, paths) = nodes(count).await;
        proxy.hold_replies(request);
        client.janitor().delete_owned(&session, paths.clone(), None);
        assert_eq!(client.janitor().pending(), count);
        proxy.wait_for_reply(request, 1).await.unwrap();
        end_session(&proxy).await;
        proxy.cut();
        soon(client.janitor().idle()).await;
        assert!(session.end().is_some());
        assert!(pending(&client).is_empty());
        // Deletes for an ended session are not counted as pending.
        client
            .janitor()
            .delete_owned(&session, vec![paths[0].clone()], None);
        client.janitor().delete_owned(&session, paths.clone(), None);
        assert_eq!(client.janitor().pending(), 0);
    }
}

#[tokio::test]
async fn nodes_that_do_not_fit_in_one_request_are_deleted_one_by_one() {
    let (proxy, client, session, paths) = nodes(20).await;
    client.janitor().delete_owned(&session, paths.clone(), None);
    soon(client.janitor().idle()).await;
    assert!(left_of(&paths).await.is_empty());
    assert_eq!(sent(&proxy), [(OpCode::Delete, 20)]);
}
