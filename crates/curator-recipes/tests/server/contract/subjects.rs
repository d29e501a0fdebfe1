//! What the suite knows of each kind of lock.

use curator_recipes::ParticipantKind;
use curator_recipes::client::CuratorClient;

pub(super) use crate::support::subjects::{Held, Kind, Lock};

impl Kind {
    /// One of many contenders. Each has its own idea of the lock, as far as it may have.
    pub(super) fn contender(self, who: usize, client: &CuratorClient, path: &str) -> Lock {
        match self {
            // A writer before each two readers.
            Self::Read if who.is_multiple_of(3) => self.blocker().lock(client, path),
            // In any order.
            Self::Paths => Self::paths(client, path, who),
            _ => self.lock(client, path),
        }
    }

    /// The directories in which a contender has one node in all, whether it holds or waits.
    pub(super) fn line(self, path: &str) -> Vec<String> {
        let dirs = self.dirs(path);
        if matches!(self, Self::Paths | Self::Locks) { dirs[..1].to_vec() } else { dirs }
    }

    /// How many watches a waiter has that only waits for one holder.
    pub(super) fn watches_of_a_waiter(self) -> u64 {
        match self {
            // The holder's node, and nothing follows from its end but another look; or the list of leases.
            Self::Write | Self::SemaphoreMutex | Self::Semaphore => 1,
            Self::Paths => 6,
            // The holder's node and its own; of the multi-lock that has come to its first lock only.
            Self::Mutex | Self::NonReentrantMutex | Self::Read | Self::Locks => 2,
            Self::Leases | Self::SharedLimit => unreachable!("not in the contract"),
        }
    }

    /// What the nodes of a holder are shown as.
    pub(super) fn kinds(self) -> &'static [ParticipantKind] {
        match self {
            Self::Write => &[ParticipantKind::Write],
            Self::Read => &[ParticipantKind::Read],
            Self::Semaphore => &[ParticipantKind::Lease],
            Self::Paths => &[ParticipantKind::Exclusive; 3],
            Self::Locks => &[ParticipantKind::Exclusive, ParticipantKind::Write, ParticipantKind::Exclusive],
            Self::Mutex | Self::NonReentrantMutex | Self::SemaphoreMutex => &[ParticipantKind::Exclusive],
            Self::Leases | Self::SharedLimit => unreachable!("not in the contract"),
        }
    }
}
