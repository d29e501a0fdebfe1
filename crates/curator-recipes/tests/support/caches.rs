//! Opens and closes caches, alone and together with locks of the same client, and on servers that
//! refuse their watches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{CacheError, CuratorCache, InterProcessSemaphoreV2, SemaphoreLease};
use curator_test::{FaultProxy, OpCode, within};
use futures_util::FutureExt as _;
use futures_util::future::join_all;

use super::{drop_after, mutex, round_trips, soon, until};

/// The number of times that each contender acquires its lock.
const HOLDS: usize = 40;
/// The limit of each wait for a lock: shorter than the minute that a contender without its watch
/// may wait.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of contenders per lock and client.
const CONTENDERS: usize = 3;

/// How a use of a cache ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The cache is closed.
    Closed,
    /// All handles of the cache are dropped.
    Dropped,
    /// All handles of the cache are dropped at this await point, before the cache is ready.
    DroppedEarly(usize),
    /// The cache is closed before it is ready, and the close is dropped at this await point.
    CloseDropped(usize),
}

impl End {
    /// Cycles through the ways to end.
    pub(crate) fn nth(number: usize) -> Self {
        match number % 4 {
            0 => Self::Closed,
            1 => Self::DroppedEarly(number / 4 % 7),
            2 => Self::Dropped,
            _ => Self::CloseDropped(number / 4 % 5),
        }
    }
}

/// Opens a cache, uses it, and ends it.
pub(crate) async fn use_cache(client: &CuratorClient, path: &str, end: End) {
    let cache = CuratorCache::builder(client, path)
        .unwrap()
        .start()
        .unwrap();
    match end {
        End::Closed | End::Dropped => {
            soon(cache.ready()).await.unwrap();
            let mut events = cache.events();
            while events.next().now_or_never().is_some() {}
            soon(cache.caught_up()).await.unwrap();
        }
        End::DroppedEarly(polls) => drop(soon(drop_after(cache.ready(), polls + 1)).await),
        End::CloseDropped(polls) => drop(soon(drop_after(cache.close(), polls + 1)).await),
    }
    if end == End::Closed {
        soon(cache.close()).await.unwrap();
    }
}

/// Contends for nested locks and a semaphore with both clients, while `with_caches` opens and
/// closes caches at the directories of these locks and above them. Fails if a waiter loses its
/// watch.
pub(crate) async fn churn_locks_beside_caches(
    with_caches: &CuratorClient,
    other: &CuratorClient,
    base: &str,
) {
    let locks = ["a", "a/b", "c"].map(|name| format!("{base}/{name}"));
    let have_contended = AtomicBool::new(false);
    let contenders = [with_caches, other].into_iter().flat_map(|client| {
        locks
            .iter()
            .flat_map(move |path| (0..CONTENDERS).map(move |_| (client.clone(), path.clone())))
    });
    let contenders = join_all(contenders.map(async |(client, path)| {
        tokio::spawn(async move {
            let lock = mutex(&client, &path);
            for _ in 0..HOLDS {
                within(PATIENCE, lock.acquire())
                    .await
                    .unwrap()
                    .release()
                    .await
                    .unwrap();
            }
        })
        .await
        .unwrap();
    }));
    // The first contender in the semaphore's queue sets a child watch.
    let semaphore = format!("{base}/s");
    let leases = join_all(
        [with_caches, other, with_caches]
            .into_iter()
            .map(async |client| {
                let semaphore = InterProcessSemaphoreV2::new(client, &semaphore, 2).unwrap();
                for number in 0..2 * HOLDS {
                    let leases = within(PATIENCE, semaphore.acquire_many(1 + number % 2))
                        .await
                        .unwrap();
                    soon(SemaphoreLease::release_all(leases)).await.unwrap();
                }
            }),
    );
    let contended = async {
        tokio::join!(contenders, leases);
        have_contended.store(true, Ordering::Relaxed);
    };
    // `leases` is listed twice, so that it has twice as many caches.
    let directories = [
        format!("{semaphore}/leases"),
        semaphore.clone(),
        format!("{semaphore}/leases"),
    ];
    let roots: Vec<&str> = locks
        .iter()
        .chain(&directories)
        .map(String::as_str)
        .chain([base])
        .collect();
    let caches = join_all((0..3).map(async |first| {
        let mut number = first;
        while !have_contended.load(Ordering::Relaxed) {
            use_cache(with_caches, roots[number % roots.len()], End::nth(number)).await;
            // 5 is coprime with the 7 roots and the 4 kinds of `End`: all combinations occur.
            number += 5;
        }
    }));
    tokio::join!(contended, caches);
}

/// Sets one-shot watches of the same client at the root of a cache. Checks that the cache still
/// receives its events after these watches have fired, and after they were dropped.
pub(crate) async fn watch_once_beside_a_cache(
    with_cache: &CuratorClient,
    other: &CuratorClient,
    root: &str,
) {
    other
        .create()
        .creating_parent_containers()
        .for_path(root, "")
        .await
        .unwrap();
    let cache = CuratorCache::builder(with_cache, root)
        .unwrap()
        .start()
        .unwrap();
    soon(cache.ready()).await.unwrap();
    let shows = |data: &'static str| {
        until(async || {
            cache
                .get(root)
                .unwrap()
                .node()
                .is_some_and(|node| node.data() == data.as_bytes())
        })
    };
    for (fires, before, after) in [(true, "1", "2"), (false, "3", "4")] {
        let mut data = with_cache.watch_data(root).await.unwrap().2;
        let mut children = with_cache.watch_children(root).await.unwrap().1;
        if fires {
            other.set_data(root, before, None).await.unwrap();
            other
                .create()
                .for_path(format!("{root}/child"), "")
                .await
                .unwrap();
            soon(data.fired()).await;
            soon(children.fired()).await;
        } else {
            drop((data, children));
            // The client sends the removals before this session's next request.
            round_trips(with_cache).await;
            other.set_data(root, before, None).await.unwrap();
        }
        shows(before).await;
        other.set_data(root, after, None).await.unwrap();
        shows(after).await;
    }
    soon(cache.close()).await.unwrap();
}

/// Checks that the watches of two caches are refused, with one request each, and that the client
/// stays usable.
pub(crate) async fn refuses_watches(proxy: &FaultProxy, client: &CuratorClient) {
    for count in 1..=2 {
        let cache = CuratorCache::builder(client, "/t")
            .unwrap()
            .start()
            .unwrap();
        let error = soon(cache.ready()).await.unwrap_err();
        assert!(
            matches!(error, CacheError::WatchesRefused { .. }),
            "{error}"
        );
        assert!(!error.is_retryable() && !error.is_closed());
        let text = error.to_string();
        for named in ["recursive watches", "`Config`", &proxy.connect_string()] {
            assert!(text.contains(named), "{text}");
        }
        assert!(matches!(
            soon(cache.caught_up()).await,
            Err(CacheError::WatchesRefused { .. })
        ));
        assert!(matches!(
            soon(cache.close()).await,
            Err(CacheError::WatchesRefused { .. })
        ));
        // The caches do not retry.
        client
            .create()
            .for_path(format!("/n{count}"), "")
            .await
            .unwrap();
        assert_eq!(proxy.requests().get(&OpCode::AddWatch), Some(&count));
    }
}
