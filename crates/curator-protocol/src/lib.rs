//! The protocol of the locks of `curator-recipes`, without I/O.
//!
//! Values in, values out: nothing here sends a request, reads a clock or needs a runtime. So the protocol can be searched
//! exhaustively, within bounds: every order of events and every fault at every moment. The code that is searched is the code
//! that ships. (`tests/model` does that.) This crate is to `curator-recipes` what `quinn-proto` is to `quinn`.
//!
//! Applications use `curator-recipes`, which re-exports what they need of this crate: the
//! [`LockInternalsDriver`] and its [`Queue`].
//!
//! # What is decided where
//!
//! | Question | Answer |
//! |---|---|
//! | What is a lock's node called, and when does it own the lock? | [`LockInternalsDriver`] |
//! | Who is before whom? | [`Queue`] |
//! | What is sent next, and what follows from an answer or an event? | [`Contest`] |
//! | What can a contest ask for, and be told? | [`Request`], [`Answer`], [`Event`] |
//!
//! # What a lock sends
//!
//! ZooKeeper's lock recipe, as in Curator's `LockInternals`, with three changes:
//!
//! - Requests are pipelined. ZooKeeper answers the requests of a session in order, so the create and the list go out
//!   together.
//! - A waiter learns in advance that it is next. Then the deletion of the node before it *is* ownership, and a hand-over
//!   takes one round trip, where listing again takes two. Only readers behind several writers do not look ahead, since all
//!   of them would be woken; and a writer lists again, since a write lock before it may become a read lock.
//! - After a lost answer, a node is looked for only in the session that created it.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Whether a type may grow is decided when it is written: it is `non_exhaustive`, or says why not.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod contest;
mod driver;
mod queue;

#[doc(no_inline)]
pub use uuid::Uuid;

pub use crate::contest::{
    Answer, Contest, ContestError, Event, LeaseLimit, Limit, OwnNode, Pace, Request, Standing, Step,
};
pub use crate::driver::{
    LockInternalsDriver, ParticipantKind, ReadLockInternalsDriver, StandardLockInternalsDriver, Verdict,
    WriteLockInternalsDriver, downgraded_read_name, sequence_after,
};
pub use crate::queue::{Queue, QueueEntry, SequenceOverflow};
