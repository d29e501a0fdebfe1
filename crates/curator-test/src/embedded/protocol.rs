//! The presets of the dialects: which requests a server knows, and what else differs from ZooKeeper
//! 3.9.

use std::time::Duration;

use super::{
    family::Family,
    operations::Operations,
    watches::{Modes, RecursiveEvents},
};
use crate::{OpCode, dialect::Dialect};

/// The differences of a server's protocol from ZooKeeper 3.9.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Protocol {
    pub(crate) dialect: Dialect,
    pub(crate) operations: Operations,
    pub(crate) stats_in_transactions: bool,
    pub(crate) data_length_in_create: bool,
    pub(crate) watch_modes: Modes,
    pub(crate) recursive_events: RecursiveEvents,
    pub(crate) zxids_in_events: bool,
    /// After this time, the server removes a container that never had a child.
    pub(crate) unused_container_timeout: Option<Duration>,
}

/// When ZooKeeper 3.10 removes a container that never had a child (ZOOKEEPER-4915).
const UNUSED_CONTAINER: Duration = Duration::from_secs(5 * 60);

/// The requests of ZooKeeper that no version of ClickHouse Keeper or RaftKeeper knows.
const ONLY_ZOOKEEPER: [OpCode; 6] = [
    OpCode::DeleteContainer,
    OpCode::CreateTtl,
    OpCode::Sasl,
    OpCode::GetEphemerals,
    OpCode::GetAllChildrenNumber,
    OpCode::WhoAmI,
];

/// The requests about watches that are not reads.
const WATCHES: [OpCode; 4] = [
    OpCode::CheckWatches,
    OpCode::RemoveWatches,
    OpCode::SetWatches2,
    OpCode::AddWatch,
];

impl Protocol {
    pub(crate) fn of(dialect: Dialect) -> Self {
        let latest = Self {
            dialect,
            operations: Operations::ALL,
            stats_in_transactions: true,
            data_length_in_create: true,
            watch_modes: Modes::All,
            recursive_events: RecursiveEvents::OfNode,
            zxids_in_events: true,
            unused_container_timeout: None,
        };
        let before_3_9 = Self {
            watch_modes: Modes::Last,
            zxids_in_events: false,
            ..latest
        };
        let foreign = Self {
            operations: Operations::ALL.without(&ONLY_ZOOKEEPER),
            recursive_events: RecursiveEvents::OfWatch,
            zxids_in_events: false,
            ..latest
        };
        match dialect {
            Dialect::ZooKeeper3_5 => Self {
                operations: Operations::ALL.without(&[
                    OpCode::MultiRead,
                    OpCode::GetEphemerals,
                    OpCode::GetAllChildrenNumber,
                    OpCode::SetWatches2,
                    OpCode::AddWatch,
                    OpCode::WhoAmI,
                ]),
                stats_in_transactions: false,
                ..before_3_9
            },
            Dialect::ZooKeeper3_6 => Self {
                operations: Operations::ALL.without(&[OpCode::WhoAmI]),
                stats_in_transactions: false,
                ..before_3_9
            },
            Dialect::ZooKeeper3_7 | Dialect::ZooKeeper3_8_0 => Self {
                stats_in_transactions: false,
                ..before_3_9
            },
            Dialect::ZooKeeper3_8 => before_3_9,
            Dialect::ZooKeeper3_9 => latest,
            Dialect::ZooKeeper3_10 => Self {
                unused_container_timeout: Some(UNUSED_CONTAINER),
                ..latest
            },
            Dialect::ClickHouseKeeper25_8 => Self {
                operations: foreign.operations.without(&WATCHES).without(&[
                    OpCode::Create2,
                    OpCode::CreateContainer,
                    OpCode::SetWatches,
                ]),
                ..foreign
            },
            Dialect::ClickHouseKeeper26_3 => Self {
                operations: foreign.operations.without(&[OpCode::CreateContainer]),
                data_length_in_create: false,
                ..foreign
            },
            Dialect::ClickHouseKeeper26_9 => foreign,
            Dialect::RaftKeeper2_3 => Self {
                operations: foreign.operations.without(&WATCHES).without(&[
                    OpCode::Create2,
                    OpCode::Reconfig,
                    OpCode::CreateContainer,
                ]),
                ..foreign
            },
        }
    }

    pub(crate) fn family(&self) -> Family {
        Family::of(self.dialect)
    }

    /// The bounds of session timeouts, where they do not depend on the server's tick.
    pub(crate) fn session_timeouts(&self) -> Option<(Duration, Duration)> {
        match self.family() {
            Family::ZooKeeper => None,
            Family::ClickHouseKeeper | Family::RaftKeeper => {
                Some((Duration::from_secs(10), Duration::from_secs(100)))
            }
        }
    }
}
