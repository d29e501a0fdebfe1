//! Leaks values in a forked child: their drop could wait forever for a lock that was held at the `fork`.

use curator_client::{CuratorClient, Error};

/// Fails in a forked child. To be called before a lock is taken.
pub(crate) fn check_fork(client: &CuratorClient) -> Result<(), Error> {
    match client.try_session() {
        Err(error @ Error::Forked) => Err(error),
        _ => Ok(()),
    }
}

/// The process that made a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    id: u32,
}

#[expect(clippy::disallowed_methods, reason = "is only compared")]
impl Process {
    pub(crate) fn current() -> Self {
        Self { id: std::process::id() }
    }

    /// Whether the caller runs in a forked child of this process.
    pub(crate) fn has_forked(self) -> bool {
        self.id != std::process::id()
    }
}

/// A value that belongs to the process that made it. A forked child leaks it instead of dropping it.
pub(crate) struct LeakedInChild<T> {
    process: Process,
    /// `None` only during the drop.
    value: Option<T>,
}

impl<T> LeakedInChild<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: Process::current(), value: Some(value) }
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
