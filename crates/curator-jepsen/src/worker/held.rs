//! What a worker holds, whatever the lock.

use std::pin::Pin;

use curator_recipes::client::{ClockInstant, ZPath};
use curator_recipes::{LockGuard, Result, SemaphoreLease, WriteGuard};

/// The guard of a lock, or several of a semaphore.
#[derive(Debug)]
pub(super) enum Held {
    Guard(LockGuard),
    /// It can become a reader's guard.
    Writer(WriteGuard),
    Leases {
        first: SemaphoreLease,
        others: Vec<SemaphoreLease>,
    },
}

impl Held {
    /// The guard that stands for all of it.
    pub(super) fn first(&self) -> &LockGuard {
        match self {
            Self::Guard(guard) => guard,
            Self::Writer(guard) => guard,
            Self::Leases { first, .. } => first,
        }
    }

    fn others(&self) -> impl Iterator<Item = &LockGuard> {
        let others = match self {
            Self::Guard(_) | Self::Writer(_) => &[][..],
            Self::Leases { others, .. } => others,
        };
        others.iter().map(|lease| &**lease)
    }

    /// Whether all of it is valid.
    pub(super) fn is_valid(&self) -> bool {
        self.first().is_valid() && self.others().all(LockGuard::is_valid)
    }

    /// Runs some work while all of it is held, and drops the work when a part is lost.
    pub(super) async fn run(&self, work: impl Future<Output = ()> + Send) {
        let mut work: Pin<Box<dyn Future<Output = ()> + Send + '_>> = Box::pin(work);
        // Each guard has a node of its own to watch.
        for guard in self.others() {
            // The sampler tells of the loss.
            work = Box::pin(async move { drop(guard.run(work).await) });
        }
        drop(self.first().run(work).await);
    }

    /// The nodes that it stands for.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &ZPath> {
        std::iter::once(self.first()).chain(self.others()).flat_map(LockGuard::nodes)
    }

    /// Until when all of it is valid, on the clock of histories.
    pub(super) fn valid_until(&self) -> u64 {
        let until = self.others().map(LockGuard::valid_until).fold(self.first().valid_until(), ClockInstant::min);
        until.as_nanos()
    }

    /// Gives all of it back.
    pub(super) async fn release(self) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Writer(guard) => guard.release().await,
            Self::Leases { first, others } => SemaphoreLease::release_all([first].into_iter().chain(others)).await,
        }
    }
}
