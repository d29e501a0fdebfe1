//! Many who want leases.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use curator_recipes::{Error, InterProcessSemaphoreV2, SemaphoreLease, client as curator_client};
use tokio::task::JoinSet;

use super::{acquiring, free, leases, queue, semaphore, stands};
use crate::support::{DEFAULT_TIMEOUT, Numbers, SLACK, Witness, client, path, soon};

/// Acquires and gives back `rounds` times, another quantity each time, in every way in which leases can be given back.
async fn rounds(semaphore: InterProcessSemaphoreV2, witness: Witness, who: usize, rounds: usize, max: usize) {
    let mut numbers = Numbers(who as u64);
    for _ in 0..rounds {
        let quantity = 1 + numbers.below(max);
        let leases = soon(semaphore.acquire_many(quantity)).await.unwrap();
        assert_eq!(leases.len(), quantity);
        leases.iter().for_each(|lease| witness.enter(who, true, lease));
        tokio::task::yield_now().await;
        match numbers.below(3) {
            0 => {
                leases.iter().for_each(|_| witness.leave(true));
                SemaphoreLease::release_all(leases).await.unwrap();
            }
            1 => {
                for lease in leases {
                    witness.leave(true);
                    lease.release().await.unwrap();
                }
            }
            _ => {
                leases.iter().for_each(|_| witness.leave(true));
                drop(leases);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_sessions_with_a_hundred_quantities_each_never_hold_too_many() {
    const MAX: usize = 5;
    let (observer, path) = (client().await, path("crowd"));
    let witness = Witness::with_room_for(MAX);
    let mut contenders = JoinSet::new();
    for who in 0..10 {
        let semaphore = semaphore(&client().await, &path, MAX);
        contenders.spawn(rounds(semaphore, witness.clone(), who, 100, MAX));
    }
    let (mut most, mut looks) = (0, 0);
    soon(async {
        while !contenders.is_empty() {
            let seen = leases(&observer, &path).await.len();
            assert!(seen <= MAX, "{seen} leases on the server");
            (most, looks) = (most.max(seen), looks + 1);
            while let Some(done) = contenders.try_join_next() {
                done.unwrap();
            }
        }
    })
    .await;
    assert!(most > 1 && looks > 100, "at most {most} leases were seen in {looks} looks");
    assert_eq!(witness.inside(), 0);
    free(&observer, &path, MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_wait_or_not_for_long_gets_all_or_nothing() {
    let (holder, other, path) = (client().await, client().await, path("impatient"));
    let held = semaphore(&holder, &path, 3).acquire_many(2).await.unwrap();
    let wanted = semaphore(&other, &path, 3);

    assert!(wanted.try_acquire_many(2).await.unwrap().is_none());
    let timeout = Duration::from_millis(100);
    let began = Instant::now();
    assert!(soon(wanted.acquire_many_timeout(2, timeout)).await.unwrap().is_none());
    assert!((timeout..timeout + SLACK).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert!(wanted.acquire_many_timeout(2, Duration::ZERO).await.unwrap().is_none());
    soon(other.janitor().idle()).await;
    stands(&holder, &path, 2, 0).await;
    assert!(!wanted.is_acquired_in_this_process());

    // One is free. It is not for who comes after somebody who waits for two.
    let waiting = acquiring(&semaphore(&holder, &path, 3), 2);
    stands(&holder, &path, 2, 1).await;
    assert!(wanted.try_acquire().await.unwrap().is_none());
    assert!(wanted.acquire_timeout(timeout).await.unwrap().is_none());
    SemaphoreLease::release_all(held).await.unwrap();
    let two = soon(waiting).await.unwrap();
    let one = wanted.try_acquire().await.unwrap().expect("nobody waits and one is free");
    assert!(wanted.is_acquired_in_this_process());
    assert!(wanted.try_acquire().await.unwrap().is_none());
    let third = tokio::spawn({
        let wanted = wanted.clone();
        async move { wanted.acquire_timeout(DEFAULT_TIMEOUT).await.unwrap().unwrap() }
    });
    stands(&holder, &path, 3, 1).await;
    one.release().await.unwrap();
    soon(third).await.unwrap().release().await.unwrap();
    SemaphoreLease::release_all(two).await.unwrap();
    free(&other, &path, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_many_is_not_passed_by_those_who_ask_for_one() {
    const MAX: usize = 3;
    let (holder, path) = (client().await, path("fifo"));
    let mut held = semaphore(&holder, &path, MAX).acquire_many(2).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for (place, quantity) in [MAX, 1, 2, 1].into_iter().enumerate() {
        let (semaphore, order) = (semaphore(&client().await, &path, MAX), Arc::clone(&order));
        waiters.spawn(async move {
            let leases = soon(semaphore.acquire_many(quantity)).await.unwrap();
            order.lock().unwrap().push(place);
            leases
        });
        stands(&holder, &path, 2, place + 1).await;
    }
    // Two are free now, which is enough for everybody but the first.
    held.remove(0).release().await.unwrap();
    stands(&holder, &path, 1, 4).await;
    held.remove(0).release().await.unwrap();
    let all = soon(waiters.join_next()).await.unwrap().unwrap();
    assert_eq!(all.len(), MAX);
    stands(&holder, &path, MAX, 3).await;
    assert_eq!(*order.lock().unwrap(), [0]);

    // And so on: one for the second, but the two for the third keep the last one waiting.
    SemaphoreLease::release_all(all).await.unwrap();
    let first_two =
        [soon(waiters.join_next()).await.unwrap().unwrap(), soon(waiters.join_next()).await.unwrap().unwrap()];
    stands(&holder, &path, MAX, 1).await;
    let mut now = order.lock().unwrap().clone();
    now[1..].sort_unstable();
    assert_eq!(now, [0, 1, 2]);
    SemaphoreLease::release_all(first_two.into_iter().flatten()).await.unwrap();
    let last = soon(waiters.join_next()).await.unwrap().unwrap();
    SemaphoreLease::release_all(last).await.unwrap();
    free(&holder, &path, MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_and_more_than_there_can_ever_be_are_refused_at_once() {
    let (client, path) = (client().await, path("quantities"));
    for (max, quantity) in [(3, 0), (3, 4), (3, usize::MAX)] {
        let semaphore = semaphore(&client, &path, max);
        let refusals = [
            soon(semaphore.acquire_many(quantity)).await.unwrap_err(),
            soon(semaphore.acquire_many_timeout(quantity, DEFAULT_TIMEOUT)).await.unwrap_err(),
            semaphore.try_acquire_many(quantity).await.unwrap_err(),
        ];
        for error in refusals {
            let Error::InvalidQuantity { path: at, asked, max: most } = &error else { panic!("{error}") };
            assert_eq!((at.as_str(), *asked, *most), (&*path, quantity, max));
            assert!(!error.is_retryable());
        }
    }
    let error = InterProcessSemaphoreV2::new(&client, &path, 0).unwrap_err();
    assert_eq!(error.to_string(), format!("0 leases of the semaphore {path}: expected at least 1"));
    assert!(client.check_exists(&path).await.unwrap().is_none(), "something was sent");
}

/// Nobody can hold so many at once, whatever the semaphore says: one request takes them all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_absurd_number_of_leases_is_an_error_and_harms_nobody() {
    let (client, path) = (client().await, path("absurd"));
    let session = client.session().await.unwrap().id();
    let semaphore = semaphore(&client, &path, usize::MAX);
    for quantity in [usize::MAX, 1 << 40, 1_000_000] {
        for error in [
            soon(semaphore.acquire_many(quantity)).await.unwrap_err(),
            semaphore.try_acquire_many(quantity).await.unwrap_err(),
        ] {
            assert!(matches!(&error, Error::InvalidQuantity { asked, .. } if *asked == quantity), "{error}");
        }
    }
    // More than a request has room for.
    let error = soon(semaphore.acquire_many(50_000)).await.unwrap_err();
    assert!(matches!(&error, Error::Client(curator_client::Error::RequestTooLarge { .. })), "{error}");
    assert_eq!(client.session().await.unwrap().id(), session);
    let many = soon(semaphore.acquire_many(1_000)).await.unwrap();
    stands(&client, &path, 1_000, 0).await;
    soon(SemaphoreLease::release_all(many)).await.unwrap();
    soon(client.janitor().idle()).await;
    stands(&client, &path, 0, 0).await;
}

#[test]
fn plain_threads_share_leases_too() {
    const MAX: usize = 2;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (client, path) = (runtime.block_on(client()), path("threads"));
    let shared = semaphore(&client, &path, MAX);
    let witness = Witness::with_room_for(MAX);
    let threads: Vec<_> = (0..6)
        .map(|who| {
            let (shared, witness) = (shared.clone(), witness.clone());
            std::thread::spawn(move || {
                for _ in 0..5 {
                    let lease = shared.blocking_acquire_timeout(DEFAULT_TIMEOUT).unwrap().unwrap();
                    witness.enter(who, true, &lease);
                    std::thread::yield_now();
                    witness.leave(true);
                    lease.blocking_release().unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let (one, two) = (shared.blocking_acquire().unwrap(), shared.blocking_acquire().unwrap());
    assert!(shared.blocking_try_acquire().unwrap().is_none());
    assert!(shared.blocking_acquire_timeout(Duration::from_millis(50)).unwrap().is_none());
    one.blocking_release().unwrap();
    shared.blocking_try_acquire().unwrap().unwrap().blocking_release().unwrap();
    drop(two);
    runtime.block_on(async {
        free(&client, &path, MAX).await;
        assert!(queue(&client, &path).await.is_empty());
    });
}
