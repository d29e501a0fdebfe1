//! Executes requests in order.

use curator_client::codec::{Identity, Operation as _, PING_XID, Reader, RequestHeader};

use super::{Change, Now, Output, Processor};
use crate::{
    OpCode,
    embedded::{
        acl::{self, Id},
        code::Code,
        codec::{Body, Control, Read, Reply, Request, Unreadable, Write, reply_frame},
        family::Family,
        faults::RequestInfo,
        operations::Operations,
        sessions::{Attached, ConnectionId},
        watches::Mode,
    },
};

/// A request that has arrived, and how to perform it.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) xid: i32,
    pub(crate) session: Attached,
    pub(crate) info: RequestInfo,
    pub(crate) step: Step,
}

/// How to perform a request.
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
        !matches!(
            self,
            Self::Local(Request::Control(
                Control::Auth { .. } | Control::Sasl { .. }
            )) | Self::Abort
        )
    }
}

impl Processor {
    /// Parses a frame that follows the handshake. Closes the connection if the frame is not a
    /// request.
    pub(super) fn arrive(&mut self, id: ConnectionId, payload: &[u8]) -> Option<Arrived> {
        let mut reader = Reader::lenient(payload);
        let Ok(RequestHeader { xid, op }) = reader.read("the header of a request") else {
            self.close(id);
            return None;
        };
        let connection = self.connections.get_mut(&id)?;
        (connection.last_xid, connection.last_op) = (xid, op);
        let session = connection.session?;
        let operations = self.settings.protocol.operations;
        let request = if operations.contain(op) {
            Request::parse(op, reader.rest())
        } else {
            Ok(None)
        };
        let path = request
            .as_ref()
            .ok()
            .and_then(|request| request.as_ref()?.path().map(str::to_owned));
        let info = RequestInfo::new(op, path, session.id);
        let step = match request {
            Ok(None) => Step::Unknown,
            Ok(Some(Request::Multi(writes))) if !knows_all(operations, &writes) => Step::Unknown,
            Ok(Some(request)) => self.step(id, session.id, request),
            // These servers treat what they cannot read as an unknown request.
            Err(_) if self.family() != Family::ZooKeeper => Step::Unknown,
            Err(_) if matches!(op, OpCode::Auth | OpCode::Sasl) => Step::Abort,
            Err(unreadable) => refuse(op, unreadable),
        };
        Some(Arrived {
            xid,
            session,
            info,
            step,
        })
    }

    fn step(&self, id: ConnectionId, session_id: i64, request: Request) -> Step {
        match request {
            Request::Write(write) => Step::Change(Change::Write {
                session_id,
                identities: self.identities(id),
                write,
            }),
            Request::Multi(writes) => Step::Change(Change::Multi {
                session_id,
                identities: self.identities(id),
                writes,
            }),
            Request::Control(Control::CloseSession {}) => {
                Step::Change(Change::CloseSession { id: session_id })
            }
            Request::Control(Control::Reconfig { .. }) => {
                Step::Change(Change::Refused(Code::ReconfigDisabled))
            }
            request => Step::Local(request),
        }
    }

    /// Processes a request on a standalone server.
    pub(super) fn request(&mut self, id: ConnectionId, arrived: Arrived, now: Now) -> RequestInfo {
        let Arrived {
            xid,
            session,
            info,
            step,
        } = arrived;
        // A client whose session has ended gets no reply. Its connection will be closed.
        if step.needs_session()
            && !self
                .sessions
                .touch(session.id, session.timeout, now.monotonic)
        {
            return info;
        }
        match step {
            Step::Change(change) => {
                let ends = matches!(change, Change::CloseSession { .. });
                let result = self.apply_next(change, now);
                if ends {
                    self.answer_last(id, xid, &result);
                } else {
                    self.answer(id, xid, &result);
                }
            }
            step => self.perform(id, session.id, xid, step),
        }
        info
    }

    /// Performs any step except a change, and replies.
    pub(crate) fn perform(&mut self, id: ConnectionId, session_id: i64, xid: i32, step: Step) {
        match step {
            Step::Local(Request::Control(Control::Auth { scheme, auth, .. })) => {
                self.authenticate(id, xid, scheme.as_deref(), auth.as_deref());
            }
            // The real server's reply if SASL is not configured.
            Step::Local(Request::Control(Control::Sasl { .. })) => {
                self.reply(id, xid, 0, &Ok(Body::One(Reply::Sasl { token: None })));
            }
            Step::Local(Request::Control(Control::Ping {})) => {
                self.answer(id, PING_XID, &Ok(Body::Empty));
            }
            Step::Local(request) => {
                let result = self.local(id, session_id, request);
                self.answer(id, xid, &result);
            }
            Step::Failed(code) => self.answer(id, xid, &Err(code)),
            Step::Unknown => match self.family() {
                Family::ZooKeeper => {
                    self.reply(id, xid, -1, &Err(Code::Unimplemented));
                    self.close(id);
                }
                Family::ClickHouseKeeper => self.close(id),
                Family::RaftKeeper => {}
            },
            Step::Abort => self.close(id),
            // The caller handles changes.
            Step::Change(_) => {}
        }
    }

    fn local(&mut self, id: ConnectionId, session_id: i64, request: Request) -> Result<Body, Code> {
        match request {
            Request::Read(read) => self.read(id, &read).map(Body::One),
            Request::MultiRead(reads) => Ok(self.multi_read(id, &reads)),
            Request::Control(control) => self.control(id, session_id, control),
            // Not reached: `step` turns these requests into changes.
            Request::Write(_) | Request::Multi(_) => Ok(Body::Empty),
        }
    }

    /// Requests about watches accept a null path.
    fn control(
        &mut self,
        id: ConnectionId,
        session_id: i64,
        control: Control,
    ) -> Result<Body, Code> {
        match control {
            Control::Sync { path } => Ok(Body::One(Reply::Sync { path })),
            Control::WhoAmI {} => Ok(self.who_am_i(id)),
            Control::GetEphemerals { prefix } => {
                Ok(self.get_ephemerals(session_id, prefix.as_deref()))
            }
            Control::AddWatch { path, mode } => self.add_watch(id, &path.unwrap_or_default(), mode),
            Control::CheckWatches { path, kind } => {
                self.check_watches(id, &path.unwrap_or_default(), kind)
            }
            Control::RemoveWatches { path, kind } => {
                self.remove_watches(id, &path.unwrap_or_default(), kind)
            }
            Control::SetWatches { watches } => self.set_watches(id, &watches, &[], &[]),
            Control::SetWatches2 {
                watches,
                persistent,
                recursive,
            } => self.set_watches(id, &watches, &persistent, &recursive),
            // Not reached: `step` or `perform` handles these requests.
            Control::CloseSession {} | Control::Reconfig { .. } => Ok(Body::Empty),
            Control::Auth { .. } | Control::Sasl { .. } | Control::Ping {} => Ok(Body::Empty),
        }
    }

    fn read(&mut self, id: ConnectionId, read: &Read) -> Result<Reply, Code> {
        let identities = self.identities(id);
        match read {
            Read::Exists { path, watch } => {
                let stat = self.tree.exists(path, &identities);
                // Without permission to read the node, a client must not watch it either.
                if *watch && matches!(stat, Ok(_) | Err(Code::NoNode)) {
                    self.watches.data.add(path, id, Mode::Standard);
                }
                stat.map(|stat| Reply::Exists { stat })
            }
            Read::GetData { path, watch } => {
                let (data, stat) = self.tree.data(path, &identities)?;
                if *watch {
                    self.watches.data.add(path, id, Mode::Standard);
                }
                Ok(Reply::GetData { data, stat })
            }
            Read::GetChildren { path, watch } | Read::GetChildren2 { path, watch } => {
                let (children, stat) = self.tree.children(path, &identities)?;
                if *watch {
                    self.watches.children.add(path, id, Mode::Standard);
                }
                let children = texts(children);
                Ok(match read {
                    Read::GetChildren2 { .. } => Reply::GetChildren2 { children, stat },
                    _ => Reply::GetChildren { children },
                })
            }
            Read::GetAcl { path } => {
                self.tree
                    .acl(path, &identities)
                    .map(|(acl, stat)| Reply::GetAcl {
                        acl: Some(acl),
                        stat,
                    })
            }
            Read::GetAllChildrenNumber { path } => {
                let number = self.tree.all_children_number(path, &identities)?;
                Ok(Reply::GetAllChildrenNumber {
                    number: i32::try_from(number).unwrap_or(i32::MAX),
                })
            }
        }
    }

    fn multi_read(&mut self, id: ConnectionId, reads: &[Read]) -> Body {
        let mut result = |read| {
            self.read(id, read).unwrap_or_else(|code| Reply::Error {
                code: code.number(),
            })
        };
        Body::Results(reads.iter().map(&mut result).collect())
    }

    fn get_ephemerals(&self, session_id: i64, prefix: Option<&str>) -> Body {
        let mut paths = self.tree.ephemerals_of(session_id);
        if let Some(prefix) = prefix.filter(|prefix| !matches!(prefix.trim(), "" | "/")) {
            paths.retain(|path| path.starts_with(prefix));
        }
        Body::One(Reply::GetEphemerals {
            paths: texts(paths),
        })
    }

    fn who_am_i(&self, id: ConnectionId) -> Body {
        Body::One(Reply::WhoAmI {
            identities: Some(
                self.identities(id)
                    .iter()
                    .map(|id| Identity {
                        scheme: Some(id.scheme.clone()),
                        user: Some(id.user().to_owned()),
                    })
                    .collect(),
            ),
        })
    }

    fn authenticate(
        &mut self,
        id: ConnectionId,
        xid: i32,
        scheme: Option<&str>,
        auth: Option<&[u8]>,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let result = acl::authenticate(scheme, auth, connection.peer.ip())
            .map(|id| connection.add_identity(id));
        self.reply(id, xid, 0, &result.map(|()| Body::Empty));
        if result.is_err() {
            self.close(id);
        }
    }

    pub(crate) fn identities(&self, id: ConnectionId) -> Vec<Id> {
        self.connections
            .get(&id)
            .map(|connection| connection.identities.clone())
            .unwrap_or_default()
    }

    /// Replies with the current zxid, to a request that is processed in order.
    pub(crate) fn answer(&mut self, id: ConnectionId, xid: i32, result: &Result<Body, Code>) {
        self.reply(id, xid, self.zxid, result);
    }

    /// Replies to the request that ends a session, and closes the connection. Only ZooKeeper
    /// replies.
    pub(crate) fn answer_last(&mut self, id: ConnectionId, xid: i32, result: &Result<Body, Code>) {
        if self.family() == Family::ZooKeeper {
            self.answer(id, xid, result);
        }
        self.close(id);
    }

    fn reply(&mut self, id: ConnectionId, xid: i32, zxid: i64, result: &Result<Body, Code>) {
        self.send(id, Output::Reply(reply_frame(xid, zxid, result)));
    }
}

/// Whether the server knows all operations of a multi.
fn knows_all(operations: Operations, writes: &[Write]) -> bool {
    writes.iter().all(|write| operations.contain(write.op()))
}

/// The reply to a request that cannot be parsed. For some requests, the real server has already
/// started a transaction, which uses up a zxid.
fn refuse(op: OpCode, unreadable: Unreadable) -> Step {
    // In these requests, only the path must not be null.
    let without_path = matches!(unreadable, Unreadable::Malformed(malformed) if malformed.is_null);
    let begun = match op {
        OpCode::Multi => unreadable != Unreadable::NoAcl,
        OpCode::CreateSession => true,
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
            without_path
        }
        OpCode::Delete | OpCode::DeleteContainer | OpCode::SetData | OpCode::SetAcl => without_path,
        _ => false,
    };
    let code = match op {
        OpCode::SetData | OpCode::SetAcl if without_path => Code::BadArguments,
        _ => Code::MarshallingError,
    };
    if begun {
        Step::Change(Change::Refused(code))
    } else {
        Step::Failed(code)
    }
}

fn texts(texts: Vec<String>) -> Option<Vec<Option<String>>> {
    Some(texts.into_iter().map(Some).collect())
}
