//! Parses requests.

use super::{Malformed, Reader};
use crate::{OpCode, embedded::acl::Acl};

/// A request without its header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Write(Write),
    Multi(Vec<Write>),
    Read(Read),
    MultiRead(Vec<Read>),
    Sync { path: Option<String> },
    Ping,
    CloseSession,
    WhoAmI,
    GetEphemerals { prefix: Option<String> },
    AddWatch { path: String, mode: i32 },
    CheckWatches { path: String, kind: i32 },
    RemoveWatches { path: String, kind: i32 },
    SetWatches(SetWatches),
    Reconfig,
    Auth { scheme: Option<String>, auth: Option<Vec<u8>> },
    Sasl,
}

/// A change of the tree: a separate request, or one operation of a multi.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Create(Create),
    Delete {
        path: String,
        version: i32,
    },
    DeleteContainer {
        path: String,
    },
    SetData {
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: i32,
    },
    /// Only inside a multi.
    Check {
        path: String,
        version: i32,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Create {
    pub(crate) kind: CreateKind,
    pub(crate) path: String,
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) acl: Option<Vec<Acl>>,
    pub(crate) flags: i32,
    /// In milliseconds; -1 where the request has none.
    pub(crate) ttl: i64,
}

/// The kind of a create request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateKind {
    /// Its reply has no stat.
    Create,
    Create2,
    Container,
    Ttl,
}

/// A read of one node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Exists { path: String, watch: bool },
    GetData { path: String, watch: bool },
    GetChildren { path: String, watch: bool },
    GetChildren2 { path: String, watch: bool },
    GetAcl { path: String },
    GetAllChildrenNumber { path: String },
}

/// Registers watches again after a reconnect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SetWatches {
    /// The zxid of the last transaction that the client has seen. The server immediately notifies the client of later
    /// changes.
    pub(crate) relative_zxid: i64,
    pub(crate) data: Vec<String>,
    pub(crate) exists: Vec<String>,
    pub(crate) children: Vec<String>,
    pub(crate) persistent: Vec<String>,
    pub(crate) recursive: Vec<String>,
}

impl Request {
    /// `None` for a kind of request that this server does not know.
    pub(crate) fn parse(op: OpCode, body: &[u8]) -> Option<Result<Self, Malformed>> {
        let mut reader = Reader::new(body);
        let reader = &mut reader;
        if let Some(write) = Write::parse(op, reader).filter(|_| op != OpCode::Check) {
            return Some(write.map(Self::Write));
        }
        if let Some(read) = Read::parse(op, reader) {
            return Some(read.map(Self::Read));
        }
        Some(match op {
            OpCode::Multi => operations(reader, Write::parse_in_multi).map(Self::Multi),
            OpCode::MultiRead => operations(reader, Read::parse_in_multi).map(Self::MultiRead),
            OpCode::Sync => reader.optional_string().map(|path| Self::Sync { path }),
            OpCode::Ping => Ok(Self::Ping),
            OpCode::CloseSession => Ok(Self::CloseSession),
            OpCode::WhoAmI => Ok(Self::WhoAmI),
            OpCode::GetEphemerals => reader.optional_string().map(|prefix| Self::GetEphemerals { prefix }),
            OpCode::AddWatch => any_path_and_int(reader).map(|(path, mode)| Self::AddWatch { path, mode }),
            OpCode::CheckWatches => any_path_and_int(reader).map(|(path, kind)| Self::CheckWatches { path, kind }),
            OpCode::RemoveWatches => any_path_and_int(reader).map(|(path, kind)| Self::RemoveWatches { path, kind }),
            OpCode::SetWatches => SetWatches::parse(reader, false).map(Self::SetWatches),
            OpCode::SetWatches2 => SetWatches::parse(reader, true).map(Self::SetWatches),
            OpCode::Reconfig => reconfig(reader).map(|()| Self::Reconfig),
            // Servers send this only to each other.
            OpCode::CreateSession => Err(Malformed::Invalid),
            OpCode::Auth => auth(reader),
            OpCode::Sasl => reader.buffer().map(|_| Self::Sasl),
            _ => return None,
        })
    }

    /// The path of the request, if it has one.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Write(write) => Some(write.path()),
            Self::Read(read) => Some(read.path()),
            Self::AddWatch { path, .. } | Self::CheckWatches { path, .. } | Self::RemoveWatches { path, .. } => {
                Some(path)
            }
            Self::Sync { path } => path.as_deref(),
            _ => None,
        }
    }
}

impl Write {
    fn parse(op: OpCode, reader: &mut Reader<'_>) -> Option<Result<Self, Malformed>> {
        let create = |reader: &mut Reader<'_>, kind| Create::parse(reader, kind).map(Self::Create);
        Some(match op {
            OpCode::Create => create(reader, CreateKind::Create),
            OpCode::Create2 => create(reader, CreateKind::Create2),
            OpCode::CreateContainer => create(reader, CreateKind::Container),
            OpCode::CreateTtl => create(reader, CreateKind::Ttl),
            OpCode::Delete => path_and_int(reader).map(|(path, version)| Self::Delete { path, version }),
            OpCode::DeleteContainer => reader.path().map(|path| Self::DeleteContainer { path }),
            OpCode::SetData => (|| {
                let (path, data) = (reader.path()?, reader.buffer()?);
                Ok(Self::SetData { path, data, version: reader.int()? })
            })(),
            OpCode::SetAcl => (|| {
                let (path, acl) = (reader.path()?, reader.acl()?.unwrap_or_default());
                Ok(Self::SetAcl { path, acl, version: reader.int()? })
            })(),
            OpCode::Check => path_and_int(reader).map(|(path, version)| Self::Check { path, version }),
            _ => return None,
        })
    }

    /// Parses an operation of a multi; `None` if it is not allowed there.
    fn parse_in_multi(op: OpCode, reader: &mut Reader<'_>) -> Option<Result<Self, Malformed>> {
        match Self::parse(op, reader)? {
            Ok(Self::SetAcl { .. } | Self::DeleteContainer { .. }) => None,
            Ok(Self::Create(create)) => Some(create.in_multi().map(Self::Create)),
            other => Some(other),
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::Create(Create { path, .. })
            | Self::Delete { path, .. }
            | Self::DeleteContainer { path }
            | Self::SetData { path, .. }
            | Self::SetAcl { path, .. }
            | Self::Check { path, .. } => path,
        }
    }
}

impl Create {
    fn parse(reader: &mut Reader<'_>, kind: CreateKind) -> Result<Self, Malformed> {
        let (path, data, acl, flags) = (reader.path()?, reader.buffer()?, reader.acl()?, reader.int()?);
        let ttl = if kind == CreateKind::Ttl { reader.long()? } else { -1 };
        Ok(Self { kind, path, data, acl, flags, ttl })
    }

    /// Converts a create to the form that the real server uses in a multi, where the flags decide the kind. Invalid
    /// flags make the whole request invalid, except in a create with a time to live.
    fn in_multi(mut self) -> Result<Self, Malformed> {
        match (self.kind, self.flags) {
            (CreateKind::Ttl, 5 | 6) => {}
            _ if self.acl.is_none() => return Err(Malformed::NoAcl),
            (CreateKind::Ttl, flags) => {
                self.kind = if flags == 4 { CreateKind::Container } else { CreateKind::Create };
                self.ttl = -1;
            }
            (_, 4) => self.kind = CreateKind::Container,
            (_, 0..4) => {}
            _ => return Err(Malformed::Invalid),
        }
        Ok(self)
    }
}

impl Read {
    fn parse(op: OpCode, reader: &mut Reader<'_>) -> Option<Result<Self, Malformed>> {
        Some(match op {
            OpCode::Exists => path_and_watch(reader).map(|(path, watch)| Self::Exists { path, watch }),
            OpCode::GetData => path_and_watch(reader).map(|(path, watch)| Self::GetData { path, watch }),
            OpCode::GetChildren => path_and_watch(reader).map(|(path, watch)| Self::GetChildren { path, watch }),
            OpCode::GetChildren2 => path_and_watch(reader).map(|(path, watch)| Self::GetChildren2 { path, watch }),
            OpCode::GetAcl => reader.path().map(|path| Self::GetAcl { path }),
            OpCode::GetAllChildrenNumber => reader.path().map(|path| Self::GetAllChildrenNumber { path }),
            _ => return None,
        })
    }

    /// Parses an operation of a multi-read; `None` if it is not allowed there. Its watch flag is ignored.
    fn parse_in_multi(op: OpCode, reader: &mut Reader<'_>) -> Option<Result<Self, Malformed>> {
        let read = match op {
            OpCode::GetData => path_and_watch(reader).map(|(path, _)| Self::GetData { path, watch: false }),
            OpCode::GetChildren => path_and_watch(reader).map(|(path, _)| Self::GetChildren { path, watch: false }),
            _ => return None,
        };
        Some(read)
    }

    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Exists { path, .. }
            | Self::GetData { path, .. }
            | Self::GetChildren { path, .. }
            | Self::GetChildren2 { path, .. }
            | Self::GetAcl { path }
            | Self::GetAllChildrenNumber { path } => path,
        }
    }
}

impl SetWatches {
    fn parse(reader: &mut Reader<'_>, persistent_too: bool) -> Result<Self, Malformed> {
        let relative_zxid = reader.long()?;
        let (data, exists, children) = (reader.strings()?, reader.strings()?, reader.strings()?);
        let mut more = || if persistent_too { reader.strings() } else { Ok(Vec::new()) };
        Ok(Self { relative_zxid, data, exists, children, persistent: more()?, recursive: more()? })
    }
}

/// The operations of a multi. Each follows a header, and a final header marks the end.
fn operations<T>(
    reader: &mut Reader<'_>,
    parse: impl Fn(OpCode, &mut Reader<'_>) -> Option<Result<T, Malformed>>,
) -> Result<Vec<T>, Malformed> {
    let mut operations = Vec::new();
    loop {
        let (op, done, _error) = (OpCode::from(reader.int()?), reader.boolean()?, reader.int()?);
        if done {
            return Ok(operations);
        }
        operations.push(parse(op, reader).ok_or(Malformed::Invalid)??);
    }
}

fn auth(reader: &mut Reader<'_>) -> Result<Request, Malformed> {
    let _kind = reader.int()?;
    let (scheme, auth) = (reader.optional_string()?, reader.buffer()?);
    Ok(Request::Auth { scheme, auth })
}

fn reconfig(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    for _ in ["joining", "leaving", "new members"] {
        reader.optional_string()?;
    }
    reader.long().map(drop)
}

fn path_and_watch(reader: &mut Reader<'_>) -> Result<(String, bool), Malformed> {
    Ok((reader.path()?, reader.boolean()?))
}

/// Requests about watches accept a null path.
fn any_path_and_int(reader: &mut Reader<'_>) -> Result<(String, i32), Malformed> {
    Ok((reader.optional_string()?.unwrap_or_default(), reader.int()?))
}

fn path_and_int(reader: &mut Reader<'_>) -> Result<(String, i32), Malformed> {
    Ok((reader.path()?, reader.int()?))
}
