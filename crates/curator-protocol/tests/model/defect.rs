//! Defects of a runner.

/// A defect built in on purpose. The search must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The contest continues after a lost session, and adopts the dying session's node.
    AdoptsOverSessions,
    /// An owner continues after its session is lost.
    OwnsOverSessions,
    /// A contender that returns reuses its id.
    ReturnsWithItsOldId,
    /// The watch on the contest's own node is never placed.
    IgnoresOwnWatch,
    /// The watch on a node ahead never fires.
    LosesAheadEvents,
    /// Watches are placed again on the next connection, and their events are reported in any order.
    KeepsWatchesOverConnections,
    /// The deletion of a node ahead is reported although the contest's own node was deleted
    /// earlier.
    ForgetsOrderOfEvents,
    /// When an event of the contest's own node is reported before an earlier event, the earlier
    /// event is dropped.
    ForgetsOneOfTwoEvents,
    /// A broken connection is not reported, though all watches are gone.
    HidesInterruptions,
    /// A broken connection is reported after events of watches on the next one.
    ReportsInterruptionsLate,
    /// The deletion of any watched node counts as ownership, whichever other nodes are before the
    /// contest's own.
    TakesAnyDeletionForOwnership,
    /// A cancelled acquire is dropped without a clean-up.
    HasNoJanitor,
    /// A refused contest is dropped without a clean-up.
    LeavesNodesWhenRefused,
    /// The nodes are created one by one, in the order in which the contender names its queues.
    EntersOneByOne,
    /// The directories are created before the first node, in a separate request.
    CreatesDirectoriesAlone,
    /// When a node is deleted, only its queue is entered again, and the other nodes are kept.
    ReentersOneQueue,
    /// In a queue that the contest owns while it waits in another, its own node is not watched.
    IgnoresOwnWatchInOwnedQueues,
    /// A contest that starts over leaves its old nodes.
    LeavesNodesOnRestart,
    /// The place in the queue is deleted after the take, in a separate request.
    DeletesThePlaceLater,
    /// The take does not check the limit's version.
    IgnoresTheLimitsVersion,
    /// The watch on the leases never fires.
    LosesLeaseEvents,
    /// An unanswered take counts as not applied; the place is deleted after the take.
    TakesAgainWithoutRecovery,
    /// The take does not check the version of the place's data.
    IgnoresThePlacesVersion,
    /// The clean-up leaves leases that may have been taken.
    LeavesLeases,
}
