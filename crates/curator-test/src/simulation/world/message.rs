//! What servers send to each other.

use std::collections::BTreeMap;

use super::ServerId;
use crate::embedded::{Body, Change, Code, ConnectionId, Millis};

/// A request that a server forwards to the leader.
#[derive(Debug)]
pub(crate) enum Forwarded {
    /// The session is the client's, with its timeout; none for a new session and for the operator.
    Change {
        origin: Option<Origin>,
        session: Option<(i64, Millis)>,
        change: Change,
    },
    Sync {
        origin: Origin,
        session: i64,
    },
    Resume {
        origin: Origin,
        session: i64,
        timeout: Millis,
    },
    /// Sessions that were active, with their timeouts.
    Active(BTreeMap<i64, Millis>),
}

/// Who waits for a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) server: ServerId,
    pub(crate) link: ConnectionId,
    pub(crate) ticket: u64,
}

/// A leader's message.
#[derive(Debug)]
pub(crate) enum Message {
    /// This entry of the log is committed.
    Apply(usize),
    /// The end of a wait, after everything that was committed before.
    Done(ConnectionId, u64, Outcome),
    /// The session has moved to another connection.
    Moved(ConnectionId),
}

/// How a wait ends.
#[derive(Debug)]
pub(crate) enum Outcome {
    Result(Result<Body, Code>),
    Synced,
    Session(Option<i64>),
}
