//! Drivers: a driver names the nodes of a lock and decides which node owns the lock.
//!
//! Most programs need no driver. A program needs one for a lock on a path where other programs
//! already use different node names, and passes it to
//! [`InterProcessMutex::with_driver`](crate::InterProcessMutex::with_driver). If only the lock name
//! differs, use [`StandardLockInternalsDriver::with_lock_name`]; otherwise, implement
//! [`LockInternalsDriver`].
//!
//! These types come from the crate [`curator_protocol`], which has the protocol of the locks
//! without I/O.

#[doc(no_inline)]
pub use curator_protocol::Uuid;
#[doc(inline)]
pub use curator_protocol::{
    LockInternalsDriver, ParticipantKind, Queue, QueueEntry, ReadLockInternalsDriver,
    SequenceOverflow, StandardLockInternalsDriver, Verdict, WriteLockInternalsDriver,
    sequence_after,
};
