//! What a run of the model is about: who contends, what may go wrong, and which defect is put in on purpose.

use std::fmt;

use curator_recipes::lock::driver::{
    ContenderId, LockInternalsDriver, ReadLockInternalsDriver, StandardLockInternalsDriver, WriteLockInternalsDriver,
};

use super::drivers::Drivers;

/// One bounded world to search through.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// How many contests run, each in its own session.
    pub(crate) contenders: u8,
    /// How many nodes of others stand in the queue already. They go away in any order: others release, cancel and crash.
    pub(crate) others: u8,
    /// Whether the lock's directory exists at the beginning.
    pub(crate) directory: bool,
    /// How many nodes the directory has had before.
    pub(crate) counter: i32,
    /// What may go wrong, and how often.
    pub(crate) faults: Faults,
    /// The defect of the shell or of the driver, if any.
    pub(crate) defect: Option<Defect>,
    /// The lock name of the others' nodes.
    pub(crate) lock_name: &'static str,
    /// The driver of each contender; of all, if there is but one.
    drivers: Drivers,
}

/// How often each fault may happen. They happen at any time, to anybody, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// A connection is lost. What was under way may or may not have been done.
    pub(crate) disconnects: u8,
    /// The shell stops waiting for a flight, though the connection stands and the server will do it all.
    pub(crate) timeouts: u8,
    /// A shell cannot rely on its watches any more, and lets go of them.
    pub(crate) lost_watches: u8,
    /// A client is told that its session is lost. The server finds out later.
    pub(crate) lost_sessions: u8,
    /// An acquire is cancelled.
    pub(crate) cancels: u8,
    /// Somebody deletes a contender's node.
    pub(crate) deletes: u8,
    /// Somebody writes to a node (that is how Curator asks for a lock back).
    pub(crate) writes: u8,
    /// The server removes the empty directory, and with it the counter.
    pub(crate) reaps: u8,
    /// One of the others puts a second node beside its own, with the same number: a write lock becomes a read lock.
    pub(crate) downgrades: u8,
}

/// What is wrong on purpose. The search must find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The contest goes on over a lost session, and takes the dying session's node for its own.
    AdoptsOverSessions,
    /// Our own node's watch is never placed.
    IgnoresOwnWatch,
    /// The watch ahead never fires.
    LosesAheadEvents,
    /// Events are called certain even after a lost connection.
    TrustsEventsAfterReconnect,
    /// The deletion of a node before us is reported although our own node's deletion came before.
    ForgetsOrderOfEvents,
    /// When our own node's event is given before one that is at hand already, the latter is forgotten.
    ForgetsOneOfTwoEvents,
    /// When the node goes that a contender watches, it owns the lock, whoever else may be before it.
    TakesAnyDeletionForOwnership,
    /// A cancelled acquire is simply dropped.
    HasNoJanitor,
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

impl Scenario {
    /// Contests of Curator's mutex, without faults.
    pub(crate) fn of(contenders: u8) -> Self {
        const MUTEX: Drivers = &[&StandardLockInternalsDriver::new()];
        let (faults, lock_name) = (Faults::NONE, StandardLockInternalsDriver::LOCK_NAME);
        Self { contenders, others: 0, directory: true, counter: 0, faults, defect: None, lock_name, drivers: MUTEX }
    }

    /// One contest for each driver, of readers and writers, without faults. Others are writers.
    pub(crate) fn of_readers_and_writers(drivers: &[&'static dyn LockInternalsDriver]) -> Self {
        let lock_name = WriteLockInternalsDriver::LOCK_NAME;
        Self { lock_name, ..Self::of(drivers.len() as u8) }.driven_by(drivers.to_vec().leak())
    }

    pub(crate) fn behind(self, others: u8) -> Self {
        Self { others, ..self }
    }

    pub(crate) fn with(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    pub(crate) fn without_directory(self) -> Self {
        Self { directory: false, ..self }
    }

    /// The directory has so many good numbers left. Whoever then fails is no defect, if it cleans up.
    pub(crate) fn with_numbers_left(self, left: i32) -> Self {
        Self { counter: i32::MAX - left, ..self }
    }

    pub(crate) fn is_near_the_end(&self) -> bool {
        self.counter > 0
    }

    pub(crate) fn spoilt_by(self, defect: Defect) -> Self {
        Self { defect: Some(defect), ..self }
    }

    pub(crate) fn driven_by(self, drivers: Drivers) -> Self {
        Self { drivers, ..self }
    }

    pub(crate) fn driver(&self, who: usize) -> &'static dyn LockInternalsDriver {
        self.drivers[who % self.drivers.len()]
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
        let prefix = |who| self.driver(who).node_prefix(&ContenderId::from_uuid(uuid::Uuid::nil()));
        (1..usize::from(self.contenders)).any(|who| prefix(who).ends_with(ReadLockInternalsDriver::LOCK_NAME))
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} contenders behind {} others", self.contenders, self.others)?;
        if self.is_near_the_end() {
            write!(f, ", {} numbers left", i32::MAX - self.counter)?;
        }
        if self.directory { Ok(()) } else { f.write_str(", no directory") }
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
