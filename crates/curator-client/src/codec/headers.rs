//! Op codes, the headers of requests and replies, events, and the handshake.

use super::jute::{Decode, Encode, Malformed, Reader, Writer};
use super::value::{Trailing, records};

/// The xid of events, which are not replies to requests.
pub const EVENT_XID: i32 = -1;
/// The xid of pings and their replies. Only one ping may be in flight.
pub const PING_XID: i32 = -2;
/// The xid of a request that adds an identity to a connection.
pub const AUTH_XID: i32 = -4;

/// The state in an event: connected. Clients generate the other states themselves.
const SYNC_CONNECTED: i32 = 3;

records! {
    /// The first frame of a connection: requests a new session, or resumes one.
    ConnectRequest<D> {
        /// The version of the protocol, 0.
        protocol: i32,
        /// The newest zxid of the replies so far: a server with older state refuses the connection.
        /// 0 at first.
        last_zxid_seen: i64,
        /// The requested timeout, in milliseconds.
        timeout: i32,
        /// 0 for a new session.
        session_id: i64,
        /// Empty, or 16 zeros, for a new session.
        password: D,
        /// Whether a read-only server is acceptable. Left out by clients older than this flag.
        read_only: Trailing<bool>,
    }

    /// The reply to the first frame: the granted session, or a refusal.
    ConnectResponse<D> {
        /// The version of the protocol, 0.
        protocol: i32,
        /// The granted timeout, in milliseconds.
        timeout: i32,
        /// 0 if the requested session has ended, or is not the client's.
        session_id: i64,
        /// The password of the session.
        password: D,
        /// Whether the server is read-only. Left out by old servers, and for clients older than
        /// this flag.
        read_only: Trailing<bool>,
    }

    /// The start of each request.
    RequestHeader {
        /// The number of the request, which its reply repeats.
        xid: i32,
        /// The kind of the request.
        op: OpCode,
    }

    /// The start of each reply and event.
    ReplyHeader {
        /// The xid of the request, or [`EVENT_XID`].
        xid: i32,
        /// The zxid of the write, or the newest one that the server knows.
        zxid: i64,
        /// 0, or the error code; nothing follows an error.
        error: i32,
    }

    /// What a watch reports, after a [`ReplyHeader`].
    Event<T> {
        /// The number of the [`EventKind`]; -1 if the state of the session has changed.
        kind: i32,
        /// The state of the session, as in ZooKeeper's `KeeperState`.
        state: i32,
        /// The path of the node.
        path: T,
    }
}

impl<D> ConnectRequest<D> {
    /// The request of a client that reports no zxid seen. A session id of 0 requests a new session.
    pub fn new(timeout: i32, session_id: i64, password: D) -> Self {
        Self {
            protocol: 0,
            last_zxid_seen: 0,
            timeout,
            session_id,
            password,
            read_only: Trailing(Some(false)),
        }
    }
}

impl<D: Encode> ConnectRequest<D> {
    /// The frame of the request.
    pub fn frame(&self) -> Vec<u8> {
        encode_frame(self)
    }
}

impl<D: Encode> ConnectResponse<D> {
    /// The frame of the reply.
    pub fn frame(&self) -> Vec<u8> {
        encode_frame(self)
    }
}

impl<T> Event<T> {
    /// The event of a node, as a server sends it.
    pub fn of_node(kind: EventKind, path: T) -> Self {
        Self {
            kind: kind.number(),
            state: SYNC_CONNECTED,
            path,
        }
    }
}

fn encode_frame(values: &impl Encode) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.write(values);
    writer.into_frame()
}

/// What has happened to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "ZooKeeper's names")]
pub enum EventKind {
    /// The node was created.
    NodeCreated = 1,
    /// The node was deleted.
    NodeDeleted = 2,
    /// The node's data was set.
    NodeDataChanged = 3,
    /// A child was created or deleted.
    NodeChildrenChanged = 4,
}

impl EventKind {
    const ALL: [Self; 4] = [
        Self::NodeCreated,
        Self::NodeDeleted,
        Self::NodeDataChanged,
        Self::NodeChildrenChanged,
    ];

    /// ZooKeeper's number.
    #[must_use]
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The kind with this number, if there is one.
    #[must_use]
    pub fn of_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

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
    /// Reads a node's ACL.
    GetAcl = 6,
    /// Writes a node's ACL.
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
    /// Not a request: marks an operation that failed in the results of a `Multi` or `MultiRead`,
    /// and the end of their operations and results.
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
