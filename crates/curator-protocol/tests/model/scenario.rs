//! What a run of the model is about: who contends for what, what may go wrong, and which defect is put in on purpose.

use std::fmt;

use curator_protocol::{
    LeaseLimit, LockInternalsDriver, ReadLockInternalsDriver, StandardLockInternalsDriver, Uuid,
    WriteLockInternalsDriver,
};

use super::defect::Defect;

/// The directory of the leases. Semaphores have their queue in directory 0.
pub(crate) const LEASES: usize = 1;

/// One bounded world to search through.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The contenders, each in its own session. Those that are alike stand together.
    pub(crate) clients: Vec<Wanted>,
    /// How many nodes of others stand in each queue already. They go away in any order: others release, cancel and crash.
    pub(crate) others: [u8; 2],
    /// Which of the directories exist at the beginning.
    pub(crate) directories: [bool; 2],
    /// How many nodes the first directory has had before.
    pub(crate) counter: i32,
    /// How many leases there may be.
    pub(crate) limit: usize,
    /// Whether a node says so, or is to say so, and what it is changed to at some time.
    pub(crate) shared_limit: Option<SharedLimit>,
    /// What may go wrong, and how often.
    pub(crate) faults: Faults,
    /// The defect of the runner, if any.
    pub(crate) defect: Option<Defect>,
    /// The lock name of the others' nodes.
    pub(crate) lock_name: &'static str,
}

/// What one contender wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The directories of its queues, in its own order.
    pub(crate) queues: &'static [usize],
    /// How many leases; none, if it wants to own its queues.
    pub(crate) leases: usize,
    /// Whether it may wait.
    pub(crate) waits: bool,
    pub(crate) driver: &'static dyn LockInternalsDriver,
}

/// A number of leases that a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedLimit {
    /// Whether the node is there at the beginning.
    pub(crate) exists: bool,
    pub(crate) changed_to: Option<usize>,
}

/// How often each fault may happen. They happen at any time, to anybody, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// A connection is lost. What was under way may or may not have been done.
    pub(crate) disconnects: u8,
    /// The runner stops waiting for a pipeline, though the connection stands and the server will do it all.
    pub(crate) timeouts: u8,
    /// A runner cannot rely on its watches any more, and lets go of them.
    pub(crate) lost_watches: u8,
    /// A client is told that its session is lost. The server finds out later.
    pub(crate) lost_sessions: u8,
    /// An acquire is cancelled.
    pub(crate) cancels: u8,
    /// Somebody deletes a contender's node.
    pub(crate) deletes: u8,
    /// Somebody writes to a node (that is how Curator asks for a lock back).
    pub(crate) writes: u8,
    /// The server removes an empty directory, and with it the counter.
    pub(crate) reaps: u8,
    /// One of the others puts a second node beside its own, with the same number: a write lock becomes a read lock.
    pub(crate) downgrades: u8,
}

impl Faults {
    pub(crate) const NONE: Self = Self {
        disconnects: 0,
        timeouts: 0,
        lost_watches: 0,
        lost_sessions: 0,
        cancels: 0,
        deletes: 0,
        writes: 0,
        reaps: 0,
        downgrades: 0,
    };

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            disconnects: self.disconnects + other.disconnects,
            timeouts: self.timeouts + other.timeouts,
            lost_watches: self.lost_watches + other.lost_watches,
            lost_sessions: self.lost_sessions + other.lost_sessions,
            cancels: self.cancels + other.cancels,
            deletes: self.deletes + other.deletes,
            writes: self.writes + other.writes,
            reaps: self.reaps + other.reaps,
            downgrades: self.downgrades + other.downgrades,
        }
    }
}

/// The scenarios, all of them without faults at first.
impl Scenario {
    /// Contests for Curator's mutex.
    pub(crate) fn of(contenders: usize) -> Self {
        Self::of_each(vec![Wanted::MUTEX; contenders])
    }

    /// One contest for each driver, of readers and writers. Others are writers.
    pub(crate) fn of_readers_and_writers(drivers: &[&'static dyn LockInternalsDriver]) -> Self {
        let clients = drivers.iter().map(|driver| Wanted { driver: *driver, ..Wanted::MUTEX }).collect();
        Self { lock_name: WriteLockInternalsDriver::LOCK_NAME, ..Self::of_each(clients) }
    }

    /// Contests for several queues each.
    pub(crate) fn of_queues(wants: &[&'static [usize]]) -> Self {
        Self::of_each(wants.iter().map(|queues| Wanted { queues, ..Wanted::MUTEX }).collect())
    }

    /// Contests for so many leases each, of a number that is fixed.
    pub(crate) fn of_leases(quantities: &[usize], limit: usize) -> Self {
        let clients = quantities.iter().map(|leases| Wanted { leases: *leases, ..Wanted::MUTEX }).collect();
        Self { limit, ..Self::of_each(clients) }
    }

    fn of_each(clients: Vec<Wanted>) -> Self {
        Self {
            clients,
            others: [0, 0],
            directories: [true, true],
            counter: 0,
            limit: 0,
            shared_limit: None,
            faults: Faults::NONE,
            defect: None,
            lock_name: StandardLockInternalsDriver::LOCK_NAME,
        }
    }

    pub(crate) fn behind(self, others: u8) -> Self {
        self.behind_in([others, 0])
    }

    pub(crate) fn behind_in(self, others: [u8; 2]) -> Self {
        Self { others, ..self }
    }

    pub(crate) fn with(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    pub(crate) fn in_directories(self, directories: [bool; 2]) -> Self {
        Self { directories, ..self }
    }

    /// The first directory has so many good numbers left. Whoever then fails is no defect, if it cleans up.
    pub(crate) fn with_numbers_left(self, left: i32) -> Self {
        Self { counter: i32::MAX - left, ..self }
    }

    pub(crate) fn spoilt_by(self, defect: Defect) -> Self {
        Self { defect: Some(defect), ..self }
    }

    pub(crate) fn driven_by(mut self, driver: &'static dyn LockInternalsDriver) -> Self {
        self.clients.iter_mut().for_each(|client| client.driver = driver);
        self
    }

    /// A node says the number of leases, and at some time, perhaps, another.
    pub(crate) fn changed_to(self, limit: usize) -> Self {
        Self { shared_limit: Some(SharedLimit { exists: true, changed_to: Some(limit) }), ..self }
    }

    /// A node says the number of leases.
    pub(crate) fn with_limit_node(self) -> Self {
        Self { shared_limit: Some(SharedLimit { exists: true, changed_to: None }), ..self }
    }

    /// A node is to say the number of leases, and is not there yet.
    pub(crate) fn without_limit_node(self) -> Self {
        Self { shared_limit: Some(SharedLimit { exists: false, changed_to: None }), ..self }
    }

    /// The last so many contenders may not wait.
    pub(crate) fn with_impatient(mut self, last: usize) -> Self {
        self.clients.iter_mut().rev().take(last).for_each(|client| client.waits = false);
        self
    }
}

impl Scenario {
    pub(crate) fn is_near_the_end(&self) -> bool {
        self.counter > 0
    }

    pub(crate) fn is_semaphore(&self) -> bool {
        self.clients.iter().any(|client| client.leases > 0)
    }

    pub(crate) fn is_any_impatient(&self) -> bool {
        self.clients.iter().any(|client| !client.waits)
    }

    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    pub(crate) fn lease_limit(&self) -> LeaseLimit {
        if self.shared_limit.is_some() { LeaseLimit::Shared } else { LeaseLimit::Fixed(self.limit) }
    }

    /// The directory that a contender's contest calls by this number.
    pub(crate) fn directory(&self, who: usize, number: usize) -> usize {
        self.clients[who].queues.get(number).copied().unwrap_or(LEASES)
    }

    /// Whether these two contenders are the same but for their names. Rows of readers and writers are searched in every
    /// order, so their drivers make no difference.
    pub(crate) fn are_alike(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|who| &self.clients[who]);
        (one.queues, one.leases, one.waits) == (other.queues, other.leases, other.waits)
    }

    /// The prefix of the node by which one of the others goes on when its first node goes.
    pub(crate) fn downgraded_prefix(&self) -> &'static str {
        match self.lock_name {
            WriteLockInternalsDriver::LOCK_NAME => "_c_another-__READ__",
            _ => "_c_another-lock-",
        }
    }

    /// Whether two can own together: somebody is before a reader, be it another or a writer that becomes one.
    pub(crate) fn can_be_shared(&self) -> bool {
        let prefix = |client: &Wanted| client.driver.node_prefix(&Uuid::nil());
        self.clients.iter().skip(1).any(|client| prefix(client).ends_with(ReadLockInternalsDriver::LOCK_NAME))
    }
}

impl Wanted {
    const MUTEX: Self = Self { queues: &[0], leases: 0, waits: true, driver: &StandardLockInternalsDriver::new() };
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, client) in self.clients.iter().enumerate() {
            let Wanted { queues, leases, waits, .. } = client;
            let (comma, impatient) = (if i > 0 { ", " } else { "" }, if *waits { "" } else { " without waiting" });
            match leases {
                0 => write!(f, "{comma}{queues:?}{impatient}")?,
                _ => write!(f, "{comma}{leases} of {} leases{impatient}", self.limit)?,
            }
        }
        if self.others != [0, 0] {
            write!(f, " behind {:?} others", self.others)?;
        }
        if self.is_near_the_end() {
            write!(f, ", {} numbers left", i32::MAX - self.counter)?;
        }
        if let Some(SharedLimit { exists, changed_to }) = self.shared_limit {
            f.write_str(if exists { ", as a node says" } else { ", as no node says yet" })?;
            changed_to.map_or(Ok(()), |then| write!(f, ", then {then}"))?;
        }
        if self.directories == [true, true] { Ok(()) } else { write!(f, ", directories {:?}", self.directories) }
    }
}

/// One of each kind that can happen to any lock.
pub(crate) const KINDS: [(&str, Faults); 7] = [
    ("a lost connection", Faults { disconnects: 1, ..Faults::NONE }),
    ("a time-out", Faults { timeouts: 1, ..Faults::NONE }),
    ("lost watches", Faults { lost_watches: 1, ..Faults::NONE }),
    ("a lost session", Faults { lost_sessions: 1, ..Faults::NONE }),
    ("a cancel", Faults { cancels: 1, ..Faults::NONE }),
    ("a deleted node", Faults { deletes: 1, ..Faults::NONE }),
    ("a write", Faults { writes: 1, ..Faults::NONE }),
];

/// Each pair of kinds, also of one with itself.
pub(crate) fn pairs_of_kinds() -> impl Iterator<Item = (String, Faults)> {
    (0..KINDS.len())
        .flat_map(|one| (one..KINDS.len()).map(move |other| (KINDS[one], KINDS[other])))
        .map(|((kind, faults), (other_kind, other))| (format!("{kind}, {other_kind}"), faults.and(other)))
}
