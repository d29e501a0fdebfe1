//! Macros for the acquire methods that all locks share.
//!
//! The locks have methods instead of a builder, because `spawn` and `join_all` take futures, and
//! because an acquire with a timeout returns another type.

/// Defines the acquire methods. The type must have `client(&self) -> &CuratorClient` and `async fn
/// enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<$guard>>`.
macro_rules! acquire_methods {
    ($guard:ty) => {
        $crate::lock::acquire_methods::acquire_methods!(
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
        /// fail, and the client's retry policy gives up;
        /// [`RetryForever`](curator_client::RetryForever) never gives up, and the acquire waits
        /// through an outage of any length. [`Client`](crate::Error::Client) immediately for an
        /// error that a retry cannot help, such as a missing permission; it contains
        /// [`Closed`](curator_client::Error::Closed) as soon as the client closes. If the session
        /// is lost during the wait, there is no error: the acquire joins the end of the queue in
        /// the next session. Nor is it an error that other clients or the server create and delete
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
        /// Dropping the future gives up the place in the queue; its node is deleted in the
        /// background.
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
