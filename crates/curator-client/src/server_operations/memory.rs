//! Remembers for ten minutes what the servers of a client were found to lack.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::ServerOperation;
use crate::connect_string::HostPort;
use crate::time::ClockInstant;

/// How long an operation that a server lacks counts as missing in new sessions: the server may be
/// upgraded. Asking for it again ends a session on some servers. A session never forgets what its
/// servers lack.
const MISSING_FOR: Duration = Duration::from_secs(600);

/// A server whose operations are remembered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerKey {
    /// The address of a connection: its name may have the addresses of several servers, of which
    /// some lack more than others while they are upgraded.
    Address(SocketAddr),
    /// The name, if the address of the connection is not known.
    Name(HostPort),
}

/// When a server was found to lack each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MissingSince([Option<ClockInstant>; ServerOperation::ALL.len()]);

impl MissingSince {
    /// Without what was found too long ago.
    fn at(self, now: ClockInstant) -> Self {
        Self(
            self.0.map(|since| {
                since.filter(|since| now.saturating_duration_since(*since) < MISSING_FOR)
            }),
        )
    }

    pub(super) fn lacks(&self, operation: ServerOperation) -> bool {
        self.0[operation as usize].is_some()
    }
}

/// What the servers of a client were found to lack. Its sessions share it.
#[derive(Debug, Default)]
pub(crate) struct ServerOperations {
    servers: Mutex<BTreeMap<ServerKey, MissingSince>>,
}

impl ServerOperations {
    /// What is remembered of `server`.
    pub(super) fn remembered(&self, server: &ServerKey) -> MissingSince {
        let now = ClockInstant::now();
        let mut servers = self.lock();
        // Of all servers: the addresses of a name may change again and again.
        servers.retain(|_, missing| {
            *missing = missing.at(now);
            *missing != MissingSince::default()
        });
        servers.get(server).copied().unwrap_or_default()
    }

    /// Whether `server` was found to lack an operation without which `zookeeper-client` cannot use
    /// it.
    pub(crate) fn is_unusable_by_zookeeper_client(&self, server: &ServerKey) -> bool {
        let missing = self.remembered(server);
        ServerOperation::ALL
            .into_iter()
            .any(|operation| operation.is_needed_by_zookeeper_client() && missing.lacks(operation))
    }

    pub(super) fn found_missing(&self, server: &ServerKey, operation: ServerOperation) {
        let now = ClockInstant::now();
        let mut servers = self.lock();
        let missing = servers.entry(server.clone()).or_default();
        missing.0[operation as usize] = Some(now);
    }

    /// Forgets that `operation` was found missing.
    pub(super) fn found_implemented(&self, server: &ServerKey, operation: ServerOperation) {
        if let Some(missing) = self.lock().get_mut(server) {
            missing.0[operation as usize] = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ServerKey, MissingSince>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_missing_is_forgotten_after_ten_minutes() {
        let now = ClockInstant::now();
        let mut missing = MissingSince::default();
        missing.0[ServerOperation::CreateTtl as usize] = Some(now);
        assert_eq!(missing.at(now), missing);
        assert_eq!(missing.at(now + MISSING_FOR), MissingSince::default());
    }

    #[test]
    fn servers_at_several_addresses_of_a_name_are_remembered_separately() {
        use ServerOperation::Create2;
        let operations = ServerOperations::default();
        let old = ServerKey::Address("127.0.0.1:9181".parse().unwrap());
        let new = ServerKey::Address("127.0.0.2:9181".parse().unwrap());
        operations.found_missing(&old, Create2);
        for (server, is_old) in [(&old, true), (&new, false)] {
            assert_eq!(operations.is_unusable_by_zookeeper_client(server), is_old);
            assert_eq!(operations.remembered(server).lacks(Create2), is_old);
        }
        operations.found_implemented(&old, Create2);
        assert!(!operations.is_unusable_by_zookeeper_client(&old));
        // A server of which nothing is remembered any more takes no space.
        operations.remembered(&new);
        assert!(operations.lock().is_empty());
    }
}
