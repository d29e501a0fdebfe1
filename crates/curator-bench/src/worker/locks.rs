//! The interface of a client to the worker: which cases it supports, and how it runs them.

use std::future::Future;
use std::pin::Pin;

use super::session::{Failure, Session};
use crate::protocol::{Done, Lock, Operation, Reply, Workload};

/// The locks and other recipes of a client.
pub(super) trait Locks {
    type Session: Session;

    /// Returns the reason as an error if the client does not support the operation on the lock.
    fn supports(operation: Operation, lock: Lock) -> Result<(), &'static str>;

    fn run(
        sessions: &[Self::Session],
        workload: &Workload,
    ) -> impl Future<Output = Result<Step, Failure>>;
}

/// A step of a run: the worker's reply after it, and what follows after the bench's `go`.
pub(super) struct Step {
    pub(super) reply: Reply,
    pub(super) next: Option<Wait>,
}

impl Step {
    /// The last step.
    pub(super) fn done(done: Done) -> Self {
        Self {
            reply: Reply::Done(done),
            next: None,
        }
    }

    pub(super) fn then(
        reply: Reply,
        next: impl Future<Output = Result<Self, Failure>> + Send + 'static,
    ) -> Self {
        Self {
            reply,
            next: Some(Box::pin(next)),
        }
    }
}

pub(super) type Wait = Pin<Box<dyn Future<Output = Result<Step, Failure>> + Send>>;
