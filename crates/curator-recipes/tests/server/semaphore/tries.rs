//! Contenders that do not wait for leases: each gets the leases that are left, or finds too few.

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessSemaphoreV2, SemaphoreLease, SharedCount};
use curator_test::{FaultProxy, OpCode};
use futures_util::future::join_all;
use tokio::task::JoinHandle;

use super::{acquiring, free, semaphore, until_counts};
use crate::support::{behind_proxy, client, connect, keep_empty, path, proxy, soon};

type Tried = Option<Vec<SemaphoreLease>>;

/// Tries in a separate task.
fn trying(semaphore: &InterProcessSemaphoreV2, quantity: usize) -> JoinHandle<Tried> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { soon(semaphore.try_acquire_many(quantity)).await.unwrap() })
}

async fn all(tries: Vec<JoinHandle<Tried>>) -> Vec<Tried> {
    join_all(tries)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

/// Starts an acquire that is stopped in the queue of a free semaphore: its node is created, and the
/// reply to its reads is held back. Also returns its proxy and client.
async fn stopped_in_the_queue(
    path: &str,
    max: usize,
) -> (FaultProxy, CuratorClient, JoinHandle<Vec<SemaphoreLease>>) {
    let (proxy, client) = behind_proxy().await;
    let semaphore = semaphore(&client, path, max);
    // Otherwise the first reply could be that of a create that found no directory.
    keep_empty(
        &client,
        &["locks", "leases"].map(|name| format!("{path}/{name}")),
    )
    .await;
    proxy.reset_counts();
    proxy.hold_replies(OpCode::MultiRead);
    let stopped = acquiring(&semaphore, 1);
    proxy.wait_for_reply(OpCode::MultiRead, 1).await.unwrap();
    (proxy, client, stopped)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_that_finds_contenders_ahead_in_the_queue_fails_only_if_they_leave_too_few_leases() {
    let hundred = vec![1; 100];
    for (max, tries, succeed) in [
        (2, vec![1], 1),
        (1, vec![1], 0),
        (5, vec![2, 3, 2], 2),
        (5, hundred, 4),
    ] {
        let observer = client().await;
        let path = path("passing");
        let (stopped_proxy, _stopped_client, stopped) = stopped_in_the_queue(&path, max).await;
        // Each try reads the queue behind the stopped contender. The replies are held back until
        // the stopped contender has its lease.
        let proxy = proxy().await;
        let client = connect(&proxy.connect_string()).await;
        proxy.reset_counts();
        proxy.hold_replies(OpCode::MultiRead);
        let mut trying_all = Vec::new();
        for (read, quantity) in (1..).zip(&tries) {
            trying_all.push(trying(&semaphore(&client, &path, max), *quantity));
            proxy.wait_for_reply(OpCode::MultiRead, read).await.unwrap();
        }
        stopped_proxy.release_held();
        let first = soon(stopped).await.unwrap();
        proxy.release_held();
        let tried = all(trying_all).await;
        assert_eq!(
            tried.iter().flatten().count(),
            succeed,
            "{tries:?} of {max}"
        );
        SemaphoreLease::release_all(tried.into_iter().flatten().flatten().chain(first))
            .await
            .unwrap();
        free(&observer, &path, max).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_tries_leave_no_lease_that_a_refused_one_wanted() {
    let observer = client().await;
    let path = path("tries");
    let clients = join_all((0..8).map(|_| client())).await;
    let cases = [
        (5, vec![1; 5], false),
        (5, vec![1; 8], false),
        (5, vec![3, 2, 2], false),
        (1, vec![1; 5], false),
        // The limit is stored in a node, which the tries of the first round create.
        (5, vec![1; 8], true),
    ];
    for (case, (max, quantities, is_shared)) in cases.into_iter().enumerate() {
        let path = format!("{path}-{case}");
        for _ in 0..6 {
            let semaphores = clients.iter().map(|client| {
                if is_shared {
                    let limit =
                        SharedCount::new(client, format!("{path}/limit"), max.try_into().unwrap())
                            .unwrap();
                    InterProcessSemaphoreV2::with_shared_count(client, &path, limit).unwrap()
                } else {
                    semaphore(client, &path, max)
                }
            });
            let tries = semaphores
                .zip(&quantities)
                .map(|(semaphore, quantity)| trying(&semaphore, *quantity));
            let tried = all(tries.collect()).await;
            let used: usize = tried.iter().flatten().map(Vec::len).sum();
            assert!(used <= max, "{used} of {max}");
            for (_, quantity) in tried
                .iter()
                .zip(&quantities)
                .filter(|(leases, _)| leases.is_none())
            {
                assert!(
                    used + quantity > max,
                    "{quantity} of {max} were refused, and {used} are used"
                );
            }
            SemaphoreLease::release_all(tried.into_iter().flatten().flatten())
                .await
                .unwrap();
        }
        free(&observer, &path, max).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_behind_a_stopped_contender_gives_up_and_leaves_nothing_behind() {
    let other = client().await;
    let path = path("stopped");
    let (stopped_proxy, _stopped_client, stopped) = stopped_in_the_queue(&path, 2).await;
    let wanted = semaphore(&other, &path, 2);
    // The first try waits behind a new node, the second behind a node that is older than a try
    // waits.
    for _ in 0..2 {
        assert!(soon(wanted.try_acquire()).await.unwrap().is_none());
        until_counts(&other, &path, 0, 1).await;
    }
    stopped_proxy.release_held();
    let lease = soon(stopped).await.unwrap();
    soon(wanted.try_acquire())
        .await
        .unwrap()
        .expect("a lease is free")
        .release()
        .await
        .unwrap();
    SemaphoreLease::release_all(lease).await.unwrap();
    free(&other, &path, 2).await;
}
