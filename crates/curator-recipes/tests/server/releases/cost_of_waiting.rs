//! The cost in requests of waiting, many leases, revocation and guarded transactions.

use std::collections::BTreeMap;

use curator_recipes::{
    InterProcessMultiLock, InterProcessReadWriteLock, InterProcessSemaphoreV2, OwnerId,
    SemaphoreLease, SharedCount, revoke,
};
use curator_test::OpCode;
use futures_util::FutureExt as _;

use crate::releases::cost::{counted, spent, stated};
use crate::support::{
    arc, client, keep, mutex, path, queue_of, soon, spawn_acquire, until, without_probes,
};

fn counts<const N: usize>(requests: [(OpCode, u64); N]) -> BTreeMap<OpCode, u64> {
    BTreeMap::from(requests)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquiring_many_leases_costs_as_much_as_one_with_a_shared_count() {
    let (proxy, client) = counted().await;
    let count = path("leases-count");
    let path = path("leases");
    let count = SharedCount::new(&client, count, 3).unwrap();
    let semaphore = InterProcessSemaphoreV2::with_shared_count(&client, &path, count).unwrap();
    let dirs = ["locks", "leases"].map(|name| format!("{path}/{name}"));
    keep(&client, &dirs).await;
    // The count is created once.
    semaphore.acquire().await.unwrap().release().await.unwrap();
    for quantity in [1, 3] {
        proxy.reset_counts();
        let leases = semaphore.acquire_many(quantity).await.unwrap();
        let taken = stated((
            "semaphore",
            "acquire, when the queue is empty and there are enough leases",
        ))
        .await;
        assert_eq!(spent(&proxy), taken, "{quantity} leases");
        SemaphoreLease::release_all(leases).await.unwrap();
        assert_eq!(
            spent(&proxy),
            (counts([(OpCode::Delete, quantity as u64)]), 1),
            "{quantity} leases"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_waiter_for_leases_lists_and_takes_when_a_lease_is_released() {
    let (proxy, client) = counted().await;
    let path = path("lease");
    let others = self::client().await;
    keep(
        &others,
        &["locks", "leases"].map(|name| format!("{path}/{name}")),
    )
    .await;
    let holders = InterProcessSemaphoreV2::new(&others, &path, 1).unwrap();
    let held = holders.acquire().await.unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&client, &path, 1).unwrap();
    let waiting = tokio::spawn(async move { semaphore.acquire().await.unwrap() });
    proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
    held.release().await.unwrap();
    let lease = soon(waiting).await.unwrap();
    let row = (
        "semaphore",
        "acquire, first in the queue, until a lease is released",
    );
    assert_eq!(spent(&proxy), stated(row).await);
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_lists_again_only_behind_several_writers_and_then_once() {
    for writers in 1..=3 {
        let (proxy, client) = counted().await;
        let path = path("reader");
        let others = self::client().await;
        let lock = InterProcessReadWriteLock::new(&others, &path).unwrap();
        let first = lock.write().acquire_as(&OwnerId::new()).await.unwrap();
        let mut next = Vec::new();
        for place in 1..writers {
            let lock = lock.clone();
            next.push(tokio::spawn(async move {
                lock.write()
                    .acquire_as(&OwnerId::new())
                    .await
                    .unwrap()
                    .release()
                    .await
                    .unwrap();
            }));
            queue_of(&others, &path, place + 1).await;
        }
        let reader = InterProcessReadWriteLock::new(&client, &path).unwrap();
        let reading = tokio::spawn(async move { reader.read().acquire().await.unwrap() });
        let (row, watches) = if writers == 1 {
            (("read-write lock", "read, one writer before us"), 2)
        } else {
            (("read-write lock", "read, several writers before us"), 1)
        };
        proxy
            .wait_for_reply(OpCode::GetData, watches)
            .await
            .unwrap();
        let waits = counts([
            (OpCode::Create2, 1),
            (OpCode::GetChildren, 1),
            (OpCode::GetData, watches),
        ]);
        assert_eq!(without_probes(&proxy), waits, "{writers} writers");
        first.release().await.unwrap();
        let reading = soon(reading).await.unwrap();
        assert_eq!(spent(&proxy), stated(row).await, "{writers} writers");
        for writer in next {
            soon(writer).await.unwrap();
        }
        reading.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_lists_again_when_the_contender_before_it_has_left() {
    let others = client().await;
    let (proxy, client) = counted().await;
    let path = path("writer");
    let held = InterProcessReadWriteLock::new(&others, &path)
        .unwrap()
        .read()
        .acquire()
        .await
        .unwrap();
    let writer = InterProcessReadWriteLock::new(&client, &path).unwrap();
    let writing = tokio::spawn(async move { writer.write().acquire().await.unwrap() });
    proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
    held.release().await.unwrap();
    let writing = soon(writing).await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("read-write lock", "write, a contender before us")).await
    );
    writing.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_lock_that_waits_in_one_queue_watches_its_nodes_in_all_and_then_sends_nothing() {
    let (proxy, client) = counted().await;
    let paths: Vec<_> = (0..3).map(|_| path("multi")).collect();
    let others = self::client().await;
    let held = mutex(&others, &paths[1]).acquire().await.unwrap();
    // The directories of the other two paths are missing.
    let waiting = spawn_acquire(arc(InterProcessMultiLock::new(&client, &paths).unwrap()));
    proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
    assert_eq!(spent(&proxy).0.get(&OpCode::GetData), Some(&4));
    held.release().await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    assert_eq!(spent(&proxy).0, counts([]));
    guard.release().await.unwrap();
    assert_eq!(spent(&proxy).0, counts([(OpCode::Multi, 1)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guarded_transaction_is_one_request_and_so_is_the_first_wait_for_a_revocation() {
    let (proxy, client) = counted().await;
    let path = path("guarded");
    let data = self::path("guarded-data");
    client
        .create()
        .creating_parent_containers()
        .for_path(&data, "")
        .await
        .unwrap();
    let guard = mutex(&client, &path).acquire().await.unwrap();
    proxy.reset_counts();
    guard
        .transaction()
        .set_data(&data, "1", None)
        .unwrap()
        .commit()
        .await
        .unwrap();
    assert_eq!(spent(&proxy), (counts([(OpCode::Multi, 1)]), 1));

    let mut requested = std::pin::pin!(guard.revocation_requested());
    until(async || {
        assert!(
            requested.as_mut().now_or_never().is_none(),
            "no client has requested a revocation"
        );
        proxy.requests().contains_key(&OpCode::GetData)
    })
    .await;
    proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
    // The watch is in place, so further waits send nothing, and no request is in flight.
    assert!(guard.revocation_requested().now_or_never().is_none());
    assert!(guard.lost().now_or_never().is_none());
    client.sync("/").await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("revocation", "`revocation_requested`, the first time")).await
    );

    let (proxy, other) = counted().await;
    revoke(&other, guard.node()).await.unwrap();
    assert_eq!(spent(&proxy), stated(("revocation", "`revoke`")).await);
}
