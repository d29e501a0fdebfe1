//! The lock that allows many readers at the same time, or one writer.

mod write;

use std::sync::Arc;

use curator_client::{CuratorClient, NodePath, ZPath, debug_line};
use curator_protocol::{ParticipantKind, ReadLockInternalsDriver, WriteLockInternalsDriver};

pub use self::write::{WriteGuard, WriteLock};
use super::base::BaseLock;
use super::guard::LockGuard;
use super::holds::Holds;
use super::inter_process_lock::{acquire_methods, holder_methods};
use super::participants::Participant;
use crate::engine::internals::LockInternals;
use crate::engine::log::AcquireLog;
use crate::error::{Error, Result};
use crate::owner::OwnerId;
use crate::wait::Wait;

/// A pair of locks on one path: many owners can hold [`read`](Self::read) at the same time, or one
/// owner holds [`write`](Self::write).
///
/// Curator's class of the same name; both can use the same path.
///
/// ```no_run
/// use curator_recipes::InterProcessReadWriteLock;
/// # async fn example(client: curator_recipes::client::CuratorClient) -> Result<(), curator_recipes::Error> {
/// let lock = InterProcessReadWriteLock::non_reentrant(&client, "/locks/catalogue")?;
///
/// let writing = lock.write().acquire().await?;
/// // ... write, and then let others read, but not write, while we check the result:
/// let reading = writing.downgrade().await?;
/// reading.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *Exclusive writers*: while a guard of the write lock is valid, no other owner has a valid
///   guard of either lock.
/// - *Fair*: readers and writers get the lock in the order of their arrival. A waiting writer keeps
///   later readers out, so neither side starves the other.
/// - *Downgrade*: [`WriteGuard::downgrade`] turns a writer into a reader. No other writer gets the
///   lock in between.
/// - *Reentrant* only if made by [`new`](Self::new), and then on both sides: an
///   [owner](crate::OwnerId) that holds a side gets another guard of it, and a writer gets the read
///   lock too.
/// - *No upgrade*: if an owner holds only the read lock of a reentrant lock and requests the write
///   lock, the acquire fails immediately with [`UpgradeRefused`](crate::Error::UpgradeRefused).
///   Curator waits forever.
/// - *Herd-free*: a reader is woken once, however many writers are ahead, if they leave the queue
///   in order. When a writer releases, all readers that then hold the lock are woken.
///
/// # Caveats
///
/// A reader that was a writer before keeps its [fencing token](crate::FencingToken). The tokens of
/// concurrent readers do not give their order.
#[derive(Clone)]
pub struct InterProcessReadWriteLock {
    read: ReadLock,
    write: WriteLock,
}

debug_line!(InterProcessReadWriteLock, |lock| path: lock.path(), read: lock.read.is_acquired_in_this_process(), written: lock.write.is_acquired_in_this_process(), connection: lock.write.sides().write.internals().client().connection_state());

/// The two sides of one lock, and their holders in this process.
#[derive(Debug, Clone)]
struct Sides {
    read: BaseLock,
    /// If the lock is reentrant, both sides use the gates of this side. A gate lets one acquire of
    /// an owner at a time into the queue: otherwise two futures of one owner would wait for each
    /// other there.
    write: BaseLock,
}

impl InterProcessReadWriteLock {
    /// Makes a read-write lock on `path` where each acquire of either side waits for all others
    /// that it excludes, which is what asynchronous code usually needs. Sends nothing; the path is
    /// created when it is first needed.
    ///
    /// Futures exclude each other just as tasks do, as in
    /// [`InterProcessMutex::non_reentrant`](super::InterProcessMutex::non_reentrant). A task that
    /// holds one side and requests the other waits for itself: without owners, the lock cannot
    /// detect a forbidden upgrade, so it never returns
    /// [`UpgradeRefused`](crate::Error::UpgradeRefused). [`acquire_as`](WriteLock::acquire_as)
    /// ignores its owner, and [`is_owned_by_current`](WriteLock::is_owned_by_current) is always
    /// false.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn non_reentrant(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Self::make(client, path, BaseLock::non_reentrant)
    }

    /// Makes a *reentrant* read-write lock on `path`. Sends nothing; the path is created when it is
    /// first needed.
    ///
    /// Each side belongs to the task that acquires it, or to the thread if there is no task; the
    /// sides of Curator's lock belong to threads. **Futures that share a task do not exclude each
    /// other**, except that a reader cannot become a writer: see [`OwnerId`](crate::OwnerId).
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
        let dir = client.resolve(path)?;
        let write = LockInternals::new(
            client,
            "write",
            dir.clone(),
            Arc::new(WriteLockInternalsDriver),
        )?;
        let read = LockInternals::new(client, "read", dir, Arc::new(ReadLockInternalsDriver))?
            .in_line_with(&write);
        Ok(Self::from_sides(Sides {
            read: base(read),
            write: base(write),
        }))
    }

    fn from_sides(sides: Sides) -> Self {
        Self {
            read: ReadLock::new(sides.clone()),
            write: WriteLock::new(sides),
        }
    }

    /// Returns a lock on the same path with this data in its nodes, which
    /// [`participants`](Self::participants) returns. Defaults to the client's default lock data.
    ///
    /// Call this when you make the lock: the new lock does not share the holds of the old one.
    #[must_use]
    pub fn with_lock_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        let data: Arc<[u8]> = data.into();
        let Sides { read, write } = self.write.sides();
        Self::from_sides(Sides {
            read: read.with_data(Arc::clone(&data)),
            write: write.with_data(data),
        })
    }

    /// Returns a lock on the same path with this value of the label `lock` in its metrics
    /// `curator_lock_*`. Defaults to none. Locks that share a name are measured together; do not
    /// use a name for each path, because most metrics stores cannot handle so many labels.
    ///
    /// Call this when you make the lock: the new lock does not share the holds of the old one.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn with_metrics_name(self, name: impl Into<Arc<str>>) -> Self {
        let name: Arc<str> = name.into();
        let Sides { read, write } = self.write.sides();
        Self::from_sides(Sides {
            read: read.with_metrics_name(Arc::clone(&name)),
            write: write.with_metrics_name(name),
        })
    }

    /// The read lock.
    #[must_use]
    pub fn read(&self) -> &ReadLock {
        &self.read
    }

    /// The write lock.
    #[must_use]
    pub fn write(&self) -> &WriteLock {
        &self.write
    }

    /// Lists the holders of either side and the waiters, in all processes, in the order of arrival.
    /// One round trip for the list, and one for each 64 nodes in it.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.write.sides().write.internals().participants().await
    }

    /// The lock's path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.write.sides().write.internals().dir()
    }
}

/// The reading side of an [`InterProcessReadWriteLock`]: many owners may hold it at the same time.
///
/// An owner that holds the write lock gets the read lock immediately, with one request.
#[derive(Clone)]
pub struct ReadLock {
    sides: Sides,
}

debug_line!(ReadLock, |lock| path: lock.sides.read.internals().dir(), held: lock.is_acquired_in_this_process(), connection: lock.client().connection_state());

impl ReadLock {
    fn new(sides: Sides) -> Self {
        Self { sides }
    }

    acquire_methods!(
        LockGuard,
        "If the lock is reentrant, the current task (or thread, see [`OwnerId`](crate::OwnerId)) re-enters immediately when it \
         already holds either side: futures that share a task then do not exclude each other. A \
         [`non_reentrant`](crate::InterProcessReadWriteLock::non_reentrant) lock has no re-entry."
    );
    holder_methods!();

    /// Lists the readers that hold the lock and the readers that wait for it, in all processes, in
    /// the order of arrival. One round trip for the list, and one for each 64 nodes that it names.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let mut participants = self.sides.read.internals().participants().await?;
        participants.retain(|participant| participant.kind == ParticipantKind::Read);
        Ok(participants)
    }

    fn client(&self) -> &CuratorClient {
        self.sides.read.internals().client()
    }

    fn holds(&self) -> &Holds {
        self.sides.read.holds()
    }

    async fn enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>> {
        let Sides { read, write } = &self.sides;
        let Some(gates) = write.gates(owner)? else {
            return read.enter_alone(wait).await;
        };
        if let Some(guard) = read.reenter(owner) {
            return Ok(Some(guard));
        }
        let acquiring = async |log: &mut AcquireLog<'_>| {
            let Some(_passed) = gates.pass_logged(owner, wait, log).await else {
                return Ok(None);
            };
            if let Some(guard) = read.reenter(owner) {
                return Ok(Some(guard));
            }
            // Keeps the write lock until the read lock is held too.
            if let Some(writing) = write.keep(owner) {
                match write::add_read_lock(read.internals(), writing.hold(), wait, log).await {
                    // The write lock was lost: acquire like any other reader.
                    Err(Error::Lost(_)) => {}
                    taken => return Ok(Some(read.hold(taken?).with_reentry(true))),
                }
            }
            read.contend(wait, log).await
        };
        read.internals().logged(owner, wait, acquiring).await
    }
}
