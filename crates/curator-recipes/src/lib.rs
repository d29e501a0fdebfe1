//! Distributed locks on Apache ZooKeeper, after Apache Curator's recipes.
//!
//! Fair, without herds, reentrant, cancel-safe, fenced, and honest about their loss. They share lock paths with Java
//! programs that use Curator.
//!
//! # Which lock do I want?
//!
//! | I want | use |
//! |---|---|
//! | one holder at a time; a holder may ask again | [`InterProcessMutex::acquire`] |
//! | the same, but not to wait, or not for long | [`InterProcessMutex::try_acquire`], [`InterProcessMutex::acquire_timeout`] |
//! | the same for plain threads | [`InterProcessMutex::blocking_acquire`] and its relatives |
//! | a lock that follows a request from task to task | [`InterProcessMutex::acquire_as`] |
//! | other node names, for programs that use a directory already | [`InterProcessMutex::with_driver`] |
//!
//! # What else do I need to know?
//!
//! | question | answer |
//! |---|---|
//! | What happens when the lock is lost? | [`LockGuard::lost`], [`LockGuard::run`] |
//! | How often is what tried again? | [`client::retry`]; an acquire waits for the *lock* as long as it takes, but fails when there is no session and the policy gives up |
//! | Who holds the lock, and who waits? | [`InterProcessMutex::participants`] |
//! | What became of a release that failed? | [`client::CuratorClient::janitor`] |
//!
//! # First steps
//!
//! ```no_run
//! use std::time::Duration;
//! use curator_recipes::InterProcessMutex;
//! use curator_recipes::client::{CuratorClient, ExponentialBackoffRetry};
//!
//! # async fn example() -> Result<(), curator_recipes::Error> {
//! let client = CuratorClient::builder("127.0.0.1:2181")
//!     .retry_policy(ExponentialBackoffRetry::new(Duration::from_millis(100), 3)?)
//!     .connect()
//!     .await?;
//! let mutex = InterProcessMutex::new(&client, "/locks/orders")?;
//!
//! let guard = mutex.acquire().await?;
//! let again = mutex.acquire().await?; // the same task: re-entered, no request
//! drop(again);
//!
//! // Dropped in time if the lock is lost.
//! guard.run(async { /* the work */ }).await?;
//!
//! guard.release().await?;
//! client.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What is guaranteed, and what only a [`FencingToken`] can give, is written in the project's `docs/guarantees.md`.

mod error;
mod fencing_token;
pub mod lock;

pub use curator_client as client;

pub use crate::error::{Error, LockLost, LossReason, Result};
pub use crate::fencing_token::FencingToken;
pub use crate::lock::{
    ContenderId, ContenderIdentity, InterProcessMutex, LockGuard, LockInternalsDriver, OwnerId, Participant, Queue,
    QueueEntry, StandardLockInternalsDriver, Verdict,
};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    fn is_send_and_sync<T: Send + Sync>() {}
    fn is_send<T: Send>(_: &T) {}

    /// Compiling is the test.
    #[test]
    fn everything_can_go_between_threads() {
        is_send_and_sync::<InterProcessMutex>();
        is_send_and_sync::<LockGuard>();
        is_send_and_sync::<OwnerId>();
        is_send_and_sync::<Participant>();
        is_send_and_sync::<Error>();
        let _futures_can_be_spawned = async |mutex: InterProcessMutex, guard: LockGuard, owner: OwnerId| {
            let timeout = std::time::Duration::ZERO;
            is_send(&mutex.acquire());
            is_send(&mutex.acquire_timeout(timeout));
            is_send(&mutex.try_acquire());
            is_send(&mutex.acquire_as(&owner));
            is_send(&mutex.participants());
            is_send(&guard.lost());
            is_send(&guard.run(async {}));
            is_send(&guard.release());
        };
    }
}
