//! The interface of a client to the worker: its locks, and how they are played.

use std::future::Future;
use std::pin::Pin;

use super::session::{Failure, Session};
use crate::protocol::{Act, Done, Lock, Play};

/// The locks of a client.
pub(super) trait Locks {
    type Session: Session;

    /// Returns the reason if it does not support the case.
    fn supports(act: Act, lock: Lock) -> Result<(), &'static str>;

    fn play(sessions: &[Self::Session], play: &Play) -> impl Future<Output = Result<Played, Failure>>;
}

/// The state of a play.
pub(super) enum Played {
    Done(Done),
    /// The locks are held; `wait` makes all tasks wait for them.
    Held {
        wait: Wait,
    },
    /// All tasks wait; `drain` releases the locks.
    Queued {
        nanoseconds: u64,
        drain: Drain,
    },
    /// A cache contains all nodes; `next` continues.
    Loaded {
        nanoseconds: u64,
        next: Wait,
    },
    /// A cache contains all changes; `end` closes it.
    Current {
        events: u64,
        end: Drain,
    },
}

pub(super) type Wait = Pin<Box<dyn Future<Output = Result<Played, Failure>> + Send>>;
pub(super) type Drain = Pin<Box<dyn Future<Output = Result<Done, Failure>> + Send>>;
