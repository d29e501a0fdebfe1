//! The interface of a client to the worker: which cases it supports, and how it runs them.

use std::future::Future;
use std::pin::Pin;

use super::session::{Failure, Session};
use crate::protocol::{Done, Lock, Operation, Workload};

/// The locks and other recipes of a client.
pub(super) trait Locks {
    type Session: Session;

    /// Returns the reason as an error if the client does not support the operation on the lock.
    fn supports(operation: Operation, lock: Lock) -> Result<(), &'static str>;

    fn run(sessions: &[Self::Session], workload: &Workload) -> impl Future<Output = Result<Step, Failure>>;
}

/// A step of a run, after which the worker replies.
pub(super) enum Step {
    Done(Done),
    /// The locks are held, or a cache or discovery is ready; `wait` continues.
    Held {
        wait: Wait,
    },
    /// All tasks wait; `drain` releases the locks.
    Queued {
        nanoseconds: u64,
        drain: Drain,
    },
    /// A cache contains all nodes, or all instances are registered or found; `next` continues.
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

pub(super) type Wait = Pin<Box<dyn Future<Output = Result<Step, Failure>> + Send>>;
pub(super) type Drain = Pin<Box<dyn Future<Output = Result<Done, Failure>> + Send>>;
