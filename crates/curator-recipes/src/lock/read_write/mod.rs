//! The lock that many read under and one writes under.

mod downgrade;
mod read;
mod write;

use std::sync::Arc;

use curator_client::{CuratorClient, ZPath};
use curator_protocol::{ReadLockInternalsDriver, WriteLockInternalsDriver};

pub use self::read::ReadLock;
pub use self::write::{WriteGuard, WriteLock};
use super::internals::LockInternals;
use super::participants::Participant;
use super::reentrant::Reentrant;
use crate::error::Result;

/// A pair of locks on one path: many may hold [`read`](Self::read) at once, and who holds [`write`](Self::write) is alone.
///
/// Curator's class of the same name, and compatible with it on one path.
///
/// ```no_run
/// use curator_recipes::InterProcessReadWriteLock;
/// # async fn example(client: curator_recipes::client::CuratorClient) -> Result<(), curator_recipes::Error> {
/// let lock = InterProcessReadWriteLock::new(&client, "/locks/catalogue")?;
///
/// let writing = lock.write().acquire().await?;
/// // ... write, and let others read, but not write, while what was written is looked at:
/// let reading = writing.downgrade().await?;
/// reading.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *Exclusive writers*: no valid guard of the write lock exists beside any valid guard of another owner.
/// - *Fair*: readers and writers own in the order of their coming. A writer that waits keeps later readers out, so neither
///   side starves the other.
/// - *Reentrant* on both sides. Who holds the write lock may take the read lock too, and keep it when the write lock is
///   released: see [`WriteGuard::downgrade`]. No other writer comes between.
/// - *No upgrade*: who holds the read lock only and asks for the write lock is told so at once
///   ([`UpgradeRefused`](crate::Error::UpgradeRefused)), where Curator waits for ever.
/// - *Herd-free*: a reader is woken once, however many writers are before it. When a writer releases, the readers that
///   waited for it are woken, because all of them own then.
///
/// # Caveats
///
/// A reader that was a writer keeps its [fencing token](crate::FencingToken). The tokens of readers that overlap do not
/// order them.
#[derive(Debug, Clone)]
pub struct InterProcessReadWriteLock {
    read: ReadLock,
    write: WriteLock,
}

/// The two sides of one lock, and who holds them in this process.
#[derive(Debug, Clone)]
struct Sides {
    read: Reentrant,
    /// The gate of an owner's slot here is for both sides: two futures of one owner must not wait for each other in the
    /// queue.
    write: Reentrant,
}

impl InterProcessReadWriteLock {
    /// A read-write lock on `path`. Nothing is sent yet; the path is created when it is first needed.
    ///
    /// # Errors
    ///
    /// An invalid path.
    pub fn new(client: &CuratorClient, path: impl AsRef<str>) -> Result<Self> {
        let path = path.as_ref();
        let write = LockInternals::new(client, path, Arc::new(WriteLockInternalsDriver))?;
        let read = LockInternals::new(client, path, Arc::new(ReadLockInternalsDriver))?.in_line_with(&write);
        Ok(Self::of(Sides { read: Reentrant::new(read), write: Reentrant::new(write) }))
    }

    fn of(sides: Sides) -> Self {
        Self { read: ReadLock::new(sides.clone()), write: WriteLock::new(sides) }
    }

    /// The same lock with other data in its nodes, for [`participants`](Self::participants) to show. If not said, the
    /// client's default lock data.
    ///
    /// To be said when the lock is made: what was held before is not known to the new one.
    #[must_use]
    pub fn with_lock_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        let (data, Sides { read, write }) = (data.into(), self.write.sides());
        Self::of(Sides { read: read.with_data(Arc::clone(&data)), write: write.with_data(data) })
    }

    /// The lock to read under.
    #[must_use]
    pub fn read(&self) -> &ReadLock {
        &self.read
    }

    /// The lock to write under.
    #[must_use]
    pub fn write(&self) -> &WriteLock {
        &self.write
    }

    /// Who holds either side and who waits, in all processes, first comer first. Two round trips.
    ///
    /// # Errors
    ///
    /// Those of the client when its retry policy gives up.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.write.sides().write.internals().participants().await
    }

    /// The lock's path, as it is called on the server (chroot and namespace included).
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.write.sides().write.internals().dir()
    }
}
