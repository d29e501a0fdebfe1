//! A held lease of a semaphore.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::debug::debug_line;
use crate::error::{Error, Result};
use crate::lock::guard::LockGuard;

/// One lease of an [`InterProcessSemaphoreV2`](super::InterProcessSemaphoreV2). It is a
/// [`LockGuard`]: it can be lost or revoked, and dropping it releases it.
///
/// Any task may release it, not only the one that acquired it. After Curator's `Lease`.
#[must_use = "an unused lease is dropped, which releases it immediately"]
pub struct SemaphoreLease {
    guard: LockGuard,
    data: Arc<[u8]>,
}

debug_line!(SemaphoreLease, |lease| node: lease.guard.node(), fencing_token: lease.guard.fencing_token(), is_valid: lease.guard.is_valid());

impl SemaphoreLease {
    pub(super) fn new(guard: LockGuard, data: &Arc<[u8]>) -> Self {
        Self {
            guard,
            data: Arc::clone(data),
        }
    }

    /// The name of the lease's node within the semaphore.
    #[must_use]
    pub fn name(&self) -> &str {
        self.guard.node().name()
    }

    /// The data that the lease's node was created with.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Releases the lease, and returns the result: see [`LockGuard::release`].
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release(self) -> Result<()> {
        self.guard.release().await
    }

    /// Releases the lease, and waits at most `timeout` for the result: see
    /// [`LockGuard::release_timeout`].
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release_timeout`].
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release_timeout(self, timeout: Duration) -> Result<()> {
        self.guard.release_timeout(timeout).await
    }

    /// Releases several leases concurrently. If one release fails, the others are still released.
    ///
    /// Curator's `returnAll`.
    ///
    /// # Errors
    ///
    /// The error of [`LockGuard::release`]; [`Error::ReleasesFailed`] if several failed.
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release_all(leases: impl IntoIterator<Item = Self>) -> Result<()> {
        let released = join_all(leases.into_iter().map(Self::release)).await;
        Error::of_releases(released.into_iter().filter_map(Result::err).collect())
    }

    /// Releases the lease like [`release`](Self::release), on a plain thread.
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release`].
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_release(self) -> Result<()> {
        self.guard.blocking_release()
    }
}

impl Deref for SemaphoreLease {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl From<SemaphoreLease> for LockGuard {
    fn from(lease: SemaphoreLease) -> Self {
        lease.guard
    }
}
