//! The locks.

mod base;
pub(crate) mod guard;
mod holds;
mod inter_process_lock;
mod multi;
mod mutex;
pub(crate) mod participants;
mod read_write;
mod semaphore;

pub use self::guard::{GuardedTransaction, LockGuard, LossHandle};
pub use self::inter_process_lock::InterProcessLock;
pub use self::multi::InterProcessMultiLock;
pub use self::mutex::InterProcessMutex;
pub use self::participants::{Participant, revoke};
pub use self::read_write::{InterProcessReadWriteLock, ReadLock, WriteGuard, WriteLock};
pub use self::semaphore::{InterProcessSemaphoreMutex, InterProcessSemaphoreV2, SemaphoreLease};
