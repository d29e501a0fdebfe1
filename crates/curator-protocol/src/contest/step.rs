//! What a contest and its runner say to each other.

use crate::queue::SequenceOverflow;

/// What the runner does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "the contest does not go on by itself"]
pub enum Step {
    /// Send one pipeline: all requests without waiting for answers; then give all the answers at once.
    Send {
        /// The requests, each with the number of its directory: that of the queue, or the one after the queues for the
        /// leases. All creates come first and are one transaction; all plain reads come last and are one `multiRead`.
        requests: Vec<(usize, Request)>,
        /// Whether to ask the retry policy first.
        pace: Pace,
    },
    /// Wait for an event of one of the watches.
    Wait,
    /// It is won. The nodes in the order of the queues; or the leases, and then the place in the queue is given up.
    Won(Vec<OwnNode>),
    /// It is somebody else's turn, and the contest may not wait.
    Refused,
    /// A node of ours is gone: begin a new contest with a new id, if the retry policy allows it.
    Restart(RestartReason),
    /// It cannot go on.
    Failed {
        /// The queue that it cannot go on in.
        queue: usize,
        /// Why.
        error: ContestError,
    },
}

/// When a pipeline is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pace {
    /// At once.
    Now,
    /// Something has failed: when the retry policy says, if it does.
    Retry,
}

/// One request to the server, about a directory or a child of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Create our node: ephemeral and sequential.
    Create,
    /// Create the directory and its parents, where they are missing.
    CreateParents,
    /// Bring the server that we talk to up to date.
    Sync,
    /// List the directory.
    List,
    /// List the directory, and watch for children that come or go.
    WatchList,
    /// Read this child, to see whose it is and what has become of it.
    Inspect {
        /// The child.
        name: String,
    },
    /// Read this child, which is before us, and watch it.
    ///
    /// A read and not `exists`: the watch that `exists` leaves on a missing node would leak.
    WatchAhead {
        /// The child.
        name: String,
    },
    /// Read our own node, and watch it.
    WatchOwn {
        /// The child.
        name: String,
    },
    /// Read how many leases there may be.
    Limit,
    /// Read how many leases there may be, and watch that.
    WatchLimit,
    /// Create the node that says how many leases there may be.
    CreateLimit,
    /// In one transaction: check that the limit still has its version, create the leases, and delete our place in the
    /// queue, if nobody has written to it since.
    Take {
        /// How many.
        quantity: usize,
        /// By which limit.
        limit: Limit,
        /// The name of our place in queue 0.
        place: String,
        /// The version of its data as far as it was read. Others change it only to ask for the place back.
        place_version: i32,
    },
}

/// How many leases there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The number.
    pub leases: usize,
    /// The version of the node that says so; `None` if the number is fixed.
    pub version: Option<i32>,
}

/// What the server says to one [`Request`].
///
/// Failures that mean something else (no permission, a full disk) never reach the contest: the runner gives up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To `Create`.
    Created(OwnNode),
    /// To `Create`, `CreateParents`, `List`, `WatchList` and `Take`: the directory, or a parent of it, does not exist.
    NoParent,
    /// To `Create`: a node with the name that ours would get is there already. Nothing was created.
    NameTaken,
    /// To `CreateParents`, `CreateLimit` and `Sync`.
    Done,
    /// To `List` and `WatchList`.
    Children(Vec<String>),
    /// To `Inspect`, `WatchAhead` and `WatchOwn`: the node exists, and if a watch was asked for, it is placed.
    Node {
        /// The session that it belongs to.
        ephemeral_owner: i64,
        /// The transaction that created it.
        czxid: i64,
        /// How often its data was written.
        version: i32,
        /// Whether it bears our id, by the rule of the driver's [`identity`](crate::LockInternalsDriver::identity).
        is_ours: bool,
    },
    /// To `Inspect`, `WatchAhead`, `WatchOwn`, `Limit` and `WatchLimit`: there is no such node, and no watch was placed.
    /// To `Take`: our place in the queue is gone, and nothing was done.
    Missing,
    /// To `Limit` and `WatchLimit`.
    Limit(Limit),
    /// To `Take`: done.
    Taken(Vec<OwnNode>),
    /// To `Take`: the limit has changed. Nothing was done.
    LimitChanged,
    /// To `Take`: somebody has written to our place in the queue. Nothing was done.
    PlaceWritten,
    /// To any: the connection was lost or the time was over, so nobody can know whether it was done. No watch is in force.
    Unknown,
}

/// What a watch has seen. Watches are one-shot: it is used up by this.
///
/// The runner gives events while [`Step::Wait`] is in force, in the order in which the server sent them; those that come
/// at other times, it keeps. It must never give `AheadDeleted` while an `OwnDeleted` that the server sent before lies
/// unseen: see [`Contest`](crate::Contest).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A node before ours was deleted.
    AheadDeleted {
        /// In which queue.
        queue: usize,
        /// Which.
        name: String,
    },
    /// The data of a node before ours was written.
    AheadChanged {
        /// In which queue.
        queue: usize,
        /// Which.
        name: String,
    },
    /// Our node in this queue was deleted.
    OwnDeleted(usize),
    /// The data of our node in this queue was written.
    OwnChanged(usize),
    /// A lease came or went.
    LeasesChanged,
    /// The limit of the leases was written or deleted.
    LimitChanged,
    /// The connection broke, and with it all watches of this contest.
    Interrupted,
}

/// A node of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnNode {
    /// Its name within the directory.
    pub name: String,
    /// The transaction that created it. Rises from holder to holder, and so serves as a fencing token.
    pub czxid: i64,
}

/// Why a contest has to start afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RestartReason {
    /// The watch on our node has seen somebody delete it.
    NodeDeleted,
    /// A read has shown that our node is gone, though nobody told us to delete it.
    NodeMissing,
}

/// Why a contest cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ContestError {
    /// The directory's counter is at its end, and so the order of the queue is lost.
    #[error(transparent)]
    SequenceOverflow(#[from] SequenceOverflow),
    /// The answers do not fit the requests, or the call does not fit the step: a defect of the runner or of the server.
    #[error("the lock protocol was broken: {detail}")]
    Protocol {
        /// What does not fit.
        detail: String,
    },
}

/// Why one part of a contest ends the whole.
#[derive(Debug)]
pub(super) enum End {
    Restart(RestartReason),
    Refused,
    Failed(ContestError),
}

impl End {
    pub(super) fn protocol(detail: impl Into<String>) -> Self {
        Self::Failed(ContestError::Protocol { detail: detail.into() })
    }

    pub(super) fn unfit(request: &Request, answer: &Answer) -> Self {
        Self::protocol(format!("{answer:?} is no answer to {request:?}"))
    }
}

impl From<SequenceOverflow> for End {
    fn from(overflow: SequenceOverflow) -> Self {
        Self::Failed(overflow.into())
    }
}
