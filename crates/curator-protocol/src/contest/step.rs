//! The steps, requests, answers and events that a contest and its runner exchange.

use crate::queue::SequenceOverflow;

/// What the runner does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "the contest does not go on by itself"]
#[expect(clippy::exhaustive_enums, reason = "whoever runs a contest has to deal with every case")]
pub enum Step {
    /// Send one pipeline: all requests without waiting for answers; then report all the answers at once.
    Send {
        /// The requests, each with the index of its directory: that of a queue, or, for the leases, the one after the
        /// queues. All creates come first and are one transaction; all plain reads come last and are one `multiRead`.
        requests: Vec<(usize, Request)>,
        /// Whether to ask the retry policy first.
        pace: Pace,
    },
    /// Wait for an event of one of the watches.
    Wait,
    /// The contest is won. The nodes are in the order of the queues; or they are the leases, in which case the place in
    /// the queue has been given up.
    Won(Vec<OwnNode>),
    /// It is someone else's turn, and the contest may not wait.
    Refused,
    /// A node of ours is gone: start a new contest with a new id, if the retry policy allows it.
    Restart,
    /// The contest cannot continue.
    Failed {
        /// The queue in which it cannot continue.
        queue: usize,
        /// Why.
        error: ContestError,
    },
}

/// When a pipeline is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever runs a contest has to deal with every case")]
pub enum Pace {
    /// At once.
    Now,
    /// Something has failed: as soon as the retry policy allows it, if it does.
    Retry,
}

/// A request to the server, about a directory or a child of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever runs a contest has to deal with every case")]
pub enum Request {
    /// Create our node: ephemeral and sequential.
    Create,
    /// The same, and in the same transaction the directory and its parents, as far as they are missing. A directory that is
    /// created alone and never gets a child stays for ever.
    CreateWithParents,
    /// Make the connected server catch up with the leader.
    Sync,
    /// List the directory.
    List,
    /// List the directory, and watch for children that are created or deleted.
    WatchList,
    /// Read this child, to find out which session it belongs to, and its version.
    Inspect {
        /// The child.
        name: String,
    },
    /// Read this child, which is before us, and watch it.
    ///
    /// A read rather than `exists`: the watch that `exists` leaves on a missing node would leak.
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
    /// Create the node that contains the number of leases.
    CreateLimit,
    /// In one transaction: create the directory, if it is missing, check that the limit still has its version, create the
    /// leases, and delete our place in the queue, if no one has written to it since.
    Take {
        /// Whether the directory is missing. Its parent is also that of the queue's directory; if it is missing too, our place is.
        with_directory: bool,
        /// How many.
        quantity: usize,
        /// The limit that applies.
        limit: Limit,
        /// The name of our place in queue 0.
        place: String,
        /// The latest version of its data that was read. Others change the data only to ask for the place back.
        place_version: i32,
    },
}

impl Request {
    /// Whether it creates our node in a queue.
    #[must_use]
    pub fn is_create(&self) -> bool {
        matches!(self, Self::Create | Self::CreateWithParents)
    }
}

/// How many leases there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "whoever runs a contest writes it in full")]
pub struct Limit {
    /// The number.
    pub leases: usize,
    /// The version of the node that contains it; `None` if the number is fixed.
    pub version: Option<i32>,
}

/// The server's answer to a [`Request`].
///
/// Other failures (no permission, a full disk) never reach the contest: the runner gives up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever runs a contest has to deal with every case")]
pub enum Answer {
    /// To `Create` and `CreateWithParents`.
    Created(OwnNode),
    /// To `Create`, `List`, `WatchList` and `Take`: the directory, or a parent of it, does not exist. To `CreateWithParents`
    /// and a `Take` with the directory: others were missing than the runner has tried to create. Nothing was created.
    NoParent,
    /// To `CreateLimit` and `Sync`.
    Done,
    /// To `List` and `WatchList`.
    Children(Vec<String>),
    /// To `Inspect`, `WatchAhead` and `WatchOwn`: the node exists, and the watch, if one was requested, is placed.
    Node {
        /// The session that it belongs to.
        ephemeral_owner: i64,
        /// The transaction that created it.
        czxid: i64,
        /// How many times its data has been written.
        version: i32,
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
    /// To `Take`: someone has written to our place in the queue. Nothing was done.
    PlaceWritten,
    /// To any request: the connection was lost or the request timed out, so its outcome is unknown. No watch is in
    /// force.
    Unknown,
}

/// What a watch has seen. Watches are one-shot: the event uses up the watch.
///
/// The runner reports events while [`Step::Wait`] is in force, in the order in which the server sent them; it keeps
/// those that arrive at other times. It must never report `AheadDeleted` while an `OwnDeleted` that the server sent
/// earlier has not been seen: see [`Contest`](crate::Contest).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever runs a contest has to deal with every case")]
pub enum Event {
    /// A node before ours was deleted.
    AheadDeleted {
        /// In which queue.
        queue: usize,
        /// The name of the node.
        name: String,
    },
    /// The data of a node before ours was written.
    AheadChanged {
        /// In which queue.
        queue: usize,
        /// The name of the node.
        name: String,
    },
    /// Our node in this queue was deleted.
    OwnDeleted(usize),
    /// The data of our node in this queue was written.
    OwnChanged(usize),
    /// A lease was created or deleted.
    LeasesChanged,
    /// The limit of the leases was written or deleted.
    LimitChanged,
    /// The connection broke, and all watches of this contest with it.
    Interrupted,
}

/// Where a contest waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Standing<'a> {
    /// The index of the queue.
    pub queue: usize,
    /// The name of our node.
    pub own: &'a str,
    /// How many nodes are before ours, as far as is known.
    pub place: usize,
    /// The name of the nearest node that blocks ours.
    pub behind: &'a str,
}

/// A node of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "whoever runs a contest writes it in full")]
pub struct OwnNode {
    /// Its name within the directory.
    pub name: String,
    /// The transaction that created it. Increases from holder to holder, and so serves as a fencing token.
    pub czxid: i64,
}

/// Why a contest cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ContestError {
    /// The directory's counter is exhausted, so the order of the queue is lost.
    #[error(transparent)]
    SequenceOverflow(#[from] SequenceOverflow),
    /// The answers do not match the requests, or the call does not match the step: a defect of the runner or of the
    /// server.
    #[error("the lock protocol was broken: {detail}")]
    Protocol {
        /// What does not match.
        detail: String,
    },
}

/// Why one part of a contest ends the whole contest.
#[derive(Debug)]
pub(super) enum End {
    Restart,
    Refused,
    Failed(ContestError),
}

impl End {
    pub(super) fn protocol(detail: impl Into<String>) -> Self {
        Self::Failed(ContestError::Protocol { detail: detail.into() })
    }

    pub(super) fn unfit(request: &Request, answer: &Answer) -> Self {
        Self::protocol(format!("{answer:?} is not an answer to {request:?}"))
    }
}

impl From<SequenceOverflow> for End {
    fn from(overflow: SequenceOverflow) -> Self {
        Self::Failed(overflow.into())
    }
}
