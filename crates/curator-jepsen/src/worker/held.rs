//! What a worker holds, whatever the lock.

use curator_recipes::client::ClockInstant;
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
