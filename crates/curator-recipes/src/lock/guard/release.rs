//! Releasing a guard, and waiting for the result.

use std::time::Duration;

use curator_client::{Deadline, RecipeSupport as _};
use futures_util::future::{BoxFuture, FutureExt as _};

use super::LockGuard;
use crate::error::{Error, Result};
use crate::lock::holds::Share;

impl LockGuard {
    /// Releases this guard, and reports the result. If it is not the owner's last guard, the lock stays held, no request
    /// is sent, and there is no error.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`](crate::Error::Lost) when the lock had already been lost: what was done last may have been done
    /// without it. [`Error::ReleasePending`](crate::Error::ReleasePending) when the servers cannot be reached: the
    /// client keeps trying until the node is gone or the session is over, and
    /// [`CuratorClient::janitor`](curator_client::CuratorClient::janitor) shows it.
    /// [`Error::ReleaseRefused`](crate::Error::ReleaseRefused) when the server does not permit it.
    /// [`Error::ReleasesFailed`](crate::Error::ReleasesFailed) with several of these, if the guard stands for several
    /// nodes or locks; a single error is returned directly.
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

    /// Releases like [`release`](Self::release), and waits no longer than `timeout` for the result: what is not confirmed by then
    /// goes on in the background. [`close`](curator_client::CuratorClient::close) waits for it.
    ///
    /// Several locks share the timeout and are released one after another, the last one first; those that it does not reach are
    /// released when it ends. A timeout of zero starts all releases and waits for none.
    ///
    /// # Errors
    ///
    /// The same as [`release`](Self::release). [`Error::ReleasePending`](crate::Error::ReleasePending) when the time is up, with an
    /// [`OperationTimeout`](curator_client::Error::OperationTimeout) in it; and as soon as the client closes, with
    /// [`Closed`](curator_client::Error::Closed), [`ClientEnded`](curator_client::Error::ClientEnded) or
    /// [`Forked`](curator_client::Error::Forked) in it.
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release_timeout(self, timeout: Duration) -> Result<()> {
        Error::of_releases(self.release_within(timeout).await)
    }

    /// Gives up this guard, and returns what is left to be done and reported.
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

    /// As [`release_timeout`](Self::release_timeout). Returns all errors, in the order of the releases.
    pub(crate) async fn release_within(self, timeout: Duration) -> Vec<Error> {
        let deadline = Deadline::after(timeout);
        let mut failures = Vec::new();
        for share in self.into_shares() {
            let (client, path) = (share.hold().client().clone(), share.hold().path().clone());
            let overdue = || {
                let (operation, path, after) = ("release", path.clone(), timeout);
                curator_client::Error::OperationTimeout { operation, path, after }
            };
            let Some(releasing) = share.release() else { continue };
            let released = tokio::select! {
                biased;
                released = releasing => released,
                // The release continues after it is dropped.
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
