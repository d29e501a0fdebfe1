//! Multi-locks of locks, which are acquired one after another.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use curator_recipes::client::{self, CuratorClient, ZPath};
use curator_recipes::{
    Error, InterProcessLock, InterProcessMultiLock, InterProcessMutex, LockGuard, OwnerId,
    Participant, Result, Wait,
};

use super::{assert_holds_all, multi, one_by_one, paths, queues_of};
use crate::support::{
    DEFAULT_TIMEOUT, arc, client, create_dir_without_create, create_dir_without_delete, free,
    mutex, soon,
};

/// A user-defined lock that is slow to acquire.
#[derive(Debug)]
struct Slow {
    inner: InterProcessMutex,
    delay: Duration,
    /// The timeouts that were passed to it.
    timeouts: Mutex<Vec<Duration>>,
}

#[async_trait]
impl InterProcessLock for Slow {
    async fn acquire_within(&self, owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>> {
        if let Wait::Until(deadline) = wait {
            self.timeouts.lock().unwrap().extend(deadline.remaining());
            tokio::time::sleep(self.delay).await;
        }
        self.inner.acquire_within(owner, wait).await
    }

    async fn participants(&self) -> Result<Vec<Participant>> {
        self.inner.participants().await
    }

    fn is_acquired_in_this_process(&self) -> bool {
        self.inner.is_acquired_in_this_process()
    }

    fn paths(&self) -> Vec<ZPath> {
        InterProcessLock::paths(&self.inner)
    }

    fn client(&self) -> &CuratorClient {
        InterProcessLock::client(&self.inner)
    }
}

/// Calls each of the three acquire methods, which must fail, and passes the errors to `check`.
async fn check_failures(lock: &InterProcessMultiLock, mut check: impl AsyncFnMut(Error)) {
    check(soon(lock.acquire()).await.unwrap_err()).await;
    check(
        soon(lock.acquire_timeout(DEFAULT_TIMEOUT))
            .await
            .unwrap_err(),
    )
    .await;
    check(soon(lock.try_acquire()).await.unwrap_err()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_fails_is_named_and_the_others_are_rolled_back() {
    let client = client().await;
    let paths = paths::<4>("rolled-back");
    create_dir_without_create(&client, &paths[2]).await;
    let lock = one_by_one(&client, &paths);
    assert_eq!(
        lock.paths()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        paths
    );
    check_failures(&lock, async |error| {
        let Error::MultiLockMember {
            member,
            cause,
            rollback,
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(*member, paths[2]);
        assert!(
            matches!(&**cause, Error::Client(client::Error::NoAuth { .. })),
            "{error}"
        );
        assert!(rollback.is_empty() && !error.is_retryable(), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(&paths[2]) && text.contains(&cause.to_string()),
            "{text}"
        );
        assert!(!lock.is_acquired_in_this_process());
        free(&client, &[&paths[..2], &paths[3..]].concat()).await;
    })
    .await;
}

/// Runs in real time, because the simulation has no ACLs. The timeout is long enough to acquire the
/// free members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_error_of_a_rollback_is_reported() {
    for fails in [true, false] {
        let holder = client().await;
        let client = client().await;
        let paths = paths::<4>("rollback-fails");
        for path in &paths[..2] {
            create_dir_without_delete(&client, path).await;
        }
        let held = if fails {
            create_dir_without_create(&client, &paths[3]).await;
            None
        } else {
            Some(mutex(&holder, &paths[3]).acquire().await.unwrap())
        };
        let lock = one_by_one(&client, &paths);
        let error = if fails {
            soon(lock.acquire()).await.unwrap_err()
        } else {
            soon(lock.acquire_timeout(Duration::from_secs(3)))
                .await
                .unwrap_err()
        };
        let text = error.to_string();
        let rollback = match error {
            Error::MultiLockMember {
                member, rollback, ..
            } if fails => {
                assert_eq!(member, paths[3]);
                rollback
            }
            // Only the rollback has failed: the acquire itself timed out.
            Error::ReleasesFailed { failures } if !fails => failures,
            error => panic!("{error}"),
        };
        let mut refused = Vec::new();
        for failure in &rollback {
            let Error::ReleaseRefused {
                path,
                cause: client::Error::NoAuth { .. },
            } = failure
            else {
                panic!("{failure}")
            };
            assert!(text.contains(path.as_str()), "{text}");
            refused.push(path.parent().unwrap().to_string());
        }
        assert_eq!(
            refused,
            [&*paths[1], &*paths[0]],
            "the last lock is released first"
        );
        // The member that may be released was released.
        queues_of(&holder, &paths, &[1, 1, 0, usize::from(!fails)]).await;
        drop(held);
        client.close().await.unwrap();
        queues_of(&holder, &paths, &[0; 4]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_deadline_covers_all_members() {
    let holder = client().await;
    let client = client().await;
    let paths = paths::<3>("one-deadline");
    let delay = Duration::from_millis(100);
    let timeout = Duration::from_secs(30);
    let slow = |path| Slow {
        inner: mutex(&client, path),
        delay,
        timeouts: Mutex::default(),
    };
    let members = paths.each_ref().map(|path| Arc::new(slow(path)));
    let lock = InterProcessMultiLock::of(
        members
            .clone()
            .map(|member| member as Arc<dyn InterProcessLock>),
    )
    .unwrap();
    soon(lock.acquire_timeout(timeout))
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    for (place, member) in members.iter().enumerate() {
        let given = member.timeouts.lock().unwrap().pop().unwrap();
        assert!(
            given <= timeout - delay * u32::try_from(place).unwrap(),
            "member {place} had a timeout of {given:?}"
        );
    }

    // Two members are held by another client.
    let held = multi(&holder, &paths[1..]).acquire().await.unwrap();
    let timeout = Duration::from_millis(200);
    for lock in [one_by_one(&client, &paths), multi(&client, &paths)] {
        let began = Instant::now();
        assert!(soon(lock.acquire_timeout(timeout)).await.unwrap().is_none());
        assert!(began.elapsed() >= timeout, "{:?}", began.elapsed());
        assert!(soon(lock.try_acquire()).await.unwrap().is_none());
        assert!(!lock.is_acquired_in_this_process());
        soon(client.janitor().idle()).await;
        queues_of(&holder, &paths, &[0, 1, 1]).await;
    }
    held.release().await.unwrap();
    free(&client, &paths).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_lock_is_a_member_of_another() {
    let client = client().await;
    let paths = paths::<5>("nested-multi");
    let inner = one_by_one(&client, &paths[..2]);
    let last = mutex(&client, &paths[4]);
    let members = [
        arc(inner.clone()),
        arc(multi(&client, &paths[2..4])),
        arc(last),
    ];
    let lock = InterProcessMultiLock::of(members).unwrap();
    let guard = lock.acquire().await.unwrap();
    assert_holds_all(&client, &guard, &paths).await;
    assert_eq!(
        guard.fencing_tokens().map(|(_, token)| token).max(),
        Some(guard.fencing_token())
    );
    let again = lock
        .try_acquire()
        .await
        .unwrap()
        .expect("its members are reentrant");
    guard.release().await.unwrap();
    assert!(
        again.is_valid()
            && lock.is_acquired_in_this_process()
            && inner.is_acquired_in_this_process()
    );
    assert_holds_all(&client, &again, &paths).await;
    again.release().await.unwrap();
    assert!(!lock.is_acquired_in_this_process());
    free(&client, &paths).await;
    // The error of the outer lock contains the error of the inner lock, which names its member.
    let [refused] = self::paths("nested-refused");
    create_dir_without_create(&client, &refused).await;
    let broken = InterProcessMultiLock::of([
        arc(mutex(&client, &paths[1])),
        arc(mutex(&client, &refused)),
    ])
    .unwrap();
    let outer = InterProcessMultiLock::of([arc(mutex(&client, &paths[0])), arc(broken)]).unwrap();
    let error = soon(outer.acquire()).await.unwrap_err();
    let Error::MultiLockMember { member, cause, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*member, format!("{}, {refused}", paths[1]));
    assert!(
        matches!(&**cause, Error::MultiLockMember { member, .. } if *member == refused),
        "{error}"
    );
    free(&client, &paths).await;
    let twice =
        InterProcessMultiLock::of([arc(inner), arc(mutex(&client, &paths[1]))]).unwrap_err();
    assert!(matches!(&twice, Error::InvalidMultiLock { .. }), "{twice}");
}
