//! Many contenders for leases.

use std::time::Duration;

use curator_recipes::client::Error as ClientError;
use curator_recipes::{Error, InterProcessSemaphoreV2, SemaphoreLease};
use curator_test::{OpCode, TestingServer};

use super::{acquiring, free, locks_dir, semaphore, until_counts};
use crate::support::{DEFAULT_TIMEOUT, client, connect, path, proxy, soon, until, without_probes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn try_acquire_many_and_acquire_many_timeout_return_all_leases_or_none() {
    const TIMEOUT: Duration = Duration::from_millis(100);
    let holder = client().await;
    let other = client().await;
    let path = path("impatient");
    let held = semaphore(&holder, &path, 3).acquire_many(2).await.unwrap();
    let wanted = semaphore(&other, &path, 3);
    assert!(wanted.try_acquire_many(2).await.unwrap().is_none());
    assert!(
        soon(wanted.acquire_many_timeout(2, TIMEOUT))
            .await
            .unwrap()
            .is_none()
    );
    soon(other.janitor().idle()).await;
    until_counts(&holder, &path, 2, 0).await;
    assert!(!wanted.is_acquired_in_this_process());

    // One lease is free, but not for a contender behind another one that waits for two.
    let waiting = acquiring(&semaphore(&holder, &path, 3), 2);
    until_counts(&holder, &path, 2, 1).await;
    assert!(wanted.try_acquire().await.unwrap().is_none());
    assert!(wanted.acquire_timeout(TIMEOUT).await.unwrap().is_none());
    SemaphoreLease::release_all(held).await.unwrap();
    let two = soon(waiting).await.unwrap();
    let one = wanted
        .try_acquire()
        .await
        .unwrap()
        .expect("a lease is free, and no contender waits");
    assert!(wanted.is_acquired_in_this_process());
    SemaphoreLease::release_all(two.into_iter().chain([one]))
        .await
        .unwrap();
    free(&other, &path, 3).await;
}

/// One request takes all leases of an acquire, so the maximum is 100,000 for any limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quantity_of_zero_or_above_the_maximum_is_rejected_immediately() {
    let client = client().await;
    let path = path("quantities");
    let absurd = [usize::MAX, 1 << 40, 1_000_000].map(|quantity| (usize::MAX, quantity, 100_000));
    for (max, quantity, most) in [(3, 0, 3), (3, 4, 3), (3, usize::MAX, 3)]
        .into_iter()
        .chain(absurd)
    {
        let semaphore = semaphore(&client, &path, max);
        let refusals = [
            soon(semaphore.acquire_many(quantity)).await.unwrap_err(),
            soon(semaphore.acquire_many_timeout(quantity, DEFAULT_TIMEOUT))
                .await
                .unwrap_err(),
            semaphore.try_acquire_many(quantity).await.unwrap_err(),
        ];
        for error in refusals {
            let Error::InvalidQuantity {
                path: found,
                asked,
                max,
            } = &error
            else {
                panic!("{error}")
            };
            assert_eq!((found.as_str(), *asked, *max), (&*path, quantity, most));
            assert!(!error.is_retryable());
        }
    }
    let error = InterProcessSemaphoreV2::new(&client, &path, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("0 leases of the semaphore {path}: expected at least 1")
    );
    assert!(
        client.check_exists(&path).await.unwrap().is_none(),
        "a request was sent"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_leases_than_fit_into_a_request_are_an_error_without_side_effects() {
    let client = client().await;
    let path = path("absurd");
    let session = client.session().await.unwrap().id();
    let semaphore = semaphore(&client, &path, usize::MAX);
    let error = soon(semaphore.acquire_many(50_000)).await.unwrap_err();
    assert!(
        matches!(&error, Error::Client(ClientError::RequestTooLarge { .. })),
        "{error}"
    );
    assert_eq!(client.session().await.unwrap().id(), session);
    let many = soon(semaphore.acquire_many(1_000)).await.unwrap();
    until_counts(&client, &path, 1_000, 0).await;
    soon(SemaphoreLease::release_all(many)).await.unwrap();
    soon(client.janitor().idle()).await;
    until_counts(&client, &path, 0, 0).await;
}

#[test]
fn blocking_threads_share_leases() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let client = runtime.block_on(client());
    let path = path("threads");
    let shared = semaphore(&client, &path, 2);
    let one = shared.blocking_acquire().unwrap();
    let two = shared.blocking_acquire().unwrap();
    assert!(shared.blocking_try_acquire().unwrap().is_none());
    assert!(
        shared
            .blocking_acquire_timeout(Duration::from_millis(50))
            .unwrap()
            .is_none()
    );
    // If the create of the acquire was not answered in time, the janitor has to find its node
    // first.
    runtime.block_on(soon(client.janitor().idle()));
    one.blocking_release().unwrap();
    shared
        .blocking_try_acquire()
        .unwrap()
        .unwrap()
        .blocking_release()
        .unwrap();
    let waiting = std::thread::spawn(move || {
        shared
            .blocking_acquire_timeout(DEFAULT_TIMEOUT)
            .unwrap()
            .unwrap()
    });
    drop((waiting.join().unwrap(), two));
    runtime.block_on(free(&client, &path, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_lease_wakes_only_the_first_waiter() {
    let holder = client().await;
    let path = path("one-wakes");
    let mut held = semaphore(&holder, &path, 2).acquire_many(2).await.unwrap();
    // All waiters use one proxy, so every request that a wake-up causes is counted.
    let proxy = proxy().await;
    let mut waiting = Vec::new();
    let mut clients = Vec::new();
    for (place, quantity) in [2, 1, 1, 1].into_iter().enumerate() {
        let client = connect(&proxy.connect_string()).await;
        waiting.push(acquiring(&semaphore(&client, &path, 2), quantity));
        until_counts(&holder, &path, 2, place + 1).await;
        // Dropping the last handle closes a client, which sends a request.
        clients.push(client);
    }
    // The first waiter watches the list of leases; the second watches two queue nodes, the third
    // three, and the last waiter one.
    let dir = locks_dir(&path);
    until(async || {
        let watches = TestingServer::shared()
            .await
            .watches_by_path()
            .await
            .unwrap();
        watches
            .iter()
            .filter(|(watched, _)| watched.starts_with(&dir))
            .map(|(_, by)| by.len())
            .sum::<usize>()
            == 6
    })
    .await;
    let mut expected = without_probes(&proxy);
    assert_eq!(expected.insert(OpCode::GetChildren, 2), Some(1));
    held.remove(0).release().await.unwrap();
    // The first waiter lists the leases, and needs two.
    proxy.wait_for_reply(OpCode::GetChildren, 2).await.unwrap();
    // Round trips of all clients, with requests that are not counted.
    for client in clients.iter().cycle().take(5 * clients.len()) {
        client.sync("/").await.unwrap();
    }
    assert!(!waiting[0].is_finished());
    assert_eq!(without_probes(&proxy), expected, "another waiter has woken");
    held.remove(0).release().await.unwrap();
    for waiter in waiting {
        SemaphoreLease::release_all(soon(waiter).await.unwrap())
            .await
            .unwrap();
    }
    free(&holder, &path, 2).await;
}
