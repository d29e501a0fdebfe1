//! The exclusive lock, reentrant or not.

use std::sync::Arc;

use curator_client::{CuratorClient, NodePath, ZPath};
use curator_protocol::{LockInternalsDriver, StandardLockInternalsDriver};

use tokio::sync::watch;

use super::acquire_methods::{acquire_methods, holder_methods};
use super::guard::LockGuard;
use super::holds::Holds;
use super::inter_process_lock::implement_inter_process_lock;
use super::participants::Participant;
use super::reentrant::Reentrant;
use crate::debug::debug_line;
use crate::engine::internals::LockInternals;
use crate::error::Result;
use crate::owner::{OwnerId, Reentry};
use crate::wait::Wait;

/// What stands between the id and the number in the names of kazoo's nodes.
const KAZOO_LOCK_NAME: &str = "__lock__";

/// A lock that is held by at most one owner at a time, in all processes that use the same path.
///
/// Curator's `InterProcessMutex`, and compatible with it: Java and Rust programs can contend for the same path.
///
/// ```no_run
/// use curator_recipes::InterProcessMutex;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::Error> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let mutex = InterProcessMutex::non_reentrant(&client, "/locks/orders")?;
/// let guard = mutex.acquire().await?;
/// println!("writing with token {}", guard.fencing_token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *Exclusive*: no two guards of different owners are [valid](LockGuard::is_valid) at the same time, unless someone
///   deletes a lock node by hand. Of a [`non_reentrant`](Self::non_reentrant) mutex each acquire has a separate owner.
/// - *Fair*: owners get the lock in the order in which their nodes reached the ensemble.
/// - *Reentrant* only if made by [`new`](Self::new): an [owner](OwnerId), which is a task or a thread, that holds the lock gets
///   another guard without a request.
/// - *Herd-free*: a release wakes the next waiter, and one more, which gets ready.
/// - *Honest*: a guard knows that its session is lost before anyone else can have the lock.
/// - *Cancel-safe*: any future may be dropped at any await; no node is left behind for others to wait for.
///
/// The [guide](crate::guide::guarantees) says what these rest on.
///
/// # Caveats
///
/// The path should be used for this lock alone. Children that are not lock nodes are ignored. That includes
/// the nodes of kazoo's `Lock`, unless the mutex is made by [`compatible_with_kazoo`](Self::compatible_with_kazoo).
///
/// A task that holds a [`non_reentrant`](Self::non_reentrant) mutex and asks for it again waits for itself. In one made by
/// [`new`](Self::new), futures that share a task are inside together.
///
/// Clones are the same lock: they share their holds. Two mutexes on one path that are not clones do not know each other, even
/// in the same task: the second one waits for the first.
#[derive(Clone)]
pub struct InterProcessMutex {
    inner: Reentrant,
}

debug_line!(InterProcessMutex, |lock| path: lock.path(), held: lock.is_acquired_in_this_process(), connection: lock.client().connection_state());

impl InterProcessMutex {
    /// Makes a mutex on `path` where each acquire waits until the lock is free: what asynchronous code usually needs. Nothing
    /// is sent yet; the path is created when it is first needed.
    ///
    /// Futures and tasks exclude each other alike: each acquire has a separate owner, and waits also if the current task
    /// holds the lock. A task that asks for what it holds waits for itself. The lock belongs to no task:
    /// [`acquire_as`](Self::acquire_as) ignores its owner, and [`is_owned_by_current`](Self::is_owned_by_current) is always
    /// false.
    ///
    /// It and Java Curator's `InterProcessMutex` exclude each other, in one queue; so do it and go-zookeeper's `zk.NewLock`, if the
    /// directory has no other children. Go's lock does not report its loss, and ignores [`revoke`](crate::revoke). The page
    /// [Other clients on the same path](crate::guide::interop) lists what was tested.
    ///
    /// ```no_run
    /// # use curator_recipes::InterProcessMutex;
    /// # async fn example(client: curator_recipes::client::CuratorClient) -> Result<(), curator_recipes::Error> {
    /// let mutex = InterProcessMutex::non_reentrant(&client, "/locks/orders")?;
    /// // One after the other, although they share a task.
    /// tokio::try_join!(work(&mutex), work(&mutex))?;
    /// # Ok(())
    /// # }
    /// # async fn work(mutex: &InterProcessMutex) -> Result<(), curator_recipes::Error> {
    /// #     mutex.acquire().await?.release().await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn non_reentrant(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Self::make(client, path, Reentry::Never)
    }

    /// Makes the *reentrant* mutex on `path`: its holder may acquire it again. Nothing is sent yet; the path is created when
    /// it is first needed.
    ///
    /// It belongs to the task that acquires it, or to the thread where there is no task, as Curator's to the thread. **Futures
    /// that share a task (`join!`, `select!`, `buffer_unordered`) are inside together**: while one of them holds the lock, the
    /// others re-enter it. So does a task that has given its guard to another one. With [`acquire_as`](Self::acquire_as), the
    /// caller chooses the [owner](OwnerId).
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn new(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Self::make(client, path, Reentry::ByOwner)
    }

    fn make(client: &CuratorClient, path: impl NodePath, reentry: Reentry) -> Result<Self> {
        let driver = Arc::new(StandardLockInternalsDriver::default());
        let internals = LockInternals::new(client, "mutex", client.resolve(path)?, driver)?;
        Ok(Self { inner: Reentrant::new(internals, reentry) })
    }

    /// Makes a mutex for a path that Python programs lock with kazoo's `Lock`. It is not reentrant, as kazoo's is not:
    /// [`non_reentrant`](Self::non_reentrant) says what that means.
    ///
    /// Its nodes have kazoo's lock name, `__lock__`, in place of Curator's, `lock-`. So it and kazoo's `Lock` (or
    /// `WriteLock`) on the same path exclude each other, and stand in one queue in the order of their arrival. Kazoo needs
    /// no `extra_lock_patterns` for this.
    ///
    /// ```no_run
    /// use curator_recipes::InterProcessMutex;
    ///
    /// # async fn example(client: curator_recipes::client::CuratorClient) -> Result<(), curator_recipes::Error> {
    /// // In Python: with client.Lock("/locks/orders"): ...
    /// let mutex = InterProcessMutex::compatible_with_kazoo(&client, "/locks/orders")?;
    /// let guard = mutex.acquire().await?;
    /// guard.run(async { /* the work */ }).await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Caveats
    ///
    /// - All Rust programs on this path have to make their mutex in this way. It does not exclude one with
    ///   Curator's names, nor the locks of Java Curator and go-zookeeper, a multi-lock of paths, or kazoo's `ReadLock`.
    /// - The guarantees of this type hold for its own guards only. Kazoo's lock has no fencing token, and does not tell its
    ///   holder that it is lost: a Python program has to listen to connection states; if it does not, it may go on working
    ///   while a guard here is valid.
    /// - Kazoo's lock takes no notice of [`revoke`](crate::revoke).
    ///
    /// The page [Other clients on the same path](crate::guide::interop) says what was tested, and with which releases.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn compatible_with_kazoo(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Self::non_reentrant(client, path)?.with_driver(StandardLockInternalsDriver::with_lock_name(KAZOO_LOCK_NAME))
    }

    /// The same mutex, with another node layout.
    ///
    /// Call this when you make the lock: the new one does not know what the old one holds.
    ///
    /// # Errors
    ///
    /// When the driver's node names cannot be used.
    pub fn with_driver(self, driver: impl LockInternalsDriver) -> Result<Self> {
        Ok(Self { inner: self.inner.with_driver(Arc::new(driver))? })
    }

    /// The mutex by which a leader is elected: its contenders enter the queue at once, each with a node. `queued` receives whether
    /// the latest one waits there.
    pub(crate) fn of_leaders(
        client: &CuratorClient,
        path: impl NodePath,
        kind: &'static str,
        lock_name: &'static str,
        queued: Arc<watch::Sender<bool>>,
    ) -> Result<Self> {
        let driver = Arc::new(StandardLockInternalsDriver::with_lock_name(lock_name));
        let internals = LockInternals::new(client, kind, client.resolve(path)?, driver)?;
        Ok(Self { inner: Reentrant::new(internals.without_line().reporting(queued), Reentry::Never) })
    }

    /// The same mutex, with other data in its nodes, for [`participants`](Self::participants) to show. Defaults to the
    /// client's default lock data.
    ///
    /// Call this when you make the lock: the new one does not know what the old one holds.
    #[must_use]
    pub fn with_lock_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        Self { inner: self.inner.with_data(data.into()) }
    }

    /// The same lock, with a name for what is measured: the label `lock` of the metrics `curator_lock_*`. Defaults to none. Locks that share
    /// a name are measured together; a name for each path would be too many for most stores.
    ///
    /// Call this when you make the lock: the new one does not know what the old one holds.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn with_metrics_name(self, name: impl Into<Arc<str>>) -> Self {
        Self { inner: self.inner.with_metrics_name(name.into()) }
    }

    acquire_methods!(LockGuard);
    holder_methods!();

    /// Lists who holds the lock and who waits for it, in all processes, in the order of arrival. One round
    /// trip for the list, and one for each 64 nodes that it names.
    ///
    /// # Errors
    ///
    /// Those of the client when its retry policy gives up.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.inner.internals().participants().await
    }

    pub(crate) fn driver(&self) -> &dyn LockInternalsDriver {
        self.inner.internals().driver()
    }

    /// Reads who is first in the queue. A list, and one node.
    pub(crate) async fn first_participant(&self) -> Result<Option<Participant>> {
        self.inner.internals().first_participant().await
    }

    /// The mutex's path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.inner.internals().dir()
    }

    fn paths(&self) -> Vec<ZPath> {
        vec![self.path().clone()]
    }

    pub(crate) fn client(&self) -> &CuratorClient {
        self.inner.internals().client()
    }

    fn holds(&self) -> &Holds {
        self.inner.holds()
    }

    async fn enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>> {
        let owner = self.inner.owner(owner)?;
        self.inner.enter(&owner, wait, || Ok(())).await
    }
}

implement_inter_process_lock!(InterProcessMutex);

#[cfg(test)]
mod tests {
    use std::mem::size_of_val;

    use super::*;

    /// There may be ten thousand of them.
    #[tokio::test]
    async fn a_future_of_acquire_is_small() {
        // Sends nothing.
        let client = CuratorClient::builder("127.0.0.1:1").start().unwrap();
        let mutex = InterProcessMutex::new(&client, "/lock").unwrap();
        assert!(size_of_val(&mutex.acquire()) <= 320, "{} bytes", size_of_val(&mutex.acquire()));
    }
}
