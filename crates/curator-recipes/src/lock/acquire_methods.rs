//! The ways to acquire, which all locks have, and for how long they wait.

use std::time::Duration;

use curator_client::{CuratorClient, Deadline, Error as ClientError, SessionEnd};

use crate::error::{Error, Result};

/// For how long to wait for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Not at all: enqueue, look, and leave again if somebody is before us. Nothing is tried twice.
    No,
    /// One deadline over everything.
    Until(Deadline),
}

impl Wait {
    pub(crate) const FOREVER: Self = Self::Until(Deadline::NEVER);

    /// No longer than `timeout`.
    pub(crate) fn timeout(timeout: Duration) -> Self {
        if timeout.is_zero() { Self::No } else { Self::Until(Deadline::after(timeout)) }
    }

    /// Ends `work` when the deadline has passed, by `None`, or when the client closes. A contender that is dropped like
    /// this cleans up.
    pub(crate) async fn bound<T>(
        self,
        client: &CuratorClient,
        work: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<T>> {
        let deadline = match self {
            Self::No => Deadline::NEVER,
            Self::Until(deadline) => deadline,
        };
        let done = tokio::select! {
            biased;
            () = client.closing() => Err(ClientError::Closed.into()),
            done = work => done,
            () = client.sleep_until(deadline) => Ok(None),
        };
        done.map_err(|error| match error {
            // Whichever of the two was seen first, it is the client that closes.
            Error::Client(ClientError::SessionEnded { end: SessionEnd::Closed, .. }) => ClientError::Closed.into(),
            error => error,
        })
    }
}

/// The ways to acquire. The type has `client(&self) -> &CuratorClient` and
/// `async fn enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<$guard>>`.
macro_rules! acquire_methods {
    ($guard:ty) => {
        $crate::lock::acquire_methods::acquire_methods!(
            $guard,
            "The current task (or thread, see [`OwnerId`](crate::OwnerId)) re-enters at once what it holds already."
        );
    };
    ($guard:ty, $who:literal) => {
        /// Waits for the lock, for as long as it takes.
        ///
        #[doc = $who]
        ///
        /// # Errors
        ///
        /// Those of the client when there is no session and its retry policy gives up, or when the session watches too
        /// many paths already (some thousand waiters); [`Closed`](curator_client::Error::Closed) as soon as the client
        /// closes. A session that is lost while waiting is no error: the wait begins anew in the next session, at the end
        /// of the queue.
        ///
        /// [`PlaceDeleted`](crate::Error::PlaceDeleted) when somebody deletes our waiting node again and again;
        /// [`SequenceOverflow`](crate::Error::SequenceOverflow) after two thousand million nodes;
        /// [`ReleaseRefused`](crate::Error::ReleaseRefused) when a node of this client's session is in the way, or comes to
        /// be, that the server does not let it delete.
        ///
        /// # Cancel safety
        ///
        /// Dropping the future gives the place in the queue up; its node is deleted in the background.
        pub async fn acquire(&self) -> $crate::error::Result<$guard> {
            self.acquire_as(&$crate::lock::OwnerId::current()).await
        }

        /// Waits for the lock, no longer than `timeout`: `None` when the time is over.
        ///
        /// The timeout is one deadline over everything: connecting, queueing and requests. A timeout of zero is
        /// [`try_acquire`](Self::try_acquire).
        ///
        /// # Errors
        ///
        /// As [`acquire`](Self::acquire).
        ///
        /// # Cancel safety
        ///
        /// As [`acquire`](Self::acquire).
        pub async fn acquire_timeout(&self, timeout: std::time::Duration) -> $crate::error::Result<Option<$guard>> {
            self.acquire_timeout_as(&$crate::lock::OwnerId::current(), timeout).await
        }

        /// Takes the lock if it is free: `None` if somebody has it or waits for it, or if another future of the same
        /// owner is acquiring it.
        ///
        /// Waits for no other contender, and tries nothing again. Without a connection it fails at once; when that is not
        /// known yet, it waits for its answers no longer than the operation timeout.
        ///
        /// # Errors
        ///
        /// As [`acquire`](Self::acquire), at the first failure.
        ///
        /// # Cancel safety
        ///
        /// As [`acquire`](Self::acquire).
        pub async fn try_acquire(&self) -> $crate::error::Result<Option<$guard>> {
            self.try_acquire_as(&$crate::lock::OwnerId::current()).await
        }

        /// [`acquire`](Self::acquire) for an owner of the caller's choice, so that a lock can follow a request across
        /// tasks.
        ///
        /// # Errors
        ///
        /// As [`acquire`](Self::acquire).
        ///
        /// # Cancel safety
        ///
        /// As [`acquire`](Self::acquire).
        pub async fn acquire_as(&self, owner: &$crate::lock::OwnerId) -> $crate::error::Result<$guard> {
            loop {
                let wait = $crate::lock::acquire_methods::Wait::Until(curator_client::Deadline::NEVER);
                // Without a deadline, `None` cannot be; were it ever, waiting on is what was asked for.
                if let Some(guard) = self.enter(owner, wait).await? {
                    return Ok(guard);
                }
            }
        }

        /// [`acquire_timeout`](Self::acquire_timeout) for an owner of the caller's choice.
        ///
        /// # Errors
        ///
        /// As [`acquire`](Self::acquire).
        ///
        /// # Cancel safety
        ///
        /// As [`acquire`](Self::acquire).
        pub async fn acquire_timeout_as(
            &self,
            owner: &$crate::lock::OwnerId,
            timeout: std::time::Duration,
        ) -> $crate::error::Result<Option<$guard>> {
            self.enter(owner, $crate::lock::acquire_methods::Wait::timeout(timeout)).await
        }

        /// [`try_acquire`](Self::try_acquire) for an owner of the caller's choice.
        ///
        /// # Errors
        ///
        /// As [`try_acquire`](Self::try_acquire).
        ///
        /// # Cancel safety
        ///
        /// As [`acquire`](Self::acquire).
        pub async fn try_acquire_as(&self, owner: &$crate::lock::OwnerId) -> $crate::error::Result<Option<$guard>> {
            self.enter(owner, $crate::lock::acquire_methods::Wait::No).await
        }

        /// [`acquire`](Self::acquire) for plain threads; the thread is the owner. The client's runtime must be running
        /// elsewhere.
        ///
        /// # Errors
        ///
        /// As [`acquire`](Self::acquire).
        ///
        /// # Panics
        ///
        /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
        pub fn blocking_acquire(&self) -> $crate::error::Result<$guard> {
            let owner = $crate::lock::OwnerId::current();
            self.client().block_on(self.acquire_as(&owner))
        }

        /// [`acquire_timeout`](Self::acquire_timeout) for plain threads; the thread is the owner.
        ///
        /// # Errors
        ///
        /// As [`acquire`](Self::acquire).
        ///
        /// # Panics
        ///
        /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
        pub fn blocking_acquire_timeout(&self, timeout: std::time::Duration) -> $crate::error::Result<Option<$guard>> {
            let owner = $crate::lock::OwnerId::current();
            self.client().block_on(self.acquire_timeout_as(&owner, timeout))
        }

        /// [`try_acquire`](Self::try_acquire) for plain threads; the thread is the owner.
        ///
        /// # Errors
        ///
        /// As [`try_acquire`](Self::try_acquire).
        ///
        /// # Panics
        ///
        /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
        pub fn blocking_try_acquire(&self) -> $crate::error::Result<Option<$guard>> {
            let owner = $crate::lock::OwnerId::current();
            self.client().block_on(self.try_acquire_as(&owner))
        }
    };
}

/// Who holds the lock in this process. The type has `holds(&self) -> &Holds`.
macro_rules! holder_methods {
    () => {
        /// Whether anybody holds the lock through this instance or a clone of it.
        #[must_use]
        pub fn is_acquired_in_this_process(&self) -> bool {
            self.holds().is_held()
        }

        /// Whether the current task (or thread) holds the lock through this instance or a clone of it.
        #[must_use]
        pub fn is_owned_by_current(&self) -> bool {
            self.is_owned_by(&$crate::lock::OwnerId::current())
        }

        /// Whether this owner holds the lock through this instance or a clone of it.
        #[must_use]
        pub fn is_owned_by(&self, owner: &$crate::lock::OwnerId) -> bool {
            self.holds().is_held_by(owner)
        }
    };
}

pub(crate) use {acquire_methods, holder_methods};
