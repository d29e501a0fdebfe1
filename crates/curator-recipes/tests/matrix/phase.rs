//! What a contender does when the fault strikes, and where in the queue it is.

use super::support::subjects::Kind;

impl Kind {
    /// The locks of the matrix. Locks that send the same are here once: the semaphore mutex sends what a semaphore with one
    /// lease sends.
    pub(crate) const STRUCK: [Self; 8] = [
        Self::Mutex,
        Self::SemaphoreMutex,
        Self::Leases,
        Self::SharedLimit,
        Self::Read,
        Self::Write,
        Self::Paths,
        Self::Locks,
    ];

    /// The lock of those before it, counted from the first of them. Of two that follow one another, one is exclusive.
    pub(crate) fn before(self, nth: usize) -> Self {
        match (self, nth % 2) {
            (Self::Read, 0) | (Self::Write, 1) => Self::Write,
            (Self::Read | Self::Write, _) => Self::Read,
            _ => self,
        }
    }

    /// Whether its courses are also played with a cut. Of locks that recover in the same way, one stands for all.
    pub(crate) fn stands_for_recovery(self) -> bool {
        self != Self::SemaphoreMutex
    }
}

named! {
    /// Where a contender stands, or stood when it came.
    enum Position {
        /// Nobody is before it, and somebody behind it.
        First => "first",
        /// One is before it, and one behind it.
        Middle => "middle",
        /// Three are before it, so that it looks ahead, and nobody behind it.
        Last => "last",
    }
}

impl Position {
    /// How many are before it.
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
    /// A part of what a contender does. Its requests are those that the faults strike.
    enum Phase {
        /// An acquire, up to the lock; the directories are not there.
        NewDirectory => "acquire, no directory",
        /// An acquire, up to the lock or until it waits for those before it.
        Acquire => "acquire",
        /// Those before it leave, up to the lock.
        Turn => "its turn",
        /// An acquire that waits for nobody, up to the lock or to its refusal.
        Try => "try_acquire",
        /// An acquire whose time runs out while it waits.
        TimeOut => "acquire_timeout",
        /// An acquire is dropped while it waits.
        Abandon => "acquire dropped",
        // From here on, it holds the lock when the phase begins.
        /// The holder waits for the loss of its lock.
        Loss => "lost",
        /// The holder writes by a guarded transaction.
        Transaction => "transaction",
        /// The holder of the write lock takes the read lock too.
        ReadToo => "read beside write",
        /// The holder of the write lock becomes a reader.
        Downgrade => "downgrade",
        /// The holder enters again, gives that back, and releases.
        ReEntry => "re-entry and release",
        /// The holder releases.
        Release => "release",
        /// The holder drops its guard.
        Drop => "guard dropped",
        // From here on, it is a leader latch.
        /// A participant joins, up to leadership or until it waits for those before it; the directories are there if anybody is.
        Join => "join",
        /// Those before it leave, up to leadership.
        TakeOver => "take over",
        /// The leader resigns, and joins again.
        Resign => "resign",
        /// The leader stands aside.
        StandAside => "stand aside",
        /// One that waits stands aside.
        StandAsideWaiting => "stand aside, waiting",
        /// The leader closes its latch.
        Close => "close",
        /// One that waits closes its latch.
        CloseWaiting => "close, waiting",
    }
}

impl Phase {
    fn is_at(self, position: Position) -> bool {
        match self {
            // Who is before others has made the directories.
            Self::NewDirectory => position == Position::First,
            Self::Turn | Self::Abandon => position != Position::First,
            Self::TakeOver | Self::StandAsideWaiting | Self::CloseWaiting => position != Position::First,
            // What it sends before its time is over, an acquire sends in all positions.
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

    /// Whether the contender waits already when the phase begins.
    pub(crate) fn begins_waiting(self) -> bool {
        matches!(self, Self::Turn | Self::Abandon | Self::TakeOver | Self::StandAsideWaiting | Self::CloseWaiting)
    }

    /// Whether the contender holds the lock when the phase begins.
    pub(crate) fn begins_holding(self) -> bool {
        matches!(self, Self::Resign | Self::StandAside | Self::Close) || (Self::Loss..=Self::Drop).contains(&self)
    }

    /// Whether the contender makes its node in it.
    pub(crate) fn makes_a_node(self) -> bool {
        matches!(self, Self::Acquire | Self::Join | Self::Resign)
    }

    /// Whether it is a leader latch that does this.
    pub(crate) fn is_of_a_latch(self) -> bool {
        self >= Self::Join
    }

    /// Whether the contender asks for the lock, and ends without it if somebody is before it.
    pub(crate) fn gives_up(self) -> bool {
        matches!(self, Self::Try | Self::TimeOut)
    }

    /// Whether it may pass without a request in some positions: with what has been sent before, nothing is left to do.
    pub(crate) fn may_be_silent(self) -> bool {
        matches!(self, Self::Turn | Self::Loss | Self::TakeOver)
    }

    /// Whether there is a future that can be dropped.
    pub(crate) fn has_future(self) -> bool {
        !matches!(self, Self::Abandon | Self::Drop)
    }
}

/// A lock, what is done with it, and where in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Course {
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
    pub(crate) position: Position,
}

impl Course {
    /// All that there are.
    pub(crate) fn all() -> Vec<Self> {
        let phases = |kind| Phase::all().filter(move |phase| phase.is_of(kind)).map(move |phase| (kind, phase));
        let positions = |(kind, phase): (_, Phase)| {
            let positions = Position::all().filter(move |position| phase.is_at(*position));
            positions.map(move |position| Self { kind, phase, position })
        };
        Kind::STRUCK.into_iter().flat_map(phases).flat_map(positions).collect()
    }

    /// Whether the phase ends while the contender waits for those before it.
    pub(crate) fn ends_waiting(self) -> bool {
        matches!(self.phase, Phase::Acquire | Phase::Join) && self.position.before() > 0
    }

    /// What the contender is.
    pub(crate) fn subject(self) -> &'static str {
        if self.phase.is_of_a_latch() { "leader latch" } else { self.kind.name() }
    }
}
