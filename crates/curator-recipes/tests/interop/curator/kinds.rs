//! All kinds of locks that Curator and this library have in common.

use curator_recipes::{InterProcessReadWriteLock, LockGuard, Result, client::CuratorClient};
use curator_test::{DEFAULT_TIMEOUT, soon, unique_path};

use super::{
    java::java,
    multi_lock::{in_one_step, in_order},
    mutex::{mutex, semaphore_mutex},
    read_write::write,
    stage::{id, ours, until_children, until_contends, waiting},
};
use crate::{still_waits::still_waits, turns::Ours};

/// Our lock that shares a path with Java's.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Exclusive(Ours),
    /// The shared side of a read-write lock.
    Reader,
}

impl Side {
    pub(super) async fn acquire(
        self,
        client: CuratorClient,
        path: String,
    ) -> Result<Option<LockGuard>> {
        match self {
            Self::Exclusive(lock) => lock(&client, &path).acquire_timeout(DEFAULT_TIMEOUT).await,
            Self::Reader => {
                InterProcessReadWriteLock::new(&client, &path)?
                    .read()
                    .acquire_timeout(DEFAULT_TIMEOUT)
                    .await
            }
        }
    }

    async fn try_acquire(self, client: &CuratorClient, path: &str) -> Result<Option<LockGuard>> {
        match self {
            Self::Exclusive(lock) => lock(client, path).try_acquire().await,
            Self::Reader => {
                InterProcessReadWriteLock::new(client, path)?
                    .read()
                    .try_acquire()
                    .await
            }
        }
    }
}

/// The name of the kind in commands to Java, the directories below the path in which our and Java's
/// contenders have nodes, and our lock.
type Kind = (&'static str, [&'static str; 2], Side);

/// The two locks of each kind exclude each other. While Java waits for a semaphore mutex, its lease
/// node already exists.
pub(super) const KINDS: [Kind; 7] = [
    ("mutex", ["", ""], Side::Exclusive(mutex)),
    ("read", ["", ""], Side::Exclusive(write)),
    ("write", ["", ""], Side::Exclusive(write)),
    ("write", ["", ""], Side::Reader),
    (
        "semaphore-mutex",
        ["/locks", "/leases"],
        Side::Exclusive(semaphore_mutex),
    ),
    ("multi", ["", ""], Side::Exclusive(in_one_step)),
    ("multi", ["", ""], Side::Exclusive(in_order)),
];

/// A lock's path, or the paths of a multi-lock; and the first of them.
pub(super) fn paths(kind: &str) -> (String, String) {
    let first = unique_path("lock");
    let all = if kind == "multi" {
        format!("{first},{}", unique_path("lock"))
    } else {
        first.clone()
    };
    (all, first)
}

#[tokio::test]
async fn a_lock_of_any_kind_is_handed_over_from_java_to_us_and_back() {
    let client = ours().await;
    let mut java = java().await;
    for (kind, [our_queue, javas_queue], side) in KINDS {
        let (path, first) = paths(kind);
        assert_eq!(java.ask(&format!("acquire {kind} {path}")).await, "ok true");
        assert!(
            side.try_acquire(&client, &path).await.unwrap().is_none(),
            "{kind}"
        );
        let waiting = waiting(side.acquire(client.clone(), path.clone()));
        until_contends(&client, &format!("{first}{our_queue}"), id(&client)).await;
        assert!(still_waits(&waiting, &client).await, "{kind}");
        assert_eq!(java.ask(&format!("release {kind} {path}")).await, "ok");
        let guard = soon(waiting).await.unwrap();
        java.send(&format!("acquire {kind} {path}"));
        until_contends(&client, &format!("{first}{javas_queue}"), java.id()).await;
        assert!(java.still_waits().await, "{kind}");
        guard.release().await.unwrap();
        assert_eq!(java.answer().await, "ok true", "{kind}");
        assert_eq!(java.ask(&format!("release {kind} {path}")).await, "ok");
        for path in path.split(',') {
            until_children(&client, &format!("{path}{javas_queue}"), 0).await;
        }
    }
}
