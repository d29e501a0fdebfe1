//! What a claim and its shell say to each other.

use crate::lock::contest::{OwnNode, Pace};

/// How many leases there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The number.
    pub leases: usize,
    /// The version of the node that says so; `None` if the number is fixed.
    pub version: Option<i32>,
}

/// What the shell does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "the claim does not go on by itself"]
pub enum ClaimStep {
    /// Send one flight; then give all the answers at once.
    Send {
        /// The requests, in the order in which the server must see them.
        requests: Vec<ClaimRequest>,
        /// Whether to ask the retry policy first.
        pace: Pace,
    },
    /// Wait for an event of one of the watches.
    Wait,
    /// The leases are ours, and the place in the queue is given up.
    Taken(Vec<OwnNode>),
    /// There are not enough leases, and we may not wait.
    Refused,
    /// The place in the queue is gone: begin anew at its end.
    Restart,
    /// The answers do not fit the requests: a defect of the shell or of the server.
    Failed(&'static str),
}

/// One request to the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimRequest {
    /// List the leases; and watch the list, if it is to be waited for.
    Leases {
        /// Whether to watch.
        watch: bool,
    },
    /// Read how many leases there may be; and watch that, if it is to be waited for. A fixed number needs no request.
    Limit {
        /// Whether to watch.
        watch: bool,
    },
    /// Create the node that says how many leases there may be.
    CreateLimit,
    /// In one transaction: check that the limit still has its version, create the leases, and delete our place, if nobody
    /// has written to it since it was read or made.
    Take {
        /// How many.
        quantity: usize,
        /// By which limit.
        limit: Limit,
    },
    /// Create the directory of the leases.
    CreateParents,
    /// Read what somebody has written to our place.
    Place,
    /// Bring the server that we talk to up to date.
    Sync,
    /// List those leases that bear our id.
    OwnLeases,
    /// Ask for the transaction that created this lease.
    Inspect {
        /// The lease.
        name: String,
    },
}

/// What the server says to one [`ClaimRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimAnswer {
    /// To `Leases`: how many there are, foreign children not counted. None if there is no directory.
    Leases(usize),
    /// To `Limit`.
    Limit(Limit),
    /// To `Limit`: there is no such node. To `CreateLimit`: it exists now.
    NoLimit,
    /// To `CreateLimit`.
    LimitReady,
    /// To `Take`: done.
    Taken(Vec<OwnNode>),
    /// To `Take`: the limit has changed. Nothing was done.
    LimitChanged,
    /// To `Take`: somebody has written to our place in the queue. Nothing was done.
    PlaceWritten,
    /// To `Take` and `Place`: our place in the queue is gone. Nothing was done.
    PlaceGone,
    /// To `Place`.
    PlaceRead,
    /// To `Take` and `CreateParents`: the directory of the leases does not exist. Nothing was done.
    NoParent,
    /// To `CreateParents`: it exists now.
    ParentsReady,
    /// To `Sync`.
    Synced,
    /// To `OwnLeases`: their names.
    OwnLeases(Vec<String>),
    /// To `Inspect`.
    Node {
        /// The session that it belongs to.
        ephemeral_owner: i64,
        /// The transaction that created it.
        czxid: i64,
    },
    /// To `Inspect`: there is no such node.
    Missing,
    /// To any: nobody can know whether it was done. No watch is in force.
    Unknown,
}

/// What a watch has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimEvent {
    /// A lease came or went.
    LeasesChanged,
    /// The limit was written or deleted.
    LimitChanged,
}
