//! Executes requests in order.

use super::{Change, Now, Output, Processor};
use crate::{
    OpCode,
    embedded::{
        acl::{self, Id},
        code::Code,
        codec::{Body, Malformed, OperationResult, Read, Reader, Request, reply_frame},
        connection::{Attached, ConnectionId},
        request_info::RequestInfo,
        watches::Mode,
    },
};

/// The xid of each ping and its reply.
const PING_XID: i32 = -2;

/// A request that has arrived, and who performs it.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) xid: i32,
    pub(crate) session: Attached,
    pub(crate) info: RequestInfo,
    pub(crate) step: Step,
}

/// What follows a request.
#[derive(Debug)]
pub(crate) enum Step {
    /// This server performs it alone, from its own state.
    Local(Request),
    /// All servers apply it in the same order.
    Change(Change),
    /// It fails without a transaction.
    Failed(Code),
    /// The server does not know this kind of request.
    Unknown,
    /// The connection closes without a reply.
    Abort,
}

impl Step {
    /// Whether only a client with a session gets a reply.
    pub(crate) fn needs_session(&self) -> bool {
        !matches!(self, Self::Local(Request::Auth { .. } | Request::Sasl) | Self::Abort)
    }
}

impl Processor {
    /// Parses a frame that follows the handshake. Closes the connection if the frame is not a request.
    pub(super) fn arrive(&mut self, id: ConnectionId, payload: &[u8]) -> Option<Arrived> {
        let Ok((xid, op)) = header(payload) else {
            self.close(id);
            return None;
        };
        let connection = self.connections.get_mut(&id)?;
        (connection.last_xid, connection.last_op) = (xid, op);
        let session = connection.session?;
        let is_known = match op {
            OpCode::MultiRead => self.settings.multi_read,
            OpCode::AddWatch | OpCode::SetWatches2 => self.settings.add_watch,
            _ => true,
        };
        let request = is_known.then(|| Request::parse(op, &payload[8..])).flatten();
        let path = request.as_ref().and_then(|request| request.as_ref().ok()?.path().map(str::to_owned));
        let info = RequestInfo::new(op, path, session.id);
        let step = match request {
            None => Step::Unknown,
            Some(Ok(request)) => self.step(id, session.id, request),
            Some(Err(_)) if matches!(op, OpCode::Auth | OpCode::Sasl) => Step::Abort,
            Some(Err(malformed)) => refuse(op, malformed),
        };
        Some(Arrived { xid, session, info, step })
    }

    fn step(&self, id: ConnectionId, session_id: i64, request: Request) -> Step {
        match request {
            Request::Write(write) => Step::Change(Change::Write { session_id, identities: self.identities(id), write }),
            Request::Multi(writes) => {
                Step::Change(Change::Multi { session_id, identities: self.identities(id), writes })
            }
            Request::CloseSession => Step::Change(Change::CloseSession { id: session_id }),
            Request::Reconfig => Step::Change(Change::Refused(Code::ReconfigDisabled)),
            request => Step::Local(request),
        }
    }

    /// Processes a request on a server that stands alone.
    pub(super) fn request(&mut self, id: ConnectionId, arrived: Arrived, now: Now) -> RequestInfo {
        let Arrived { xid, session, info, step } = arrived;
        // A client whose session has ended gets no reply. Its connection will be closed.
        if step.needs_session() && !self.sessions.touch(session.id, session.timeout, now.monotonic) {
            return info;
        }
        match step {
            Step::Change(change) => {
                let ends = matches!(change, Change::CloseSession { .. });
                let result = self.apply_next(change, now);
                self.answer(id, xid, &result);
                if ends {
                    self.close(id);
                }
            }
            step => self.perform(id, session.id, xid, step),
        }
        info
    }

    /// Performs and answers what this server can alone.
    pub(crate) fn perform(&mut self, id: ConnectionId, session_id: i64, xid: i32, step: Step) {
        match step {
            Step::Local(Request::Auth { scheme, auth }) => {
                self.authenticate(id, xid, scheme.as_deref(), auth.as_deref());
            }
            // The real server's reply if SASL is not configured.
            Step::Local(Request::Sasl) => self.reply(id, xid, 0, &Ok(Body::NoBuffer)),
            Step::Local(Request::Ping) => self.answer(id, PING_XID, &Ok(Body::Empty)),
            Step::Local(request) => {
                let result = self.local(id, session_id, request);
                self.answer(id, xid, &result);
            }
            Step::Failed(code) => self.answer(id, xid, &Err(code)),
            Step::Unknown => {
                self.reply(id, xid, -1, &Err(Code::Unimplemented));
                self.close(id);
            }
            Step::Abort => self.close(id),
            // The caller orders a change first.
            Step::Change(_) => {}
        }
    }

    fn local(&mut self, id: ConnectionId, session_id: i64, request: Request) -> Result<Body, Code> {
        match request {
            Request::Read(read) => self.read(id, &read),
            Request::MultiRead(reads) => Ok(self.multi_read(id, &reads)),
            Request::Sync { path } => Ok(Body::OptionalPath(path)),
            Request::WhoAmI => Ok(self.who_am_i(id)),
            Request::GetEphemerals { prefix } => Ok(self.get_ephemerals(session_id, prefix.as_deref())),
            Request::AddWatch { path, mode } => self.add_watch(id, &path, mode),
            Request::CheckWatches { path, kind } => self.check_watches(id, &path, kind),
            Request::RemoveWatches { path, kind } => self.remove_watches(id, &path, kind),
            Request::SetWatches(watches) => self.set_watches(id, &watches),
            // Handled earlier: they are ordered, or do more than send one reply.
            Request::Write(_) | Request::Multi(_) | Request::CloseSession | Request::Reconfig => Ok(Body::Empty),
            Request::Auth { .. } | Request::Sasl | Request::Ping => Ok(Body::Empty),
        }
    }

    fn read(&mut self, id: ConnectionId, read: &Read) -> Result<Body, Code> {
        let identities = self.identities(id);
        match read {
            Read::Exists { path, watch } => {
                let stat = self.tree.exists(path, &identities);
                // Without permission to read the node, a client may not watch it either.
                if *watch && matches!(stat, Ok(_) | Err(Code::NoNode)) {
                    self.watches.data.add(path, id, Mode::Standard);
                }
                stat.map(Body::Stat)
            }
            Read::GetData { path, watch } => {
                let (data, stat) = self.tree.data(path, &identities)?;
                if *watch {
                    self.watches.data.add(path, id, Mode::Standard);
                }
                Ok(Body::DataStat(data, stat))
            }
            Read::GetChildren { path, watch } | Read::GetChildren2 { path, watch } => {
                let (children, stat) = self.tree.children(path, &identities)?;
                if *watch {
                    self.watches.children.add(path, id, Mode::Standard);
                }
                Ok(match read {
                    Read::GetChildren2 { .. } => Body::ChildrenStat(children, stat),
                    _ => Body::Children(children),
                })
            }
            Read::GetAcl { path } => self.tree.acl(path, &identities).map(|(acl, stat)| Body::Acl(acl, stat)),
            Read::GetAllChildrenNumber { path } => {
                let number = self.tree.all_children_number(path, &identities)?;
                Ok(Body::Number(i32::try_from(number).unwrap_or(i32::MAX)))
            }
        }
    }

    fn multi_read(&mut self, id: ConnectionId, reads: &[Read]) -> Body {
        let mut result = |read| match self.read(id, read) {
            Ok(Body::DataStat(data, stat)) => OperationResult::GetData(data, stat),
            Ok(Body::Children(children)) => OperationResult::GetChildren(children),
            // Other reads are not allowed in a multi-read.
            Ok(_) => OperationResult::Error(Some(Code::MarshallingError)),
            Err(code) => OperationResult::Error(Some(code)),
        };
        Body::Results(reads.iter().map(&mut result).collect())
    }

    fn get_ephemerals(&self, session_id: i64, prefix: Option<&str>) -> Body {
        let mut paths = self.tree.ephemerals_of(session_id);
        if let Some(prefix) = prefix.filter(|prefix| !matches!(prefix.trim(), "" | "/")) {
            paths.retain(|path| path.starts_with(prefix));
        }
        Body::Children(paths)
    }

    fn who_am_i(&self, id: ConnectionId) -> Body {
        let clients = self.identities(id).iter().map(|id| (id.scheme.clone(), id.user().to_owned())).collect();
        Body::Clients(clients)
    }

    fn authenticate(&mut self, id: ConnectionId, xid: i32, scheme: Option<&str>, auth: Option<&[u8]>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let result = acl::authenticate(scheme, auth, connection.peer.ip()).map(|id| connection.add_identity(id));
        self.reply(id, xid, 0, &result.map(|()| Body::Empty));
        if result.is_err() {
            self.close(id);
        }
    }

    pub(crate) fn identities(&self, id: ConnectionId) -> Vec<Id> {
        self.connections.get(&id).map(|connection| connection.identities.clone()).unwrap_or_default()
    }

    /// Replies with the current zxid, to a request that is processed in order.
    pub(crate) fn answer(&mut self, id: ConnectionId, xid: i32, result: &Result<Body, Code>) {
        self.reply(id, xid, self.zxid, result);
    }

    fn reply(&mut self, id: ConnectionId, xid: i32, zxid: i64, result: &Result<Body, Code>) {
        self.send(id, Output::Reply(reply_frame(xid, zxid, result)));
    }
}

/// The reply to a request that cannot be parsed. For some requests, the real server has already started a transaction.
fn refuse(op: OpCode, malformed: Malformed) -> Step {
    let without_path = malformed == Malformed::NoPath;
    let begun = match op {
        OpCode::Multi => malformed != Malformed::NoAcl,
        OpCode::CreateSession => true,
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => without_path,
        OpCode::Delete | OpCode::DeleteContainer | OpCode::SetData | OpCode::SetAcl => without_path,
        _ => false,
    };
    let code = match op {
        OpCode::SetData | OpCode::SetAcl if without_path => Code::BadArguments,
        _ => Code::MarshallingError,
    };
    if begun { Step::Change(Change::Refused(code)) } else { Step::Failed(code) }
}

fn header(payload: &[u8]) -> Result<(i32, OpCode), Malformed> {
    let mut reader = Reader::new(payload);
    Ok((reader.int()?, OpCode::from(reader.int()?)))
}
