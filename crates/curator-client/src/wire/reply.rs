//! Decodes the frames that a client receives.

use std::fmt;
use std::time::Duration;

use super::jute::{Malformed, Reader};
use super::op_code;
use crate::acl::Acl;
use crate::debug::Length;
use crate::operation::{Created, ReadOperation, ReadResult, Stat, TransactionOperation};
use crate::path::ZPath;
use crate::transport::ErrorCode;

/// The xid of an event, which answers no request.
pub(crate) const EVENT_XID: i32 = -1;

/// The session that a server has granted, or resumed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) timeout: Duration,
    pub(crate) session_id: i64,
    pub(crate) password: Vec<u8>,
}

/// Without the password.
impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timeout, session_id, password } = self;
        let mut fields = f.debug_struct("Granted");
        fields.field("timeout", timeout).field("session_id", session_id).field("password", &Length(password.len()));
        fields.finish()
    }
}

/// Decodes the first frame of a connection. `None` if the requested session has expired, or is not the client's.
pub(crate) fn connect_response(frame: &[u8]) -> Result<Option<Granted>, Malformed> {
    let mut reader = Reader::new(frame);
    let malformed = reader.malformed("protocol version 0");
    if reader.int("the protocol version")? != 0 {
        return Err(malformed);
    }
    let malformed = reader.malformed("a timeout that is not negative");
    let timeout = u64::try_from(reader.int("the timeout")?).map_err(|_| malformed)?;
    let (session_id, password) = (reader.long("the session id")?, reader.buffer("the password")?.to_vec());
    // Servers older than 3.4 do not send whether they are read-only.
    if !reader.is_at_end() {
        reader.boolean("whether the server is read-only")?;
        reader.end()?;
    }
    let granted = Granted { timeout: Duration::from_millis(timeout), session_id, password };
    Ok((session_id != 0).then_some(granted))
}

/// A reply or an event. Events arrive between replies, in the order in which the server made the changes.
#[derive(Clone, Copy)]
pub(crate) struct Reply<'a> {
    /// That of the request, or [`EVENT_XID`].
    pub(crate) xid: i32,
    /// The rest; an error has none.
    pub(crate) body: Result<Body<'a>, ErrorCode>,
}

impl<'a> Reply<'a> {
    /// The error if no request has this xid.
    pub(super) fn unexpected(&self) -> Malformed {
        Malformed { expected: "the xid of a request", at: 0, length: 0 }
    }

    pub(crate) fn parse(frame: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(frame);
        let xid = reader.int("xid")?;
        // The zxid of the write, or the newest one that the server knows.
        reader.long("zxid")?;
        let error = ErrorCode::new(reader.int("an error code")?);
        Ok(Self { xid, body: error.map_or(Ok(Body(reader)), Err) })
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
    /// Servers older than 3.7.2, and 3.8.0 to 3.8.1, omit the stat (ZOOKEEPER-4026).
    CreatedWithoutStat(ZPath),
    DataSet(Stat),
    Deleted,
}

/// Why a transaction was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailedOperation {
    /// Of the operation.
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
        self.whole(|reader| reader.buffer("a SASL token"))
    }

    pub(crate) fn created(self) -> Result<Created, Malformed> {
        self.whole(created)
    }

    pub(crate) fn data(self) -> Result<(Vec<u8>, Stat), Malformed> {
        self.whole(data)
    }

    pub(crate) fn stat(self) -> Result<Stat, Malformed> {
        self.whole(Reader::stat)
    }

    /// The names of the children.
    pub(crate) fn children(self) -> Result<Vec<String>, Malformed> {
        self.whole(children)
    }

    pub(crate) fn acl(self) -> Result<(Vec<Acl>, Stat), Malformed> {
        self.whole(|reader| Ok((reader.acl()?, reader.stat()?)))
    }

    /// The path that was synced is not used.
    pub(crate) fn synced(self) -> Result<(), Malformed> {
        self.whole(|reader| reader.string("a path").map(drop))
    }

    /// The inner error repeats that of the header, so there should be none.
    pub(crate) fn watch_added(self) -> Result<Result<(), ErrorCode>, Malformed> {
        self.whole(|reader| Ok(ErrorCode::new(reader.int("an error code")?).map_or(Ok(()), Err)))
    }

    pub(crate) fn event(self) -> Result<Event, Malformed> {
        self.whole(|reader| {
            let malformed = reader.malformed("the type of an event");
            let (kind, state) = (reader.int("the type of an event")?, reader.int("a state")?);
            let event = match kind {
                -1 => return reader.buffer("a path").map(|_| Event::Session(state)),
                1 => Event::Created,
                2 => Event::Deleted,
                3 => Event::DataChanged,
                4 => Event::ChildrenChanged,
                _ => return Err(malformed),
            };
            reader.path("a path").map(event)
        })
    }

    /// The results of a multi with these operations; or the operation that failed, and nothing was applied.
    pub(crate) fn transaction(
        self,
        operations: &[TransactionOperation],
    ) -> Result<Result<Vec<OperationResult>, FailedOperation>, Malformed> {
        let malformed = self.0.malformed("the error of an operation");
        let results = self.whole(|reader| results(reader, operations, operation_result))?;
        let failures = || {
            results.iter().enumerate().filter_map(|(index, result)| {
                let error = ErrorCode::new(*result.as_ref().err()?)?;
                Some(FailedOperation { index, error })
            })
        };
        // In a failed transaction each operation has an error: 0 before the one that failed, `RuntimeInconsistency` after.
        let is_cause = |failed: &FailedOperation| failed.error != ErrorCode::RUNTIME_INCONSISTENCY;
        let cause = failures().find(is_cause).or_else(|| failures().next());
        if let Some(failed) = cause {
            return Ok(Err(failed));
        }
        results.into_iter().collect::<Result<_, _>>().map(Ok).map_err(|_| malformed)
    }

    /// One result for each operation of a multi-read.
    pub(crate) fn reads(self, operations: &[ReadOperation]) -> Result<Vec<Result<ReadResult, ErrorCode>>, Malformed> {
        let malformed = self.0.malformed("an error other than 0");
        let results = self.whole(|reader| results(reader, operations, read_result))?;
        let known = |result: Result<ReadResult, i32>| match result {
            Ok(result) => Ok(Ok(result)),
            Err(error) => ErrorCode::new(error).map(Err).ok_or(malformed),
        };
        results.into_iter().map(known).collect()
    }

    /// Decodes all that is left.
    fn whole<T>(self, decode: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>) -> Result<T, Malformed> {
        let mut reader = self.0;
        let decoded = decode(&mut reader)?;
        reader.end()?;
        Ok(decoded)
    }
}

/// One result for each operation: decoded by `decode`, which gets the result's kind and the operation, or an error, also
/// 0.
fn results<'a, O, T>(
    reader: &mut Reader<'a>,
    operations: &[O],
    decode: impl Fn(i32, &O, &mut Reader<'a>) -> Result<Option<T>, Malformed>,
) -> Result<Vec<Result<T, i32>>, Malformed> {
    let header = |reader: &mut Reader<'a>| {
        let (op, is_end) = (reader.int("the kind of a result")?, reader.boolean("whether the results end")?);
        reader.int("the error of a result")?;
        Ok((op, is_end))
    };
    let mut results = Vec::new();
    for operation in operations {
        let malformed = reader.malformed("the result of the next operation");
        results.push(match header(reader)? {
            (_, true) => return Err(malformed),
            (op_code::ERROR, false) => Err(reader.int("an error code")?),
            (op, false) => Ok(decode(op, operation, reader)?.ok_or(malformed)?),
        });
    }
    let malformed = reader.malformed("the end of the results");
    match header(reader)? {
        (_, true) => Ok(results),
        (_, false) => Err(malformed),
    }
}

/// `None` if the result is not that of such an operation.
fn operation_result(
    op: i32,
    operation: &TransactionOperation,
    reader: &mut Reader<'_>,
) -> Result<Option<OperationResult>, Malformed> {
    Ok(Some(match (op, operation) {
        (op_code::CHECK, TransactionOperation::Check { .. }) => OperationResult::Checked,
        (op_code::CREATE2, TransactionOperation::Create(_)) => OperationResult::Created(created(reader)?),
        (op_code::CREATE, TransactionOperation::Create(_)) => {
            OperationResult::CreatedWithoutStat(reader.path("the path of the new node")?)
        }
        (op_code::SET_DATA, TransactionOperation::SetData { .. }) => OperationResult::DataSet(reader.stat()?),
        (op_code::DELETE, TransactionOperation::Delete { .. }) => OperationResult::Deleted,
        _ => return Ok(None),
    }))
}

/// `None` if the result is not that of such an operation.
fn read_result(op: i32, operation: &ReadOperation, reader: &mut Reader<'_>) -> Result<Option<ReadResult>, Malformed> {
    Ok(Some(match (op, operation) {
        (op_code::GET_CHILDREN, ReadOperation::Children(_)) => ReadResult::Children(children(reader)?),
        (op_code::GET_DATA, ReadOperation::Data(_)) => {
            let (data, stat) = data(reader)?;
            ReadResult::Data { data, stat }
        }
        _ => return Ok(None),
    }))
}

fn created(reader: &mut Reader<'_>) -> Result<Created, Malformed> {
    Ok(Created { path: reader.path("the path of the new node")?, stat: reader.stat()? })
}

fn data(reader: &mut Reader<'_>) -> Result<(Vec<u8>, Stat), Malformed> {
    Ok((reader.buffer("data")?.to_vec(), reader.stat()?))
}

fn children(reader: &mut Reader<'_>) -> Result<Vec<String>, Malformed> {
    reader.strings("the names of children")
}
