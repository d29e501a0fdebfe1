//! The kinds of requests.

use super::jute::{Decode, Encode, Malformed, Reader, Writer};

/// Defines the kinds with their numbers, as in ZooKeeper's `ZooDefs.OpCode`.
macro_rules! op_codes {
    ($($(#[$docs:meta])* $name:ident = $number:literal,)+) => {
        /// A kind of request, named as in ZooKeeper.
        ///
        /// The handshake has no op code on the wire. It counts as
        /// [`CreateSession`](Self::CreateSession), whether it creates a session or resumes one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum OpCode {
            $($(#[$docs])* $name,)+
            /// An unknown kind of request, by its number.
            Other(i32),
        }

        impl OpCode {
            /// ZooKeeper's number.
            #[must_use]
            pub fn number(self) -> i32 {
                match self {
                    $(Self::$name => $number,)+
                    Self::Other(number) => number,
                }
            }
        }

        impl From<i32> for OpCode {
            fn from(number: i32) -> Self {
                match number {
                    $($number => Self::$name,)+
                    number => Self::Other(number),
                }
            }
        }
    };
}

op_codes! {
    /// Creates a node, and returns its path.
    Create = 1,
    /// Deletes a node.
    Delete = 2,
    /// Reads a node's stat.
    Exists = 3,
    /// Reads a node's data and stat.
    GetData = 4,
    /// Writes a node's data.
    SetData = 5,
    /// Reads a node's access list.
    GetAcl = 6,
    /// Writes a node's access list.
    SetAcl = 7,
    /// Lists a node's children.
    GetChildren = 8,
    /// Makes a member of an ensemble catch up with the leader.
    Sync = 9,
    /// Keeps a session alive.
    Ping = 11,
    /// Lists a node's children, and reads the node's stat.
    GetChildren2 = 12,
    /// Checks a node's version; only inside a `Multi`.
    Check = 13,
    /// Several writes, applied together or not at all.
    Multi = 14,
    /// Creates a node, and returns its path and stat.
    Create2 = 15,
    /// Changes an ensemble.
    Reconfig = 16,
    /// Checks whether a watch is set.
    CheckWatches = 17,
    /// Removes watches.
    RemoveWatches = 18,
    /// Creates a container node.
    CreateContainer = 19,
    /// Deletes an empty container; only the server itself uses it.
    DeleteContainer = 20,
    /// Creates a node with a time to live.
    CreateTtl = 21,
    /// Several reads.
    MultiRead = 22,
    /// Adds an identity to a connection.
    Auth = 100,
    /// Registers watches again after a reconnect.
    SetWatches = 101,
    /// A step of SASL.
    Sasl = 102,
    /// Lists a session's ephemeral nodes.
    GetEphemerals = 103,
    /// Counts the descendants of a node.
    GetAllChildrenNumber = 104,
    /// Registers watches again, persistent ones too.
    SetWatches2 = 105,
    /// Adds a persistent watch.
    AddWatch = 106,
    /// Returns the identities of a connection.
    WhoAmI = 107,
    /// The handshake of a connection.
    CreateSession = -10,
    /// Ends a session.
    CloseSession = -11,
    /// Not a request: in the results of a `Multi` or `MultiRead`, an operation that failed; and the
    /// end of both.
    Error = -1,
}

impl Encode for OpCode {
    fn encode(&self, writer: &mut Writer) {
        writer.int(self.number());
    }
}

impl Decode<'_> for OpCode {
    const SHORTEST: usize = 4;

    fn decode(reader: &mut Reader<'_>, expected: &'static str) -> Result<Self, Malformed> {
        reader.read(expected).map(i32::into)
    }
}
