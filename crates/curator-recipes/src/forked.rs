//! Leaks values in a forked child: their drop could wait forever for a lock that was held at the
//! `fork`.

use curator_client::process::Process;
use curator_client::{CuratorClient, Error};

/// Fails in a forked child. To be called before a lock is taken.
pub(crate) fn check_fork(client: &CuratorClient) -> Result<(), Error> {
    match client.try_session() {
        Err(error @ Error::Forked) => Err(error),
        _ => Ok(()),
    }
}

/// A value that belongs to the process that made it. A forked child leaks it instead of dropping
/// it.
pub(crate) struct LeakedInChild<T> {
    process: Process,
    /// `None` only during the drop.
    value: Option<T>,
}

impl<T> LeakedInChild<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            process: Process::current(),
            value: Some(value),
        }
    }

    /// Whether this is a copy in a forked child.
    pub(crate) fn has_forked(&self) -> bool {
        self.process.has_forked()
    }

    pub(crate) fn as_mut(&mut self) -> Option<&mut T> {
        self.value.as_mut()
    }
}

impl<T> Drop for LeakedInChild<T> {
    fn drop(&mut self) {
        if self.has_forked() {
            std::mem::forget(self.value.take());
        }
    }
}
