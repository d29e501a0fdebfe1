//! The kinds of requests.

/// A kind of request, named as in ZooKeeper.
///
/// The handshake has no op code on the wire. It counts as [`CreateSession`](Self::CreateSession), whether it creates a
/// session or resumes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OpCode {
    /// Creates a node, and returns its path.
    Create,
    /// Deletes a node.
    Delete,
    /// Reads a node's stat.
    Exists,
    /// Reads a node's data and stat.
    GetData,
    /// Writes a node's data.
    SetData,
    /// Reads a node's access list.
    GetAcl,
    /// Writes a node's access list.
    SetAcl,
    /// Lists a node's children.
    GetChildren,
    /// Makes a member of an ensemble catch up with the leader.
    Sync,
    /// Keeps a session alive.
    Ping,
    /// Lists a node's children, and reads the node's stat.
    GetChildren2,
    /// Checks a node's version; only inside a `Multi`.
    Check,
    /// Several writes, applied together or not at all.
    Multi,
    /// Creates a node, and returns its path and stat.
    Create2,
    /// Changes an ensemble.
    Reconfig,
    /// Checks whether a watch is set.
    CheckWatches,
    /// Removes watches.
    RemoveWatches,
    /// Creates a container node.
    CreateContainer,
    /// Deletes an empty container; only the server itself uses it.
    DeleteContainer,
    /// Creates a node with a time to live.
    CreateTtl,
    /// Several reads.
    MultiRead,
    /// Adds an identity to a connection.
    Auth,
    /// Registers watches again after a reconnect.
    SetWatches,
    /// A step of SASL.
    Sasl,
    /// Lists a session's ephemeral nodes.
    GetEphemerals,
    /// Counts the descendants of a node.
    GetAllChildrenNumber,
    /// Registers watches again, persistent ones too.
    SetWatches2,
    /// Adds a persistent watch.
    AddWatch,
    /// Returns the identities of a connection.
    WhoAmI,
    /// The handshake of a connection.
    CreateSession,
    /// Ends a session.
    CloseSession,
    /// An unknown kind of request, by its number.
    Other(i32),
}

/// Each kind with its number, as in ZooKeeper's `ZooDefs.OpCode`.
const NUMBERS: [(OpCode, i32); 31] = [
    (OpCode::Create, 1),
    (OpCode::Delete, 2),
    (OpCode::Exists, 3),
    (OpCode::GetData, 4),
    (OpCode::SetData, 5),
    (OpCode::GetAcl, 6),
    (OpCode::SetAcl, 7),
    (OpCode::GetChildren, 8),
    (OpCode::Sync, 9),
    (OpCode::Ping, 11),
    (OpCode::GetChildren2, 12),
    (OpCode::Check, 13),
    (OpCode::Multi, 14),
    (OpCode::Create2, 15),
    (OpCode::Reconfig, 16),
    (OpCode::CheckWatches, 17),
    (OpCode::RemoveWatches, 18),
    (OpCode::CreateContainer, 19),
    (OpCode::DeleteContainer, 20),
    (OpCode::CreateTtl, 21),
    (OpCode::MultiRead, 22),
    (OpCode::Auth, 100),
    (OpCode::SetWatches, 101),
    (OpCode::Sasl, 102),
    (OpCode::GetEphemerals, 103),
    (OpCode::GetAllChildrenNumber, 104),
    (OpCode::SetWatches2, 105),
    (OpCode::AddWatch, 106),
    (OpCode::WhoAmI, 107),
    (OpCode::CreateSession, -10),
    (OpCode::CloseSession, -11),
];

impl OpCode {
    /// ZooKeeper's number.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Other(number) => number,
            known => NUMBERS.iter().find(|(op, _)| *op == known).map_or(0, |(_, number)| *number),
        }
    }
}

impl From<i32> for OpCode {
    fn from(number: i32) -> Self {
        NUMBERS.iter().find(|(_, n)| *n == number).map_or(Self::Other(number), |(op, _)| *op)
    }
}
