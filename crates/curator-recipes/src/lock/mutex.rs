//! The mutex, reentrant or not.

use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{CuratorClient, NodePath, ZPath, debug_line};
use curator_protocol::{LockInternalsDriver, StandardLockInternalsDriver};

use super::base::BaseLock;
use super::guard::LockGuard;
use super::holds::Holds;
use super::inter_process_lock::{acquire_methods, holder_methods, implement_inter_process_lock};
use super::participants::Participant;
use crate::engine::internals::LockInternals;
use crate::engine::meter::Participation;
use crate::error::Result;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// The text between the id and the number in kazoo's node names.
const KAZOO_LOCK_NAME: &str = "__lock__";

/// A lock that is held by at most one owner at a time, in all processes that use the same path.
///
/// Curator's `InterProcessMutex`: Java and Rust programs can contend for the same path.
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
/// - *Exclusive*: no two guards of different owners are [valid](LockGuard::is_valid) at the same
///   time, unless a client deletes the node of another contender. Each acquire of a
///   [`non_reentrant`](Self::non_reentrant) mutex has a separate owner.
/// - *Fair*: owners get the lock in the order that their nodes reached the ensemble.
/// - *Reentrant* only if made by [`new`](Self::new): an [owner](OwnerId), which is a task or a
///   thread, that holds the lock gets another guard without a request.
/// - *Herd-free*: a release wakes at most two waiters: the next owner, and a waiter that prepares
///   to be next.
/// - *Honest*: a guard reports the loss of its session before another client can acquire the lock.
/// - *Cancel-safe*: any future can be dropped at any await point; its node is deleted.
///
/// The [guide](crate::guide::guarantees) lists the assumptions behind these.
///
/// # Caveats
///
/// The path should be used for this lock alone. Children that are not lock nodes are ignored. That
/// includes the nodes of kazoo's `Lock`, unless the mutex is made by
/// [`compatible_with_kazoo`](Self::compatible_with_kazoo).
///
/// A task that holds a [`non_reentrant`](Self::non_reentrant) mutex and acquires it again waits for
/// itself. With a mutex made by [`new`](Self::new), futures that share a task do not exclude each
/// other.
///
/// Clones are the same lock: they share their holds. Two mutexes on one path that are not clones do
/// not share holds, even in the same task: the second one waits for the first.
#[derive(Clone)]
pub struct InterProcessMutex {
    inner: BaseLock,
}

debug_line!(InterProcessMutex, |lock| path: lock.path(), held: lock.is_acquired_in_this_process(), connection: lock.client().connection_state());

impl InterProcessMutex {
    /// Makes a mutex on `path` where each acquire waits until the lock is free, which is what
    /// asynchronous code usually needs. Sends nothing; the path is created when it is first needed.
    ///
    /// Futures exclude each other just as tasks do: each acquire has a separate owner, and waits
    /// even if the current task holds the lock; that task waits for itself. The lock does not
    /// belong to a task: [`acquire_as`](Self::acquire_as) ignores its owner, and
    /// [`is_owned_by_current`](Self::is_owned_by_current) is always false.
    ///
    /// This mutex and Java Curator's `InterProcessMutex` exclude each other, in one queue; so does
    /// go-zookeeper's `zk.NewLock`, if the directory has no other children. Go's lock does not
    /// report its loss, and ignores [`revoke`](crate::revoke). The page [Other clients on the same
    /// path](crate::guide::interop) lists what was tested.
    ///
    /// ```no_run
    /// # use curator_recipes::InterProcessMutex;
    /// # async fn example(client: curator_recipes::client::CuratorClient) -> Result<(), curator_recipes::Error> {
    /// let mutex = InterProcessMutex::non_reentrant(&client, "/locks/orders")?;
    /// // These run one after the other, although they share a task.
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
        Self::make(client, path, BaseLock::non_reentrant)
    }

    /// Makes a *reentrant* mutex on `path`: its holder can acquire it again. Sends nothing; the
    /// path is created when it is first needed.
    ///
    /// It belongs to the task that acquires it, or to the thread if there is no task; Curator's
    /// mutex belongs to a thread. **Futures that share a task (`join!`, `select!`,
    /// `buffer_unordered`) do not exclude each other**: while one of them holds the lock, the
    /// others re-enter it. A task that has given its guard to another task also re-enters the lock.
    /// With [`acquire_as`](Self::acquire_as), the caller chooses the [owner](OwnerId).
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn new(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Self::make(client, path, BaseLock::reentrant)
    }

    fn make(
        client: &CuratorClient,
        path: impl NodePath,
        base: fn(LockInternals) -> BaseLock,
    ) -> Result<Self> {
        let driver = Arc::new(StandardLockInternalsDriver::default());
        let internals = LockInternals::new(client, "mutex", client.resolve(path)?, driver)?;
        Ok(Self {
            inner: base(internals),
        })
    }

    /// Makes a mutex for a path that Python programs lock with kazoo's `Lock`. It is not reentrant,
    /// like kazoo's: see [`non_reentrant`](Self::non_reentrant).
    ///
    /// Its nodes have kazoo's lock name, `__lock__`, in place of Curator's, `lock-`. So this mutex
    /// and kazoo's `Lock` (or `WriteLock`) on the same path exclude each other, and share one queue
    /// in the order of arrival. Kazoo needs no `extra_lock_patterns` for this.
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
    /// - All Rust programs on this path must make their mutex in this way. The mutex does not
    ///   exclude a mutex with Curator's names, nor the locks of Java Curator and go-zookeeper, a
    ///   multi-lock of paths, or kazoo's `ReadLock`.
    /// - The guarantees of this type hold for its guards only. Kazoo's lock has no fencing token,
    ///   and does not signal its loss to the holder: a Python program has to listen to connection
    ///   states; otherwise it may continue while a guard in Rust is valid.
    /// - Kazoo's lock ignores [`revoke`](crate::revoke).
    ///
    /// The page [Other clients on the same path](crate::guide::interop) lists what was tested, and
    /// with which releases.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn compatible_with_kazoo(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Self::non_reentrant(client, path)?
            .with_driver(StandardLockInternalsDriver::with_lock_name(KAZOO_LOCK_NAME))
    }

    /// Returns a mutex on the same path with the node names of this driver.
    ///
    /// Call this when you make the lock: the new lock does not share the holds of the old one.
    ///
    /// # Errors
    ///
    /// When the driver's node names are invalid.
    pub fn with_driver(self, driver: impl LockInternalsDriver) -> Result<Self> {
        Ok(Self {
            inner: self.inner.with_driver(Arc::new(driver))?,
        })
    }

    /// Makes the mutex of a leader election: its contenders enter the queue immediately, each with
    /// a node. `queued` receives whether the latest contender waits there.
    pub(crate) fn of_leaders(
        client: &CuratorClient,
        path: impl NodePath,
        kind: &'static str,
        lock_name: &'static str,
        queued: Arc<watch::Sender<bool>>,
    ) -> Result<Self> {
        let driver = Arc::new(StandardLockInternalsDriver::with_lock_name(lock_name));
        let internals = LockInternals::new(client, kind, client.resolve(path)?, driver)?;
        Ok(Self {
            inner: BaseLock::non_reentrant(internals.without_line().reporting(queued)),
        })
    }

    /// The same mutex with the same holds, whose acquires report to `queued` whether they wait in
    /// the queue.
    pub(crate) fn reporting(&self, queued: Arc<watch::Sender<bool>>) -> Self {
        Self {
            inner: self.inner.reporting(queued),
        }
    }

    /// Records a participant in an election in the metrics, until the result is dropped.
    pub(crate) fn participates(&self) -> Participation {
        self.inner.internals().meter().participates()
    }

    /// Returns a mutex on the same path with this data in its nodes, which
    /// [`participants`](Self::participants) returns. Defaults to the client's default lock data.
    ///
    /// Call this when you make the lock: the new lock does not share the holds of the old one.
    #[must_use]
    pub fn with_lock_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        Self {
            inner: self.inner.with_data(data.into()),
        }
    }

    /// Returns a lock on the same path with this value of the label `lock` in its metrics
    /// `curator_lock_*`. Defaults to none. Locks that share a name are measured together; do not
    /// use a name for each path, because most metrics stores cannot handle so many labels.
    ///
    /// Call this when you make the lock: the new lock does not share the holds of the old one.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn with_metrics_name(self, name: impl Into<Arc<str>>) -> Self {
        Self {
            inner: self.inner.with_metrics_name(name.into()),
        }
    }

    acquire_methods!(LockGuard);
    holder_methods!();

    /// Lists the holder of the lock and the waiters, in all processes, in the order of arrival. One
    /// round trip for the list, and one for each 64 nodes in it.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
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

    /// Reads the first participant in the queue, with two requests: a list, and one node.
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
        self.inner.enter(owner, wait, || Ok(())).await
    }
}

implement_inter_process_lock!(InterProcessMutex);

#[cfg(test)]
mod tests {
    use std::mem::size_of_val;

    use super::*;

    /// There may be ten thousand waiters, each with such a future.
    #[tokio::test]
    async fn the_future_of_acquire_has_at_most_320_bytes() {
        // Sends nothing.
        let client = CuratorClient::builder("127.0.0.1:1").start().unwrap();
        let mutex = InterProcessMutex::new(&client, "/lock").unwrap();
        assert!(
            size_of_val(&mutex.acquire()) <= 320,
            "{} bytes",
            size_of_val(&mutex.acquire())
        );
    }
}
