//! The data types of requests and replies.
//!
//! This module uses only the modules of ACLs and paths, so the adapter in `zk` can take and return
//! its types directly.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acl::Acl;
use crate::path::ZPath;
use crate::text::Length;

/// The kind of node to create (ZooKeeper's `CreateMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// Stays until it is deleted.
    Persistent,
    /// Like `Persistent`; the server appends a ten-digit number to the name.
    PersistentSequential,
    /// Is removed when the session ends.
    Ephemeral,
    /// Like `Ephemeral`; the server appends a ten-digit number to the name.
    EphemeralSequential,
    /// The server removes it some time after its last child was deleted. Needs ZooKeeper 3.5.1 or
    /// newer.
    Container,
    /// Like `Persistent`; the server removes it when it has had no children and no change for this
    /// long. Needs a server with `extendedTypesEnabled`.
    PersistentWithTtl(Duration),
    /// Like `PersistentWithTtl`; the server appends a ten-digit number to the name.
    PersistentSequentialWithTtl(Duration),
}

impl CreateMode {
    /// Whether the server appends a number to the name.
    #[must_use]
    pub fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PersistentSequential
                | Self::EphemeralSequential
                | Self::PersistentSequentialWithTtl(_)
        )
    }

    /// Whether the node is removed when the session ends.
    #[must_use]
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }
}

/// A node's metadata on the server (ZooKeeper's `Stat`).
///
/// A *zxid* is the number of a change; later changes have higher numbers. The default has zeros
/// everywhere, and is meant for tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stat {
    /// The zxid of the node's creation.
    pub czxid: i64,
    /// The zxid of the last change of the node's data.
    pub mzxid: i64,
    /// The zxid of the last creation or deletion of a child.
    pub pzxid: i64,
    /// When the node was created, in milliseconds since 1970, on the clock of the ensemble's
    /// leader.
    pub ctime: i64,
    /// When the node's data was last set, in milliseconds since 1970, on the clock of the
    /// ensemble's leader.
    pub mtime: i64,
    /// How many times the node's data was set since its creation.
    pub version: i32,
    /// How many times a child was created or deleted.
    pub cversion: i32,
    /// How many times the node's ACL was set since its creation.
    pub aversion: i32,
    /// For an ephemeral node, the id of the session that owns it. Otherwise 0, even for containers
    /// and nodes with a time to live; in ClickHouse Keeper, [`i64::MIN`] for containers.
    pub ephemeral_owner: i64,
    /// The length of the node's data in bytes.
    pub data_length: i32,
    /// The number of the node's children.
    pub num_children: i32,
}

/// A node to create: the arguments of a create request.
#[derive(Clone)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the arguments of ZooKeeper's create; callers write them in full"
)]
pub struct NodeSpec {
    /// The path; for a sequential node, without the number that the server appends.
    pub path: ZPath,
    /// The data.
    pub data: Arc<[u8]>,
    /// The kind of node.
    pub mode: CreateMode,
    /// The node's ACL.
    pub acl: Arc<[Acl]>,
}

/// Shows the length of the data instead of the data.
impl fmt::Debug for NodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            data,
            mode,
            acl,
        } = self;
        let mut fields = f.debug_struct("NodeSpec");
        fields
            .field("path", path)
            .field("data", &Length(data.len()))
            .field("mode", mode)
            .field("acl", acl)
            .finish()
    }
}

impl NodeSpec {
    /// The approximate size of the request in bytes.
    pub(crate) fn size(&self) -> usize {
        self.path.as_str().len() + self.data.len() + size_of_acl(&self.acl) + REQUEST_FRAMING
    }
}

/// The size of an ACL in a request, in bytes.
pub(crate) fn size_of_acl(acl: &[Acl]) -> usize {
    acl.iter()
        .map(|acl| acl.scheme().len() + acl.id().len() + 12)
        .sum()
}

/// The lengths, header and flags of a request, rounded up.
pub(crate) const REQUEST_FRAMING: usize = 64;

/// A node that was created, or whose data were set by
/// [`or_set_data`](crate::CreateBuilder::or_set_data).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// Its path, including the number that the server appended.
    pub path: ZPath,
    /// Its stat after the create or set. If the reply to a protected create is lost, its stat when it
    /// was found. A node that is created later has a higher `czxid`.
    pub stat: Stat,
}

/// The name of a transaction in errors.
pub(crate) const TRANSACTION: &str = "transaction on";

/// One operation of a transaction.
#[derive(Clone)]
#[non_exhaustive]
pub enum TransactionOperation {
    /// Requires that the node exists, with this version if one is given.
    Check {
        /// The node.
        path: ZPath,
        /// The required version.
        version: Option<i32>,
    },
    /// Creates a node.
    Create(NodeSpec),
    /// Sets a node's data.
    SetData {
        /// The node.
        path: ZPath,
        /// The data.
        data: Arc<[u8]>,
        /// The required version.
        version: Option<i32>,
    },
    /// Deletes a node.
    Delete {
        /// The node.
        path: ZPath,
        /// The required version.
        version: Option<i32>,
    },
}

/// Shows the length of the data instead of the data.
impl fmt::Debug for TransactionOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, data, version) = match self {
            Self::Create(node) => return f.debug_tuple("Create").field(node).finish(),
            Self::Check { version, .. } => ("Check", None, version),
            Self::SetData { data, version, .. } => ("SetData", Some(data), version),
            Self::Delete { version, .. } => ("Delete", None, version),
        };
        let mut fields = f.debug_struct(name);
        fields.field("path", self.path());
        if let Some(data) = data {
            fields.field("data", &Length(data.len()));
        }
        fields.field("version", version).finish()
    }
}

impl TransactionOperation {
    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        match self {
            Self::Check { path, .. } | Self::SetData { path, .. } | Self::Delete { path, .. } => {
                path
            }
            Self::Create(node) => &node.path,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Check { .. } => "check",
            Self::Create(_) => "create",
            Self::SetData { .. } => "set data of",
            Self::Delete { .. } => "delete",
        }
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Create(node) => node.size(),
            Self::SetData { path, data, .. } => path.as_str().len() + data.len() + REQUEST_FRAMING,
            Self::Check { path, .. } | Self::Delete { path, .. } => {
                path.as_str().len() + REQUEST_FRAMING
            }
        }
    }
}

/// The result of one operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionResult {
    /// The check succeeded.
    Checked,
    /// The node was created.
    Created(Created),
    /// The data was set.
    DataSet(Stat),
    /// The node was deleted.
    Deleted,
}

/// The name of a multi-read in errors.
pub(crate) const MULTI_READ: &str = "multi-read on";

/// One operation of [`Session::read_all`](crate::Session::read_all).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadOperation {
    /// The names of a node's children.
    Children(ZPath),
    /// A node's data and stat.
    Data(ZPath),
}

impl ReadOperation {
    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        match self {
            Self::Children(path) | Self::Data(path) => path,
        }
    }

    /// The name that the errors of the individual requests use.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Children(_) => "list",
            Self::Data(_) => "get data of",
        }
    }

    /// The approximate size of the operation in a request, in bytes; an upper bound.
    #[must_use]
    pub fn size(&self) -> usize {
        self.path().as_str().len() + REQUEST_FRAMING
    }
}

/// The result of one operation of [`Session::read_all`](crate::Session::read_all).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// The names of the node's children, in no particular order.
    Children(Vec<String>),
    /// The node's data and stat.
    Data {
        /// The data.
        data: Vec<u8>,
        /// The stat.
        stat: Stat,
    },
}

/// Shows the length of the data instead of the data.
impl fmt::Debug for ReadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Children(names) => f.debug_tuple("Children").field(names).finish(),
            Self::Data { data, stat } => f
                .debug_struct("Data")
                .field("data", &Length(data.len()))
                .field("stat", stat)
                .finish(),
        }
    }
}
