//! The locks, and the one engine under them.

mod contender;
pub mod contest;
pub mod driver;
mod guard;
mod hold;
mod holds;
mod internals;
mod mutex;
mod owner;
mod participants;
pub mod queue;
mod shell;
mod watches;

pub use self::driver::{ContenderId, ContenderIdentity, LockInternalsDriver, StandardLockInternalsDriver, Verdict};
pub use self::guard::LockGuard;
pub use self::mutex::InterProcessMutex;
pub use self::owner::OwnerId;
pub use self::participants::Participant;
pub use self::queue::{Queue, QueueEntry};
