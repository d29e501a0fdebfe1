//! A cache with more than 65,535 nodes, all of which change at the same time.

use std::time::Instant;

use curator_recipes::client::CreateMode;
use curator_recipes::{CacheState, CuratorCache};
use curator_test::{FaultProxy, OpCode, TestingServer, within};

use super::support::{LONG_SESSION, Replay, builder, number, say};
use super::{ALONE, CROWD_TIMEOUT};

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
    writer.create().for_path("/leaves", "").await.unwrap();
    let all: Vec<_> = (0..leaves)
        .map(|leaf| format!("/leaves/{leaf:06}"))
        .collect();
    for some in all.chunks(2_000) {
        some.iter()
            .fold(writer.transaction(), |transaction, leaf| {
                transaction
                    .create(leaf, "before", CreateMode::Persistent)
                    .unwrap()
            })
            .commit()
            .await
            .unwrap();
    }
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
