//! Decodes the frames that a client receives.

use std::fmt;
use std::time::Duration;

use crate::acl::Acl;
use crate::codec::{
    self, ConnectResponse, Decode, EventKind, Malformed, PartHeader, Reader, ReplyHeader,
};
use crate::operation::{Created, ReadOperation, ReadResult, Stat, TransactionOperation};
use crate::path::ZPath;
use crate::text::Length;
use crate::transport::ErrorCode;

/// The type of an event that is not about a node.
const NO_NODE: i32 = -1;

/// The longest event. A request with the same path had to fit into the server's `jute.maxbuffer`, 1
/// MiB by default; this leaves room for a server that allows more. A longer one cannot be the event
/// of a watch of this client.
const LONGEST_EVENT: usize = 4 << 20;

/// The session that a server has granted, or resumed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) timeout: Duration,
    pub(crate) session_id: i64,
    pub(crate) password: Vec<u8>,
}

/// Omits the password.
impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            timeout,
            session_id,
            password,
        } = self;
        let mut fields = f.debug_struct("Granted");
        fields
            .field("timeout", timeout)
            .field("session_id", session_id)
            .field("password", &Length(password.len()));
        fields.finish()
    }
}

/// The version of the protocol in the first frame of a ClickHouse Keeper or `RaftKeeper` that grants
/// no session, for example because it has no leader.
const REJECTED: i32 = 42;

/// Whether the first frame of a connection says that the server grants no session now. It does not
/// say that a session has ended.
pub(crate) fn is_rejection(frame: &[u8]) -> bool {
    Reader::new(frame)
        .read::<i32>("a version of the protocol")
        .is_ok_and(|version| version == REJECTED)
}

/// Decodes the first frame of a connection. `None` if the requested session has expired, or is not
/// the client's.
pub(crate) fn connect_response(frame: &[u8]) -> Result<Option<Granted>, Malformed> {
    let mut reader = Reader::new(frame);
    let version = reader.malformed("protocol version 0");
    let negative = reader.malformed("a timeout that is not negative");
    let response = ConnectResponse::<Option<Vec<u8>>>::decode(&mut reader, "the granted session")?;
    reader.end()?;
    if response.protocol != 0 {
        return Err(version);
    }
    let timeout = u64::try_from(response.timeout).map_err(|_| negative)?;
    let session_id = response.session_id;
    let password = response.password.unwrap_or_default();
    let granted = Granted {
        timeout: Duration::from_millis(timeout),
        session_id,
        password,
    };
    Ok((session_id != 0).then_some(granted))
}

/// A reply or an event. Events arrive between replies, in the order of the changes on the server.
#[derive(Clone, Copy)]
pub(crate) struct Reply<'a> {
    /// The xid of the request, or [`EVENT_XID`](codec::EVENT_XID).
    pub(crate) xid: i32,
    /// What follows the header; an error has no body.
    pub(crate) body: Result<Body<'a>, ErrorCode>,
}

impl<'a> Reply<'a> {
    /// The error if no request has this xid.
    pub(super) fn unexpected(&self) -> Malformed {
        Malformed {
            expected: "the xid of a request",
            at: 0,
            length: 0,
            is_null: false,
        }
    }

    pub(crate) fn parse(frame: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(frame);
        let ReplyHeader { xid, error, .. } = reader.read("the header of a reply")?;
        Ok(Self {
            xid,
            body: match ErrorCode::new(error) {
                None => Ok(Body(reader)),
                Some(code) => Err(code),
            },
        })
    }
}

/// The body of a successful reply, to be decoded as its request requires.
#[derive(Clone, Copy)]
pub(crate) struct Body<'a>(Reader<'a>);

/// The result of one operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OperationResult {
    Checked,
    Created(Created),
    /// Servers older than 3.7.2, and 3.8.0 to 3.8.1, omit the stat (ZOOKEEPER-4026), and so do
    /// servers without `create2`.
    CreatedWithoutStat(ZPath),
    DataSet(Stat),
    Deleted,
}

/// Why a transaction was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailedOperation {
    /// The index of the operation.
    pub(crate) index: usize,
    pub(crate) error: ErrorCode,
}

/// What a watch reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Created(ZPath),
    Deleted(ZPath),
    DataChanged(ZPath),
    ChildrenChanged(ZPath),
    /// The state of the session, as in ZooKeeper's `KeeperState`, has changed.
    Session(i32),
}

impl<'a> Body<'a> {
    pub(crate) fn empty(self) -> Result<(), Malformed> {
        self.0.end()
    }

    /// A token of SASL, empty if there is none.
    pub(crate) fn token(self) -> Result<&'a [u8], Malformed> {
        self.whole::<Option<_>>("a SASL token")
            .map(Option::unwrap_or_default)
    }

    pub(crate) fn created(self) -> Result<Created, Malformed> {
        self.whole("the new node")
            .map(|(path, stat)| Created { path, stat })
    }

    pub(crate) fn created_without_stat(self) -> Result<ZPath, Malformed> {
        self.whole("the path of the new node")
    }

    pub(crate) fn data(self) -> Result<(Vec<u8>, Stat), Malformed> {
        self.whole::<(Option<Vec<u8>>, Stat)>("data")
            .map(|(data, stat)| (data.unwrap_or_default(), stat))
    }

    pub(crate) fn stat(self) -> Result<Stat, Malformed> {
        self.whole("a stat")
    }

    /// The names of the children.
    pub(crate) fn children(self) -> Result<Vec<String>, Malformed> {
        self.whole::<Option<_>>("the names of children")
            .map(Option::unwrap_or_default)
    }

    pub(crate) fn acl(self) -> Result<(Vec<Acl>, Stat), Malformed> {
        self.whole::<(Option<_>, Stat)>("an ACL")
            .map(|(acl, stat)| (acl.unwrap_or_default(), stat))
    }

    /// Ignores the path that was synced.
    pub(crate) fn synced(self) -> Result<(), Malformed> {
        self.whole::<&str>("a path").map(drop)
    }

    /// The inner error repeats the error of the header, and a header with an error has no body, so
    /// the server should send none.
    pub(crate) fn watch_added(self) -> Result<Result<(), ErrorCode>, Malformed> {
        self.whole("an error code")
            .map(|error| match ErrorCode::new(error) {
                None => Ok(()),
                Some(code) => Err(code),
            })
    }

    pub(crate) fn event(self) -> Result<Event, Malformed> {
        let no_kind = self.0.malformed("the type of an event");
        let no_path = self.0.malformed("the path of an event");
        if self.0.rest().len() > LONGEST_EVENT {
            return Err(self.0.malformed("an event of at most 4 MiB"));
        }
        let codec::Event::<Option<&str>> { kind, state, path } = self.whole("an event")?;
        if kind == NO_NODE {
            return Ok(Event::Session(state));
        }
        let event = match EventKind::of_number(kind).ok_or(no_kind)? {
            EventKind::NodeCreated => Event::Created,
            EventKind::NodeDeleted => Event::Deleted,
            EventKind::NodeDataChanged => Event::DataChanged,
            EventKind::NodeChildrenChanged => Event::ChildrenChanged,
        };
        path.and_then(|path| ZPath::on_server(path).ok())
            .map(event)
            .ok_or(no_path)
    }

    /// The results of a multi with these operations; or the operation that failed, in which case
    /// nothing was applied.
    pub(crate) fn transaction(
        self,
        operations: &[TransactionOperation],
    ) -> Result<Result<Vec<OperationResult>, FailedOperation>, Malformed> {
        let malformed = self.0.malformed("the error of an operation");
        let results = self.results(operations, operation_result)?;
        let failures = || {
            results.iter().enumerate().filter_map(|(index, result)| {
                let error = ErrorCode::new(*result.as_ref().err()?)?;
                Some(FailedOperation { index, error })
            })
        };
        // In a failed transaction each operation has an error: 0 before the one that failed,
        // `RuntimeInconsistency` after.
        let cause = failures()
            .find(|failed: &FailedOperation| failed.error != ErrorCode::RUNTIME_INCONSISTENCY)
            .or_else(|| failures().next());
        if let Some(failed) = cause {
            return Ok(Err(failed));
        }
        results
            .into_iter()
            .collect::<Result<_, _>>()
            .map(Ok)
            .map_err(|_| malformed)
    }

    /// One result for each operation of a multi-read.
    pub(crate) fn reads(
        self,
        operations: &[ReadOperation],
    ) -> Result<Vec<Result<ReadResult, ErrorCode>>, Malformed> {
        let malformed = self.0.malformed("an error other than 0");
        let results = self.results(operations, read_result)?;
        results
            .into_iter()
            .map(|result: Result<ReadResult, i32>| match result {
                Ok(result) => Ok(Ok(result)),
                Err(error) => ErrorCode::new(error).map(Err).ok_or(malformed),
            })
            .collect()
    }

    /// One result for each operation: what `result` returns, or an error code, which may be 0.
    fn results<O, T: Decode<'a>, D: Decode<'a>, R>(
        self,
        operations: &[O],
        result: impl Fn(codec::Reply<T, D, Acl>, &O) -> Option<R>,
    ) -> Result<Vec<Result<R, i32>>, Malformed> {
        let mut reader = self.0;
        let mut results = Vec::new();
        for operation in operations {
            let malformed = reader.malformed("the result of the next operation");
            let header: PartHeader = reader.read("the header of a result")?;
            let reply = if header.is_end {
                None
            } else {
                codec::Reply::decode(header.op, &mut reader)?
            };
            results.push(match reply.ok_or(malformed)? {
                codec::Reply::Error { code } => Err(code),
                reply => Ok(result(reply, operation).ok_or(malformed)?),
            });
        }
        let malformed = reader.malformed("the end of the results");
        let header: PartHeader = reader.read("the header of a result")?;
        reader.end()?;
        if header.is_end {
            Ok(results)
        } else {
            Err(malformed)
        }
    }

    /// Decodes all that is left.
    fn whole<T: Decode<'a>>(self, expected: &'static str) -> Result<T, Malformed> {
        let mut reader = self.0;
        let decoded = reader.read(expected)?;
        reader.end()?;
        Ok(decoded)
    }
}

/// `None` if the result does not fit the operation.
fn operation_result(
    reply: codec::Reply<ZPath, Option<&[u8]>, Acl>,
    operation: &TransactionOperation,
) -> Option<OperationResult> {
    Some(match (reply, operation) {
        (codec::Reply::Check {}, TransactionOperation::Check { .. }) => OperationResult::Checked,
        (codec::Reply::Create2 { path, stat }, TransactionOperation::Create(_)) => {
            OperationResult::Created(Created { path, stat })
        }
        (codec::Reply::Create { path }, TransactionOperation::Create(_)) => {
            OperationResult::CreatedWithoutStat(path)
        }
        (codec::Reply::SetData { stat }, TransactionOperation::SetData { .. }) => {
            OperationResult::DataSet(stat)
        }
        (codec::Reply::Delete {}, TransactionOperation::Delete { .. }) => OperationResult::Deleted,
        _ => return None,
    })
}

/// `None` if the result does not fit the operation.
fn read_result(
    reply: codec::Reply<String, Option<Vec<u8>>, Acl>,
    operation: &ReadOperation,
) -> Option<ReadResult> {
    Some(match (reply, operation) {
        (codec::Reply::GetChildren { children }, ReadOperation::Children(_)) => {
            ReadResult::Children(children.unwrap_or_default())
        }
        (codec::Reply::GetData { data, stat }, ReadOperation::Data(_)) => ReadResult::Data {
            data: data.unwrap_or_default(),
            stat,
        },
        _ => return None,
    })
}
