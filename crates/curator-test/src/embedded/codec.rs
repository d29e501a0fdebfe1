//! The wire format as a server sees it: null differs from empty, and what a request must not
//! contain is refused.

use curator_client::codec::{
    self, AclEntry, ConnectResponse, Decode, EVENT_XID, Encode, Event, Malformed, OpCode,
    PartHeader, Reader, ReplyHeader, Writer, write_end, write_part,
};
pub(crate) use curator_client::codec::{EventKind, NewNode};

use super::{
    acl::{Acl, Id},
    code::Code,
};

pub(crate) type ConnectRequest = codec::ConnectRequest<Option<Vec<u8>>>;
pub(crate) type Write = codec::Write<String, Option<Vec<u8>>, Option<Vec<Acl>>>;
pub(crate) type Read = codec::Read<String>;
pub(crate) type Control = codec::Control<String, Option<String>, Option<Vec<u8>>>;
pub(crate) type SetWatches = codec::SetWatches<String>;
pub(crate) type Reply = codec::Reply<Option<String>, Option<Vec<u8>>, Acl>;

impl Encode for Acl {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            permissions,
            id: Id { scheme, id },
        } = self;
        writer.write(&AclEntry {
            permissions: *permissions,
            scheme,
            id,
        });
    }
}

/// A null scheme or id becomes an empty string, which matches no client.
impl<'a> Decode<'a> for Acl {
    const SHORTEST: usize = AclEntry::<Option<String>>::SHORTEST;

    fn decode(reader: &mut Reader<'a>, expected: &'static str) -> Result<Self, Malformed> {
        let AclEntry::<Option<String>> {
            permissions,
            scheme,
            id,
        } = reader.read(expected)?;
        Ok(Self {
            permissions,
            id: Id {
                scheme: scheme.unwrap_or_default(),
                id: id.unwrap_or_default(),
            },
        })
    }
}

/// A request without its header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Write(Write),
    Multi(Vec<Write>),
    Read(Read),
    MultiRead(Vec<Read>),
    Control(Control),
}

/// Why a request cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The request ends too early, or contains an impossible value or an operation that is not
    /// allowed.
    Malformed(Malformed),
    /// In a multi, the ACL of a create is null.
    NoAcl,
}

impl From<Malformed> for Unreadable {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Request {
    /// `None` for a kind of request that this server does not know. As on the real server, bytes
    /// after the request are ignored.
    pub(crate) fn parse(op: OpCode, body: &[u8]) -> Result<Option<Self>, Unreadable> {
        let reader = &mut Reader::lenient(body);
        match op {
            OpCode::Multi => {
                return PartHeader::read_parts(reader, write_in_multi)
                    .map(Self::Multi)
                    .map(Some);
            }
            OpCode::MultiRead => {
                return PartHeader::read_parts(reader, read_in_multi)
                    .map(Self::MultiRead)
                    .map(Some);
            }
            // Servers send this only to each other.
            OpCode::CreateSession => return Err(reader.malformed("a request of a client").into()),
            // A check is allowed only inside a multi.
            OpCode::Check => return Ok(None),
            _ => {}
        }
        if let Some(write) = Write::decode(op, reader)? {
            return Ok(Some(Self::Write(write)));
        }
        if let Some(read) = Read::decode(op, reader)? {
            return Ok(Some(Self::Read(read)));
        }
        Ok(Control::decode(op, reader)?.map(Self::Control))
    }

    /// The path of the request, if it has one.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Write(write) => Some(write.path()),
            Self::Read(read) => Some(read.path()),
            // Requests about watches accept a null path.
            Self::Control(
                Control::AddWatch { path, .. }
                | Control::CheckWatches { path, .. }
                | Control::RemoveWatches { path, .. },
            ) => Some(path.as_deref().unwrap_or_default()),
            Self::Control(Control::Sync { path }) => path.as_deref(),
            _ => None,
        }
    }
}

/// Reads an operation of a multi, and converts a create to the form that the real server uses
/// there: the flags decide the kind. Invalid flags make the whole request invalid, except in a
/// create with a time to live.
fn write_in_multi(header: &PartHeader, reader: &mut Reader<'_>) -> Result<Write, Unreadable> {
    let invalid = reader.malformed("an operation of a multi");
    Ok(match Write::decode(header.op, reader)?.ok_or(invalid)? {
        Write::CreateTtl { node, ttl } if matches!(node.flags, 5 | 6) => {
            Write::CreateTtl { node, ttl }
        }
        Write::Create { node }
        | Write::Create2 { node }
        | Write::CreateContainer { node }
        | Write::CreateTtl { node, .. }
            if node.acl.is_none() =>
        {
            return Err(Unreadable::NoAcl);
        }
        Write::Create { node }
        | Write::Create2 { node }
        | Write::CreateContainer { node }
        | Write::CreateTtl { node, .. }
            if node.flags == 4 =>
        {
            Write::CreateContainer { node }
        }
        Write::CreateTtl { node, .. } => Write::Create { node },
        Write::Create { node } | Write::Create2 { node } | Write::CreateContainer { node }
            if !(0..4).contains(&node.flags) =>
        {
            return Err(invalid.into());
        }
        Write::SetAcl { .. } | Write::DeleteContainer { .. } => return Err(invalid.into()),
        write => write,
    })
}

/// Reads an operation of a multi-read. Its watch flag is ignored.
fn read_in_multi(header: &PartHeader, reader: &mut Reader<'_>) -> Result<Read, Unreadable> {
    let invalid = reader.malformed("an operation of a multi-read");
    if !matches!(header.op, OpCode::GetData | OpCode::GetChildren) {
        return Err(invalid.into());
    }
    Ok(match Read::decode(header.op, reader)?.ok_or(invalid)? {
        Read::GetData { path, .. } => Read::GetData { path, watch: false },
        Read::GetChildren { path, .. } => Read::GetChildren { path, watch: false },
        read => read,
    })
}

/// A reply without its header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Empty,
    One(Reply),
    /// The results of a multi or a multi-read.
    Results(Vec<Reply>),
}

/// The frame of the reply to a handshake.
pub(crate) fn handshake_frame(response: &ConnectResponse<&[u8]>) -> Writer {
    let mut writer = Writer::for_stream();
    writer.write(response);
    writer
}

/// The frame of a reply. An error reply has no body.
pub(crate) fn reply_frame(xid: i32, zxid: i64, result: &Result<Body, Code>) -> Writer {
    let mut writer = Writer::for_stream();
    let error = result.as_ref().map_or_else(|code| code.number(), |_| 0);
    writer.write(&ReplyHeader { xid, zxid, error });
    match result {
        Ok(Body::One(reply)) => drop(writer.write(reply)),
        Ok(Body::Results(results)) => {
            for result in results {
                let error = if let Reply::Error { code } = result {
                    *code
                } else {
                    0
                };
                write_part(&mut writer, error, result);
            }
            write_end(&mut writer);
        }
        Ok(Body::Empty) | Err(_) => {}
    }
    writer
}

/// The frame of an event.
pub(crate) fn event_frame(kind: EventKind, path: &str, zxid: i64) -> Writer {
    let mut writer = Writer::for_stream();
    writer
        .write(&ReplyHeader {
            xid: EVENT_XID,
            zxid,
            error: 0,
        })
        .write(&Event::of_node(kind, path));
    writer
}
