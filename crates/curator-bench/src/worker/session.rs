//! The interface of a client to the cases: a session, and a lock.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use crate::protocol::Workload;

/// Why a case cannot be measured, for a reader of the results.
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// A session.
pub(super) trait Session: Clone + Send + Sync + 'static {
    /// The maximal number of waiters of one session that have nodes in one queue; the others queue
    /// within the client.
    const MOST_IN_QUEUE: usize;

    /// A handle that sends single requests, without retries or other work of the client.
    type Raw: Clone + Send + Sync + 'static;

    fn connect(
        connect: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// The number of children of this node; 0 if it does not exist.
    fn children(&self, path: &str) -> impl Future<Output = Result<usize, Failure>> + Send;

    /// Creates a directory and its parents, unless they exist.
    fn make_directory(&self, directory: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    fn raw(&self) -> impl Future<Output = Result<Self::Raw, Failure>> + Send;

    /// Creates an ephemeral, sequential node with this path prefix, and returns its path.
    fn create(
        raw: &Self::Raw,
        prefix: &str,
    ) -> impl Future<Output = Result<String, Failure>> + Send;

    fn delete(raw: &Self::Raw, node: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    fn close(self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A lock of one session on one path.
///
/// Each kind of lock is a separate type, so that a waiting task is as large as in a program that
/// uses only that kind.
pub(super) trait BenchLock: Send + Sync + Sized + 'static {
    type Session: Session;
    type Guard: Send + 'static;

    fn new(session: &Self::Session, path: &str, workload: &Workload) -> Result<Self, Failure>;

    fn lock(&self) -> impl Future<Output = Result<Self::Guard, Failure>> + Send;

    fn unlock(guard: Self::Guard) -> impl Future<Output = Result<(), Failure>> + Send;
}
