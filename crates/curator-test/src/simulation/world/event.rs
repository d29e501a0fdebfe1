//! What happens in a world, in the order of time, and what its servers send to each other.

use std::collections::BTreeMap;

use super::{ProcessId, ServerId};
use crate::{
    embedded::{Body, Change, Code, ConnectionId, Millis},
    traffic::Note,
};

/// An event in a world.
#[derive(Debug)]
pub(crate) enum Event {
    /// A client's request for a connection arrives.
    Connect(ConnectionId),
    /// A frame arrives at the server; `None` is the end.
    ToServer(ConnectionId, Option<Vec<u8>>),
    /// A frame arrives at the client; `None` is the end.
    ToClient(ConnectionId, Option<(Vec<u8>, Note)>),
    /// A server's message to the server that it considered the leader.
    Forward {
        from: ServerId,
        to: ServerId,
        epoch: u32,
        message: Box<Forwarded>,
    },
    /// A leader's message to a follower.
    Tell {
        from: ServerId,
        to: ServerId,
        epoch: u32,
        message: Box<Message>,
    },
    /// A server reports to the leader which sessions were active.
    Report(ServerId),
    /// The oldest proposal of this leader has been acknowledged.
    Commit { leader: ServerId, epoch: u32 },
    /// The leader checks for expired sessions.
    Expire { leader: ServerId, epoch: u32 },
    /// The leader checks for empty containers and expired TTL nodes.
    Clean { leader: ServerId, epoch: u32 },
    /// A follower without its leader, or a leader without a majority, looks for a leader, unless
    /// its connections are back by then.
    LoseQuorum { server: ServerId, attempt: u64 },
    /// A server without a leader looks for one.
    Elect { server: ServerId, attempt: u64 },
    /// A fault ends.
    Undo(Undo),
    /// The next random faults may begin.
    RandomFault(u64),
    /// All faults end.
    Heal,
}

/// The end of a fault. `change` is the number of the change that began the fault. If the same
/// server, process or setting has been changed again since, for example by the test, the end has no
/// effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    ResumeProcess {
        process: ProcessId,
        change: u64,
    },
    ResumeServer {
        server: ServerId,
        change: u64,
    },
    Start {
        server: ServerId,
        change: u64,
    },
    Reconnect {
        process: ProcessId,
        server: ServerId,
        change: u64,
    },
    ReconnectServers {
        change: u64,
    },
    Timeouts {
        change: u64,
    },
    Access(u64),
    Silence {
        link: ConnectionId,
        change: u64,
    },
}

/// The future events, ordered by time. Events of the same time keep the order in which they were
/// added.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    events: BTreeMap<(Millis, u64), Event>,
    added: u64,
}

impl Queue {
    pub(crate) fn add(&mut self, at: Millis, event: Event) {
        self.added += 1;
        self.events.insert((at, self.added), event);
    }

    /// Takes the next event that is due at `now` or earlier, with its time.
    pub(crate) fn take(&mut self, now: Millis) -> Option<(Millis, Event)> {
        let first = self
            .events
            .first_entry()
            .filter(|first| first.key().0 <= now)?;
        let at = first.key().0;
        Some((at, first.remove()))
    }

    /// When the next event is due.
    pub(crate) fn next(&self) -> Option<Millis> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }
}

/// A request that a server forwards to the leader.
#[derive(Debug)]
pub(crate) enum Forwarded {
    /// `session` is the client's session and its timeout, or `None` for a new session and for the
    /// operator.
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

/// Identifies the request that waits for a change.
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
    /// Ends a wait, after everything that was committed before.
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
