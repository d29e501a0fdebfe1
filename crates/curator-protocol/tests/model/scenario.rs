//! What a run of the model is about: who contends for what, what may go wrong, and which defect is put in on purpose.

use curator_protocol::{
    LeaseLimit, LockInternalsDriver, ReadLockInternalsDriver, StandardLockInternalsDriver, Uuid,
    WriteLockInternalsDriver,
};

use super::defect::Defect;

pub(crate) const READER: &dyn LockInternalsDriver = &ReadLockInternalsDriver;
pub(crate) const WRITER: &dyn LockInternalsDriver = &WriteLockInternalsDriver;

/// The directory of the leases. Semaphores have their queue in directory 0.
pub(crate) const LEASES: usize = 1;

/// One bounded world to search through.
#[derive(Clone, Debug, Default)]
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
    /// If a node says so, or is to say so: whether it is there at the beginning.
    pub(crate) limit_node: Option<bool>,
    /// What the node is changed to at some time.
    pub(crate) change: Option<usize>,
    /// What may go wrong, each as often as it is here.
    pub(crate) faults: Vec<Fault>,
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

/// What may go wrong, at any time, to anybody, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A connection is lost. What was under way may or may not have been done.
    Disconnect,
    /// The runner stops waiting for a pipeline, though the connection stands and the server will do it all.
    TimeOut,
    /// A runner cannot rely on its watches any more, and lets go of them.
    LostWatches,
    /// A client is told that its session is lost. The server finds out later.
    LostSession,
    /// An acquire is cancelled.
    Cancel,
    /// Somebody deletes a contender's node.
    Delete,
    /// Somebody writes to a node (that is how Curator asks for a lock back).
    Write,
    /// The server removes an empty directory, and with it the counter.
    Reap,
    /// One that has left, or has lost what it owned, contends again: a leader latch that joins again.
    Return,
    /// One of the others puts a second node beside its own, with the same number: a write lock becomes a read lock.
    Downgrade,
}

/// The scenarios, all of them without faults at first.
impl Scenario {
    /// Contests for Curator's mutex.
    pub(crate) fn of(contenders: usize) -> Self {
        Self::of_each(vec![Wanted::MUTEX; contenders])
    }

    /// Every row of so many readers and writers.
    ///
    /// Contenders first act in the order of their numbers, so it takes all rows to have readers and writers come in any order.
    pub(crate) fn rows_of_readers_and_writers(length: u32) -> impl Iterator<Item = Self> {
        let driver = |writes| if writes { WRITER } else { READER };
        let row = move |row| (0..length).map(|place| driver(row & (1 << place) != 0)).collect::<Vec<_>>();
        (0..1_u32 << length).map(move |number| Self::of_readers_and_writers(&row(number)))
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
        let lock_name = StandardLockInternalsDriver::LOCK_NAME;
        Self { clients, directories: [true, true], lock_name, ..Self::default() }
    }

    pub(crate) fn behind(self, others: u8) -> Self {
        self.behind_in([others, 0])
    }

    pub(crate) fn behind_in(self, others: [u8; 2]) -> Self {
        Self { others, ..self }
    }

    pub(crate) fn with(&self, faults: &[Fault]) -> Self {
        Self { faults: faults.to_vec(), ..self.clone() }
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
        Self { change: Some(limit), ..self.with_limit_node(true) }
    }

    /// A node says the number of leases, or is to say so and is not there yet.
    pub(crate) fn with_limit_node(self, exists: bool) -> Self {
        Self { limit_node: Some(exists), ..self }
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
        if self.limit_node.is_some() { LeaseLimit::Shared } else { LeaseLimit::Fixed(self.limit) }
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

/// Those that can happen to any lock.
pub(crate) const KINDS: [Fault; 7] = [
    Fault::Disconnect,
    Fault::TimeOut,
    Fault::LostWatches,
    Fault::LostSession,
    Fault::Cancel,
    Fault::Delete,
    Fault::Write,
];

/// Each pair of kinds, also of one with itself.
pub(crate) fn pairs_of_kinds() -> impl Iterator<Item = [Fault; 2]> {
    (0..KINDS.len()).flat_map(|one| KINDS[one..].iter().map(move |other| [KINDS[one], *other]))
}
