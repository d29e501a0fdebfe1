//! The protocol of the locks of `curator-recipes`, without I/O.
//!
//! Nothing in this crate sends a request, reads a clock or needs a runtime. So `tests/model` can
//! check the published code in every order of events and with every fault at every moment, within
//! bounds. This crate is to `curator-recipes` what `quinn-proto` is to `quinn`.
//!
//! Applications use `curator-recipes`, which re-exports what they need from this crate: the
//! [`LockInternalsDriver`] and its [`Queue`].
//!
//! # Where to find what
//!
//! | Question | Answer |
//! |---|---|
//! | What is a lock's node called, and when does it own the lock? | [`LockInternalsDriver`] |
//! | Which contender is before which? | [`Queue`] |
//! | What is sent next, and what follows from an answer or an event? | [`Contest`] |
//! | What does a contest request, and what is reported to it? | [`Request`], [`Answer`], [`Event`] |
//!
//! # What a lock sends
//!
//! ZooKeeper's lock recipe, as in Curator's `LockInternals`, with three changes:
//!
//! - Requests are pipelined. ZooKeeper answers the requests of a session in order, so the create
//!   and the list go out together.
//! - A waiter lists in advance, when the contender before it becomes the owner. So the waiter owns
//!   the lock as soon as that contender's node is deleted, and a hand-over takes one round trip
//!   instead of two. Exceptions: readers behind several writers do not look ahead, since all of
//!   them would be woken; and a writer always lists again, since a write lock before it may become
//!   a read lock.
//! - If the answer to a create is lost, the contender adopts a node with its id only if its session
//!   owns the node.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Types that may grow are `non_exhaustive`; the others give their reason.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]
// A simulation must be able to repeat a run, so this crate uses no real clock, no real randomness
// and no thread.
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::iter_over_hash_type
    )
)]

mod contest;
mod driver;
mod queue;

#[doc(no_inline)]
pub use uuid::Uuid;

pub use crate::contest::{
    Answer, Contest, ContestError, Event, LeaseLimit, Leftover, Limit, OwnNode, Pace, Request,
    Standing, Step,
};
pub use crate::driver::{
    LockInternalsDriver, ParticipantKind, ReadLockInternalsDriver, StandardLockInternalsDriver,
    Verdict, WriteLockInternalsDriver, downgraded_read_name, sequence_after,
};
pub use crate::queue::{Queue, QueueEntry, SequenceOverflow};
