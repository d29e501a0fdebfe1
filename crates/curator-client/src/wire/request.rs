//! Encodes the frames that a client sends.

use crate::acl::Acl;
use crate::codec::{
    self, AUTH_XID, Control, NewNode, OpCode, PING_XID, Read, RequestHeader, Writer, frame,
    write_end, write_part,
};
use crate::operation::{CreateMode, NodeSpec, ReadOperation, TransactionOperation};
use crate::path::ZPath;

/// The version in a request that requires none.
const ANY_VERSION: i32 = -1;
/// The mode of `addWatch` for persistent recursive watches.
const PERSISTENT_RECURSIVE: i32 = 1;
/// The error code of an operation in a request; it has a meaning only in a reply.
const NO_ERROR: i32 = -1;

/// A request that writes, with borrowed values.
type Write<'a> = codec::Write<&'a ZPath, &'a [u8], &'a [Acl]>;
/// A request about the connection.
type About<'a> = Control<&'a ZPath, &'a str, &'a [u8]>;
/// A request about the connection's watches.
type AboutWatches<'a> = Control<&'a ZPath, &'a ZPath, &'a [u8]>;

/// A ping, answered with [`PING_XID`].
pub(crate) fn ping() -> Vec<u8> {
    frame(PING_XID, &About::Ping {})
}

/// Adds an identity to the connection; answered with [`AUTH_XID`].
pub(crate) fn auth(scheme: &str, auth: &[u8]) -> Vec<u8> {
    frame(
        AUTH_XID,
        &About::Auth {
            kind: 0,
            scheme,
            auth,
        },
    )
}

/// A token of SASL; the reply is a `token`.
pub(crate) fn sasl(xid: i32, token: &[u8]) -> Vec<u8> {
    frame(xid, &About::Sasl { token })
}

/// A request with a reply. Its docs name the method of [`Body`](super::reply::Body) that decodes
/// the reply.
#[derive(Clone, Copy)]
pub(crate) enum Request<'a> {
    /// `created`.
    Create(&'a NodeSpec),
    /// `created_without_stat`. For servers without `create2`, which have neither containers nor
    /// nodes with a time to live.
    CreateWithoutStat(&'a NodeSpec),
    /// `empty`.
    Delete {
        path: &'a ZPath,
        version: Option<i32>,
    },
    /// `data`. A watch is set only if the node exists.
    GetData { path: &'a ZPath, watch: bool },
    /// `stat`; the error `NoNode` if there is no node. The watch is set in both cases.
    Exists { path: &'a ZPath, watch: bool },
    /// `children`. A watch is set only if the node exists.
    GetChildren { path: &'a ZPath, watch: bool },
    /// `stat`.
    SetData {
        path: &'a ZPath,
        data: &'a [u8],
        version: Option<i32>,
    },
    /// `acl`.
    GetAcl { path: &'a ZPath },
    /// `stat`.
    SetAcl {
        path: &'a ZPath,
        acl: &'a [Acl],
        version: Option<i32>,
    },
    /// `synced`.
    Sync { path: &'a ZPath },
    /// `transaction`.
    Multi(&'a [TransactionOperation]),
    /// `transaction`; no stats of new nodes. For servers without `create2`.
    MultiWithoutStats(&'a [TransactionOperation]),
    /// `reads`.
    MultiRead(&'a [ReadOperation]),
    /// `watch_added`. The watch is persistent and recursive.
    AddWatch { path: &'a ZPath },
    /// `empty`; the error `NoWatcher` if there is no watch.
    RemoveWatches { path: &'a ZPath, kind: WatchKind },
    /// `empty`. The server closes the connection after the reply.
    CloseSession,
}

/// The watches that `removeWatches` removes, as in ZooKeeper's `Watcher.WatcherType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchKind {
    Children = 1,
    /// Watches on the data or the existence of a node.
    Data = 2,
    /// All watches of the connection on the node.
    Any = 3,
}

/// A request that must not be sent, because the server would misunderstand it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct InvalidRequest {
    /// The index of the operation in a transaction; 0 for other requests.
    pub(crate) index: usize,
    pub(crate) reason: &'static str,
}

impl Request<'_> {
    /// Whether the request sets a watch.
    pub(super) fn sets_watch(&self) -> bool {
        match self {
            Self::GetData { watch, .. }
            | Self::Exists { watch, .. }
            | Self::GetChildren { watch, .. } => *watch,
            Self::AddWatch { .. } => true,
            _ => false,
        }
    }

    /// Whether the request sets or removes a recursive watch.
    pub(super) fn changes_recursive_watches(&self) -> bool {
        matches!(
            self,
            Self::AddWatch { .. }
                | Self::RemoveWatches {
                    kind: WatchKind::Any,
                    ..
                }
        )
    }

    /// Encodes the request. `xid` must be positive, and one higher than the xid of the request
    /// before.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`] if a time to live is shorter than a millisecond.
    pub(crate) fn frame(&self, xid: i32) -> Result<Vec<u8>, InvalidRequest> {
        Ok(match *self {
            Self::Create(node) => frame(xid, &create(node, 0)?),
            Self::CreateWithoutStat(node) => frame(xid, &without_stat(create(node, 0)?)),
            Self::Delete { path, version } => frame(xid, &delete(path, version)),
            Self::GetData { path, watch } => frame(xid, &Read::GetData { path, watch }),
            Self::Exists { path, watch } => frame(xid, &Read::Exists { path, watch }),
            Self::GetChildren { path, watch } => frame(xid, &Read::GetChildren { path, watch }),
            Self::SetData {
                path,
                data,
                version,
            } => frame(xid, &set_data(path, data, version)),
            Self::GetAcl { path } => frame(xid, &Read::GetAcl { path }),
            Self::SetAcl { path, acl, version } => frame(
                xid,
                &Write::SetAcl {
                    path,
                    acl,
                    version: version_or_any(version),
                },
            ),
            Self::Sync { path } => frame(xid, &AboutWatches::Sync { path }),
            Self::Multi(operations) => multi(xid, operations, |create| create)?,
            Self::MultiWithoutStats(operations) => multi(xid, operations, without_stat)?,
            Self::MultiRead(operations) => multi_read(xid, operations),
            Self::AddWatch { path } => frame(
                xid,
                &AboutWatches::AddWatch {
                    path,
                    mode: PERSISTENT_RECURSIVE,
                },
            ),
            Self::RemoveWatches { path, kind } => frame(
                xid,
                &AboutWatches::RemoveWatches {
                    path,
                    kind: kind as i32,
                },
            ),
            Self::CloseSession => frame(xid, &AboutWatches::CloseSession {}),
        })
    }
}

/// `adapt` is applied to each create.
fn multi(
    xid: i32,
    operations: &[TransactionOperation],
    adapt: fn(Write<'_>) -> Write<'_>,
) -> Result<Vec<u8>, InvalidRequest> {
    let mut writer = Writer::default();
    writer.write(&RequestHeader {
        xid,
        op: OpCode::Multi,
    });
    for (index, operation) in operations.iter().enumerate() {
        let part = match operation {
            TransactionOperation::Check { path, version } => Write::Check {
                path,
                version: version_or_any(*version),
            },
            TransactionOperation::Create(node) => adapt(create(node, index)?),
            TransactionOperation::SetData {
                path,
                data,
                version,
            } => set_data(path, data, *version),
            TransactionOperation::Delete { path, version } => delete(path, *version),
        };
        write_part(&mut writer, NO_ERROR, &part);
    }
    write_end(&mut writer);
    Ok(writer.into_frame())
}

fn multi_read(xid: i32, operations: &[ReadOperation]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.write(&RequestHeader {
        xid,
        op: OpCode::MultiRead,
    });
    for operation in operations {
        let part = match operation {
            ReadOperation::Children(path) => Read::GetChildren { path, watch: false },
            ReadOperation::Data(path) => Read::GetData { path, watch: false },
        };
        write_part(&mut writer, NO_ERROR, &part);
    }
    write_end(&mut writer);
    writer.into_frame()
}

/// `index` is the index of the operation in a transaction.
fn create(node: &NodeSpec, index: usize) -> Result<Write<'_>, InvalidRequest> {
    let flags = match node.mode {
        CreateMode::Persistent => 0,
        CreateMode::Ephemeral => 1,
        CreateMode::PersistentSequential => 2,
        CreateMode::EphemeralSequential => 3,
        CreateMode::Container => 4,
        CreateMode::PersistentWithTtl(_) => 5,
        CreateMode::PersistentSequentialWithTtl(_) => 6,
    };
    let new = NewNode {
        path: &node.path,
        data: &*node.data,
        acl: &*node.acl,
        flags,
    };
    Ok(match node.mode {
        CreateMode::Container => Write::CreateContainer { node: new },
        CreateMode::PersistentWithTtl(ttl) | CreateMode::PersistentSequentialWithTtl(ttl) => {
            // The server refuses a time to live above its maximum.
            let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
            if ttl == 0 {
                return Err(InvalidRequest {
                    index,
                    reason: "the time to live is shorter than a millisecond",
                });
            }
            Write::CreateTtl { node: new, ttl }
        }
        _ => Write::Create2 { node: new },
    })
}

/// The create whose reply has no stat, instead of one whose reply has a stat.
fn without_stat(write: Write<'_>) -> Write<'_> {
    match write {
        Write::Create2 { node } => Write::Create { node },
        other => other,
    }
}

fn delete(path: &ZPath, version: Option<i32>) -> Write<'_> {
    Write::Delete {
        path,
        version: version_or_any(version),
    }
}

fn set_data<'a>(path: &'a ZPath, data: &'a [u8], version: Option<i32>) -> Write<'a> {
    Write::SetData {
        path,
        data,
        version: version_or_any(version),
    }
}

fn version_or_any(version: Option<i32>) -> i32 {
    version.unwrap_or(ANY_VERSION)
}
