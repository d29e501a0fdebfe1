//! Serializes replies and events.

use super::{Stat, Writer};
use crate::{
    OpCode,
    embedded::{acl::Acl, code::Code},
};

/// The xid of a watch event, which answers no request.
const NOTIFICATION_XID: i32 = -1;
/// The type of the final header of a multi's results, and of the result of an operation that failed.
const ERROR_OP: i32 = -1;
/// The state in each event: connected. Clients generate the other states themselves.
const SYNC_CONNECTED: i32 = 3;

/// A reply without its header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Empty,
    Path(String),
    OptionalPath(Option<String>),
    PathStat(String, Stat),
    Stat(Stat),
    DataStat(Option<Vec<u8>>, Stat),
    Children(Vec<String>),
    ChildrenStat(Vec<String>, Stat),
    Acl(Vec<Acl>, Stat),
    Number(i32),
    /// Null, which is different from an empty buffer.
    NoBuffer,
    /// Scheme and user.
    Clients(Vec<(String, String)>),
    Results(Vec<OperationResult>),
}

/// The result of one operation of a multi.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OperationResult {
    Create(String),
    Create2(String, Stat),
    Delete,
    SetData(Stat),
    Check,
    GetData(Option<Vec<u8>>, Stat),
    GetChildren(Vec<String>),
    /// `None` if the operation succeeded, but was undone because another one failed.
    Error(Option<Code>),
}

/// The type of a watch event.
#[expect(clippy::enum_variant_names, reason = "the protocol's names")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    NodeCreated,
    NodeDeleted,
    NodeDataChanged,
    NodeChildrenChanged,
}

/// Serializes a reply. An error reply has no body.
pub(crate) fn reply_frame(xid: i32, zxid: i64, result: &Result<Body, Code>) -> Vec<u8> {
    let mut writer = Writer::new();
    let error = result.as_ref().map_or_else(|code| code.number(), |_| 0);
    writer.int(xid).long(zxid).int(error);
    if let Ok(body) = result {
        body.write(&mut writer);
    }
    writer.into_frame()
}

/// Serializes an event.
pub(crate) fn event_frame(kind: EventKind, path: &str, zxid: i64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.int(NOTIFICATION_XID).long(zxid).int(0);
    writer.int(kind.number()).int(SYNC_CONNECTED).string(path);
    writer.into_frame()
}

impl Body {
    fn write(&self, writer: &mut Writer) {
        match self {
            Self::Empty => writer,
            Self::Path(path) => writer.string(path),
            Self::OptionalPath(path) => writer.buffer(path.as_ref().map(String::as_bytes)),
            Self::PathStat(path, stat) => writer.string(path).stat(stat),
            Self::Stat(stat) => writer.stat(stat),
            Self::DataStat(data, stat) => writer.buffer(data.as_deref()).stat(stat),
            Self::Children(children) => writer.strings(children),
            Self::ChildrenStat(children, stat) => writer.strings(children).stat(stat),
            Self::Acl(acl, stat) => writer.acl(acl).stat(stat),
            Self::Number(number) => writer.int(*number),
            Self::NoBuffer => writer.buffer(None),
            Self::Clients(clients) => {
                writer.length(clients.len());
                clients.iter().fold(writer, |writer, (scheme, user)| writer.string(scheme).string(user))
            }
            Self::Results(results) => {
                results.iter().for_each(|result| result.write(writer));
                writer.int(ERROR_OP).boolean(true).int(-1)
            }
        };
    }
}

impl OperationResult {
    /// Reduces the result of a create to the form of older releases, without a stat.
    pub(crate) fn forget_stat(&mut self) {
        if let Self::Create2(path, _) = self {
            *self = Self::Create(std::mem::take(path));
        }
    }

    fn write(&self, writer: &mut Writer) {
        let op = match self {
            Self::Create(_) => OpCode::Create.number(),
            Self::Create2(..) => OpCode::Create2.number(),
            Self::Delete => OpCode::Delete.number(),
            Self::SetData(_) => OpCode::SetData.number(),
            Self::Check => OpCode::Check.number(),
            Self::GetData(..) => OpCode::GetData.number(),
            Self::GetChildren(_) => OpCode::GetChildren.number(),
            Self::Error(_) => ERROR_OP,
        };
        let error = match self {
            Self::Error(Some(code)) => code.number(),
            _ => 0,
        };
        writer.int(op).boolean(false).int(error);
        match self {
            Self::Create(path) => writer.string(path),
            Self::Create2(path, stat) => writer.string(path).stat(stat),
            Self::SetData(stat) => writer.stat(stat),
            Self::GetData(data, stat) => writer.buffer(data.as_deref()).stat(stat),
            Self::GetChildren(children) => writer.strings(children),
            Self::Error(_) => writer.int(error),
            Self::Delete | Self::Check => writer,
        };
    }
}

impl EventKind {
    fn number(self) -> i32 {
        match self {
            Self::NodeCreated => 1,
            Self::NodeDeleted => 2,
            Self::NodeDataChanged => 3,
            Self::NodeChildrenChanged => 4,
        }
    }
}
