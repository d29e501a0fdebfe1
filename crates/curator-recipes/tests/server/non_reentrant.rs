//! Locks with a separate owner for each acquire: futures that share a task exclude each other. Runs
//! in real time, on threads that run concurrently.

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, LockGuard, OwnerId,
    Result, driver::StandardLockInternalsDriver,
};
use futures_util::{StreamExt as _, stream};
use tokio::sync::Barrier;

use crate::support::{AnyLock, Witness, arc, client, mutex, path, round_trips, soon};

/// Every exclusive lock that can be reentrant, created reentrant or not.
pub(super) fn locks(client: &CuratorClient, reentrant: bool) -> [AnyLock; 4] {
    let dir = path("non-reentrant");
    let (mutex, read_write) = constructors(reentrant);
    let multi = if reentrant {
        InterProcessMultiLock::new
    } else {
        InterProcessMultiLock::non_reentrant
    };
    let path_of = |name: &str| format!("{dir}/{name}");
    let members = [
        arc(mutex(client, path_of("c")).unwrap()),
        arc(multi(client, vec![path_of("d")]).unwrap()),
    ];
    [
        arc(mutex(client, path_of("mutex")).unwrap()),
        arc(read_write(client, path_of("read-write"))
            .unwrap()
            .write()
            .clone()),
        arc(multi(client, vec![path_of("a"), path_of("b")]).unwrap()),
        arc(InterProcessMultiLock::of(members).unwrap()),
    ]
}

type Constructor<T> = fn(&CuratorClient, String) -> Result<T>;

/// The constructors of a mutex and a read-write lock.
fn constructors(
    reentrant: bool,
) -> (
    Constructor<InterProcessMutex>,
    Constructor<InterProcessReadWriteLock>,
) {
    if reentrant {
        return (InterProcessMutex::new, InterProcessReadWriteLock::new);
    }
    (
        InterProcessMutex::non_reentrant,
        InterProcessReadWriteLock::non_reentrant,
    )
}

/// Holds the lock for a while, so that contenders that wrongly share it usually hold it at the same
/// time.
pub(super) async fn hold(guard: LockGuard, who: usize, client: &CuratorClient, witness: &Witness) {
    witness.enter_with(who, true, guard.fencing_token());
    round_trips(client).await;
    witness.leave(true);
    guard.release().await.unwrap();
}

/// Polls four futures concurrently in one task.
async fn poll_four<F: Future>(future: impl FnMut(usize) -> F) -> Vec<F::Output> {
    stream::iter(0..4)
        .map(future)
        .buffer_unordered(4)
        .collect()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_that_share_a_task_hold_one_after_the_other() {
    let client = &client().await;
    for lock in &locks(client, false) {
        let witness = &Witness::default();
        soon(poll_four(|who| async move {
            hold(lock.acquire().await.unwrap(), who, client, witness).await;
        }))
        .await;
        assert_eq!(witness.most_sharing(), 1, "{:?}", lock.paths());
    }
    // For comparison: a reentrant lock admits every acquire of the task.
    for lock in &locks(client, true) {
        let all_hold = &Barrier::new(4);
        let acquire = |_| async move {
            let guard = lock.acquire().await.unwrap();
            all_hold.wait().await;
            assert!(guard.is_valid());
            let is_reentry = guard.is_reentry();
            guard.release().await.unwrap();
            is_reentry
        };
        let reentries = soon(poll_four(acquire)).await;
        assert_eq!(
            reentries.iter().filter(|is_reentry| **is_reentry).count(),
            3,
            "{:?}",
            lock.paths()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_data_and_drivers_do_not_change_reentrancy() {
    let client = client().await;
    for reentrant in [true, false] {
        let (mutex, read_write) = constructors(reentrant);
        let multi = if reentrant {
            InterProcessMultiLock::new
        } else {
            InterProcessMultiLock::non_reentrant
        };
        let data = *b"x";
        let driver = StandardLockInternalsDriver::with_lock_name("own-");
        let locks = [
            arc(mutex(&client, path("data")).unwrap().with_lock_data(data)),
            arc(multi(&client, vec![path("data")])
                .unwrap()
                .with_lock_data(data)),
            arc(read_write(&client, path("data"))
                .unwrap()
                .with_lock_data(data)
                .write()
                .clone()),
            arc(mutex(&client, path("driver"))
                .unwrap()
                .with_lock_data(data)
                .with_driver(driver)
                .unwrap()),
        ];
        for lock in locks {
            let _held = lock.acquire().await.unwrap();
            assert_eq!(
                lock.try_acquire().await.unwrap().is_some(),
                reentrant,
                "{:?}",
                lock.paths()
            );
            assert_eq!(lock.participants().await.unwrap()[0].data, data);
        }
    }
}

/// kazoo's lock is not reentrant either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kazoo_compatible_mutex_is_not_reentrant() {
    let client = client().await;
    let owner = OwnerId::new();
    let mutex = InterProcessMutex::compatible_with_kazoo(&client, path("compatible")).unwrap();
    let _held = mutex.acquire_as(&owner).await.unwrap();
    assert!(mutex.try_acquire_as(&owner).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_the_writers_task_waits_for_the_writer_unless_it_is_a_downgrade() {
    let client = client().await;
    let path = path("read-write");
    let lock = InterProcessReadWriteLock::non_reentrant(&client, &path).unwrap();
    let writing = lock.write().acquire().await.unwrap();
    assert!(lock.read().try_acquire().await.unwrap().is_none());
    let reading = writing.downgrade().await.unwrap();
    assert!(!reading.is_reentry());
    let other = lock.read().try_acquire().await.unwrap().unwrap();
    assert!(!other.is_reentry());
    assert_eq!(lock.participants().await.unwrap().len(), 2);
    // The lock does not detect that its task is already a reader.
    assert!(lock.write().try_acquire().await.unwrap().is_none());
    other.release().await.unwrap();
    reading.release().await.unwrap();
    lock.write()
        .try_acquire()
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_non_reentrant_lock_is_owned_only_by_the_owner_of_its_guard() {
    let client = client().await;
    let path = path("owners");
    let owner = OwnerId::new();
    for reentrant in [true, false] {
        let (mutex, read_write) = constructors(reentrant);
        let mutex = mutex(&client, path.clone()).unwrap();
        let lock = read_write(&client, format!("{path}/read-write")).unwrap();
        let held = mutex.acquire().await.unwrap();
        let reading = lock.read().acquire_as(&owner).await.unwrap();
        assert_eq!(
            (
                mutex.is_owned_by_current(),
                held.owner() == &OwnerId::current()
            ),
            (reentrant, reentrant)
        );
        assert_eq!(
            (lock.read().is_owned_by(&owner), reading.owner() == &owner),
            (reentrant, reentrant)
        );
        assert!(mutex.is_owned_by(held.owner()) && lock.read().is_owned_by(reading.owner()));
        held.release().await.unwrap();
        reading.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_reentry_reports_whether_a_guard_shares_its_hold() {
    let client = client().await;
    let lock = InterProcessReadWriteLock::new(&client, path("seen")).unwrap();
    let writing = lock.write().acquire().await.unwrap();
    let reading = lock.read().acquire().await.unwrap();
    assert!(!writing.is_reentry() && reading.is_reentry());
    // An owner that already reads gets another guard of the same hold.
    assert!(writing.downgrade().await.unwrap().is_reentry());
    let both = ["a", "b"].map(|name| arc(mutex(&client, &path(name))));
    let inner = both[1].clone();
    let owner = OwnerId::current();
    let _held: LockGuard = inner.acquire_as(&owner).await.unwrap();
    let several = InterProcessMultiLock::of(both).unwrap();
    assert!(
        several.acquire().await.unwrap().is_reentry(),
        "one of its locks was held before"
    );
}
