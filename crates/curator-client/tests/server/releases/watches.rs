//! One-shot watches: what they report, that they fire once, and that they leave nothing behind.

use curator_client::{CreateMode, WatchEvent};
use curator_test::{OpCode, TestingServer};
use futures_util::FutureExt as _;

use crate::support::{begin_outage, behind_proxy, direct, ephemeral, is_native, node, soon, until};

/// Whether the server keeps a data watch on `path`. It does not report child watches.
async fn is_watched(path: &str) -> bool {
    TestingServer::shared()
        .await
        .watches_by_path()
        .await
        .unwrap()
        .contains_key(path)
}

#[tokio::test]
async fn each_kind_of_watch_fires_with_its_event_and_then_needs_no_removal() {
    let (proxy, client) = behind_proxy().await;
    let other = direct().await;
    let dir = node(&client).await;
    let child = dir.child("child").unwrap();
    let (stat, mut created) = client.watch_exists(&child).await.unwrap();
    let (children, mut first) = client.watch_children(&dir).await.unwrap();
    assert!(stat.is_none() && children.is_empty() && is_watched(child.as_str()).await);
    other
        .create()
        .with_mode(CreateMode::Ephemeral)
        .for_path(&child, "")
        .await
        .unwrap();
    assert_eq!(soon(created.fired()).await, WatchEvent::Created);
    assert_eq!(soon(first.fired()).await, WatchEvent::ChildrenChanged);

    let (stat, mut changed) = client.watch_exists(&child).await.unwrap();
    assert!(stat.is_some());
    other.set_data(&child, "1", None).await.unwrap();
    assert_eq!(soon(changed.fired()).await, WatchEvent::DataChanged);

    let (_, _, mut data) = client.watch_data(&child).await.unwrap();
    let (_, mut below) = client.watch_children(&child).await.unwrap();
    let (children, mut last) = client.watch_children(&dir).await.unwrap();
    assert_eq!(children, ["child"]);
    other.close().await.unwrap();
    assert_eq!(soon(data.fired()).await, WatchEvent::Deleted);
    assert_eq!(soon(below.fired()).await, WatchEvent::Deleted);
    assert_eq!(soon(last.fired()).await, WatchEvent::ChildrenChanged);

    drop((created, first, changed, data, below, last));
    client.sync("/").await.unwrap();
    assert_eq!(proxy.requests().get(&OpCode::RemoveWatches), None);
    drop(
        client
            .watch_exists(dir.child("never").unwrap())
            .await
            .unwrap(),
    );
    until(async || !is_watched(&format!("{dir}/never")).await).await;
}

#[tokio::test]
async fn a_watch_fires_once() {
    let client = direct().await;
    let path = node(&client).await;
    let (_, _, mut watch) = client.watch_data(&path).await.unwrap();
    // A watch still fires after its waits were dropped.
    for _ in 0..3 {
        assert_eq!(watch.fired().now_or_never(), None);
    }
    client.set_data(&path, "1", None).await.unwrap();
    assert_eq!(soon(watch.fired()).await, WatchEvent::DataChanged);
    assert!(!is_watched(path.as_str()).await);
    client.delete().for_path(&path).await.unwrap();
    // A fired watch keeps returning its event.
    assert_eq!(watch.fired().now_or_never(), Some(WatchEvent::DataChanged));
}

#[tokio::test]
async fn a_dropped_watch_is_removed_from_the_server() {
    let (proxy, client) = behind_proxy().await;
    let path = node(&client).await;
    let (_, _, first) = client.watch_data(&path).await.unwrap();
    let (_, _, mut second) = client.watch_data(&path).await.unwrap();
    let (_, mut children) = client.watch_children(&path).await.unwrap();
    assert!(is_watched(path.as_str()).await);
    // The server keeps the watch, because another `Watch` still uses it.
    drop(first);
    client.sync(&path).await.unwrap();
    assert!(is_watched(path.as_str()).await);
    client.set_data(&path, "", None).await.unwrap();
    assert_eq!(soon(second.fired()).await, WatchEvent::DataChanged);
    let (_, _, last) = client.watch_data(&path).await.unwrap();
    drop(last);
    until(async || !is_watched(path.as_str()).await).await;
    client
        .create()
        .for_path(format!("{path}/child"), "")
        .await
        .unwrap();
    assert_eq!(soon(children.fired()).await, WatchEvent::ChildrenChanged);
    let (_, children) = client.watch_children(&path).await.unwrap();
    proxy.reset_counts();
    drop(children);
    soon(proxy.wait_for_reply(OpCode::RemoveWatches, 1))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_dropped_watch_request_leaves_no_watch_on_the_server() {
    let (proxy, client) = behind_proxy().await;
    let path = client.resolve(node(&client).await).unwrap();
    let session = client.session().await.unwrap();
    proxy.hold_replies(OpCode::GetData);
    let request = session.watch_data(&path);
    soon(proxy.wait_for_reply(OpCode::GetData, 1))
        .await
        .unwrap();
    assert!(is_watched(path.as_str()).await);
    drop(request);
    proxy.release_held();
    until(async || !is_watched(path.as_str()).await).await;
}

#[tokio::test]
async fn a_watch_fires_as_interrupted_when_its_connection_ends() {
    let (proxy, client) = behind_proxy().await;
    let other = direct().await;
    let kept = ephemeral(&client).await;
    let gone = node(&other).await;
    let (_, _, mut kept_watch) = client.watch_data(&kept).await.unwrap();
    let (_, _, mut gone_watch) = client.watch_data(&gone).await.unwrap();
    let (_, mut children) = client.watch_children(&kept).await.unwrap();
    begin_outage(&proxy, &client).await;
    other.delete().for_path(&gone).await.unwrap();
    for watch in [&mut kept_watch, &mut gone_watch, &mut children] {
        assert_eq!(soon(watch.fired()).await, WatchEvent::Interrupted);
    }
    proxy.refuse(false).unwrap();
    // A new watch works as usual.
    let (_, _, mut watch) = client.watch_data(&kept).await.unwrap();
    other.set_data(&kept, "", None).await.unwrap();
    assert_eq!(soon(watch.fired()).await, WatchEvent::DataChanged);
}

#[tokio::test]
async fn a_watch_ends_with_its_client() {
    let client = direct().await;
    let (_, _, mut watch) = client.watch_data(ephemeral(&client).await).await.unwrap();
    client.close().await.unwrap();
    // The node is deleted with the session, and the client may receive that event before the end of
    // the session.
    let event = soon(watch.fired()).await;
    assert!(
        matches!(event, WatchEvent::SessionEnded | WatchEvent::Deleted),
        "{event:?}"
    );
}

#[tokio::test]
async fn a_new_watch_waits_for_the_removal_of_dropped_watches_of_both_kinds_on_its_path() {
    // Only `zookeeper-client` needs this.
    if is_native() {
        return;
    }
    let (proxy, client) = behind_proxy().await;
    let path = node(&client).await;
    // The probes sync this path. They are not counted.
    proxy.exempt_path("/");
    proxy.reset_counts();
    let syncs = || {
        proxy
            .requests()
            .get(&OpCode::Sync)
            .copied()
            .unwrap_or_default()
    };
    let data = client.watch_data(&path).await.unwrap();
    let children = client.watch_children(&path).await.unwrap();
    drop(data);
    let data = client.watch_data(&path).await.unwrap();
    assert_eq!(syncs(), 0);
    // The events of both watches are held behind this reply.
    proxy.hold_replies(OpCode::Exists);
    drop(client.check_exists(&path).now_or_never());
    proxy.wait_for_reply(OpCode::Exists, 1).await.unwrap();
    let other = direct().await;
    other.set_data(&path, "1", None).await.unwrap();
    other
        .create()
        .for_path(format!("{path}/child"), "")
        .await
        .unwrap();
    drop((data, children));
    let watch = tokio::spawn({
        let client = client.clone();
        let path = path.clone();
        async move { client.watch_data(&path).await }
    });
    proxy.wait_for_request(OpCode::Sync, 1).await.unwrap();
    proxy.release_held();
    let (value, _, mut watch) = soon(watch).await.unwrap().unwrap();
    assert_eq!(
        (value.as_slice(), syncs(), proxy.notifications()),
        (&b"1"[..], 2, 2)
    );
    other.set_data(&path, "2", None).await.unwrap();
    assert_eq!(soon(watch.fired()).await, WatchEvent::DataChanged);
    // Nothing is being removed now, so the next watch needs no sync.
    let again = client.watch_data(&path).await.unwrap();
    drop(again);
    assert_eq!(syncs(), 2);
}

/// If the connection did not end, `zookeeper-client` would use freed memory (`docs/upstream.md`).
#[tokio::test]
async fn a_connection_ends_when_watches_of_both_kinds_are_dropped_while_another_is_set() {
    // Only `zookeeper-client` needs this.
    if is_native() {
        return;
    }
    let (proxy, client) = behind_proxy().await;
    let path = node(&client).await;
    let other = direct().await;
    let session = client.session().await.unwrap();
    for is_awaited in [true, false] {
        let data = client.watch_data(&path).await.unwrap();
        let children = client.watch_children(&path).await.unwrap();
        proxy.reset_counts();
        // Both events are in flight when the next watch is requested.
        proxy.hold_replies(OpCode::Exists);
        drop(client.check_exists(&path).now_or_never());
        proxy.wait_for_reply(OpCode::Exists, 1).await.unwrap();
        other.set_data(&path, "1", None).await.unwrap();
        other
            .create()
            .for_path(format!("{path}/child-{is_awaited}"), "")
            .await
            .unwrap();
        let mut next = Box::pin(client.watch_data(&path));
        assert!((&mut next).now_or_never().is_none());
        if !is_awaited {
            drop(next);
            next = Box::pin(client.watch_data(&path));
        }
        drop((data, children));
        proxy.release_held();
        let (_, _, mut watch) = soon(next).await.unwrap();
        assert_eq!(proxy.requests().get(&OpCode::RemoveWatches), None);
        assert!(proxy.handshakes() >= 1, "the connection has not ended");
        other.set_data(&path, "2", None).await.unwrap();
        assert_eq!(soon(watch.fired()).await, WatchEvent::DataChanged);
    }
    assert!(client.session().await.unwrap().is_same(&session));
}
