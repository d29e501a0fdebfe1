//! Releases a guard, and waits for the result.

use std::time::Duration;

use curator_client::Deadline;
use futures_util::future::{BoxFuture, FutureExt as _};

use super::LockGuard;
use crate::error::{Error, Result};
use crate::lock::holds::Share;

impl LockGuard {
    /// Releases this guard, and reports the result. If the owner has other guards, the lock stays
    /// held, nothing is sent, and the result is `Ok`.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`](crate::Error::Lost) when the lock had already been lost: the last work may
    /// have run without the lock. [`Error::ReleasePending`](crate::Error::ReleasePending) when the
    /// servers cannot be reached: the client keeps trying until the node is deleted or the session
    /// is over, and [`CuratorClient::janitor`](curator_client::CuratorClient::janitor) lists the
    /// pending delete. [`Error::ReleaseRefused`](crate::Error::ReleaseRefused) when the server
    /// denies it. [`Error::ReleasesFailed`](crate::Error::ReleasesFailed) with several of these, if
    /// the guard has several nodes or locks; a single error is returned directly.
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release(self) -> Result<()> {
        match self.releasing() {
            Some(releasing) => releasing.await,
            None => Ok(()),
        }
    }

    /// Releases like [`release`](Self::release), and waits at most `timeout` for the result. A
    /// release that is not confirmed by then continues in the background;
    /// [`close`](curator_client::CuratorClient::close) waits for it.
    ///
    /// Several locks share the timeout and are released one after another, the last one first; at
    /// the timeout, the releases of the remaining locks start as well. A timeout of zero starts all
    /// releases and waits for none.
    ///
    /// # Errors
    ///
    /// The same as [`release`](Self::release).
    /// [`Error::ReleasePending`](crate::Error::ReleasePending) at the timeout, containing an
    /// [`OperationTimeout`](curator_client::Error::OperationTimeout); and as soon as the client
    /// closes, containing [`Closed`](curator_client::Error::Closed),
    /// [`ClientEnded`](curator_client::Error::ClientEnded) or
    /// [`Forked`](curator_client::Error::Forked).
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release_timeout(self, timeout: Duration) -> Result<()> {
        Error::of_releases(self.release_within(timeout).await)
    }

    /// Gives up this guard, and returns the future that deletes its nodes; `None` for a guard of
    /// one lock whose owner has other guards.
    fn releasing(self) -> Option<BoxFuture<'static, Result<()>>> {
        if self.others.is_empty() {
            return self.first.release();
        }
        let releasing = async move {
            let mut failures = Vec::new();
            for share in self.into_shares() {
                if let Some(releasing) = share.release() {
                    failures.extend(releasing.await.err());
                }
            }
            Error::of_releases(failures)
        };
        Some(releasing.boxed())
    }

    /// Like [`release_timeout`](Self::release_timeout). Returns all errors, in the order of the
    /// releases.
    pub(crate) async fn release_within(self, timeout: Duration) -> Vec<Error> {
        let deadline = Deadline::after(timeout);
        let mut failures = Vec::new();
        for share in self.into_shares() {
            let client = share.hold().client().clone();
            let path = share.hold().path().clone();
            let overdue = || {
                let operation = "release";
                let path = path.clone();
                let after = timeout;
                curator_client::Error::OperationTimeout {
                    operation,
                    path,
                    after,
                }
            };
            let Some(releasing) = share.release() else {
                continue;
            };
            let released = tokio::select! {
                biased;
                released = releasing => released,
                // The dropped release continues in the background.
                cause = client.closing() => Err(Error::ReleasePending { path, cause }),
                () = client.sleep_until(deadline) => Err(Error::ReleasePending { cause: overdue(), path }),
            };
            match released {
                Err(Error::ReleasesFailed { failures: several }) => failures.extend(several),
                released => failures.extend(released.err()),
            }
        }
        failures
    }

    /// The shares, the last one first.
    fn into_shares(self) -> impl Iterator<Item = Share> {
        let Self { first, others, .. } = self;
        others.into_iter().rev().chain([first])
    }

    /// Releases like [`release`](Self::release), on a plain thread.
    ///
    /// # Errors
    ///
    /// The same as [`release`](Self::release).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_release(self) -> Result<()> {
        let client = self.client().clone();
        client.block_on(self.release())
    }
}
