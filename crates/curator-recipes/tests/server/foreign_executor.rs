//! Locks in the tasks of an executor other than tokio's, outside a runtime. Runs in real time: a
//! simulation is a tokio runtime.

use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    Error, InterProcessMultiLock, InterProcessSemaphoreMutex, InterProcessSemaphoreV2, OwnerId,
    Result,
};
use futures_executor::LocalPool;
use futures_util::future::join_all;
use futures_util::task::LocalSpawnExt as _;

use super::non_reentrant::{hold, locks};
use crate::support::{
    AnyLock, DEFAULT_TIMEOUT, Witness, arc, children, client, mutex, path, read_write,
};

/// A client on a runtime that the test's thread has not entered.
fn client_elsewhere() -> (tokio::runtime::Runtime, CuratorClient) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let client = runtime.block_on(client());
    (runtime, client)
}

/// Runs four tasks that acquire the lock; returns the largest number of tasks that have held it at
/// the same time.
fn most_holders(client: &CuratorClient, lock: &AnyLock, owned: bool) -> usize {
    let witness = Witness::default();
    let mut pool = LocalPool::new();
    for who in 0..4 {
        let lock = lock.clone();
        let client = client.clone();
        let witness = witness.clone();
        let acquire_and_hold = async move {
            let owner = OwnerId::new();
            let guard = if owned {
                lock.acquire_as(&owner).await.unwrap()
            } else {
                lock.acquire_timeout(DEFAULT_TIMEOUT)
                    .await
                    .unwrap()
                    .unwrap()
            };
            hold(guard, who, &client, &witness).await;
        };
        pool.spawner().spawn_local(acquire_and_hold).unwrap();
    }
    pool.run();
    assert_eq!(witness.left(), 4, "{:?}", lock.paths());
    witness.most_sharing()
}

#[test]
fn a_reentrant_lock_rejects_an_unknown_owner_and_the_error_names_the_alternatives() {
    let (runtime, client) = client_elsewhere();
    let dir = path("foreign");
    let semaphore_mutex =
        arc(InterProcessSemaphoreMutex::new(&client, format!("{dir}/s")).unwrap());
    let mixed = [
        semaphore_mutex.clone(),
        arc(mutex(&client, &format!("{dir}/mixed"))),
    ];
    let locks = locks(&client, true)
        .into_iter()
        .chain([arc(InterProcessMultiLock::of(mixed).unwrap())]);
    let assert_refused = |acquired: Result<bool>| {
        let error = acquired.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("`acquire_as`") && text.contains("`non_reentrant`"),
            "{text}"
        );
        let error = if let Error::MultiLockMember { cause, .. } = error {
            *cause
        } else {
            error
        };
        assert!(matches!(error, Error::OwnerUnknown { .. }), "{error}");
    };
    let mut pool = LocalPool::new();
    for lock in locks {
        assert_refused(pool.run_until(lock.acquire()).map(|_| true));
        assert_refused(
            pool.run_until(lock.acquire_timeout(DEFAULT_TIMEOUT))
                .map(|guard| guard.is_some()),
        );
        assert_refused(
            pool.run_until(lock.try_acquire())
                .map(|guard| guard.is_some()),
        );
        assert!(!lock.is_acquired_in_this_process());
    }
    let mutex = mutex(&client, &format!("{dir}/mutex"));
    let lock = read_write(&client, &format!("{dir}/read-write"));
    assert_refused(pool.run_until(mutex.acquire()).map(|_| true));
    assert_refused(
        pool.run_until(mutex.acquire_timeout(DEFAULT_TIMEOUT))
            .map(|guard| guard.is_some()),
    );
    assert_refused(
        pool.run_until(mutex.try_acquire())
            .map(|guard| guard.is_some()),
    );
    assert_refused(pool.run_until(lock.read().acquire()).map(|_| true));
    assert!(
        runtime
            .block_on(children(&client, &format!("{dir}/mutex")))
            .is_empty()
    );
    // The multi-lock has released its first member.
    assert!(
        pool.run_until(semaphore_mutex.try_acquire())
            .unwrap()
            .is_some()
    );
}

#[test]
fn tasks_of_another_executor_exclude_each_other_without_reentrancy_or_with_explicit_owners() {
    let (_runtime, client) = client_elsewhere();
    let semaphore_mutex = arc(InterProcessSemaphoreMutex::new(&client, path("foreign")).unwrap());
    for lock in locks(&client, false).into_iter().chain([semaphore_mutex]) {
        assert_eq!(most_holders(&client, &lock, false), 1, "{:?}", lock.paths());
    }
    for lock in locks(&client, true) {
        assert_eq!(most_holders(&client, &lock, true), 1, "{:?}", lock.paths());
    }
    let semaphore = InterProcessSemaphoreV2::new(&client, path("foreign"), 2).unwrap();
    let leases = LocalPool::new().run_until(join_all((0..2).map(|_| semaphore.acquire())));
    assert!(leases.iter().all(Result::is_ok));
    assert!(
        LocalPool::new()
            .run_until(semaphore.acquire_timeout(Duration::ZERO))
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_plain_thread_that_blocks_is_an_owner_and_re_enters() {
    let (_runtime, client) = client_elsewhere();
    let mutex = mutex(&client, &path("foreign"));
    let held = mutex.blocking_acquire().unwrap();
    let again = mutex
        .blocking_acquire_timeout(DEFAULT_TIMEOUT)
        .unwrap()
        .unwrap();
    assert!(mutex.is_owned_by_current() && again.is_reentry());
    assert!(mutex.blocking_try_acquire().unwrap().unwrap().is_reentry());
    let other = mutex.clone();
    let other_thread = std::thread::spawn(move || {
        let tried = other.blocking_try_acquire().unwrap();
        (
            tried,
            other
                .blocking_acquire_timeout(Duration::from_millis(50))
                .unwrap(),
        )
    });
    assert!(matches!(other_thread.join().unwrap(), (None, None)));
    held.blocking_release().unwrap();
    again.blocking_release().unwrap();
}
