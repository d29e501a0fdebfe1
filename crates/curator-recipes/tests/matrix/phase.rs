//! The phases in which a fault can strike, and the contender's position in the queue.

use super::support::subjects::Kind;

impl Kind {
    /// The locks of the matrix. Only one of the locks that send the same requests is included: the
    /// semaphore mutex also represents a semaphore with one lease.
    pub(crate) const WITH_FAULTS: [Self; 8] = [
        Self::Mutex,
        Self::SemaphoreMutex,
        Self::Leases,
        Self::SharedLimit,
        Self::Read,
        Self::Write,
        Self::Paths,
        Self::Locks,
    ];

    /// The lock kind of the `nth` contender ahead, counted from the first. Of any two consecutive
    /// contenders, at least one is exclusive.
    pub(crate) fn before(self, nth: usize) -> Self {
        match (self, nth % 2) {
            (Self::Read, 0) | (Self::Write, 1) => Self::Write,
            (Self::Read | Self::Write, _) => Self::Read,
            _ => self,
        }
    }

    /// Whether the lock's courses are also run with a cut. Of the locks that recover in the same
    /// way, only one is cut.
    pub(crate) fn stands_for_recovery(self) -> bool {
        self != Self::SemaphoreMutex
    }
}

named! {
    /// A contender's position in the queue, or its position when it joined.
    enum Position {
        /// No contender is ahead, and one is behind.
        First => "first",
        /// One contender is ahead, and one is behind.
        Middle => "middle",
        /// Three contenders are ahead, and none is behind. So this contender does not watch the
        /// holder at first.
        Last => "last",
    }
}

impl Position {
    /// The number of contenders ahead.
    pub(crate) fn before(self) -> usize {
        match self {
            Self::First => 0,
            Self::Middle => 1,
            Self::Last => 3,
        }
    }

    pub(crate) fn has_one_behind(self) -> bool {
        self != Self::Last
    }
}

named! {
    /// A part of a contender's work. The faults strike its requests.
    enum Phase {
        /// An acquire, until it has the lock; the directories are missing.
        NewDirectory => "acquire, no directory",
        /// An acquire, until it has the lock or waits for the contenders ahead.
        Acquire => "acquire",
        /// The contenders ahead leave, until this contender has the lock.
        Turn => "its turn",
        /// An acquire that does not wait, until it has the lock or is refused.
        Try => "try_acquire",
        /// An acquire that times out while it waits.
        TimeOut => "acquire_timeout",
        /// An acquire that is dropped while it waits.
        Abandon => "acquire dropped",
        // From here on, the contender holds the lock when the phase begins.
        /// The holder waits for the loss of its lock.
        Loss => "lost",
        /// The holder writes with a guarded transaction.
        Transaction => "transaction",
        /// The holder of the write lock also acquires the read lock.
        ReadToo => "read beside write",
        /// The holder of the write lock downgrades to a reader.
        Downgrade => "downgrade",
        /// The holder re-enters, releases the second guard, and then the first.
        ReEntry => "re-entry and release",
        /// The holder releases.
        Release => "release",
        /// The holder drops its guard.
        Drop => "guard dropped",
        // From here on, the contender is a leader latch.
        /// A participant joins, until it leads or waits for the participants ahead. The directories
        /// exist unless this participant is the first.
        Join => "join",
        /// The participants ahead leave, until this participant leads.
        TakeOver => "take over",
        /// The leader resigns, and rejoins.
        Resign => "resign",
        /// The leader stands aside.
        StandAside => "stand aside",
        /// A waiting participant stands aside.
        StandAsideWaiting => "stand aside, waiting",
        /// The leader closes its latch.
        Close => "close",
        /// A waiting participant closes its latch.
        CloseWaiting => "close, waiting",
    }
}

impl Phase {
    fn is_at(self, position: Position) -> bool {
        match self {
            // A contender ahead would have created the directories.
            Self::NewDirectory => position == Position::First,
            Self::Turn | Self::Abandon => position != Position::First,
            Self::TakeOver | Self::StandAsideWaiting | Self::CloseWaiting => {
                position != Position::First
            }
            // Before its timeout, the contender sends the same requests as without a timeout, in
            // all positions.
            Self::TimeOut => position == Position::Middle,
            _ => true,
        }
    }

    fn is_of(self, kind: Kind) -> bool {
        match self {
            Self::ReadToo | Self::Downgrade => kind == Kind::Write,
            Self::ReEntry => kind.is_reentrant(),
            // A latch queues as a mutex does, in the same directory.
            phase if phase.is_of_a_latch() => kind == Kind::Mutex,
            _ => true,
        }
    }

    /// Whether the contender already waits when the phase begins.
    pub(crate) fn begins_waiting(self) -> bool {
        matches!(
            self,
            Self::Turn
                | Self::Abandon
                | Self::TakeOver
                | Self::StandAsideWaiting
                | Self::CloseWaiting
        )
    }

    /// Whether the contender holds the lock when the phase begins.
    pub(crate) fn begins_holding(self) -> bool {
        matches!(self, Self::Resign | Self::StandAside | Self::Close)
            || (Self::Loss..=Self::Drop).contains(&self)
    }

    /// Whether the contender creates its node in this phase, in an existing directory, and waits
    /// without a limit.
    pub(crate) fn creates_a_node(self) -> bool {
        matches!(self, Self::Acquire | Self::Join | Self::Resign)
    }

    /// Whether the phase belongs to a leader latch.
    pub(crate) fn is_of_a_latch(self) -> bool {
        self >= Self::Join
    }

    /// Whether the acquire ends without the lock if another contender is ahead.
    pub(crate) fn ends_without_lock(self) -> bool {
        matches!(self, Self::Try | Self::TimeOut)
    }

    /// Whether the phase may need no request in some positions, because earlier requests have done
    /// everything.
    pub(crate) fn may_be_silent(self) -> bool {
        matches!(self, Self::Turn | Self::Loss | Self::TakeOver)
    }

    /// Whether the phase has a future that can be dropped.
    pub(crate) fn has_future(self) -> bool {
        !matches!(self, Self::Abandon | Self::Drop)
    }
}

/// A lock, an operation on it, and a position in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Course {
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
    pub(crate) position: Position,
}

impl Course {
    /// All courses.
    pub(crate) fn all() -> Vec<Self> {
        let mut courses = Vec::new();
        for kind in Kind::WITH_FAULTS {
            for phase in Phase::all().filter(|phase| phase.is_of(kind)) {
                for position in Position::all().filter(|position| phase.is_at(*position)) {
                    courses.push(Self {
                        kind,
                        phase,
                        position,
                    });
                }
            }
        }
        courses
    }

    /// Whether the phase ends while the contender waits for the contenders ahead.
    pub(crate) fn ends_waiting(self) -> bool {
        matches!(self.phase, Phase::Acquire | Phase::Join) && self.position.before() > 0
    }

    /// The name of the lock, or of the leader latch.
    pub(crate) fn subject(self) -> &'static str {
        if self.phase.is_of_a_latch() {
            "leader latch"
        } else {
            self.kind.name()
        }
    }
}
