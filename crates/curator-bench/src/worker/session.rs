//! What the cases need of a client.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use crate::protocol::Play;

/// Why something cannot be measured, for a reader.
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// A session.
pub(super) trait Session: Clone + Send + Sync + 'static {
    /// How many waiters of one session have nodes in one queue at a time; the others wait within the client.
    const MOST_IN_QUEUE: usize;

    /// What sends requests without anything else being done for them.
    type Raw: Clone + Send + Sync + 'static;

    fn connect(connect: &str, timeout: Duration) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// How many nodes are below this one; 0 if it is not there.
    fn children(&self, path: &str) -> impl Future<Output = Result<usize, Failure>> + Send;

    /// Makes a directory, and those above it, where they are not there.
    fn make_directory(&self, directory: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    fn raw(&self) -> impl Future<Output = Result<Self::Raw, Failure>> + Send;

    /// Makes an ephemeral, sequential node whose path begins so, and returns that path.
    fn create(raw: &Self::Raw, prefix: &str) -> impl Future<Output = Result<String, Failure>> + Send;

    fn delete(raw: &Self::Raw, node: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    fn close(self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A lock of one session on one path.
///
/// Each kind of lock is a type of its own, so that a task that waits is as large as it is in a program that uses only this
/// one.
pub(super) trait BenchLock: Send + Sync + Sized + 'static {
    type Session: Session;
    type Guard: Send + 'static;

    fn new(session: &Self::Session, path: &str, play: &Play) -> Result<Self, Failure>;

    fn lock(&self) -> impl Future<Output = Result<Self::Guard, Failure>> + Send;

    fn unlock(guard: Self::Guard) -> impl Future<Output = Result<(), Failure>> + Send;
}
