//! The trait that all exclusive locks implement.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use curator_client::{CuratorClient, ZPath};

use super::guard::LockGuard;
use super::participants::Participant;
use crate::error::Result;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// The common interface of exclusive locks; use it as `Arc<dyn InterProcessLock>`, or implement it
/// for your own lock.
///
/// An [`InterProcessMultiLock`](super::InterProcessMultiLock) takes such locks as its members.
///
/// Curator's interface of the same name. The locks of this crate also have these methods as
/// inherent methods, and further ones.
///
/// Your own lock must wrap one of this crate's, since only those return a [`LockGuard`]. The trait
/// is defined with the crate `async-trait`, and must be implemented with it:
///
/// ```
/// use async_trait::async_trait;
/// use curator_recipes::client::{CuratorClient, ZPath};
/// use curator_recipes::{InterProcessLock, InterProcessMutex, LockGuard, OwnerId, Participant, Result, Wait};
///
/// /// A mutex that prints who has acquired it.
/// #[derive(Debug)]
/// struct Logged(InterProcessMutex);
///
/// #[async_trait]
/// impl InterProcessLock for Logged {
///     async fn acquire_within(&self, owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>> {
///         let guard = self.0.acquire_within(owner, wait).await?;
///         if let Some(guard) = &guard {
///             println!("{owner} has {}", guard.node());
///         }
///         Ok(guard)
///     }
///
///     async fn participants(&self) -> Result<Vec<Participant>> {
///         self.0.participants().await
///     }
///
///     fn is_acquired_in_this_process(&self) -> bool {
///         self.0.is_acquired_in_this_process()
///     }
///
///     fn paths(&self) -> Vec<ZPath> {
///         self.0.paths()
///     }
///
///     fn client(&self) -> &CuratorClient {
///         self.0.client()
///     }
/// }
/// ```
///
/// # Cancel safety
///
/// An implementation must allow every future to be dropped at any await point: a dropped acquire
/// leaves no lock held.
#[async_trait]
pub trait InterProcessLock: Debug + Send + Sync {
    /// Waits for the lock at most as long as `wait`; then returns `None` if another contender is
    /// ahead or the servers were slow to reply, and fails if there is no connection or the session
    /// is suspended. A non-reentrant lock ignores the owner.
    ///
    /// All other methods that acquire call this one. A multi-lock passes its own deadline as
    /// `wait`. With [`Wait::FOREVER`], an implementation must not return `None`.
    ///
    /// # Errors
    ///
    /// Errors of the lock.
    async fn acquire_within(&self, owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>>;

    /// Lists the holders of the lock and the waiters, in all processes.
    ///
    /// # Errors
    ///
    /// Errors of the client.
    async fn participants(&self) -> Result<Vec<Participant>>;

    /// Whether any owner holds the lock through this instance or a clone of it.
    fn is_acquired_in_this_process(&self) -> bool;

    /// The paths that are locked, as on the server: the directory of the queue, or those of a
    /// multi-lock. A multi-lock rejects two locks with the same path, since the second would wait
    /// for the first.
    fn paths(&self) -> Vec<ZPath>;

    /// The lock's client; the first lock's, if there are several.
    fn client(&self) -> &CuratorClient;

    /// Waits for the lock, without a time limit.
    ///
    /// # Errors
    ///
    /// Errors of the lock.
    async fn acquire_as(&self, owner: &OwnerId) -> Result<LockGuard> {
        loop {
            // Without a deadline, `None` cannot occur; if it did, the caller would want to keep
            // waiting.
            if let Some(guard) = self.acquire_within(owner, Wait::FOREVER).await? {
                return Ok(guard);
            }
        }
    }

    /// Waits for the lock, at most `timeout`; then returns `None` if another contender is ahead. A
    /// timeout of zero means [`try_acquire_as`](Self::try_acquire_as).
    ///
    /// # Errors
    ///
    /// Errors of the lock.
    async fn acquire_timeout_as(
        &self,
        owner: &OwnerId,
        timeout: Duration,
    ) -> Result<Option<LockGuard>> {
        self.acquire_within(owner, Wait::timeout(timeout)).await
    }

    /// Acquires the lock if it is free, or else returns `None`. Does not wait for other contenders.
    ///
    /// # Errors
    ///
    /// Errors of the lock.
    async fn try_acquire_as(&self, owner: &OwnerId) -> Result<Option<LockGuard>> {
        self.acquire_within(owner, Wait::No).await
    }

    /// Acquires the lock like [`acquire_as`](Self::acquire_as), for the current task or thread.
    ///
    /// # Errors
    ///
    /// Errors of the lock; [`OwnerUnknown`](crate::Error::OwnerUnknown) outside a tokio runtime, if
    /// the lock is reentrant.
    async fn acquire(&self) -> Result<LockGuard> {
        self.acquire_as(&OwnerId::of_future()).await
    }

    /// Acquires the lock like [`acquire_timeout_as`](Self::acquire_timeout_as), for the current
    /// task or thread.
    ///
    /// # Errors
    ///
    /// Errors of the lock; [`OwnerUnknown`](crate::Error::OwnerUnknown) outside a tokio runtime, if
    /// the lock is reentrant.
    async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<LockGuard>> {
        self.acquire_timeout_as(&OwnerId::of_future(), timeout)
            .await
    }

    /// Acquires the lock like [`try_acquire_as`](Self::try_acquire_as), for the current task or
    /// thread.
    ///
    /// # Errors
    ///
    /// Errors of the lock; [`OwnerUnknown`](crate::Error::OwnerUnknown) outside a tokio runtime, if
    /// the lock is reentrant.
    async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        self.try_acquire_as(&OwnerId::of_future()).await
    }
}

/// Implements the trait for a type that has the `enter` of `acquire_methods!`, and `participants`,
/// `paths` and `client`.
///
/// Written out as `async_trait` would expand it, but the futures are made in inner functions
/// without bounds on lifetimes. The compiler proves once for all such functions that the futures
/// are `Send`; for functions with bounds, it repeats the proof in each, which took 5 of the 14 s
/// for this crate.
macro_rules! implement_inter_process_lock {
    ($lock:ty) => {
        impl $crate::lock::InterProcessLock for $lock {
            fn acquire_within<'lock, 'owner, 'future>(
                &'lock self,
                owner: &'owner $crate::OwnerId,
                wait: $crate::Wait,
            ) -> futures_util::future::BoxFuture<'future, $crate::Result<Option<$crate::LockGuard>>>
            where
                'lock: 'future,
                'owner: 'future,
                Self: 'future,
            {
                fn acquire<'a>(
                    lock: &'a $lock,
                    owner: &'a $crate::OwnerId,
                    wait: $crate::Wait,
                ) -> futures_util::future::BoxFuture<'a, $crate::Result<Option<$crate::LockGuard>>>
                {
                    Box::pin(async move { Ok(lock.enter(owner, wait).await?.map(Into::into)) })
                }
                acquire(self, owner, wait)
            }

            fn participants<'lock, 'future>(
                &'lock self,
            ) -> futures_util::future::BoxFuture<'future, $crate::Result<Vec<$crate::Participant>>>
            where
                'lock: 'future,
                Self: 'future,
            {
                fn list(
                    lock: &$lock,
                ) -> futures_util::future::BoxFuture<'_, $crate::Result<Vec<$crate::Participant>>>
                {
                    Box::pin(lock.participants())
                }
                list(self)
            }

            fn is_acquired_in_this_process(&self) -> bool {
                <$lock>::is_acquired_in_this_process(self)
            }

            fn paths(&self) -> Vec<curator_client::ZPath> {
                <$lock>::paths(self)
            }

            fn client(&self) -> &curator_client::CuratorClient {
                <$lock>::client(self)
            }
        }
    };
}

pub(crate) use implement_inter_process_lock;
