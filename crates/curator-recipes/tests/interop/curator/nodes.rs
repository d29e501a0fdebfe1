//! Java's `PersistentNode` and ours, as the caches of both languages see them, and on one path.

use curator_recipes::{
    CacheEvent, CacheEvents, CuratorCache, PersistentNode, PersistentNodeState,
    client::{CuratorClient, ZPath},
};
use curator_test::{soon, unique_path, until};

use super::{
    java::java,
    stage::{id, ours},
};

/// The next event, in Java's notation.
pub(super) async fn next(events: &mut CacheEvents) -> String {
    let describe = |kind, node: &curator_recipes::CachedNode| {
        format!(
            "{kind} {} {}",
            node.path(),
            String::from_utf8_lossy(node.data())
        )
    };
    match soon(events.next()).await.unwrap() {
        CacheEvent::Created(node) => describe("NODE_CREATED", &node),
        CacheEvent::Changed { new, .. } => describe("NODE_CHANGED", &new),
        CacheEvent::Deleted(node) => describe("NODE_DELETED", &node),
        CacheEvent::Ready => "READY".to_owned(),
        other => panic!("{other:?}"),
    }
}

/// A cache of an empty directory, and its events from then on.
pub(super) async fn cache(client: &CuratorClient, dir: &str) -> (CuratorCache, CacheEvents) {
    let cache = CuratorCache::builder(client, dir).unwrap().start().unwrap();
    soon(cache.ready()).await.unwrap();
    let mut events = cache.events();
    assert_eq!(next(&mut events).await, format!("NODE_CREATED {dir} root"));
    assert_eq!(next(&mut events).await, "READY");
    (cache, events)
}

async fn data(client: &CuratorClient, path: &str) -> (String, i64) {
    let (data, stat) = client.get_data(path).await.unwrap();
    (String::from_utf8(data).unwrap(), stat.ephemeral_owner)
}

/// Waits until our node is present. Returns its path.
async fn until_present(node: &PersistentNode) -> ZPath {
    let mut state = node.state();
    let state = soon(state.wait_for(|state| matches!(state, PersistentNodeState::Present { .. })))
        .await
        .unwrap();
    let PersistentNodeState::Present { path } = state else {
        unreachable!()
    };
    path
}

#[tokio::test]
async fn javas_cache_sees_our_persistent_node_and_our_cache_sees_javas() {
    let client = ours().await;
    let dir = unique_path("caches");
    client.create().for_path(&dir, "root").await.unwrap();
    let mut watching = java().await;
    let mut java = java().await;
    assert_eq!(watching.ask(&format!("cache {dir}")).await, "ok");
    assert_eq!(
        watching.ask("event").await,
        format!("ok NODE_CREATED {dir} root")
    );
    let (_cache, mut events) = cache(&client, &dir).await;

    let mut both_see = async |kind: &str, path: &str, data: &str| {
        let event = format!("{kind} {path} {data}");
        assert_eq!(watching.ask("event").await, format!("ok {event}"));
        assert_eq!(next(&mut events).await, event);
    };

    // Our node is created, changed, deleted by an operator, recreated, and closed.
    let path = format!("{dir}/ours");
    let node = PersistentNode::builder(&client, &path)
        .unwrap()
        .data("1")
        .start();
    both_see("NODE_CREATED", &path, "1").await;
    soon(node.set_data("2")).await.unwrap();
    both_see("NODE_CHANGED", &path, "2").await;
    client.delete().for_path(&path).await.unwrap();
    both_see("NODE_DELETED", &path, "2").await;
    both_see("NODE_CREATED", &path, "2").await;
    soon(node.close()).await.unwrap();
    both_see("NODE_DELETED", &path, "2").await;

    let path = format!("{dir}/javas");
    assert_eq!(java.ask(&format!("persist {path} 1")).await, "ok");
    assert_eq!(java.ask("event").await, format!("ok created {path}"));
    both_see("NODE_CREATED", &path, "1").await;
    assert_eq!(java.ask(&format!("persist-data {path} 2")).await, "ok");
    both_see("NODE_CHANGED", &path, "2").await;
    client.delete().for_path(&path).await.unwrap();
    both_see("NODE_DELETED", &path, "2").await;
    both_see("NODE_CREATED", &path, "2").await;
    assert_eq!(java.ask(&format!("shut {path}")).await, "ok");
    both_see("NODE_DELETED", &path, "2").await;
}

#[tokio::test]
async fn our_persistent_node_waits_for_javas_node_and_is_created_after_its_deletion() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("taken");
    assert_eq!(java.ask(&format!("persist {path} javas")).await, "ok");
    assert_eq!(java.ask("event").await, format!("ok created {path}"));
    let node = PersistentNode::builder(&client, &path)
        .unwrap()
        .data("ours")
        .start();
    let mut state = node.state();
    let java_id = java.id();
    let is_javas = |state: &PersistentNodeState| matches!(state, PersistentNodeState::Foreign { owner, .. } if *owner == java_id);
    soon(state.wait_for(is_javas)).await.unwrap();
    // Our node does not report changes of Java's node.
    assert_eq!(java.ask(&format!("persist-data {path} other")).await, "ok");
    // Java's command returns before the write is done.
    until(async || data(&client, &path).await == ("other".to_owned(), java_id)).await;
    assert!(is_javas(&node.state().get()));
    assert_eq!(java.ask(&format!("shut {path}")).await, "ok");
    assert_eq!(until_present(&node).await.as_str(), path);
    assert_eq!(data(&client, &path).await, ("ours".to_owned(), id(&client)));
}

/// Java adopts any node: it overwrites the data, and deletes the node when it closes its recipe.
#[tokio::test]
async fn our_persistent_node_is_recreated_after_java_overwrites_and_deletes_it() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("adopted");
    let node = PersistentNode::builder(&client, &path)
        .unwrap()
        .data("ours")
        .start();
    soon(node.created()).await.unwrap();
    assert_eq!(java.ask(&format!("persist {path} javas")).await, "ok");
    until(async || data(&client, &path).await == ("javas".to_owned(), id(&client))).await;
    assert!(node.state().get().is_present());
    let before = client.check_exists(&path).await.unwrap().unwrap().czxid;
    assert_eq!(java.ask(&format!("shut {path}")).await, "ok");
    until(async || {
        client
            .check_exists(&path)
            .await
            .unwrap()
            .is_some_and(|stat| stat.czxid > before)
    })
    .await;
    assert_eq!(data(&client, &path).await, ("ours".to_owned(), id(&client)));
    until_present(&node).await;
    soon(node.close()).await.unwrap();
}
