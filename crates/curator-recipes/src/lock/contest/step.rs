//! What a contest and its shell say to each other.

use super::super::queue::SequenceOverflow;

/// What the shell does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "the contest does not go on by itself"]
pub enum Step {
    /// Send one flight: all requests one after another without waiting for answers; then give all the answers at once.
    Send {
        /// The requests, in the order in which the server must see them.
        requests: Vec<Request>,
        /// Whether to ask the retry policy first.
        pace: Pace,
    },
    /// Wait for an event of one of the watches.
    Wait,
    /// The lock is ours.
    Owned(OwnNode),
    /// Our node is gone: begin a new contest with a new id, if the retry policy allows it.
    Restart(RestartReason),
    /// It cannot go on.
    Failed(ContestError),
}

/// When a flight is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pace {
    /// At once.
    Now,
    /// Something has failed: when the retry policy says, if it does.
    Retry,
}

/// One request to the server, about the lock's directory or a child of it.
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
    /// Read the data of this child, to see whose it is.
    Inspect {
        /// The child.
        name: String,
    },
    /// Read the data of this child, which is before us, and watch it.
    ///
    /// A read and not `exists`: the watch that `exists` leaves on a missing node would leak.
    WatchAhead {
        /// The child.
        name: String,
    },
    /// Read the data of our own node, and watch it.
    WatchOwn {
        /// The child.
        name: String,
    },
}

/// What the server says to one [`Request`].
///
/// Failures that mean something else (no permission, a full disk) never reach the contest: the shell gives up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To `Create`.
    Created {
        /// The node's name, with the number that the server has given it.
        name: String,
        /// The transaction that created it.
        czxid: i64,
    },
    /// To `Create`, `CreateParents` and `List`: the directory, or a parent of it, does not exist.
    NoParent,
    /// To `Create`: a node with the name that ours would get is there already. Nothing was created.
    NameTaken,
    /// To `CreateParents`: they exist now.
    ParentsReady,
    /// To `Sync`.
    Synced,
    /// To `List`.
    Children(Vec<String>),
    /// To `Inspect`, `WatchAhead` and `WatchOwn`: the node exists, and if a watch was asked for, it is placed.
    Node {
        /// The session that it belongs to.
        ephemeral_owner: i64,
        /// The transaction that created it.
        czxid: i64,
        /// Whether it bears our id, by the rule of the driver's
        /// [`identity`](super::super::driver::LockInternalsDriver::identity).
        is_ours: bool,
    },
    /// To `Inspect`, `WatchAhead` and `WatchOwn`: there is no such node, and no watch was placed.
    Missing,
    /// To any: the connection was lost or the time was over, so nobody can know whether it was done. No watch is in force.
    Unknown,
}

/// What a watch has seen. Watches are one-shot: it is used up by this.
///
/// The shell gives events while [`Step::Wait`] is in force, in the order in which the server sent them; those that come
/// at other times, it keeps. It must never give `AheadDeleted` while an `OwnDeleted` that the server sent before lies
/// unseen: see [`Contest`](super::Contest).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A node before us was deleted.
    AheadDeleted {
        /// Which.
        name: String,
        /// Whether the order of events can be trusted: no connection can have been lost since the watch was placed.
        certain: bool,
    },
    /// The data of a node before us was written.
    AheadChanged {
        /// Which.
        name: String,
    },
    /// Our node was deleted.
    OwnDeleted,
    /// The data of our node was written.
    OwnChanged,
    /// Something may have been missed. The shell has let go of all watches of this contest.
    Uncertain,
}

/// Our node in the lock's directory.
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
    /// The answers do not fit the requests, or the call does not fit the step: a defect of the shell or of the server.
    #[error("the lock protocol was broken: {detail}")]
    Protocol {
        /// What does not fit.
        detail: String,
    },
}

impl ContestError {
    pub(super) fn protocol(detail: impl Into<String>) -> Self {
        Self::Protocol { detail: detail.into() }
    }
}
