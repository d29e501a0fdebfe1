//! Executes requests in order.

use super::{Now, Output, Processor};
use crate::{
    OpCode,
    embedded::{
        acl::{self, Id},
        code::Code,
        codec::{Body, CreateKind, Malformed, OperationResult, Read, Reader, Request, Write, reply_frame},
        connection::ConnectionId,
        request_info::RequestInfo,
        tree::{Context, Event},
        watches::Mode,
    },
};

/// The xid of each ping and its reply.
const PING_XID: i32 = -2;

impl Processor {
    /// Processes a frame that follows the handshake.
    pub(super) fn request(&mut self, id: ConnectionId, payload: &[u8], now: Now) -> Option<RequestInfo> {
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
        match &request {
            Some(Ok(Request::Auth { scheme, auth })) => {
                self.authenticate(id, xid, scheme.as_deref(), auth.as_deref());
                return Some(info);
            }
            // The real server's reply if SASL is not configured.
            Some(Ok(Request::Sasl)) => {
                self.reply(id, xid, 0, &Ok(Body::NoBuffer));
                return Some(info);
            }
            Some(Err(_)) if matches!(op, OpCode::Auth | OpCode::Sasl) => {
                self.close(id);
                return Some(info);
            }
            _ => {}
        }
        // A client whose session has ended gets no reply. Its connection will be closed.
        if !self.sessions.touch(session.id, session.timeout, now.monotonic) {
            return Some(info);
        }
        match request {
            None => {
                self.reply(id, xid, -1, &Err(Code::Unimplemented));
                self.close(id);
            }
            Some(Ok(Request::CloseSession)) => {
                self.end_session(session.id);
                self.answer(id, xid, &Ok(Body::Empty));
                self.close(id);
            }
            Some(Ok(Request::Ping)) => self.answer(id, PING_XID, &Ok(Body::Empty)),
            Some(Ok(request)) => {
                let result = self.perform(id, session.id, request, now);
                self.answer(id, xid, &result);
            }
            Some(Err(malformed)) => {
                let code = self.refuse(op, malformed);
                self.answer(id, xid, &Err(code));
            }
        }
        Some(info)
    }

    fn perform(&mut self, id: ConnectionId, session_id: i64, request: Request, now: Now) -> Result<Body, Code> {
        match request {
            Request::Write(write) => self.write(id, session_id, &write, now),
            Request::Multi(writes) => Ok(self.multi(id, session_id, &writes, now)),
            Request::Read(read) => self.read(id, &read),
            Request::MultiRead(reads) => Ok(self.multi_read(id, &reads)),
            Request::Sync { path } => Ok(Body::OptionalPath(path)),
            Request::WhoAmI => Ok(self.who_am_i(id)),
            Request::GetEphemerals { prefix } => Ok(self.get_ephemerals(session_id, prefix.as_deref())),
            Request::AddWatch { path, mode } => self.add_watch(id, &path, mode),
            Request::CheckWatches { path, kind } => self.check_watches(id, &path, kind),
            Request::RemoveWatches { path, kind } => self.remove_watches(id, &path, kind),
            Request::SetWatches(watches) => self.set_watches(id, &watches),
            Request::Reconfig => {
                self.zxid += 1;
                Err(Code::ReconfigDisabled)
            }
            // Handled earlier: they do more than send one reply.
            Request::Auth { .. } | Request::Sasl | Request::Ping | Request::CloseSession => Ok(Body::Empty),
        }
    }

    /// The reply to a request that cannot be parsed. For some requests, the real server has already started a
    /// transaction.
    fn refuse(&mut self, op: OpCode, malformed: Malformed) -> Code {
        let without_path = malformed == Malformed::NoPath;
        let begun = match op {
            OpCode::Multi => malformed != Malformed::NoAcl,
            OpCode::CreateSession => true,
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => without_path,
            OpCode::Delete | OpCode::DeleteContainer | OpCode::SetData | OpCode::SetAcl => without_path,
            _ => false,
        };
        self.zxid += i64::from(begun);
        match op {
            OpCode::SetData | OpCode::SetAcl if without_path => Code::BadArguments,
            _ => Code::MarshallingError,
        }
    }

    /// Applies a change as one transaction. A failed transaction uses up a zxid too.
    fn write(&mut self, id: ConnectionId, session_id: i64, write: &Write, now: Now) -> Result<Body, Code> {
        self.zxid += 1;
        let identities = self.identities(id);
        let context = Context { session_id, identities: &identities, zxid: self.zxid, time: now.wall };
        let applied = self.tree.apply(write, &context)?;
        self.notify(&applied.events);
        Ok(match applied.result {
            OperationResult::Create(path) => Body::Path(path),
            OperationResult::Create2(path, stat) => Body::PathStat(path, stat),
            OperationResult::SetData(stat) => Body::Stat(stat),
            _ => Body::Empty,
        })
    }

    fn multi(&mut self, id: ConnectionId, session_id: i64, writes: &[Write], now: Now) -> Body {
        self.zxid += 1;
        let identities = self.identities(id);
        let context = Context { session_id, identities: &identities, zxid: self.zxid, time: now.wall };
        let (mut results, events) = self.tree.apply_all(writes, &context);
        self.notify(&events);
        if !self.settings.stats_in_transactions {
            // All releases report the stats of containers and of nodes with a time to live.
            let plain = |write: &Write| matches!(write, Write::Create(create) if create.kind == CreateKind::Create2);
            results
                .iter_mut()
                .zip(writes)
                .filter(|(_, write)| plain(write))
                .for_each(|(result, _)| result.forget_stat());
        }
        Body::Results(results)
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

    /// Ends a session: a transaction that deletes its ephemeral nodes.
    pub(super) fn end_session(&mut self, session_id: i64) {
        self.zxid += 1;
        let events: Vec<Event> = self.tree.kill_session(session_id, self.zxid);
        self.notify(&events);
        self.sessions.remove(session_id);
    }

    pub(super) fn identities(&self, id: ConnectionId) -> Vec<Id> {
        self.connections.get(&id).map(|connection| connection.identities.clone()).unwrap_or_default()
    }

    /// Replies with the current zxid, to a request that is processed in order.
    fn answer(&mut self, id: ConnectionId, xid: i32, result: &Result<Body, Code>) {
        self.reply(id, xid, self.zxid, result);
    }

    fn reply(&mut self, id: ConnectionId, xid: i32, zxid: i64, result: &Result<Body, Code>) {
        self.send(id, Output::Reply(reply_frame(xid, zxid, result)));
    }
}

fn header(payload: &[u8]) -> Result<(i32, OpCode), Malformed> {
    let mut reader = Reader::new(payload);
    Ok((reader.int()?, OpCode::from(reader.int()?)))
}
