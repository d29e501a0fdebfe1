//! The watches of caches on the server: they do not leak or get lost, and do not affect the watches
//! of locks.
use std::time::{Duration, Instant};

use curator_recipes::CuratorCache;
use curator_recipes::client::{CuratorClient, CuratorClientBuilder, Transport};
use curator_test::{FaultProxy, OpCode, TestingServer};
use futures_util::future::join_all;

use crate::cache_faults::assert_equals_servers;
use crate::support::{
    End, LONG_SESSION, QuietServer, behind_proxy, builder, churn_locks_beside_caches, client,
    connect, drop_after, path, refuses_watches, requests_of, soon, transport, until, use_cache,
    watch_once_beside_a_cache,
};

/// Waits until the server, which no other test uses meanwhile, has no watch.
async fn until_no_watch(server: &TestingServer) {
    until(async || server.total_watch_count().await.unwrap() == 0).await;
}

/// The number of watched paths. Servers older than 3.9 count a recursive watch twice.
async fn watched(server: &TestingServer) -> usize {
    server.watches_by_path().await.unwrap().len()
}

/// A server that no other test uses meanwhile, a proxy in front of it, and a client behind the
/// proxy.
async fn alone_behind_proxy() -> (QuietServer, FaultProxy, CuratorClient) {
    alone_behind_proxy_with(|builder| builder).await
}

/// Like [`alone_behind_proxy`], with other settings.
async fn alone_behind_proxy_with(
    settings: impl FnOnce(CuratorClientBuilder) -> CuratorClientBuilder,
) -> (QuietServer, FaultProxy, CuratorClient) {
    let quiet = QuietServer::take().await;
    let proxy = FaultProxy::start(quiet.server.address()).unwrap();
    let client = settings(builder(&proxy.connect_string(), LONG_SESSION))
        .connect()
        .await
        .unwrap();
    (quiet, proxy, client)
}

async fn create(client: &CuratorClient, path: &str) {
    client
        .create()
        .creating_parent_containers()
        .for_path(path, "")
        .await
        .unwrap();
}

/// Changes nodes below `base` until its future is dropped.
async fn change_forever(client: &CuratorClient, base: &str) {
    for number in 0_usize.. {
        let node = format!("{base}/a/b");
        let child = format!("{base}/a/b/{}", number % 5);
        // Each request may fail, because the node may exist or not.
        let _ = client.set_data(&node, number.to_string(), None).await;
        let _ = client
            .set_data(format!("{base}/a"), number.to_string(), None)
            .await;
        let _ = client.create().for_path(&child, "").await;
        let _ = client.set_data(&child, number.to_string(), None).await;
        let _ = client.delete().for_path(&child).await;
    }
}

#[tokio::test]
async fn the_watch_of_a_cache_is_gone_when_its_close_returns() {
    let (quiet, proxy, client) = alone_behind_proxy().await;
    let root = path("gone-at-close");
    create(&client, &root).await;
    let cache = CuratorCache::builder(&client, &root)
        .unwrap()
        .start()
        .unwrap();
    soon(cache.ready()).await.unwrap();
    assert_eq!(watched(quiet.server).await, 1);
    // Delays the request that removes the watch by more than the rest of this test takes.
    proxy.set_delay(Duration::from_millis(200));
    soon(cache.close()).await.unwrap();
    assert_eq!(watched(quiet.server).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_caches_leave_no_watch() {
    const CONCURRENT: usize = 8;
    let quiet = QuietServer::take().await;
    let path = path("thousand");
    let connect_string = quiet.server.connect_string();
    let client = connect(&connect_string).await;
    let other = connect(&connect_string).await;
    create(&client, &format!("{path}/a/b")).await;
    let roots = ["", "/a", "/a/b", "/a", "/missing"].map(|below| format!("{path}{below}"));
    let caches = join_all((0..CONCURRENT).map(async |first| {
        for number in (first..1000).step_by(CONCURRENT) {
            use_cache(&client, &roots[number % roots.len()], End::nth(number)).await;
        }
    }));
    tokio::select! {
        _ = caches => {}
        () = change_forever(&other, &path) => {}
    }
    until_no_watch(quiet.server).await;
    assert_eq!(client.health().watches, 0);
    // The last cache works like the first.
    let cache = CuratorCache::builder(&client, &path)
        .unwrap()
        .start()
        .unwrap();
    soon(cache.ready()).await.unwrap();
    assert_eq!(watched(quiet.server).await, 1);
    cache.close().await.unwrap();
    assert_eq!(quiet.server.total_watch_count().await.unwrap(), 0);
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_lose_no_watch_beside_caches_of_their_client() {
    let with_caches = client().await;
    let other = client().await;
    churn_locks_beside_caches(&with_caches, &other, &path("churn")).await;
    with_caches.close().await.unwrap();
    other.close().await.unwrap();
}

/// On servers older than 3.9, one-shot watches in the cache's session would remove its watch
/// (ZOOKEEPER-4466).
#[tokio::test]
async fn one_shot_watches_of_the_same_client_do_not_stop_the_events_of_a_cache() {
    let with_cache = client().await;
    let other = client().await;
    watch_once_beside_a_cache(&with_cache, &other, &path("once")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_misses_no_change_while_other_caches_start_and_end_at_its_paths() {
    let other = client().await;
    let client = client().await;
    let base = path("passers");
    create(&client, &format!("{base}/a/b")).await;
    let roots = [base.clone(), format!("{base}/a"), format!("{base}/a/b")];
    let caches = roots.clone().map(|root| {
        CuratorCache::builder(&client, root)
            .unwrap()
            .start()
            .unwrap()
    });
    for cache in &caches {
        soon(cache.ready()).await.unwrap();
    }
    let other_caches = join_all((0..4).map(async |first| {
        for number in (first..200).step_by(4) {
            use_cache(&client, &roots[number % roots.len()], End::nth(number)).await;
        }
    }));
    tokio::select! {
        _ = other_caches => {}
        () = change_forever(&other, &base) => {}
    }
    for cache in caches {
        assert_equals_servers(&cache, &other).await;
        soon(cache.close()).await.unwrap();
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_cache_that_ends_while_setting_its_watch_leaves_no_watch() {
    let (quiet, proxy, client) = alone_behind_proxy().await;
    let path = path("cache-ends");
    for is_closed in [true, false] {
        proxy.reset_counts();
        proxy.hold_replies(OpCode::AddWatch);
        let cache = CuratorCache::builder(&client, &path)
            .unwrap()
            .start()
            .unwrap();
        proxy.wait_for_reply(OpCode::AddWatch, 1).await.unwrap();
        assert_eq!(watched(quiet.server).await, 1);
        if is_closed {
            // The close is dropped before the reply arrives.
            drop(soon(drop_after(cache.close(), 1)).await);
        }
        drop(cache);
        // This request shows that the cache's task no longer waits for the reply.
        proxy.wait_for_request(OpCode::Sync, 1).await.unwrap();
        proxy.release_held();
        until_no_watch(quiet.server).await;
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_cache_that_ends_while_setting_its_watch_leaves_no_watch_on_an_unresponsive_server() {
    let close_timeout = Duration::from_millis(100);
    let (quiet, proxy, client) =
        alone_behind_proxy_with(|builder| builder.close_timeout(close_timeout)).await;
    let path = path("cache-ends");
    proxy.hold_replies(OpCode::AddWatch);
    let cache = CuratorCache::builder(&client, &path)
        .unwrap()
        .start()
        .unwrap();
    proxy.wait_for_reply(OpCode::AddWatch, 1).await.unwrap();
    assert_eq!(watched(quiet.server).await, 1);
    // The cache's task stops waiting after the close timeout.
    let _ = soon(cache.close()).await;
    proxy.release_held();
    until_no_watch(quiet.server).await;
    use_cache(&client, &path, End::Closed).await;
    until_no_watch(quiet.server).await;
}

/// Without this wait, `zookeeper-client` would use freed memory (`docs/upstream.md`).
// Runs in real time: `zookeeper-client` does not run in a simulation.
#[tokio::test]
async fn a_reply_is_awaited_between_removing_a_watch_and_setting_the_next() {
    // Only `zookeeper-client` needs this.
    if transport() == Transport::Native {
        return;
    }
    let (proxy, client) = behind_proxy().await;
    let path = path("cache-next");
    let cache = || {
        CuratorCache::builder(&client, &path)
            .unwrap()
            .start()
            .unwrap()
    };
    let first = cache();
    let second = cache();
    for cache in [&first, &second] {
        soon(cache.ready()).await.unwrap();
    }
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Sync);
    // The drop of the last cache at the path removes the watch from the server.
    drop((first, second));
    proxy
        .wait_for_request(OpCode::RemoveWatches, 1)
        .await
        .unwrap();
    let next = cache();
    proxy.wait_for_request(OpCode::Sync, 1).await.unwrap();
    assert_eq!(requests_of(&proxy, OpCode::AddWatch), 0);
    proxy.release_held();
    soon(next.ready()).await.unwrap();
    assert_eq!(requests_of(&proxy, OpCode::AddWatch), 1);
}

#[tokio::test]
async fn a_client_closes_while_a_cache_is_setting_its_watch() {
    let (quiet, proxy, client) = alone_behind_proxy().await;
    let path = path("client-closes");
    proxy.hold_replies(OpCode::AddWatch);
    let cache = CuratorCache::builder(&client, &path)
        .unwrap()
        .start()
        .unwrap();
    proxy.wait_for_reply(OpCode::AddWatch, 1).await.unwrap();
    let closed = tokio::spawn({
        let client = client.clone();
        async move { client.close().await }
    });
    let error = soon(cache.ready()).await.unwrap_err();
    assert!(error.is_closed(), "{error}");
    proxy.release_held();
    soon(closed).await.unwrap().unwrap();
    until_no_watch(quiet.server).await;
    until(async || quiet.server.sessions().await.unwrap().is_empty()).await;
}

/// While a watch is being set, removals make `zookeeper-client` read freed memory
/// (`docs/upstream.md`).
#[tokio::test]
async fn a_client_that_closes_while_a_cache_is_setting_its_watch_removes_no_watch() {
    // Only `zookeeper-client` needs this.
    if transport() == Transport::Native {
        return;
    }
    let (quiet, proxy, client) = alone_behind_proxy().await;
    let path = path("client-closes");
    let child = format!("{path}/a");
    create(&client, &child).await;
    let start = |path: &str| {
        CuratorCache::builder(&client, path)
            .unwrap()
            .start()
            .unwrap()
    };
    let [kept, unwanted] = [&path, &child].map(|path| start(path));
    soon(kept.ready()).await.unwrap();
    soon(unwanted.ready()).await.unwrap();
    proxy.hold_replies(OpCode::AddWatch);
    let setting = start(&child);
    // The count includes the watches of the earlier caches.
    proxy.wait_for_reply(OpCode::AddWatch, 3).await.unwrap();
    drop(unwanted);
    let began = Instant::now();
    let closed = tokio::spawn({
        let client = client.clone();
        async move { client.close().await }
    });
    for cache in [kept, setting] {
        until(async || cache.ready().await.is_err_and(|error| error.is_closed())).await;
    }
    proxy.release_held();
    soon(closed).await.unwrap().unwrap();
    assert_eq!(requests_of(&proxy, OpCode::RemoveWatches), 0);
    // Each of the two sessions is closed over its existing connection, unless a server takes a
    // second to answer.
    let closes = (
        requests_of(&proxy, OpCode::CloseSession),
        proxy.handshakes(),
    );
    assert!(
        closes == (2, 2) || closes.0 >= 2 && began.elapsed() > Duration::from_secs(1),
        "{closes:?}"
    );
    until_no_watch(quiet.server).await;
    until(async || quiet.server.sessions().await.unwrap().is_empty()).await;
}

#[tokio::test]
async fn a_watch_with_a_lost_reply_is_removed_after_its_cache_has_ended() {
    let (quiet, proxy, client) = alone_behind_proxy().await;
    let path = path("lost-reply");
    proxy.swallow_next_reply(OpCode::AddWatch);
    let cache = CuratorCache::builder(&client, &path)
        .unwrap()
        .start()
        .unwrap();
    proxy.wait_for_reply(OpCode::AddWatch, 1).await.unwrap();
    drop(cache);
    until_no_watch(quiet.server).await;
    use_cache(&client, &path, End::Closed).await;
    until_no_watch(quiet.server).await;
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_server_without_persistent_watches_ends_the_cache_immediately() {
    let manager = "org.apache.zookeeper.server.watch.WatchManagerOptimized";
    let server = TestingServer::builder()
        .system_property("zookeeper.watchManagerName", manager)
        .start()
        .await
        .unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = connect(&proxy.connect_string()).await;
    refuses_watches(&proxy, &client).await;
    client.close().await.unwrap();
}
