//! The operations of ZooKeeper's protocol that not all servers have, and which of them a server
//! lacks.
//!
//! A server of ZooKeeper that does not know an operation replies `Unimplemented`, and the session
//! continues. Other servers reply nothing: ClickHouse Keeper closes the connection, and does not
//! resume the session, so that all its locks are lost; `RaftKeeper` ignores the request. So the
//! client must not send such a request in a session that it uses. Before it uses a session of such a
//! server, it asks for each operation in a separate session (`supervisor/ask.rs`).
//!
//! A server of ZooKeeper is not asked. It is recognized by the ids and the passwords of its sessions.

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

/// Session ids below this are rarely ZooKeeper's.
const ZOOKEEPER_IDS: u64 = 1 << 32;

/// The password in the reply to the handshake with a server that has no passwords.
const NO_PASSWORD: [u8; 16] = [0; 16];

/// Whether the session with this id and password is one of a server that may leave unknown operations
/// without a reply. The password is `None` if the transport hides it.
///
/// A server of ZooKeeper composes its ids from its number, in the highest byte, and the time in
/// milliseconds, above the lowest 16 bits (`SessionTrackerImpl.initializeNextSessionId`). Its
/// passwords are random. ClickHouse Keeper and `RaftKeeper` count from 1, and their passwords are 16
/// zeros. A ClickHouse Keeper with the data of a ZooKeeper (`clickhouse-keeper-converter`) counts
/// from that ZooKeeper's ids, so only the password shows that it is one.
///
/// The time is the one since the start of the machine. So the ids of a server of ZooKeeper whose
/// number is 0 or a multiple of 256 are small, too, if it was started in the first minute after that.
/// It is then asked as well, which needs a few more sessions and changes nothing.
pub(crate) fn may_ignore_requests(session_id: i64, password: Option<&[u8]>) -> bool {
    session_id.unsigned_abs() < ZOOKEEPER_IDS
        || password.is_some_and(|password| password == NO_PASSWORD.as_slice())
}

/// How long an operation that a server lacks counts as missing in new sessions: the server may be
/// upgraded. Asking for it again ends a session on some servers. A session never forgets what its
/// servers lack.
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

/// What is known of one operation of a server while it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Knowledge {
    #[default]
    Unknown,
    /// A connection has ended in place of the reply. The network may have broken it.
    Doubted,
    Implemented,
    Missing,
}

impl Knowledge {
    fn after(self, finding: Finding) -> Self {
        match (self, finding) {
            (_, Finding::Replied) => Self::Implemented,
            (_, Finding::Refused | Finding::Skipped) | (Self::Doubted, Finding::Ended) => {
                Self::Missing
            }
            (_, Finding::Ended) => Self::Doubted,
        }
    }
}

/// When a server was found to lack each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct MissingSince([Option<ClockInstant>; ServerOperation::ALL.len()]);

impl MissingSince {
    /// Without what was found too long ago.
    fn at(self, now: ClockInstant) -> Self {
        Self(
            self.0.map(|since| {
                since.filter(|since| now.saturating_duration_since(*since) < MISSING_FOR)
            }),
        )
    }

    fn lacks(&self, operation: ServerOperation) -> bool {
        self.0[operation as usize].is_some()
    }
}

/// What the servers of a client were found to lack. Its sessions share it.
#[derive(Debug, Default)]
pub(crate) struct ServerOperations {
    servers: Mutex<BTreeMap<HostPort, MissingSince>>,
}

impl ServerOperations {
    /// Begins to ask `server` for a new session.
    ///
    /// What the server has is asked for again: the server may have been replaced by an older one,
    /// and the request for an operation that it has ends no session.
    pub(crate) fn begin<'a>(&'a self, server: &'a HostPort) -> Questions<'a> {
        let mut servers = self.lock();
        let missing = servers
            .get(server)
            .copied()
            .unwrap_or_default()
            .at(ClockInstant::now());
        if missing == MissingSince::default() {
            servers.remove(server);
        } else {
            servers.insert(server.clone(), missing);
        }
        drop(servers);
        Questions {
            shared: self,
            server,
            known: ServerOperation::ALL.map(|operation| {
                if missing.lacks(operation) {
                    Knowledge::Missing
                } else {
                    Knowledge::Unknown
                }
            }),
        }
    }

    /// Whether `server` was found to lack an operation without which `zookeeper-client` cannot use
    /// it.
    pub(crate) fn is_unusable_by_zookeeper_client(&self, server: &HostPort) -> bool {
        let now = ClockInstant::now();
        let missing = self.lock().get(server).copied().unwrap_or_default().at(now);
        ServerOperation::ALL
            .into_iter()
            .any(|operation| operation.is_needed_by_zookeeper_client() && missing.lacks(operation))
    }

    fn found_missing(&self, server: &HostPort, operation: ServerOperation) {
        let now = ClockInstant::now();
        let mut servers = self.lock();
        let missing = servers.entry(server.clone()).or_default();
        missing.0[operation as usize] = Some(now);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<HostPort, MissingSince>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The questions to one server for one session.
///
/// A doubt stays here: a fault of the network that ends a connection may end one of another session
/// at the same time, so the two together prove nothing.
pub(crate) struct Questions<'a> {
    shared: &'a ServerOperations,
    server: &'a HostPort,
    known: [Knowledge; ServerOperation::ALL.len()],
}

impl Questions<'_> {
    /// The operation to ask for next; `None` if all are known. Without `removeWatches`, recursive
    /// watches are not used.
    pub(crate) fn next(&self) -> Option<ServerOperation> {
        ServerOperation::ALL.into_iter().find(|operation| {
            let is_open = matches!(
                self.known[*operation as usize],
                Knowledge::Unknown | Knowledge::Doubted
            );
            is_open
                && !(*operation == ServerOperation::AddWatch
                    && self.lacks(ServerOperation::RemoveWatches))
        })
    }

    /// Records what happened after the server was asked for `operation`. What it lacks is recorded
    /// for later sessions, too.
    pub(crate) fn found(&mut self, operation: ServerOperation, finding: Finding) {
        let known = &mut self.known[operation as usize];
        *known = known.after(finding);
        if self.lacks(operation) {
            self.shared.found_missing(self.server, operation);
        }
    }

    /// The operations that the server is known to lack.
    pub(crate) fn missing(&self) -> MissingOperations {
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

    fn lacks(&self, operation: ServerOperation) -> bool {
        self.known[operation as usize] == Knowledge::Missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect_string::ConnectString;

    fn server() -> HostPort {
        ConnectString::parse("keeper:9181").unwrap().hosts()[0].clone()
    }

    /// Asks until all operations are known. Returns the questions, and what is missing.
    fn ask(
        operations: &ServerOperations,
        mut answer: impl FnMut(ServerOperation) -> Finding,
    ) -> (Vec<ServerOperation>, MissingOperations) {
        let server = server();
        let mut questions = operations.begin(&server);
        let mut asked = Vec::new();
        while let Some(operation) = questions.next() {
            asked.push(operation);
            questions.found(operation, answer(operation));
        }
        let missing = questions.missing();
        (asked, missing)
    }

    #[test]
    fn the_session_ids_of_zookeeper_are_large_and_its_passwords_are_not_zero() {
        // As in ZooKeeper's `SessionTrackerImpl`, five minutes after the start of the machine.
        let zookeeper = |server: i64| (300_000_i64 << 16) | (server << 56);
        for id in [zookeeper(0), zookeeper(1), zookeeper(255)] {
            assert!(!may_ignore_requests(id, None), "{id:#x}");
            assert!(!may_ignore_requests(id, Some(&[7; 16])), "{id:#x}");
            // A ClickHouse Keeper that continues the ids of a ZooKeeper.
            assert!(may_ignore_requests(id, Some(&[0; 16])), "{id:#x}");
        }
        for id in [1, 2, 1_000_000_000] {
            assert!(may_ignore_requests(id, None), "{id:#x}");
        }
    }

    #[test]
    fn one_connection_that_ends_proves_nothing_and_two_prove_that_the_operation_is_missing() {
        use ServerOperation::{AddWatch, CreateContainer, MultiRead, RemoveWatches};
        let operations = ServerOperations::default();
        let mut lost = 0;
        let ended = ask(&operations, |operation| match operation {
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
        let count = |operation| ended.0.iter().filter(|asked| **asked == operation).count();
        assert_eq!(
            [CreateContainer, MultiRead, RemoveWatches, AddWatch].map(count),
            [2, 2, 1, 1]
        );
        assert_eq!(ended.1.iter().collect::<Vec<_>>(), [CreateContainer]);
    }

    #[test]
    fn the_doubts_of_two_sessions_prove_nothing_together() {
        use ServerOperation::CreateContainer;
        let operations = ServerOperations::default();
        let server = server();
        let mut client = operations.begin(&server);
        let mut caches = operations.begin(&server);
        for questions in [&mut client, &mut caches] {
            questions.found(CreateContainer, Finding::Ended);
            assert!(!questions.missing().contains(CreateContainer));
        }
        // Another session begins, and forgets nothing of these.
        let _next = operations.begin(&server);
        client.found(CreateContainer, Finding::Ended);
        assert!(client.missing().contains(CreateContainer));
        caches.found(CreateContainer, Finding::Replied);
        assert!(!caches.missing().contains(CreateContainer));
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
        assert_eq!(ask(&operations, skips_ttl).0, ServerOperation::ALL);
        let again = ask(&operations, skips_ttl);
        assert_eq!(again.0.len(), ServerOperation::ALL.len() - 1);
        assert!(!again.0.contains(&CreateTtl));
        assert!(again.1.contains(CreateTtl));
        let now = ClockInstant::now();
        let mut missing = MissingSince::default();
        missing.0[CreateTtl as usize] = Some(now);
        assert_eq!(missing.at(now), missing);
        assert_eq!(missing.at(now + MISSING_FOR), MissingSince::default());
    }

    #[test]
    fn without_remove_watches_recursive_watches_are_not_asked_for_and_count_as_missing() {
        use ServerOperation::{AddWatch, RemoveWatches};
        let operations = ServerOperations::default();
        let refused = ask(&operations, |operation| {
            if operation == RemoveWatches {
                Finding::Refused
            } else {
                Finding::Replied
            }
        });
        assert!(!refused.0.contains(&AddWatch));
        assert!(refused.1.contains(RemoveWatches) && refused.1.contains(AddWatch));
        assert!(operations.is_unusable_by_zookeeper_client(&server()));
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
