//! A cache with more than 65,535 nodes, all of which change at the same time, and a typed cache with
//! 100,000 entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use curator_recipes::client::{CreateMode, CuratorClient};
use curator_recipes::{CacheState, CuratorCache, TypedCache};
use curator_test::{FaultProxy, OpCode, TestingServer, within};

use super::support::{LONG_SESSION, Replay, builder, number, say, without_probes};
use super::{ALONE, CROWD_TIMEOUT};

/// Creates the directory and its leaves. Returns their paths.
async fn create_leaves(writer: &CuratorClient, leaves: usize, data: &str) -> Vec<String> {
    writer.create().for_path("/leaves", "").await.unwrap();
    let all: Vec<_> = (0..leaves)
        .map(|leaf| format!("/leaves/{leaf:06}"))
        .collect();
    for some in all.chunks(2_000) {
        some.iter()
            .fold(writer.transaction(), |transaction, leaf| {
                transaction
                    .create(leaf, data, CreateMode::Persistent)
                    .unwrap()
            })
            .commit()
            .await
            .unwrap();
    }
    all
}

/// Curator reads each child with at least one request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typed_cache_loads_100_000_entries_with_few_requests() {
    let _alone = ALONE.lock().await;
    let entries = number("ENTRIES", 100_000) as usize;
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .connect()
        .await
        .unwrap();
    let writer = builder(&server.connect_string(), LONG_SESSION)
        .connect()
        .await
        .unwrap();
    create_leaves(&writer, entries, "1").await;
    let decoded = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&decoded);
    let decode = move |data: &[u8]| {
        counted.fetch_add(1, Ordering::Relaxed);
        String::from_utf8_lossy(data).parse::<u32>()
    };
    let codec = (|value: &u32| value.to_string().into_bytes(), decode);
    proxy.reset_counts();
    let options = CuratorCache::builder(&client, "/leaves").unwrap();
    let typed = TypedCache::start(options, codec).unwrap();
    let loaded = within(CROWD_TIMEOUT, typed.cache().ready()).await.unwrap();
    let requests: u64 = without_probes(&proxy).values().sum();
    say(&format!(
        "crowd: {entries} entries loaded by {requests} requests"
    ));
    assert_eq!(typed.entries(&loaded).count(), entries);
    assert!(
        typed
            .entries(&loaded)
            .all(|entry| **entry.value().unwrap() == 1)
    );
    assert_eq!(decoded.load(Ordering::Relaxed), entries);
    // 290 nodes a read, and some reads to begin with.
    let most = entries as u64 / 290 + 50;
    assert!(requests <= most, "{requests} requests, at most {most}");

    // After a reconnect, everything is read again, and nothing is decoded.
    proxy.reset_counts();
    proxy.cut();
    within(CROWD_TIMEOUT, typed.cache().caught_up())
        .await
        .unwrap();
    within(CROWD_TIMEOUT, writer.set_data("/leaves/000000", "2", None))
        .await
        .unwrap();
    within(CROWD_TIMEOUT, typed.cache().caught_up())
        .await
        .unwrap();
    let changed = typed.get("000000").unwrap().node().unwrap();
    assert_eq!(**changed.value().unwrap(), 2);
    assert_eq!(decoded.load(Ordering::Relaxed), entries + 1);
    let again: u64 = without_probes(&proxy).values().sum();
    say(&format!(
        "crowd: {entries} entries read again by {again} requests"
    ));
    assert!(again <= most, "{again} requests, at most {most}");
    within(CROWD_TIMEOUT, typed.cache().close()).await.unwrap();
    for client in [client, writer] {
        within(CROWD_TIMEOUT, client.close()).await.unwrap();
    }
}

/// Curator's cache once failed to load more than 65,535 children (CURATOR-690). The burst changes
/// more nodes than a cache remembers individually.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_directory_and_a_burst_of_changes_are_read_in_batches() {
    let _alone = ALONE.lock().await;
    let leaves = number("LEAVES", 66_000) as usize;
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .connect()
        .await
        .unwrap();
    let writer = builder(&server.connect_string(), LONG_SESSION)
        .connect()
        .await
        .unwrap();
    let all = create_leaves(&writer, leaves, "before").await;
    let cache = CuratorCache::builder(&client, "/leaves")
        .unwrap()
        .start()
        .unwrap();
    let begun = Instant::now();
    let loaded = within(CROWD_TIMEOUT, cache.ready()).await.unwrap();
    assert_eq!(loaded.children(cache.path()).count(), leaves);
    say(&format!(
        "crowd: {leaves} leaves loaded in {:.1?} by {:?} requests",
        begun.elapsed(),
        proxy.requests()[&OpCode::MultiRead]
    ));
    assert!(proxy.requests()[&OpCode::MultiRead] < leaves as u64 / 250);

    let mut events = cache.events();
    let mut replay = Replay::default();
    while replay.readies == 0 {
        replay.apply(events.next().await.unwrap());
    }
    // All nodes change while a reply is in flight.
    proxy.reset_counts();
    proxy.hold_replies(OpCode::MultiRead);
    writer.set_data("/leaves", "first", None).await.unwrap();
    within(CROWD_TIMEOUT, proxy.wait_for_reply(OpCode::MultiRead, 1))
        .await
        .unwrap();
    for some in all.chunks(2_000) {
        some.iter()
            .fold(writer.transaction(), |transaction, leaf| {
                transaction.set_data(leaf, "after", None).unwrap()
            })
            .commit()
            .await
            .unwrap();
    }
    proxy.release_held();
    let changed = within(CROWD_TIMEOUT, cache.caught_up()).await.unwrap();
    assert_eq!(changed.state(), CacheState::Current);
    assert!(
        changed
            .children(cache.path())
            .all(|leaf| leaf.data() == b"after")
    );
    assert!(
        loaded
            .children(cache.path())
            .all(|leaf| leaf.data() == b"before"),
        "a snapshot does not change"
    );
    let reads = proxy.requests()[&OpCode::MultiRead];
    assert!(reads < leaves as u64 / 100, "{reads} requests");
    within(CROWD_TIMEOUT, replay.until(&mut events, &changed)).await;
    within(CROWD_TIMEOUT, cache.close()).await.unwrap();
    for client in [client, writer] {
        within(CROWD_TIMEOUT, client.close()).await.unwrap();
    }
}
