//! Expectations of the suite for each kind of lock.

use curator_recipes::ParticipantKind;
use curator_recipes::client::CuratorClient;

pub(super) use crate::support::subjects::{Held, Kind, Lock};

impl Kind {
    /// The lock of one of many contenders. The locks differ as far as the kind permits.
    pub(super) fn contender(self, who: usize, client: &CuratorClient, path: &str) -> Lock {
        match self {
            // A writer before every two readers.
            Self::Read if who.is_multiple_of(3) => self.blocker().lock(client, path),
            // The order of the paths depends on `who`.
            Self::Paths => Self::paths(client, path, who),
            _ => self.lock(client, path),
        }
    }

    /// The directories in which a contender has one node in total, whether it holds or waits.
    pub(super) fn counted_dirs(self, path: &str) -> Vec<String> {
        let dirs = self.dirs(path);
        if matches!(self, Self::Paths | Self::Locks) {
            dirs[..1].to_vec()
        } else {
            dirs
        }
    }

    /// The number of watches of a waiter behind one holder.
    pub(super) fn watches_of_a_waiter(self) -> u64 {
        match self {
            // The holder's node, whose deletion only causes another read; or the list of leases.
            Self::Write | Self::SemaphoreMutex | Self::Semaphore => 1,
            Self::Paths => 6,
            // The holder's node and the waiter's own node; for the multi-lock, only the nodes of
            // its first lock.
            Self::Mutex | Self::NonReentrantMutex | Self::Read | Self::Locks => 2,
            Self::Leases | Self::SharedLimit => unreachable!("not in the contract"),
        }
    }

    /// The participant kinds of a holder's nodes.
    pub(super) fn kinds(self) -> &'static [ParticipantKind] {
        match self {
            Self::Write => &[ParticipantKind::Write],
            Self::Read => &[ParticipantKind::Read],
            Self::Semaphore => &[ParticipantKind::Lease],
            Self::Paths => &[ParticipantKind::Exclusive; 3],
            Self::Locks => &[
                ParticipantKind::Exclusive,
                ParticipantKind::Write,
                ParticipantKind::Exclusive,
            ],
            Self::Mutex | Self::NonReentrantMutex | Self::SemaphoreMutex => {
                &[ParticipantKind::Exclusive]
            }
            Self::Leases | Self::SharedLimit => unreachable!("not in the contract"),
        }
    }
}
