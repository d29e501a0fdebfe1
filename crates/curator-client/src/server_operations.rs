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

mod memory;
mod missing;
mod questions;
mod recognition;

use std::fmt;

pub(crate) use self::memory::{ServerKey, ServerOperations};
pub(crate) use self::missing::{KnownMissing, MissingOperations};
pub(crate) use self::questions::{Finding, Questions};
pub(crate) use self::recognition::is_other_server;
use crate::operation::{CreateMode, TransactionOperation};

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
