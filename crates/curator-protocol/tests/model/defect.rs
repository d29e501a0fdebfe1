//! What can be wrong around a contest.

/// What is wrong on purpose. The search must find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The contest goes on over a lost session, and takes the dying session's node for its own.
    AdoptsOverSessions,
    /// An owner goes on when its session is lost.
    OwnsOverSessions,
    /// One that contends again has the id that it had before.
    ReturnsUnderItsOldName,
    /// Our own node's watch is never placed.
    IgnoresOwnWatch,
    /// The watch ahead never fires.
    LosesAheadEvents,
    /// Watches are placed again on the next connection, and what that tells is given in any order.
    KeepsWatchesOverConnections,
    /// The deletion of a node before us is reported although our own node's deletion came before.
    ForgetsOrderOfEvents,
    /// When our own node's event is given before one that is at hand already, the latter is forgotten.
    ForgetsOneOfTwoEvents,
    /// A broken connection is not reported, though all watches are gone.
    HidesInterruptions,
    /// A broken connection is reported later than what a watch on the next one has seen.
    ReportsInterruptionsLate,
    /// When the node goes that a contender watches, it owns the lock, whoever else may be before it.
    TakesAnyDeletionForOwnership,
    /// A cancelled acquire is simply dropped.
    HasNoJanitor,
    /// A contest that was refused is simply dropped.
    LeavesTheRefused,
    /// The nodes are created one after another, in the order in which each contender names its queues.
    EntersOneByOne,
    /// The directories are created before the first node, and not with it.
    CreatesDirectoriesAlone,
    /// When a node is lost, only its queue is entered again, and the other nodes are kept.
    ReentersAlone,
    /// The own node of a queue that is owned early is not watched.
    GuardsNothing,
    /// A contest that begins anew leaves the nodes of the last one.
    LeavesTheOthers,
    /// The place in the queue is given up after the take, and not in its transaction.
    GivesThePlaceUpLater,
    /// The take does not check that the limit is still the same.
    TrustsTheLimit,
    /// The watch on the leases never fires.
    LosesLeaseEvents,
    /// A take that was not answered counts as not done; the place is given up after the take.
    TakesAgainBlindly,
    /// The take does not check that nobody has written to the place since it was made or read.
    TakesUnread,
    /// The clean-up leaves the leases that may have been taken.
    LeavesLeases,
}
