//! The errors of values: shared and atomic ones, and the entries of a typed cache.

use std::sync::Arc;

use curator_client::{Error as ClientError, InvalidPath, Outcome, ZPath, debug_as_text};

use super::Error;
use crate::codec::Suffix;

/// An error of a [`SharedValue`](crate::SharedValue), a
/// [`DistributedAtomicValue`](crate::DistributedAtomicValue), or an entry of a
/// [`TypedCache`](crate::TypedCache).
///
/// Its text and its `Debug` output contain no data of a node that cannot be decoded.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// An error of the client. Nothing was changed, unless its [outcome](ClientError::outcome) is
    /// unknown: then the node may have been created with the seed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The mutex of a value that is [promoted to a
    /// lock](crate::DistributedAtomicValue::promoted_to_lock) was not acquired. Nothing was
    /// changed.
    #[error("the mutex of {path} was not acquired: {cause}")]
    Lock {
        /// The node of the value.
        path: ZPath,
        /// Why the mutex was not acquired.
        #[source]
        cause: Box<Error>,
    },
    /// Other clients changed the value each time between the read and the write, until the retry
    /// policy permitted no more retries. Nothing was changed.
    #[error("{path} was not changed: other clients were first in all of {attempts} attempts")]
    Contended {
        /// The node.
        path: ZPath,
        /// The number of attempts.
        attempts: u32,
    },
    /// The reply was lost: the value may or may not have been changed. A retry could change it
    /// again, or undo another client's change.
    #[error("it is unknown whether {path} was changed, and a retry could change it again: {cause}")]
    OutcomeUnknown {
        /// The node.
        path: ZPath,
        /// What happened.
        #[source]
        cause: ClientError,
    },
    /// A read before the write of an entry failed. Nothing was changed, although the
    /// [outcome](ClientError::outcome) of the read may be unknown.
    #[error("{path} was not changed: a read before the write failed: {cause}")]
    ReadFailed {
        /// The node.
        path: ZPath,
        /// What happened.
        #[source]
        cause: ClientError,
    },
    /// The entry does not have the expected version. Nothing was changed.
    #[error("{path} was not changed: it does not have the expected version")]
    Conflict {
        /// The node.
        path: ZPath,
    },
    /// The value was written, but over the value of a new entry: other clients have deleted the
    /// expected one, and created one with the same number of writes, between the read of the
    /// version and the write.
    #[error("{path} was created again during the write, and its value was overwritten")]
    Overwritten {
        /// The node.
        path: ZPath,
    },
    /// The sum overflows the type. Nothing was changed.
    #[error("{path} is {value}: adding {delta} overflows")]
    Overflow {
        /// The node.
        path: ZPath,
        /// The value.
        value: i64,
        /// The number to add.
        delta: i64,
    },
    /// The change of an [`update`](crate::DistributedAtomicValue::update) was declined by the
    /// caller's function. Nothing was changed.
    #[error("{path} was not changed: the update was declined")]
    Declined {
        /// The node.
        path: ZPath,
    },
    /// The node was written 2^32 - 1 times, and its version is one that servers treat as any
    /// version, so a conditional write is not possible. For a value, call
    /// [`force_set`](crate::DistributedAtomicValue::force_set), and for an entry, [`put` of
    /// `Any`](crate::ExpectedVersion::Any); a receipt can be deleted while its process does not
    /// run.
    #[error(
        "the version of {path} is -1, which servers treat as any version: first set the value unconditionally, or delete the receipt"
    )]
    VersionExhausted {
        /// The node: the value, the entry or the receipt.
        path: ZPath,
    },
    /// The node's data cannot be decoded. The text leaves out a `cause` that may [quote
    /// them](crate::CodecError). Write a valid value with
    /// [`force_set`](crate::DistributedAtomicValue::force_set) or
    /// [`put`](crate::TypedCache::put).
    #[error("{path} has no valid value{}", Suffix(&**cause))]
    Invalid {
        /// The node.
        path: ZPath,
        /// The codec's error.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The node cannot keep a value, because the servers delete it or another recipe uses it. Each
    /// value needs a path that no other recipe uses: see [which recipe may live at whose
    /// path](crate::guide::counters).
    #[error("{path} cannot keep a value{}: {cause}; use another path", if *is_written { ", but was written, because another client has replaced the node" } else { "" })]
    Unsuitable {
        /// The node: the value or the receipt.
        path: ZPath,
        /// What the node is.
        cause: UnsuitableNode,
        /// Whether the value was written, and may be lost with the node. This is so only if another
        /// client has replaced the node since the handle has last read or written it. With
        /// [`Directory`](UnsuitableNode::Directory), the node can also be a value that was created
        /// with data and children. Later calls do not report this: the node has data now.
        is_written: bool,
    },
    /// Another handle has written the receipt (in another process, or for another value in this
    /// process), or another client has deleted it. Each handle needs a different receipt. The next
    /// call takes the receipt over.
    #[error("the receipt {receipt} was written by another handle, or deleted; {path} {} changed", if *is_in_doubt { "may have been" } else { "was not" })]
    ReceiptInUse {
        /// The node of the value.
        path: ZPath,
        /// The receipt.
        receipt: ZPath,
        /// Whether this call's change may have been applied before.
        is_in_doubt: bool,
    },
}

/// A node that cannot keep a value, because the servers delete it or another recipe uses it.
///
/// A ZooKeeper server does not report whether a node is a container, so this finds only some of
/// them.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsuitableNode {
    /// The node has no data, was never written, and has or had children: the directory of a lock or
    /// of another recipe, which is a container. The servers delete a container after its last child
    /// is deleted. Not reported for a value whose seed has no data.
    ///
    /// If the node is certainly not a container, write its first value with
    /// [`CuratorClient::set_data`](curator_client::CuratorClient::set_data).
    #[error(
        "it is a directory that had no data, which the servers may delete with its last child (if it is certainly not a container, write its first value with CuratorClient::set_data)"
    )]
    Directory,
    /// The server reports that the node is a container. ClickHouse Keeper does, ZooKeeper does not.
    #[error("it is a container, which the servers delete after its last child")]
    Container,
    /// The node of a receipt has data that are not a receipt: another recipe uses it.
    #[error("its data is not a receipt, so another recipe uses it")]
    NotAReceipt,
    /// The node is ephemeral.
    #[error("it is ephemeral, and is deleted with session {session:#x}")]
    Ephemeral {
        /// The session that owns the node.
        session: i64,
    },
}

debug_as_text!(ValueError, UnsuitableNode);

impl ValueError {
    /// Whether the call can succeed if repeated unchanged. `false` if a repeat could change the
    /// value twice.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Client(error) | Self::ReadFailed { cause: error, .. } => error.is_retryable(),
            Self::Lock { cause, .. } => cause.is_retryable(),
            Self::Contended { .. }
            | Self::ReceiptInUse {
                is_in_doubt: false, ..
            } => true,
            _ => false,
        }
    }

    /// Whether the cause is that this program has closed the client.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Client(error)
            | Self::OutcomeUnknown { cause: error, .. }
            | Self::ReadFailed { cause: error, .. } => error.is_closed(),
            Self::Lock { cause, .. } => cause.is_closed(),
            _ => false,
        }
    }

    /// Whether the value may have been changed.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Client(error) => error.outcome(),
            Self::OutcomeUnknown { .. }
            | Self::Overwritten { .. }
            | Self::ReceiptInUse {
                is_in_doubt: true, ..
            }
            | Self::Unsuitable {
                is_written: true, ..
            } => Outcome::Unknown,
            _ => Outcome::NotApplied,
        }
    }
}

impl From<InvalidPath> for ValueError {
    fn from(error: InvalidPath) -> Self {
        Self::Client(error.into())
    }
}

/// Whether another client has changed, created or deleted the node since it was read.
pub(crate) fn is_conflict(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::BadVersion { .. }
            | ClientError::NodeExists { .. }
            | ClientError::NoNode { .. }
    )
}
