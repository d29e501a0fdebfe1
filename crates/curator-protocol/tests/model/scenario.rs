//! The setup of a run: the contenders, the possible faults, and the defect that is built in.

use curator_protocol::{
    LeaseLimit, LockInternalsDriver, ReadLockInternalsDriver, StandardLockInternalsDriver, Uuid,
    WriteLockInternalsDriver,
};

use super::defect::Defect;

pub(crate) const READER: &dyn LockInternalsDriver = &ReadLockInternalsDriver;
pub(crate) const WRITER: &dyn LockInternalsDriver = &WriteLockInternalsDriver;

/// The directory of the leases. A semaphore's queue is in directory 0.
pub(crate) const LEASES: usize = 1;

/// A bounded world to search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scenario {
    /// The contenders, each in a separate session. Equal contenders are adjacent.
    pub(crate) clients: Vec<Wanted>,
    /// How many nodes of other clients are in each queue at the beginning. They are deleted in any
    /// order: other clients release, cancel and crash.
    pub(crate) others: [u8; 2],
    /// Which directories exist at the beginning.
    pub(crate) directories: [bool; 2],
    /// How many nodes the first directory had before the run.
    pub(crate) counter: i32,
    /// The limit of the leases.
    pub(crate) limit: usize,
    /// If a node contains the limit: whether it exists at the beginning.
    pub(crate) limit_node: Option<bool>,
    /// The new limit that may be written to the node at some time.
    pub(crate) change: Option<usize>,
    /// The faults that may happen, each as often as it is listed.
    pub(crate) faults: Vec<Fault>,
    /// The defect of the runner, if any.
    pub(crate) defect: Option<Defect>,
    /// The lock name of the others' nodes.
    pub(crate) lock_name: &'static str,
}

/// What one contender wants to acquire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The directories of its queues, in the order of this contender.
    pub(crate) queues: &'static [usize],
    /// How many leases; 0 if the contender wants to own its queues.
    pub(crate) leases: usize,
    /// Whether the contender may wait.
    pub(crate) waits: bool,
    pub(crate) driver: &'static dyn LockInternalsDriver,
}

/// Faults. Each may happen at any time, to any client, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A connection is lost. Requests in flight may have been applied.
    Disconnect,
    /// The runner stops waiting for the answers to a pipeline. The connection is open, and the
    /// server applies all requests.
    TimeOut,
    /// A runner cannot rely on its watches any more, and drops them.
    LostWatches,
    /// A client loses its session. On the server, the session expires later.
    LostSession,
    /// An acquire is cancelled.
    Cancel,
    /// Another client deletes a contender's node.
    Delete,
    /// Another client writes to a node, as Curator does to request a revocation.
    Write,
    /// The server removes an empty directory, and its counter with it.
    Reap,
    /// A runner is wrong about which directories are missing, so its attempt to create them fails.
    Directories,
    /// A contender that has left, or has lost ownership, contends again, as a leader latch does.
    Return,
    /// A client outside the search creates a second node with the number of its first: a write lock
    /// becomes a read lock.
    Downgrade,
}

/// Constructors, and variants of a scenario. The constructors add no faults.
impl Scenario {
    /// Contests for Curator's mutex.
    pub(crate) fn contenders(number: usize) -> Self {
        Self::with_clients(vec![Wanted::MUTEX; number])
    }

    /// Every row of readers and writers of this length.
    ///
    /// Contenders first act in the order of their numbers, so all rows are needed to cover every
    /// order of readers and writers.
    pub(crate) fn rows_of_readers_and_writers(length: u32) -> impl Iterator<Item = Self> {
        let driver = |writes| if writes { WRITER } else { READER };
        // Bit `place` of `writers` is set if there is a writer at that place.
        (0..1_u32 << length).map(move |writers| {
            let row: Vec<_> = (0..length)
                .map(|place| driver(writers & (1 << place) != 0))
                .collect();
            Self::for_readers_and_writers(&row)
        })
    }

    /// One contest for each driver, of readers and writers. The others are writers.
    pub(crate) fn for_readers_and_writers(drivers: &[&'static dyn LockInternalsDriver]) -> Self {
        let clients = drivers
            .iter()
            .map(|driver| Wanted {
                driver: *driver,
                ..Wanted::MUTEX
            })
            .collect();
        Self {
            lock_name: WriteLockInternalsDriver::LOCK_NAME,
            ..Self::with_clients(clients)
        }
    }

    /// Contests for several queues each.
    pub(crate) fn for_queues(wants: &[&'static [usize]]) -> Self {
        Self::with_clients(
            wants
                .iter()
                .map(|queues| Wanted {
                    queues,
                    ..Wanted::MUTEX
                })
                .collect(),
        )
    }

    /// Contests for this many leases each, of a fixed limit.
    pub(crate) fn for_leases(quantities: &[usize], limit: usize) -> Self {
        let clients = quantities
            .iter()
            .map(|leases| Wanted {
                leases: *leases,
                ..Wanted::MUTEX
            })
            .collect();
        Self {
            limit,
            ..Self::with_clients(clients)
        }
    }

    fn with_clients(clients: Vec<Wanted>) -> Self {
        let lock_name = StandardLockInternalsDriver::LOCK_NAME;
        Self {
            clients,
            directories: [true, true],
            lock_name,
            ..Self::default()
        }
    }

    pub(crate) fn behind(self, others: u8) -> Self {
        self.behind_in([others, 0])
    }

    pub(crate) fn behind_in(self, others: [u8; 2]) -> Self {
        Self { others, ..self }
    }

    pub(crate) fn with(&self, faults: &[Fault]) -> Self {
        Self {
            faults: faults.to_vec(),
            ..self.clone()
        }
    }

    pub(crate) fn in_directories(self, directories: [bool; 2]) -> Self {
        Self {
            directories,
            ..self
        }
    }

    /// Leaves the first directory only this many usable numbers. A contest that then fails for lack
    /// of a number is correct if it cleans up.
    pub(crate) fn with_numbers_left(self, left: i32) -> Self {
        Self {
            counter: i32::MAX - left,
            ..self
        }
    }

    pub(crate) fn with_defect(self, defect: Defect) -> Self {
        Self {
            defect: Some(defect),
            ..self
        }
    }

    pub(crate) fn driven_by(mut self, driver: &'static dyn LockInternalsDriver) -> Self {
        for client in &mut self.clients {
            client.driver = driver;
        }
        self
    }

    /// A node contains the limit, and may be changed to this limit at some time.
    pub(crate) fn changed_to(self, limit: usize) -> Self {
        Self {
            change: Some(limit),
            ..self.with_limit_node(true)
        }
    }

    /// A node contains the limit. If not `exists`, a contender has to create it first.
    pub(crate) fn with_limit_node(self, exists: bool) -> Self {
        Self {
            limit_node: Some(exists),
            ..self
        }
    }

    /// The last `last` contenders must not wait.
    pub(crate) fn with_impatient(mut self, last: usize) -> Self {
        for client in self.clients.iter_mut().rev().take(last) {
            client.waits = false;
        }
        self
    }
}

impl Scenario {
    /// Whether the sequence numbers can run out.
    pub(crate) fn can_overflow(&self) -> bool {
        self.counter > 0
    }

    pub(crate) fn is_semaphore(&self) -> bool {
        self.clients.iter().any(|client| client.leases > 0)
    }

    pub(crate) fn is_any_impatient(&self) -> bool {
        self.clients.iter().any(|client| !client.waits)
    }

    /// Whether there are enough leases for all contenders together.
    pub(crate) fn has_enough_leases(&self) -> bool {
        let wanted: usize = self.clients.iter().map(|client| client.leases).sum();
        let least = match self.change {
            Some(change) => change.min(self.limit),
            None => self.limit,
        };
        self.is_semaphore() && wanted <= least
    }

    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    pub(crate) fn lease_limit(&self) -> LeaseLimit {
        if self.limit_node.is_some() {
            LeaseLimit::Shared
        } else {
            LeaseLimit::Fixed(self.limit)
        }
    }

    /// The directory behind a contest's directory index.
    pub(crate) fn directory(&self, who: usize, number: usize) -> usize {
        self.clients[who]
            .queues
            .get(number)
            .copied()
            .unwrap_or(LEASES)
    }

    /// Whether these two contenders are the same except for their numbers. Drivers are not
    /// compared, because rows of readers and writers are searched in every order.
    pub(crate) fn are_alike(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|who| &self.clients[who]);
        (one.queues, one.leases, one.waits) == (other.queues, other.leases, other.waits)
    }

    /// The prefix of the second node that a client outside the search creates in a downgrade.
    pub(crate) fn downgraded_prefix(&self) -> &'static str {
        match self.lock_name {
            WriteLockInternalsDriver::LOCK_NAME => "_c_another-__READ__",
            _ => "_c_another-lock-",
        }
    }

    /// Whether two contenders can own the lock together: a reader, and before it another reader, or
    /// a writer that becomes a reader.
    pub(crate) fn can_be_shared(&self) -> bool {
        let prefix = |client: &Wanted| client.driver.node_prefix(&Uuid::nil());
        self.clients
            .iter()
            .skip(1)
            .any(|client| prefix(client).ends_with(ReadLockInternalsDriver::LOCK_NAME))
    }
}

impl Wanted {
    const MUTEX: Self = Self {
        queues: &[0],
        leases: 0,
        waits: true,
        driver: &StandardLockInternalsDriver::new(),
    };
}

/// The faults that can happen to any lock.
pub(crate) const KINDS: [Fault; 7] = [
    Fault::Disconnect,
    Fault::TimeOut,
    Fault::LostWatches,
    Fault::LostSession,
    Fault::Cancel,
    Fault::Delete,
    Fault::Write,
];

/// Each pair of kinds, including a kind twice.
pub(crate) fn pairs_of_kinds() -> impl Iterator<Item = [Fault; 2]> {
    (0..KINDS.len()).flat_map(|one| KINDS[one..].iter().map(move |other| [KINDS[one], *other]))
}
