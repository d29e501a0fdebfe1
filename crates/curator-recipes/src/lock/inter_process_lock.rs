//! The trait of all exclusive locks, and the macros for the methods that locks have in common.
//!
//! An acquire is a method, not a builder, because `spawn` and `join_all` take futures, and because
//! an acquire with a timeout returns another type.

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
/// Curator's interface of the same name. The locks of this crate also have these methods, and more,
/// as inherent methods.
///
/// Your own lock must wrap a lock of this crate, because only this crate can make a [`LockGuard`].
/// The trait is defined with the crate `async-trait`, and must be implemented with it:
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
    /// All other acquire methods call this method. A multi-lock passes its own deadline as `wait`.
    /// With [`Wait::FOREVER`], an implementation must not return `None`.
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

    /// The paths that are locked, as on the server: the directory of the queue, or all directories
    /// of a multi-lock. A multi-lock rejects two locks with the same path, since the second would
    /// wait for the first.
    fn paths(&self) -> Vec<ZPath>;

    /// The lock's client; for several locks, the client of the first one.
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

/// Implements the trait for a type that has the method `enter` that `acquire_methods!` needs, and
/// `participants`, `paths` and `client`.
///
/// Written as `async_trait` would expand it, except that the futures are made in inner functions
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

/// Defines the acquire methods. The type must have `client(&self) -> &CuratorClient` and `async fn
/// enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<$guard>>`.
macro_rules! acquire_methods {
    ($guard:ty) => {
        $crate::lock::inter_process_lock::acquire_methods!(
            $guard,
            "If the lock is reentrant, the current task (or thread, see [`OwnerId`](crate::OwnerId)) re-enters immediately when \
             it already holds the lock: futures that share a task then do not exclude each other. With a \
             [`non_reentrant`](crate::InterProcessMutex::non_reentrant) lock, they exclude each other."
        );
    };
    ($guard:ty, $who:literal) => {
        /// Waits for the lock, without a time limit.
        ///
        #[doc = $who]
        ///
        /// # Errors
        ///
        /// [`AcquireFailed`](crate::Error::AcquireFailed) when there is no session, or requests
        /// fail, and the client's retry policy permits no more retries; with
        /// [`RetryForever`](curator_client::RetryForever), the acquire waits through an outage of
        /// any length. [`Client`](crate::Error::Client) immediately for an error that a retry
        /// cannot help, such as a missing permission; it contains
        /// [`Closed`](curator_client::Error::Closed) as soon as the client closes. If the session
        /// is lost during the wait, there is no error: the acquire joins the end of the queue in
        /// the next session. Nor is it an error if other clients or the server create and delete
        /// the lock's directories.
        ///
        /// [`OwnerUnknown`](crate::Error::OwnerUnknown) outside a tokio runtime, if the lock is
        /// reentrant; [`PlaceDeleted`](crate::Error::PlaceDeleted) when another client keeps
        /// deleting the waiting node; [`SequenceOverflow`](crate::Error::SequenceOverflow) after
        /// two billion (2^31) nodes; [`ReleaseRefused`](crate::Error::ReleaseRefused) when a node
        /// of this client's session blocks the lock, at the call or later, and the server denies
        /// its deletion.
        ///
        /// # Cancel safety
        ///
        /// Dropping the future leaves the queue; the node is deleted in the background.
        pub async fn acquire(&self) -> $crate::error::Result<$guard> {
            self.acquire_as(&$crate::OwnerId::of_future()).await
        }

        /// Waits for the lock, at most `timeout`; then returns `None`: another contender holds the
        /// lock or is ahead in the queue, or the servers were slow to reply.
        ///
        /// The timeout is one deadline for everything: connecting, queueing and requests. A timeout
        /// of zero means [`try_acquire`](Self::try_acquire).
        ///
        /// # Errors
        ///
        /// The same as [`acquire`](Self::acquire);
        /// [`NotConnected`](curator_client::Error::NotConnected) in
        /// [`Client`](crate::Error::Client) if, at the timeout, there is no connection or the
        /// session is [suspended](curator_client::ConnectionState::Suspended).
        ///
        /// # Cancel safety
        ///
        /// The same as [`acquire`](Self::acquire).
        pub async fn acquire_timeout(&self, timeout: std::time::Duration) -> $crate::error::Result<Option<$guard>> {
            self.acquire_timeout_as(&$crate::OwnerId::of_future(), timeout).await
        }

        /// Acquires the lock if it is free; returns `None` if another contender holds it or waits
        /// for it, or if another future of the same owner is acquiring it.
        ///
        /// Neither waits for other contenders nor retries. Without a connection it fails
        /// immediately; if the client has not detected a lost connection yet, it waits for replies
        /// at most the operation timeout.
        ///
        /// # Errors
        ///
        /// The same as [`acquire`](Self::acquire), at the first failure;
        /// [`AcquireFailed`](crate::Error::AcquireFailed) with
        /// [`KeepsChanging`](curator_client::Error::KeepsChanging) if others create or delete the
        /// lock's directories during each of 16 attempts to create them.
        ///
        /// # Cancel safety
        ///
        /// The same as [`acquire`](Self::acquire).
        pub async fn try_acquire(&self) -> $crate::error::Result<Option<$guard>> {
            self.try_acquire_as(&$crate::OwnerId::of_future()).await
        }

        /// Acquires the lock like [`acquire`](Self::acquire), for the given owner, so that a lock
        /// can follow a request across tasks. A non-reentrant lock ignores `owner`: each acquire
        /// has a new owner, which [`LockGuard::owner`](crate::LockGuard::owner) returns.
        ///
        /// # Errors
        ///
        /// The same as [`acquire`](Self::acquire).
        ///
        /// # Cancel safety
        ///
        /// The same as [`acquire`](Self::acquire).
        pub async fn acquire_as(&self, owner: &$crate::OwnerId) -> $crate::error::Result<$guard> {
            loop {
                let wait = $crate::wait::Wait::Until(curator_client::Deadline::NEVER);
                // Without a deadline, `None` cannot occur; if it did, the caller would want to keep
                // waiting.
                if let Some(guard) = self.enter(owner, wait).await? {
                    return Ok(guard);
                }
            }
        }

        /// Acquires the lock like [`acquire_timeout`](Self::acquire_timeout), for the given owner:
        /// see [`acquire_as`](Self::acquire_as).
        ///
        /// # Errors
        ///
        /// The same as [`acquire`](Self::acquire).
        ///
        /// # Cancel safety
        ///
        /// The same as [`acquire`](Self::acquire).
        pub async fn acquire_timeout_as(
            &self,
            owner: &$crate::OwnerId,
            timeout: std::time::Duration,
        ) -> $crate::error::Result<Option<$guard>> {
            self.enter(owner, $crate::wait::Wait::timeout(timeout)).await
        }

        /// Acquires the lock like [`try_acquire`](Self::try_acquire), for the given owner: see
        /// [`acquire_as`](Self::acquire_as).
        ///
        /// # Errors
        ///
        /// The same as [`try_acquire`](Self::try_acquire).
        ///
        /// # Cancel safety
        ///
        /// The same as [`acquire`](Self::acquire).
        pub async fn try_acquire_as(&self, owner: &$crate::OwnerId) -> $crate::error::Result<Option<$guard>> {
            self.enter(owner, $crate::wait::Wait::No).await
        }

        /// Acquires the lock like [`acquire`](Self::acquire), on a plain thread, which becomes the
        /// owner if the lock is reentrant. The client's runtime must run on other threads: see the
        /// [example](crate::guide::locks#on-plain-threads).
        ///
        /// # Errors
        ///
        /// The same as [`acquire`](Self::acquire).
        ///
        /// # Panics
        ///
        /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
        pub fn blocking_acquire(&self) -> $crate::error::Result<$guard> {
            let owner = $crate::OwnerId::current();
            self.client().block_on(self.acquire_as(&owner))
        }

        /// Acquires the lock like [`acquire_timeout`](Self::acquire_timeout), on a plain thread:
        /// see [`blocking_acquire`](Self::blocking_acquire).
        ///
        /// # Errors
        ///
        /// The same as [`acquire`](Self::acquire).
        ///
        /// # Panics
        ///
        /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
        pub fn blocking_acquire_timeout(&self, timeout: std::time::Duration) -> $crate::error::Result<Option<$guard>> {
            let owner = $crate::OwnerId::current();
            self.client().block_on(self.acquire_timeout_as(&owner, timeout))
        }

        /// Acquires the lock like [`try_acquire`](Self::try_acquire), on a plain thread: see
        /// [`blocking_acquire`](Self::blocking_acquire).
        ///
        /// # Errors
        ///
        /// The same as [`try_acquire`](Self::try_acquire).
        ///
        /// # Panics
        ///
        /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
        pub fn blocking_try_acquire(&self) -> $crate::error::Result<Option<$guard>> {
            let owner = $crate::OwnerId::current();
            self.client().block_on(self.try_acquire_as(&owner))
        }
    };
}

/// Defines the methods that return whether the lock is held in this process. The type must have
/// `holds(&self) -> &Holds`.
macro_rules! holder_methods {
    () => {
        /// Whether any owner holds the lock through this instance or a clone of it.
        #[must_use]
        pub fn is_acquired_in_this_process(&self) -> bool {
            self.holds().is_held()
        }

        /// Whether the current task (or thread) holds the lock through this instance or a clone of
        /// it. Always false for a non-reentrant lock, which does not belong to a task.
        #[must_use]
        pub fn is_owned_by_current(&self) -> bool {
            self.is_owned_by(&$crate::OwnerId::current())
        }

        /// Whether this owner holds the lock through this instance or a clone of it. For a
        /// non-reentrant lock, true only for the [owner of a guard](crate::LockGuard::owner).
        #[must_use]
        pub fn is_owned_by(&self, owner: &$crate::OwnerId) -> bool {
            self.holds().is_held_by(owner)
        }
    };
}

pub(crate) use {acquire_methods, holder_methods};
