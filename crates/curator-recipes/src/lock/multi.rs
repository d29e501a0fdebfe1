//! Several locks that are acquired as one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use curator_client::{CuratorClient, Error as ClientError, NodePath, ZPath, debug_line};
use curator_protocol::{LockInternalsDriver as _, StandardLockInternalsDriver};

use super::base::BaseLock;
use super::guard::LockGuard;
use super::inter_process_lock::{InterProcessLock, acquire_methods, implement_inter_process_lock};
use super::participants::Participant;
use crate::engine::internals::LockInternals;
use crate::error::{Error, Result};
use crate::owner::OwnerId;
use crate::wait::Wait;

/// Several locks that act as one: the multi-lock is held while all of them are held.
///
/// There are two kinds.
///
/// [`non_reentrant`](Self::non_reentrant) and [`new`](Self::new) acquire mutexes on several paths
/// *together*: all nodes are created in one transaction, so any two such locks have the same order
/// in every queue that they share. They cannot deadlock, whatever the order of their paths. If all
/// are free, an acquire sends two requests in one round trip, for any number of paths, and the
/// release sends one request (Curator: two and one for each path, one after another). Servers older
/// than 3.7.2, and 3.8.0 and 3.8.1, need one more request and round trip for the acquire.
///
/// [`of`](Self::of) acquires any locks, one after another. Give them in the same order everywhere:
/// two multi-locks with opposite orders can wait for each other forever.
///
/// After Curator's class of the same name.
///
/// ```no_run
/// use curator_recipes::InterProcessMultiLock;
/// # async fn example(client: curator_recipes::client::CuratorClient) -> Result<(), curator_recipes::Error> {
/// let transfer = InterProcessMultiLock::non_reentrant(&client, ["/accounts/7", "/accounts/3"])?;
/// let guard = transfer.acquire().await?;
/// guard.transaction().set_data("/balance/7", "90", None)?.set_data("/balance/3", "110", None)?.commit().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *All or nothing*: an acquire that fails, times out or is dropped leaves none of the locks
///   held. Its error names the lock that failed, and contains every error of the releases.
/// - *One deadline* for all of them. At the deadline, a multi-lock made by `of` releases the
///   members that it holds before it returns; it waits for these releases at most one second
///   longer, and then they continue in the background.
/// - *Exclusive* on each path, even against other multi-locks and
///   [mutexes](super::InterProcessMutex) on the same path (including Java's).
/// - *No deadlock* among multi-locks of paths, and with mutexes whose holders do not request
///   further locks.
/// - *Reentrant* only if made by [`new`](Self::new), or by `of` from reentrant locks: an
///   [owner](crate::OwnerId) that holds the locks then gets another guard. Otherwise each acquire
///   waits for all others, including acquires of the same task.
/// - The guard is lost when any of the locks is lost. A release continues with the other locks if
///   one release fails.
///
/// # Caveats
///
/// While a multi-lock of paths waits, it has a node in all its queues. A client that holds one of
/// the paths and then requests another waits behind the multi-lock there, while the multi-lock
/// waits for the first path: a deadlock, whatever the order of the paths. So do not mix it with
/// clients that acquire these paths one after another: nested mutexes, a multi-lock made by `of`,
/// or Java Curator's multi-lock. If you must, use `of` with one order everywhere, and a timeout.
///
/// A path must not occur twice: such a lock would wait for itself. A path may be below another one;
/// each has a separate queue. The constructor rejects a path only if it is, or is below, a child of
/// another path with a name like a contender's (`…lock-0000000007`).
///
/// A multi-lock of paths needs ZooKeeper 3.6 or newer.
///
/// A multi-lock and a mutex on the same path do not share their holds: an owner that holds one and
/// requests the other waits for itself. So does a task that holds a non-reentrant lock and requests
/// it again.
#[derive(Clone)]
pub struct InterProcessMultiLock {
    kind: Kind,
}

debug_line!(InterProcessMultiLock, |lock| paths: lock.paths(), held: lock.is_acquired_in_this_process(), connection: lock.client().connection_state());

#[derive(Debug, Clone)]
enum Kind {
    Paths(BaseLock),
    Locks(Members),
}

impl InterProcessMultiLock {
    /// Makes a multi-lock of mutexes on `paths`, where each acquire waits until all of them are
    /// free, which is what asynchronous code usually needs. Sends nothing; the paths are created
    /// when they are first needed.
    ///
    /// Futures exclude each other just as tasks do, as in
    /// [`InterProcessMutex::non_reentrant`](super::InterProcessMutex::non_reentrant): the lock does
    /// not belong to a task, and [`acquire_as`](Self::acquire_as) ignores its owner.
    ///
    /// # Errors
    ///
    /// When a path is invalid or occurs twice, or there is none.
    pub fn non_reentrant(
        client: &CuratorClient,
        paths: impl IntoIterator<Item = impl NodePath>,
    ) -> Result<Self> {
        Self::of_paths(client, paths, BaseLock::non_reentrant)
    }

    /// Makes a *reentrant* multi-lock of mutexes on `paths`. Sends nothing; the paths are created
    /// when they are first needed.
    ///
    /// It belongs to the task that acquires it, or to the thread if there is no task; Curator's
    /// multi-lock belongs to a thread. **Futures that share a task do not exclude each other**: see
    /// [`OwnerId`](crate::OwnerId).
    ///
    /// # Errors
    ///
    /// When a path is invalid or occurs twice, or there is none.
    pub fn new(
        client: &CuratorClient,
        paths: impl IntoIterator<Item = impl NodePath>,
    ) -> Result<Self> {
        Self::of_paths(client, paths, BaseLock::reentrant)
    }

    fn of_paths(
        client: &CuratorClient,
        paths: impl IntoIterator<Item = impl NodePath>,
        base: fn(LockInternals) -> BaseLock,
    ) -> Result<Self> {
        let dirs = paths
            .into_iter()
            .map(|path| client.resolve(path))
            .collect::<Result<Vec<_>, _>>()?;
        check_paths(&dirs)?;
        let driver = Arc::new(StandardLockInternalsDriver::new());
        let internals = LockInternals::with_dirs(client, "multi-lock", dirs.into(), driver)?;
        Ok(Self {
            kind: Kind::Paths(base(internals)),
        })
    }

    /// Makes a multi-lock of any locks. They are acquired in the given order, and released in
    /// reverse order. The multi-lock is reentrant if all of them are.
    ///
    /// # Errors
    ///
    /// When there is no lock, or a path occurs twice.
    pub fn of(locks: impl IntoIterator<Item = Arc<dyn InterProcessLock>>) -> Result<Self> {
        let locks: Vec<_> = locks.into_iter().collect();
        let paths: Vec<_> = locks.iter().flat_map(|lock| lock.paths()).collect();
        check_paths(&paths)?;
        let members = Members::new(locks).ok_or(Error::InvalidMultiLock {
            paths: Vec::new(),
            expected: "at least one lock",
        })?;
        Ok(Self {
            kind: Kind::Locks(members),
        })
    }

    /// Returns a lock on the same paths with this data in its nodes, which
    /// [`participants`](Self::participants) returns. Defaults to the client's default lock data.
    /// Locks given to [`of`](Self::of) keep their data.
    ///
    /// Call this when you make the lock: the new lock does not share the holds of the old one.
    #[must_use]
    pub fn with_lock_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        match self.kind {
            Kind::Paths(lock) => Self {
                kind: Kind::Paths(lock.with_data(data.into())),
            },
            Kind::Locks(_) => self,
        }
    }

    /// Returns a lock on the same paths with this value of the label `lock` in its metrics
    /// `curator_lock_*`. Defaults to none. Locks given to [`of`](Self::of) keep their names. Locks
    /// that share a name are measured together; do not use a name for each path, because most
    /// metrics stores cannot handle so many labels.
    ///
    /// Call this when you make the lock: the new lock does not share the holds of the old one.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn with_metrics_name(self, name: impl Into<Arc<str>>) -> Self {
        match self.kind {
            Kind::Paths(lock) => Self {
                kind: Kind::Paths(lock.with_metrics_name(name.into())),
            },
            Kind::Locks(_) => self,
        }
    }

    acquire_methods!(
        LockGuard,
        "If the locks are reentrant, the current task (or thread, see [`OwnerId`](crate::OwnerId)) re-enters immediately \
         when it already holds them: futures that share a task then do not exclude each other. With a \
         [`non_reentrant`](Self::non_reentrant) lock, they exclude each other. A lock that was made by [`of`](Self::of) fails with \
         [`MultiLockMember`](crate::Error::MultiLockMember) when one of its locks fails, even for lack of a connection, or when the session of a \
         lock that it holds is lost while it waits for the next lock. It fails with [`ReleasesFailed`](crate::Error::ReleasesFailed) when it \
         ends without the locks (at its deadline, or if `try_acquire` finds a lock held) and a lock that it held turns out to be lost or \
         cannot be released. It waits for these releases until its deadline or for one second, whichever is later; then \
         they continue in the background."
    );

    /// Whether all the locks are held through this instance or clones of it.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        match &self.kind {
            Kind::Paths(lock) => lock.holds().is_held(),
            Kind::Locks(members) => members
                .iter()
                .all(|lock| lock.is_acquired_in_this_process()),
        }
    }

    /// Lists the holders of the locks and the waiters, in all processes, path by path, each in the
    /// order of arrival.
    ///
    /// Each path is listed separately: a multi-lock that is first in one queue and waits in another
    /// [owns](Participant::owns) the first.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        match &self.kind {
            Kind::Paths(lock) => lock.internals().participants().await,
            Kind::Locks(members) => {
                let mut participants = Vec::new();
                for lock in members.iter() {
                    participants.extend(lock.participants().await?);
                }
                Ok(participants)
            }
        }
    }

    /// The paths that are locked, as on the server, including chroot and namespace.
    #[must_use]
    pub fn paths(&self) -> Vec<ZPath> {
        match &self.kind {
            Kind::Paths(lock) => lock.internals().dirs().to_vec(),
            Kind::Locks(members) => members.iter().flat_map(|lock| lock.paths()).collect(),
        }
    }

    fn client(&self) -> &CuratorClient {
        match &self.kind {
            Kind::Paths(lock) => lock.internals().client(),
            Kind::Locks(members) => members.client(),
        }
    }

    async fn enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>> {
        match &self.kind {
            Kind::Paths(lock) => lock.enter(owner, wait, || Ok(())).await,
            Kind::Locks(members) => members.enter(owner, wait).await,
        }
    }
}

implement_inter_process_lock!(InterProcessMultiLock);

fn check_paths(paths: &[ZPath]) -> Result<()> {
    let invalid = |expected| {
        let paths = paths.iter().map(ToString::to_string).collect();
        Err(Error::InvalidMultiLock { paths, expected })
    };
    if paths.is_empty() {
        return invalid("at least one path");
    }
    if paths.iter().collect::<BTreeSet<_>>().len() < paths.len() {
        return invalid("each path only once");
    }
    if paths
        .iter()
        .any(|outer| paths.iter().any(|inner| contends_in(outer, inner)))
    {
        return invalid("no path within another that looks like one of its contenders");
    }
    Ok(())
}

/// Whether the queue at `outer` would mistake the child on the path to `inner` for a contender, and
/// wait for it forever.
fn contends_in(outer: &ZPath, inner: &ZPath) -> bool {
    let below = inner.strip_prefix(outer);
    let child = below
        .as_ref()
        .and_then(|below| below.as_str().split('/').nth(1));
    child.is_some_and(|child| StandardLockInternalsDriver::new().sequence(child).is_some())
}

/// The locks of a multi-lock, at least one, in the order of their acquisition. Acquires them one
/// after another; if one fails, releases the locks acquired before.
#[derive(Debug, Clone)]
struct Members {
    first: Arc<dyn InterProcessLock>,
    others: Arc<[Arc<dyn InterProcessLock>]>,
}

impl Members {
    fn new(locks: Vec<Arc<dyn InterProcessLock>>) -> Option<Self> {
        let mut locks = locks.into_iter();
        Some(Self {
            first: locks.next()?,
            others: locks.collect(),
        })
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<dyn InterProcessLock>> {
        std::iter::once(&self.first).chain(&*self.others)
    }

    fn client(&self) -> &CuratorClient {
        self.first.client()
    }

    async fn enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>> {
        let mut held: Option<LockGuard> = None;
        for lock in self.iter() {
            let acquired = match &held {
                None => acquire(&**lock, owner, wait).await,
                Some(guard) => tokio::select! {
                    biased;
                    error = guard.client().closing() => Err(error.into()),
                    // A held lock is lost, so the acquire fails.
                    lost = guard.session_lost() => Err(lost.into()),
                    acquired = acquire(&**lock, owner, wait) => acquired,
                },
            };
            let acquired = match (acquired, held.as_ref().and_then(LockGuard::known_loss)) {
                (Ok(Some(guard)), Some(lost)) => {
                    held = joined(held, guard);
                    Err(lost.into())
                }
                (acquired, _) => acquired,
            };
            match acquired {
                Ok(Some(guard)) => held = joined(held, guard),
                Ok(None) => {
                    let mut failures = roll_back(held, wait).await;
                    // Releases that continue in the background are not reported here; the client's
                    // janitor lists them.
                    failures.retain(|failure| !matches!(failure, Error::ReleasePending { .. }));
                    return if failures.is_empty() {
                        Ok(None)
                    } else {
                        Err(Error::ReleasesFailed { failures })
                    };
                }
                // The error is returned unwrapped, because the end of a client is not a failure of
                // one lock. The drop of `held` releases the locks held so far.
                Err(
                    closed @ Error::Client(
                        ClientError::Closed | ClientError::ClientEnded { .. } | ClientError::Forked,
                    ),
                ) => {
                    return Err(closed);
                }
                Err(cause) => {
                    let rollback = roll_back(held, wait).await;
                    return Err(Error::MultiLockMember {
                        member: name(&**lock),
                        cause: Box::new(cause),
                        rollback,
                    });
                }
            }
        }
        Ok(held)
    }
}

fn joined(held: Option<LockGuard>, next: LockGuard) -> Option<LockGuard> {
    Some(match held {
        None => next,
        Some(held) => held.and(next),
    })
}

async fn acquire(
    lock: &dyn InterProcessLock,
    owner: &OwnerId,
    wait: Wait,
) -> Result<Option<LockGuard>> {
    match wait {
        Wait::Until(deadline) if deadline.has_passed() => lock
            .client()
            .check_connected()
            .map(|()| None)
            .map_err(Error::from),
        wait => lock.acquire_within(owner, wait).await,
    }
}

/// How long a rollback may delay the caller after the deadline. A rollback normally takes one
/// request for each lock.
const GRACE: Duration = Duration::from_secs(1);

/// Releases the locks, the last one first, and returns every error. Releases that are not finished
/// in time continue in the background.
async fn roll_back(held: Option<LockGuard>, wait: Wait) -> Vec<Error> {
    let Some(held) = held else { return Vec::new() };
    let left = match wait {
        Wait::No => Some(Duration::ZERO),
        Wait::Until(deadline) => deadline.remaining(),
    };
    held.release_within(left.map_or(Duration::MAX, |left| left.max(GRACE)))
        .await
}

fn name(lock: &dyn InterProcessLock) -> String {
    let paths: Vec<_> = lock.paths().iter().map(ToString::to_string).collect();
    paths.join(", ")
}
