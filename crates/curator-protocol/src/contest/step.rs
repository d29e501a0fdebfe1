//! The steps, requests, answers and events that a contest and its runner exchange.

use crate::queue::SequenceOverflow;

/// The next action of the runner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "the contest continues only if its runner performs the step"]
#[expect(
    clippy::exhaustive_enums,
    reason = "a runner of contests must handle every case"
)]
pub enum Step {
    /// Send one pipeline: all requests without waiting for answers; then report all answers in one
    /// call.
    Send {
        /// The requests, each with the index of its directory. The directory of the leases comes
        /// after the queues. All creates come first and are one transaction; all plain reads come
        /// last and are one `multiRead`.
        requests: Vec<(usize, Request)>,
        /// When to send them.
        pace: Pace,
    },
    /// Wait for an event of a watch.
    Wait,
    /// The contest is won. The nodes are in the order of the queues. For a semaphore they are the
    /// leases, and the place in the queue is deleted.
    Won(Vec<OwnNode>),
    /// The contest does not wait, and another contender is before us, or too few leases are left.
    Refused,
    /// One of our nodes was deleted: start a new contest with a new id, if the retry policy allows
    /// it.
    Restart,
    /// The contest cannot continue.
    Failed {
        /// The queue where it cannot continue.
        queue: usize,
        /// Why.
        error: ContestError,
    },
}

/// When to send a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a runner of contests must handle every case"
)]
pub enum Pace {
    /// Immediately.
    Now,
    /// After a pause: other clients or the server keep creating and deleting a directory, or the
    /// limit. This is never a reason to end the acquire, unless the contest must not wait.
    Pause,
    /// When the retry policy allows it, if at all: a request has failed.
    Retry,
}

/// How many attempts in a row are repeated immediately if they fail because other clients create or
/// delete directories at the same time. Later attempts are paced.
///
/// If directories are only created, each failed attempt finds more of them, so at most as many
/// attempts fail as directories were missing. 64 contenders that began together, each for 32 of 256
/// new paths, needed at most 9.
pub(super) const IMMEDIATE_ATTEMPTS: u8 = 16;

/// A request to the server, about a directory or a child of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a runner of contests must handle every case"
)]
pub enum Request {
    /// Create our node: ephemeral and sequential.
    Create,
    /// Like `Create`, but also create the missing directories, in the same transaction: the server
    /// removes a directory that is created alone and never gets a child only after minutes (since
    /// ZooKeeper 3.10), or never.
    CreateWithParents,
    /// Make the connected server catch up with the leader.
    Sync,
    /// List the directory.
    List,
    /// List the directory, and watch for children that are created or deleted.
    WatchList,
    /// Read this child, to learn its session and its version.
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
    /// Read the limit: how many leases there may be.
    Limit,
    /// Read the limit, and watch it.
    WatchLimit,
    /// Create the node that contains the limit.
    CreateLimit,
    /// In one transaction: create the directory if it is missing, check that the limit still has
    /// its version, create the leases, and delete our place in the queue unless another client has
    /// written to it.
    Take {
        /// Whether to create the directory. It has the same parent as the queue's directory, so
        /// where our place exists, the parent exists.
        with_directory: bool,
        /// How many leases.
        quantity: usize,
        /// The limit that the take relies on.
        limit: Limit,
        /// The name of our place in queue 0.
        place: String,
        /// The latest version of its data that was read. Other clients write the data only to
        /// request a revocation.
        place_version: i32,
    },
}

impl Request {
    /// Whether this creates our node in a queue.
    #[must_use]
    pub fn is_create(&self) -> bool {
        matches!(self, Self::Create | Self::CreateWithParents)
    }
}

/// The limit: how many leases there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a runner of contests constructs it"
)]
pub struct Limit {
    /// The number.
    pub leases: usize,
    /// The version of the node that contains it; `None` if the number is fixed.
    pub version: Option<i32>,
}

/// The server's answer to a [`Request`].
///
/// Other failures (no permission, a full disk) are not reported to the contest: the runner ends the
/// contest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a runner of contests must handle every case"
)]
pub enum Answer {
    /// To `Create` and `CreateWithParents`.
    Created(OwnNode),
    /// To `Create`, `List`, `WatchList` and `Take`: the directory, or a parent of it, does not
    /// exist. To `CreateWithParents`, and to a `Take` that creates the directory: a directory that
    /// the runner did not try to create was missing, or a directory that it tried to create already
    /// existed. Nothing was created.
    NoParent,
    /// To `CreateLimit` and `Sync`.
    Done,
    /// To `List` and `WatchList`.
    Children(Vec<String>),
    /// To `Inspect`, `WatchAhead` and `WatchOwn`: the node exists, and the watch, if one was
    /// requested, is placed.
    Node {
        /// The session that it belongs to.
        ephemeral_owner: i64,
        /// The transaction that created it.
        czxid: i64,
        /// How many times its data has been written.
        version: i32,
    },
    /// To `Inspect`, `WatchAhead`, `WatchOwn`, `Limit` and `WatchLimit`: the node does not exist,
    /// and no watch was placed. To `Take`: our place in the queue does not exist, and nothing was
    /// done.
    Missing,
    /// To `Limit` and `WatchLimit`.
    Limit(Limit),
    /// To `Take`: the leases that it created.
    Taken(Vec<OwnNode>),
    /// To `Take`: the limit has changed. Nothing was done.
    LimitChanged,
    /// To `Take`: another client has written to our place in the queue. Nothing was done.
    PlaceWritten,
    /// To any request: the connection was lost or the request timed out, so its outcome is unknown.
    /// No watch is in force.
    Unknown,
}

/// The event of a watch. Watches are one-shot: the event uses up the watch.
///
/// The runner reports events while [`Step::Wait`] is in force, in the server's order, and
/// queues events that arrive at other times. It must not report an `AheadDeleted`
/// before an `OwnDeleted` that the server sent earlier: see [`Contest`](crate::Contest).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a runner of contests must handle every case"
)]
pub enum Event {
    /// A node before ours was deleted.
    AheadDeleted {
        /// The index of the queue.
        queue: usize,
        /// The name of the node.
        name: String,
    },
    /// The data of a node before ours was written.
    AheadChanged {
        /// The index of the queue.
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
    /// How many nodes were before ours in the latest list, minus the deletions seen since.
    pub place: usize,
    /// The name of the nearest node that blocks ours.
    pub behind: &'a str,
}

/// One of our nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a runner of contests constructs it"
)]
pub struct OwnNode {
    /// Its name within the directory.
    pub name: String,
    /// The transaction that created the node. It increases from holder to holder, and so serves as
    /// a fencing token.
    pub czxid: i64,
}

/// Something that a contest leaves behind in a directory. The index of the directory is the same as
/// in [`Step::Send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a runner of contests must handle every case"
)]
pub enum Leftover<'a> {
    /// This node.
    Node {
        /// The index of the directory.
        directory: usize,
        /// The name of the node.
        name: &'a str,
    },
    /// A create was sent, and its outcome is not known: there may be any number of nodes with the
    /// contest's id.
    Unknown {
        /// The index of the directory.
        directory: usize,
    },
}

/// Why a contest cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ContestError {
    /// The directory's counter is exhausted, so the order of the queue is lost.
    #[error(transparent)]
    SequenceOverflow(#[from] SequenceOverflow),
    /// The answers do not match the requests, or the call does not match the step: a bug in the
    /// runner or in the server.
    #[error("the lock protocol was broken: {detail}")]
    Protocol {
        /// What does not match.
        detail: String,
    },
}

/// Why one entry ends the whole contest.
#[derive(Debug)]
pub(super) enum End {
    Restart,
    Refused,
    Failed(ContestError),
}

impl End {
    pub(super) fn protocol(detail: impl Into<String>) -> Self {
        Self::Failed(ContestError::Protocol {
            detail: detail.into(),
        })
    }

    pub(super) fn unexpected_answer(request: &Request, answer: &Answer) -> Self {
        Self::protocol(format!("{answer:?} is not an answer to {request:?}"))
    }
}

impl From<SequenceOverflow> for End {
    fn from(overflow: SequenceOverflow) -> Self {
        Self::Failed(overflow.into())
    }
}
