//! The locks, and the engine that they share.

mod acquire_methods;
mod contender;
pub(crate) mod debug;
mod failures;
mod guard;
mod hold;
mod holds;
mod inter_process_lock;
mod internals;
mod line;
mod log;
mod multi;
mod mutex;
mod own_nodes;
pub(crate) mod owner;
mod participants;
mod pipeline;
mod read_write;
mod reentrant;
mod refused;
mod revoke;
mod semaphore;
mod watched_node;
mod watches;

pub use self::guard::{GuardedTransaction, LockGuard, LossHandle};
pub use self::inter_process_lock::InterProcessLock;
pub use self::multi::InterProcessMultiLock;
pub use self::mutex::InterProcessMutex;
pub use self::owner::OwnerId;
pub use self::participants::Participant;
pub use self::read_write::{InterProcessReadWriteLock, ReadLock, WriteGuard, WriteLock};
pub use self::revoke::revoke;
pub use self::semaphore::{InterProcessSemaphoreMutex, InterProcessSemaphoreV2, SemaphoreLease};
