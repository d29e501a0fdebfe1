//! The operations of ZooKeeper's protocol that not all servers have, and which of them a server
//! lacks.
//!
//! A server of ZooKeeper that does not know an operation replies `Unimplemented`, and the session
//! continues. Other servers reply nothing: ClickHouse Keeper closes the connection, and does not
//! resume the session, so that all its locks are lost; `RaftKeeper` ignores the request. So the
//! client must not send such a request in a session that it uses. Before it uses a session of such a
//! server, it asks for each operation in a separate session (`supervisor/ask.rs`).
//!
//! A server of ZooKeeper is not asked. It is recognized by its session ids.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::connect_string::HostPort;
use crate::operation::{CreateMode, TransactionOperation};
use crate::time::ClockInstant;

/// An operation of ZooKeeper's protocol that not all servers have.
///
/// `Display` shows the name of ZooKeeper's op code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerOperation {
    /// A create whose reply contains the stat of the new node. With `Transport::Native`, the client
    /// uses the older `create` instead, and reads the stat. A client over `zookeeper-client` cannot
    /// use a server without it.
    Create2,
    /// Creates a container. Parents that would be containers become persistent nodes.
    CreateContainer,
    /// Creates a node with a time to live.
    CreateTtl,
    /// Several reads in one request. The client sends several requests instead.
    MultiRead,
    /// Removes a watch. Without it, watches that are no longer needed stay on the server until they
    /// fire or the connection ends. A client over `zookeeper-client` cannot use such a server.
    RemoveWatches,
    /// Sets a recursive watch, which caches need.
    AddWatch,
}

impl ServerOperation {
    /// In the order in which a server is asked: a recursive watch that is set must be removed.
    const ALL: [Self; 6] = [
        Self::Create2,
        Self::CreateContainer,
        Self::CreateTtl,
        Self::MultiRead,
        Self::RemoveWatches,
        Self::AddWatch,
    ];

    /// The operation that creates a node of this kind.
    #[must_use]
    pub(crate) fn of_create(mode: CreateMode) -> Self {
        match mode {
            CreateMode::Container => Self::CreateContainer,
            CreateMode::PersistentWithTtl(_) | CreateMode::PersistentSequentialWithTtl(_) => {
                Self::CreateTtl
            }
            _ => Self::Create2,
        }
    }

    /// The operation that a part of a transaction needs, if not all servers have it.
    pub(crate) fn of_part(part: &TransactionOperation) -> Option<Self> {
        match part {
            TransactionOperation::Create(node) => Some(Self::of_create(node.mode)),
            _ => None,
        }
    }

    /// Which servers have the operation.
    pub(crate) fn requirement(self) -> &'static str {
        match self {
            Self::Create2 => "needs ZooKeeper 3.5 or newer",
            Self::CreateContainer => {
                "containers need ZooKeeper 3.5.1 or newer, or a ClickHouse Keeper that has them"
            }
            Self::CreateTtl => {
                "a time to live needs ZooKeeper 3.5.3 or newer with extendedTypesEnabled, or a ClickHouse Keeper that has it"
            }
            Self::MultiRead => "needs ZooKeeper 3.6 or newer",
            Self::RemoveWatches => "needs ZooKeeper 3.5 or newer",
            Self::AddWatch => {
                "recursive watches need ZooKeeper 3.6 or newer, or a ClickHouse Keeper that has them"
            }
        }
    }

    /// Whether `zookeeper-client` sends the operation without being asked to.
    pub(crate) fn is_needed_by_zookeeper_client(self) -> bool {
        matches!(self, Self::Create2 | Self::RemoveWatches)
    }

    /// Whether the client has another way to the same result. Then it does not send the operation
    /// again in a session whose server has replied `Unimplemented` once, because a server of
    /// ZooKeeper closes the connection after that reply.
    fn has_substitute(self) -> bool {
        matches!(self, Self::CreateContainer | Self::MultiRead)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for ServerOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create2 => "create2",
            Self::CreateContainer => "createContainer",
            Self::CreateTtl => "createTTL",
            Self::MultiRead => "multiRead",
            Self::RemoveWatches => "removeWatches",
            Self::AddWatch => "addWatch",
        })
    }
}

/// A set of operations that a server lacks.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MissingOperations(u8);

impl MissingOperations {
    pub(crate) fn contains(self, operation: ServerOperation) -> bool {
        self.0 & operation.bit() != 0
    }

    fn insert(&mut self, operation: ServerOperation) {
        self.0 |= operation.bit();
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = ServerOperation> {
        ServerOperation::ALL
            .into_iter()
            .filter(move |operation| self.contains(*operation))
    }
}

impl fmt::Debug for MissingOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The operations that the server of a session, or of a connection, lacks, as far as is known.
#[derive(Default)]
pub(crate) struct KnownMissing(AtomicU8);

impl KnownMissing {
    pub(crate) fn get(&self) -> MissingOperations {
        MissingOperations(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn contains(&self, operation: ServerOperation) -> bool {
        self.get().contains(operation)
    }

    /// Adds the operations that a server was found to lack when it was asked.
    pub(crate) fn add(&self, missing: MissingOperations) {
        self.0.fetch_or(missing.0, Ordering::AcqRel);
    }

    /// Records that a server has replied `Unimplemented` to a request.
    pub(crate) fn refused(&self, operation: ServerOperation) {
        if operation.has_substitute() {
            self.0.fetch_or(operation.bit(), Ordering::AcqRel);
        }
    }
}

/// Session ids below this are not ZooKeeper's.
const ZOOKEEPER_IDS: u64 = 1 << 32;

/// Whether a session with this id is one of a server that may leave unknown operations without a
/// reply.
///
/// A server of ZooKeeper composes its ids from its number, in the highest byte, and the time in
/// milliseconds, above the lowest 16 bits (`SessionTrackerImpl.initializeNextSessionId`). ClickHouse
/// Keeper and `RaftKeeper` count from 1. (If the number of a server of ZooKeeper is 0, its ids are as
/// small during the first minute of its machine; it is then asked as well, which does no harm.)
pub(crate) fn may_ignore_requests(session_id: i64) -> bool {
    session_id.unsigned_abs() < ZOOKEEPER_IDS
}

/// How long an operation that a server lacks counts as missing in new sessions: the server may be
/// upgraded. Asking for it again ends a session on some servers.
const MISSING_FOR: Duration = Duration::from_secs(600);

/// What happened after a request for an operation was sent in a session that is used for nothing
/// else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The server has replied, with a result or an error about the node.
    Replied,
    /// The server has replied that it does not know the operation.
    Refused,
    /// The server has replied to a later request, and not to this one.
    Skipped,
    /// The connection, or the session, has ended without a reply.
    Ended,
}

/// What is known of one operation of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Knowledge {
    #[default]
    Unknown,
    /// A connection has ended in place of the reply. The network may have broken it.
    Doubted,
    Implemented,
    Missing {
        since: ClockInstant,
    },
}

impl Knowledge {
    fn after(self, finding: Finding, now: ClockInstant) -> Self {
        match (self, finding) {
            (_, Finding::Replied) => Self::Implemented,
            (_, Finding::Refused | Finding::Skipped) | (Self::Doubted, Finding::Ended) => {
                Self::Missing { since: now }
            }
            (_, Finding::Ended) => Self::Doubted,
        }
    }

    /// What is left of this for a new session.
    ///
    /// An operation that the server had is asked for again: the server may have been replaced by an
    /// older one, and the request for an operation that it has ends no session.
    fn in_new_session(self, now: ClockInstant) -> Self {
        match self {
            Self::Missing { since } if now.saturating_duration_since(since) < MISSING_FOR => self,
            _ => Self::Unknown,
        }
    }
}

/// What is known of the operations of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Known([Knowledge; ServerOperation::ALL.len()]);

impl Known {
    fn of(&mut self, operation: ServerOperation) -> &mut Knowledge {
        &mut self.0[operation as usize]
    }

    fn lacks(&self, operation: ServerOperation) -> bool {
        matches!(self.0[operation as usize], Knowledge::Missing { .. })
    }

    /// The operation to ask for next. Without `removeWatches`, recursive watches are not used.
    fn next(&self) -> Option<ServerOperation> {
        ServerOperation::ALL.into_iter().find(|operation| {
            let is_open = matches!(
                self.0[*operation as usize],
                Knowledge::Unknown | Knowledge::Doubted
            );
            is_open
                && !(*operation == ServerOperation::AddWatch
                    && self.lacks(ServerOperation::RemoveWatches))
        })
    }

    fn missing(&self) -> MissingOperations {
        let mut missing = MissingOperations::default();
        for operation in ServerOperation::ALL {
            if self.lacks(operation) {
                missing.insert(operation);
            }
        }
        if missing.contains(ServerOperation::RemoveWatches) {
            missing.insert(ServerOperation::AddWatch);
        }
        missing
    }
}

/// What is known of the operations of a client's servers. Its sessions share it.
#[derive(Debug, Default)]
pub(crate) struct ServerOperations {
    servers: Mutex<BTreeMap<HostPort, Known>>,
}

impl ServerOperations {
    /// Begins to ask `server` for a new session.
    pub(crate) fn begin(&self, server: &HostPort) {
        let now = ClockInstant::now();
        let mut servers = self.lock();
        // Also removes what is known of servers that the client no longer connects to.
        servers.retain(|_, known| {
            known
                .0
                .iter_mut()
                .for_each(|knowledge| *knowledge = knowledge.in_new_session(now));
            *known != Known::default()
        });
        servers.entry(server.clone()).or_default();
    }

    /// The operation to ask `server` for next; `None` if all are known.
    pub(crate) fn next_question(&self, server: &HostPort) -> Option<ServerOperation> {
        self.lock().entry(server.clone()).or_default().next()
    }

    /// Records what happened after `server` was asked for `operation`.
    pub(crate) fn found(&self, server: &HostPort, operation: ServerOperation, finding: Finding) {
        let now = ClockInstant::now();
        let mut servers = self.lock();
        let knowledge = servers.entry(server.clone()).or_default().of(operation);
        *knowledge = knowledge.after(finding, now);
    }

    /// The operations that `server` is known to lack.
    pub(crate) fn missing(&self, server: &HostPort) -> MissingOperations {
        self.lock()
            .get(server)
            .map(Known::missing)
            .unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<HostPort, Known>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect_string::ConnectString;

    fn server() -> HostPort {
        ConnectString::parse("keeper:9181").unwrap().hosts()[0].clone()
    }

    /// Asks until all operations are known, and returns the questions.
    fn ask(
        operations: &ServerOperations,
        mut answer: impl FnMut(ServerOperation) -> Finding,
    ) -> Vec<ServerOperation> {
        let server = server();
        operations.begin(&server);
        let mut asked = Vec::new();
        while let Some(operation) = operations.next_question(&server) {
            asked.push(operation);
            operations.found(&server, operation, answer(operation));
        }
        asked
    }

    #[test]
    fn the_session_ids_of_zookeeper_are_large() {
        // As in ZooKeeper's `SessionTrackerImpl`, five minutes after the start of the machine.
        let zookeeper = |server: i64| (300_000_i64 << 16) | (server << 56);
        for id in [zookeeper(0), zookeeper(1), zookeeper(255)] {
            assert!(!may_ignore_requests(id), "{id:#x}");
        }
        for id in [1, 2, 1_000_000_000] {
            assert!(may_ignore_requests(id), "{id:#x}");
        }
    }

    #[test]
    fn one_connection_that_ends_proves_nothing_and_two_prove_that_the_operation_is_missing() {
        use ServerOperation::{AddWatch, CreateContainer, MultiRead, RemoveWatches};
        let operations = ServerOperations::default();
        let mut lost = 0;
        let asked = ask(&operations, |operation| match operation {
            CreateContainer => Finding::Ended,
            MultiRead => {
                lost += 1;
                if lost == 1 {
                    Finding::Ended
                } else {
                    Finding::Replied
                }
            }
            _ => Finding::Replied,
        });
        let count = |operation| asked.iter().filter(|asked| **asked == operation).count();
        assert_eq!(
            [CreateContainer, MultiRead, RemoveWatches, AddWatch].map(count),
            [2, 2, 1, 1]
        );
        let missing: Vec<_> = operations.missing(&server()).iter().collect();
        assert_eq!(missing, [CreateContainer]);
    }

    #[test]
    fn a_new_session_asks_again_for_what_the_server_had_and_not_for_what_it_lacked() {
        use ServerOperation::CreateTtl;
        let operations = ServerOperations::default();
        let skips_ttl = |operation| {
            if operation == CreateTtl {
                Finding::Skipped
            } else {
                Finding::Replied
            }
        };
        assert_eq!(ask(&operations, skips_ttl), ServerOperation::ALL);
        let again = ask(&operations, skips_ttl);
        assert_eq!(again.len(), ServerOperation::ALL.len() - 1);
        assert!(!again.contains(&CreateTtl));
        assert!(operations.missing(&server()).contains(CreateTtl));
        let now = ClockInstant::now();
        let missing = Knowledge::Missing { since: now };
        assert_eq!(missing.in_new_session(now), missing);
        assert_eq!(
            missing.in_new_session(now + MISSING_FOR),
            Knowledge::Unknown
        );
    }

    #[test]
    fn without_remove_watches_recursive_watches_are_not_asked_for_and_count_as_missing() {
        use ServerOperation::{AddWatch, RemoveWatches};
        let operations = ServerOperations::default();
        let asked = ask(&operations, |operation| {
            if operation == RemoveWatches {
                Finding::Refused
            } else {
                Finding::Replied
            }
        });
        assert!(!asked.contains(&AddWatch));
        let missing = operations.missing(&server());
        assert!(missing.contains(RemoveWatches) && missing.contains(AddWatch));
    }

    #[test]
    fn a_refused_operation_is_not_sent_again_if_the_client_has_a_substitute() {
        use ServerOperation::{AddWatch, CreateTtl, MultiRead};
        let known = KnownMissing::default();
        for operation in [AddWatch, CreateTtl, MultiRead] {
            known.refused(operation);
        }
        assert_eq!(known.get().iter().collect::<Vec<_>>(), [MultiRead]);
    }
}
