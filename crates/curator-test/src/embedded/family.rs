//! The implementations of the protocol, which differ in more than a setting.

use crate::dialect::Dialect;

/// The protocol version that ClickHouse Keeper and RaftKeeper put in a reply that refuses a
/// session.
pub(crate) const REJECTED: i32 = 42;

/// The implementations of the protocol. They differ in the handshake, in the reply to unknown
/// requests and to the end of a session, in their system nodes and in the stats of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "the servers' names")]
pub(crate) enum Family {
    ZooKeeper,
    /// - It grants a new session to each connection, whatever session the client names, and ignores
    ///   the password and the zxid that the client has seen.
    /// - It closes the connection at an unknown request.
    ClickHouseKeeper,
    /// - It resumes sessions without their password.
    /// - It does not reply to unknown requests; the connection stays open.
    RaftKeeper,
}

impl Family {
    pub(crate) fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::ZooKeeper3_5
            | Dialect::ZooKeeper3_6
            | Dialect::ZooKeeper3_7
            | Dialect::ZooKeeper3_8_0
            | Dialect::ZooKeeper3_8
            | Dialect::ZooKeeper3_9
            | Dialect::ZooKeeper3_10 => Self::ZooKeeper,
            Dialect::ClickHouseKeeper25_8
            | Dialect::ClickHouseKeeper26_3
            | Dialect::ClickHouseKeeper26_9 => Self::ClickHouseKeeper,
            Dialect::RaftKeeper2_3 => Self::RaftKeeper,
        }
    }
}
