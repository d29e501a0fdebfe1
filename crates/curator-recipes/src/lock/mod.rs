//! The locks, and the one engine under them.

mod contender;
pub mod contest;
pub mod driver;
mod face;
mod flight;
mod guard;
mod hold;
mod holds;
mod inter_process_lock;
mod internals;
mod line;
mod multi;
mod mutex;
mod own_node;
mod owner;
mod participants;
mod patience;
mod place;
pub mod queue;
mod read_write;
mod reentrant;
mod refused;
mod revoke;
pub mod semaphore;
mod shell;
mod watches;

pub use self::driver::{
    ContenderId, ContenderIdentity, LockInternalsDriver, ParticipantKind, ReadLockInternalsDriver,
    StandardLockInternalsDriver, Verdict, WriteLockInternalsDriver,
};
pub use self::guard::{GuardedTransaction, LockGuard};
pub use self::inter_process_lock::InterProcessLock;
pub use self::multi::InterProcessMultiLock;
pub use self::mutex::InterProcessMutex;
pub use self::owner::OwnerId;
pub use self::participants::Participant;
pub use self::queue::{Queue, QueueEntry};
pub use self::read_write::{InterProcessReadWriteLock, ReadLock, WriteGuard, WriteLock};
pub use self::revoke::revoke;
pub use self::semaphore::{InterProcessSemaphoreMutex, InterProcessSemaphoreV2, SemaphoreLease};
