//! Drivers: the names of a lock's nodes, and the rule by which one of them owns the lock.
//!
//! Most programs need none of this. A driver is for a lock on a path that other programs already use with names of their
//! own: [`InterProcessMutex::with_driver`](crate::InterProcessMutex::with_driver) takes one. For another lock name alone,
//! use [`StandardLockInternalsDriver::with_lock_name`]; for anything else, implement [`LockInternalsDriver`].
//!
//! It comes from the crate [`curator_protocol`], which has the protocol of the locks without I/O.

#[doc(no_inline)]
pub use curator_protocol::Uuid;
#[doc(inline)]
pub use curator_protocol::{
    LockInternalsDriver, ParticipantKind, Queue, QueueEntry, ReadLockInternalsDriver, SequenceOverflow,
    StandardLockInternalsDriver, Verdict, WriteLockInternalsDriver, sequence_after,
};
