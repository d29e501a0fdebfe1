//! The data of requests and answers.
//!
//! It is at the bottom of the crate, so that the adapter can take and return it as it is. Stats and access control lists are
//! types of the client crate, which no other file outside the adapter names.

use std::sync::Arc;
use std::time::Duration;

pub use zookeeper_client::{Acl, AuthId, Permission, Stat};

use crate::path::ZPath;

/// What kind of node to create (ZooKeeper's `CreateMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// Stays until it is deleted.
    Persistent,
    /// As `Persistent`; the server appends a ten-digit number to the name.
    PersistentSequential,
    /// Goes with the session.
    Ephemeral,
    /// As `Ephemeral`; the server appends a ten-digit number to the name.
    EphemeralSequential,
    /// The server removes it some time after its last child went. Servers from 3.5.1 on.
    Container,
    /// As `Persistent`; the server removes it when it had no children and no change for this long. Only where the
    /// server has `extendedTypesEnabled`.
    PersistentWithTtl(Duration),
    /// As `PersistentWithTtl`; the server appends a ten-digit number to the name.
    PersistentSequentialWithTtl(Duration),
}

impl CreateMode {
    /// Whether the server appends a number to the name.
    #[must_use]
    pub fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential | Self::PersistentSequentialWithTtl(_))
    }

    /// Whether the node goes with the session.
    #[must_use]
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }
}

/// A node to create: everything that the server needs to know.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    /// The path; for a sequential node, what the number is appended to.
    pub path: ZPath,
    /// The data.
    pub data: Arc<[u8]>,
    /// The kind.
    pub mode: CreateMode,
    /// Who may do what with it.
    pub acl: Arc<[Acl]>,
}

impl NodeSpec {
    /// About how many bytes the request has.
    pub(crate) fn size(&self) -> usize {
        let acl: usize = self.acl.iter().map(|acl| acl.scheme().len() + acl.id().len() + 12).sum();
        self.path.as_str().len() + self.data.len() + acl + REQUEST_FRAMING
    }
}

/// Lengths, header and flags of a request, rounded up.
pub(crate) const REQUEST_FRAMING: usize = 64;

/// A node that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// Its path, with the number that the server appended.
    pub path: ZPath,
    /// Its stat at creation. `czxid` rises from creation to creation.
    pub stat: Stat,
}

/// The name of a transaction in errors.
pub(crate) const TRANSACTION: &str = "transaction on";

/// One operation of a transaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TransactionOperation {
    /// The node must exist, with this version if one is given.
    Check {
        /// The node.
        path: ZPath,
        /// The version that it must have.
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
        /// The version that it must have.
        version: Option<i32>,
    },
    /// Deletes a node.
    Delete {
        /// The node.
        path: ZPath,
        /// The version that it must have.
        version: Option<i32>,
    },
}

impl TransactionOperation {
    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        match self {
            Self::Check { path, .. } | Self::SetData { path, .. } | Self::Delete { path, .. } => path,
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
            Self::Check { path, .. } | Self::Delete { path, .. } => path.as_str().len() + REQUEST_FRAMING,
        }
    }
}

/// The result of one operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionResult {
    /// The check held.
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

    /// As the errors of the single requests name it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Children(_) => "list",
            Self::Data(_) => "get data of",
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.path().as_str().len() + REQUEST_FRAMING
    }
}

/// The result of one operation of [`Session::read_all`](crate::Session::read_all).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// The names of the node's children, in no order.
    Children(Vec<String>),
    /// The node's data and stat.
    Data {
        /// The data.
        data: Vec<u8>,
        /// The stat.
        stat: Stat,
    },
}
