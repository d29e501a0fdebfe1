//! Encodes the frames that a client sends.

use std::time::Duration;

use super::jute::Writer;
use super::op_code;
use crate::acl::Acl;
use crate::operation::{CreateMode, NodeSpec, ReadOperation, TransactionOperation};
use crate::path::ZPath;

/// The xid of the reply to a [`ping`]. Only one ping may be in flight.
pub(crate) const PING_XID: i32 = -2;
/// The xid of the reply to an [`auth`].
pub(crate) const AUTH_XID: i32 = -4;

/// The version in a request that requires none.
const ANY_VERSION: i32 = -1;
/// The mode of `addWatch` for persistent recursive watches.
const PERSISTENT_RECURSIVE: i32 = 1;

/// The first frame of a connection: requests a new session, or resumes one.
pub(crate) struct ConnectRequest<'a> {
    /// The newest zxid of the replies so far: a server with older state refuses the connection. 0 at first.
    pub(crate) last_zxid_seen: i64,
    /// The requested timeout.
    pub(crate) timeout: Duration,
    /// 0 for a new session.
    pub(crate) session_id: i64,
    /// Empty, or 16 zeros, for a new session.
    pub(crate) password: &'a [u8],
}

impl ConnectRequest<'_> {
    pub(crate) fn frame(&self) -> Vec<u8> {
        let timeout = i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX);
        let mut writer = Writer::default();
        // The protocol version; at the end, whether a read-only server will do.
        writer.int(0).long(self.last_zxid_seen).int(timeout).long(self.session_id).buffer(self.password).boolean(false);
        writer.into_frame()
    }
}

/// A ping, answered with [`PING_XID`].
pub(crate) fn ping() -> Vec<u8> {
    header(PING_XID, op_code::PING).into_frame()
}

/// Adds an identity to the connection; answered with [`AUTH_XID`].
pub(crate) fn auth(scheme: &str, auth: &[u8]) -> Vec<u8> {
    let mut writer = header(AUTH_XID, op_code::AUTH);
    // The first field is unused.
    writer.int(0).string(scheme).buffer(auth);
    writer.into_frame()
}

/// A token of SASL; the reply is a `token`.
pub(crate) fn sasl(xid: i32, token: &[u8]) -> Vec<u8> {
    let mut writer = header(xid, op_code::SASL);
    writer.buffer(token);
    writer.into_frame()
}

/// A request with a reply. Its docs name the method of [`Body`](super::reply::Body) that decodes the reply.
#[derive(Clone, Copy)]
pub(crate) enum Request<'a> {
    /// `created`.
    Create(&'a NodeSpec),
    /// `empty`.
    Delete { path: &'a ZPath, version: Option<i32> },
    /// `data`. A watch is set only if the node exists.
    GetData { path: &'a ZPath, watch: bool },
    /// `stat`; the error `NoNode` if there is none, which also sets the watch.
    Exists { path: &'a ZPath, watch: bool },
    /// `children`. A watch is set only if the node exists.
    GetChildren { path: &'a ZPath, watch: bool },
    /// `stat`.
    SetData { path: &'a ZPath, data: &'a [u8], version: Option<i32> },
    /// `acl`.
    GetAcl { path: &'a ZPath },
    /// `stat`.
    SetAcl { path: &'a ZPath, acl: &'a [Acl], version: Option<i32> },
    /// `synced`.
    Sync { path: &'a ZPath },
    /// `transaction`.
    Multi(&'a [TransactionOperation]),
    /// `reads`.
    MultiRead(&'a [ReadOperation]),
    /// `watch_added`. The watch is persistent and recursive.
    AddWatch { path: &'a ZPath },
    /// `empty`; the error `NoWatcher` if there is none.
    RemoveWatches { path: &'a ZPath, kind: WatchKind },
    /// `empty`. The server closes the connection after the reply.
    CloseSession,
}

/// The watches that `removeWatches` removes, as in ZooKeeper's `Watcher.WatcherType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchKind {
    Children = 1,
    /// Also watches on the existence of a node.
    Data = 2,
    /// All watches of the connection on the node.
    Any = 3,
}

/// A request that must not be sent: the server would understand something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct InvalidRequest {
    /// The operation of a transaction; 0 in other requests.
    pub(crate) index: usize,
    pub(crate) reason: &'static str,
}

impl Request<'_> {
    /// Whether the server sets a watch.
    pub(super) fn sets_watch(&self) -> bool {
        match self {
            Self::GetData { watch, .. } | Self::Exists { watch, .. } | Self::GetChildren { watch, .. } => *watch,
            Self::AddWatch { .. } => true,
            _ => false,
        }
    }

    /// The frame. `xid` must be positive, and one higher than that of the request before it.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`] if a time to live is shorter than a millisecond.
    pub(crate) fn frame(&self, xid: i32) -> Result<Vec<u8>, InvalidRequest> {
        let mut frame = Writer::default();
        let writer = frame.int(xid);
        match *self {
            Self::Create(node) => {
                let kind = Kind::of(node, 0)?;
                create(writer.int(kind.op), node, kind)
            }
            Self::Delete { path, version } => delete(writer.int(op_code::DELETE), path, version),
            Self::GetData { path, watch } => writer.int(op_code::GET_DATA).path(path).boolean(watch),
            Self::Exists { path, watch } => writer.int(op_code::EXISTS).path(path).boolean(watch),
            Self::GetChildren { path, watch } => writer.int(op_code::GET_CHILDREN).path(path).boolean(watch),
            Self::SetData { path, data, version } => set_data(writer.int(op_code::SET_DATA), path, data, version),
            Self::GetAcl { path } => writer.int(op_code::GET_ACL).path(path),
            Self::SetAcl { path, acl, version } => {
                writer.int(op_code::SET_ACL).path(path).acl(acl).int(required(version))
            }
            Self::Sync { path } => writer.int(op_code::SYNC).path(path),
            Self::Multi(operations) => multi(writer.int(op_code::MULTI), operations)?,
            Self::MultiRead(operations) => multi_read(writer.int(op_code::MULTI_READ), operations),
            Self::AddWatch { path } => writer.int(op_code::ADD_WATCH).path(path).int(PERSISTENT_RECURSIVE),
            Self::RemoveWatches { path, kind } => writer.int(op_code::REMOVE_WATCHES).path(path).int(kind as i32),
            Self::CloseSession => writer.int(op_code::CLOSE_SESSION),
        };
        Ok(frame.into_frame())
    }
}

fn header(xid: i32, op: i32) -> Writer {
    let mut writer = Writer::default();
    writer.int(xid).int(op);
    writer
}

fn multi<'a>(writer: &'a mut Writer, operations: &[TransactionOperation]) -> Result<&'a mut Writer, InvalidRequest> {
    for (index, operation) in operations.iter().enumerate() {
        match operation {
            TransactionOperation::Check { path, version } => {
                part(writer, op_code::CHECK).path(path).int(required(*version))
            }
            TransactionOperation::Create(node) => {
                let kind = Kind::of(node, index)?;
                create(part(writer, kind.op), node, kind)
            }
            TransactionOperation::SetData { path, data, version } => {
                set_data(part(writer, op_code::SET_DATA), path, data, *version)
            }
            TransactionOperation::Delete { path, version } => delete(part(writer, op_code::DELETE), path, *version),
        };
    }
    Ok(end(writer))
}

fn multi_read<'a>(writer: &'a mut Writer, operations: &[ReadOperation]) -> &'a mut Writer {
    for operation in operations {
        match operation {
            ReadOperation::Children(path) => part(writer, op_code::GET_CHILDREN).path(path),
            ReadOperation::Data(path) => part(writer, op_code::GET_DATA).path(path),
        }
        .boolean(false);
    }
    end(writer)
}

/// The header of an operation of a multi. The last field has a meaning only in results.
fn part(writer: &mut Writer, op: i32) -> &mut Writer {
    writer.int(op).boolean(false).int(-1)
}

fn end(writer: &mut Writer) -> &mut Writer {
    writer.int(op_code::END).boolean(true).int(-1)
}

/// How a kind of node is created.
struct Kind {
    op: i32,
    flags: i32,
    /// In milliseconds.
    ttl: Option<i64>,
}

impl Kind {
    /// `index`: of the operation in a transaction.
    fn of(node: &NodeSpec, index: usize) -> Result<Self, InvalidRequest> {
        let (op, flags, ttl) = match node.mode {
            CreateMode::Persistent => (op_code::CREATE2, 0, None),
            CreateMode::Ephemeral => (op_code::CREATE2, 1, None),
            CreateMode::PersistentSequential => (op_code::CREATE2, 2, None),
            CreateMode::EphemeralSequential => (op_code::CREATE2, 3, None),
            CreateMode::Container => (op_code::CREATE_CONTAINER, 4, None),
            CreateMode::PersistentWithTtl(ttl) => (op_code::CREATE_TTL, 5, Some(ttl)),
            CreateMode::PersistentSequentialWithTtl(ttl) => (op_code::CREATE_TTL, 6, Some(ttl)),
        };
        // The server refuses a time to live above its maximum.
        let ttl = ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        match ttl {
            Some(0) => Err(InvalidRequest { index, reason: "the time to live is shorter than a millisecond" }),
            ttl => Ok(Self { op, flags, ttl }),
        }
    }
}

fn create<'a>(writer: &'a mut Writer, node: &NodeSpec, kind: Kind) -> &'a mut Writer {
    let writer = writer.path(&node.path).buffer(&node.data).acl(&node.acl).int(kind.flags);
    match kind.ttl {
        Some(ttl) => writer.long(ttl),
        None => writer,
    }
}

fn delete<'a>(writer: &'a mut Writer, path: &ZPath, version: Option<i32>) -> &'a mut Writer {
    writer.path(path).int(required(version))
}

fn set_data<'a>(writer: &'a mut Writer, path: &ZPath, data: &[u8], version: Option<i32>) -> &'a mut Writer {
    writer.path(path).buffer(data).int(required(version))
}

fn required(version: Option<i32>) -> i32 {
    version.unwrap_or(ANY_VERSION)
}
