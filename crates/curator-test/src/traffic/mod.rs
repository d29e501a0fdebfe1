//! The frames between clients and servers, on sockets or simulated: counts them, and decides what
//! happens to each.
//!
//! A [`FaultProxy`](crate::FaultProxy) and the simulated network call this module for each frame.
//! It does no I/O and reads no clock.
//!
//! | Module | |
//! |---|---|
//! | `counts` | requests, round trips, events, bytes |
//! | `faults` | the armed faults, and what happens to a frame |
//! | `methods` | the methods that a test calls, for each type that carries frames |

mod counts;
mod faults;
mod methods;

use std::collections::{BTreeMap, VecDeque};

use curator_client::codec::{ConnectResponse, EVENT_XID, ReplyHeader, RequestHeader};

pub use self::faults::Direction;
use self::{
    counts::{Counts, Pipelines},
    faults::{Faults, parse, path},
};
pub(crate) use self::{
    faults::{Alteration, Delivery, Fault, Note, Verdict},
    methods::{WAIT_LIMIT, traffic_methods},
};
use crate::{OpCode, SessionCredentials};

/// The traffic of a proxy, or of a simulated process.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) faults: Faults,
    pub(crate) counts: Counts,
    pub(crate) sessions: Vec<SessionCredentials>,
    links: BTreeMap<LinkId, Link>,
}

/// Identifies a client's connection.
pub(crate) type LinkId = u64;

/// A client's connection.
#[derive(Debug, Default)]
struct Link {
    /// Whether the client has sent its handshake, and whether it was answered. Neither frame has a
    /// header.
    is_greeted: bool,
    is_answered: bool,
    /// Requests without a reply, in order.
    outstanding: VecDeque<Request>,
    pipelines: Pipelines,
    /// The link has lost bytes, so it cannot continue.
    is_lossy: bool,
}

#[derive(Debug)]
struct Request {
    xid: i32,
    op: OpCode,
    pipeline: Option<u64>,
    fault: Option<Fault>,
    is_exempt: bool,
}

impl Traffic {
    /// Registers a link.
    pub(crate) fn open(&mut self, id: LinkId) {
        self.links.insert(id, Link::default());
    }

    pub(crate) fn forget(&mut self, id: LinkId) {
        self.links.remove(&id);
    }

    pub(crate) fn connections(&self) -> usize {
        self.links.len()
    }

    /// Ends all black holes. Returns the links that have lost bytes.
    pub(crate) fn heal(&mut self) -> Vec<LinkId> {
        self.faults.heal();
        self.links
            .iter()
            .filter(|(_, link)| link.is_lossy)
            .map(|(id, _)| *id)
            .collect()
    }

    pub(crate) fn reset_counts(&mut self) {
        self.counts.reset();
        self.links
            .values_mut()
            .for_each(|link| link.pipelines.reset());
    }

    /// Whether bytes in this direction are lost now. If so, this records that the link cannot
    /// continue.
    pub(crate) fn loses(&mut self, id: LinkId, direction: Direction) -> bool {
        let loses = self.faults.loses(direction);
        if loses && let Some(link) = self.links.get_mut(&id) {
            link.is_lossy = true;
        }
        loses
    }

    /// Whether the next frame in this direction is a handshake, or the reply to one.
    pub(crate) fn awaits_handshake(&self, id: LinkId, direction: Direction) -> bool {
        self.links.get(&id).is_some_and(|link| match direction {
            Direction::ToServer => !link.is_greeted,
            Direction::ToClient => !link.is_answered,
            Direction::Both => !link.is_greeted && !link.is_answered,
        })
    }

    /// Decides what happens to a client's frame.
    pub(crate) fn pass_to_server(&mut self, id: LinkId, frame: &[u8]) -> Verdict {
        let Some(link) = self.links.get_mut(&id) else {
            return Delivery::noting(Note::Nothing);
        };
        self.counts.send(frame.len());
        if !std::mem::replace(&mut link.is_greeted, true) {
            // No other request is outstanding yet, so any xid is unique.
            return self.request(
                id,
                RequestHeader {
                    xid: 0,
                    op: OpCode::CreateSession,
                },
                None,
            );
        }
        match parse::<RequestHeader>(frame) {
            Some(header) => {
                let path = path(header.op, frame);
                self.request(id, header, path)
            }
            None => Delivery::noting(Note::Nothing),
        }
    }

    /// Decides what happens to a server's frame.
    pub(crate) fn pass_to_client(&mut self, id: LinkId, frame: &[u8]) -> Verdict {
        let Some(link) = self.links.get_mut(&id) else {
            return Delivery::noting(Note::Nothing);
        };
        self.counts.receive(frame.len());
        if std::mem::replace(&mut link.is_answered, true) {
            return self.reply(id, parse(frame));
        }
        // Session 0 means that the requested session has ended.
        if let Some(ConnectResponse {
            session_id,
            password,
            ..
        }) = parse::<ConnectResponse<Vec<u8>>>(frame)
            && session_id != 0
        {
            self.sessions
                .retain(|session| session.session_id != session_id);
            self.sessions.push(SessionCredentials {
                session_id,
                password,
            });
        }
        self.reply(
            id,
            Some(ReplyHeader {
                xid: 0,
                zxid: 0,
                error: 0,
            }),
        )
    }

    /// Decides what happens to a request. `path` is its path, if it has one.
    fn request(
        &mut self,
        id: LinkId,
        RequestHeader { xid, op }: RequestHeader,
        path: Option<&[u8]>,
    ) -> Verdict {
        let Some(link) = self.links.get_mut(&id) else {
            return Delivery::noting(Note::Nothing);
        };
        let is_exempt = path.is_some_and(|path| self.faults.exempt_paths.contains(path));
        let pipeline = if is_exempt {
            None
        } else {
            self.counts.arrive(op, &mut link.pipelines)
        };
        if self.loses(id, Direction::ToServer) {
            return Verdict::Lose;
        }
        let fault = if is_exempt { None } else { self.faults.hit(op) };
        if fault == Some(Fault::CutRequest) {
            return Verdict::Cut;
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.outstanding.push_back(Request {
                xid,
                op,
                pipeline,
                fault,
                is_exempt,
            });
        }
        Delivery::noting(if is_exempt {
            Note::Nothing
        } else {
            Note::Request(op)
        })
    }

    /// Decides what happens to a reply or a notification.
    fn reply(&mut self, id: LinkId, header: Option<ReplyHeader>) -> Verdict {
        let is_notification = header
            .as_ref()
            .is_some_and(|header| header.xid == EVENT_XID);
        if is_notification {
            self.counts.notify();
        }
        let request = header
            .filter(|_| !is_notification)
            .and_then(|h| self.take_request(id, h.xid));
        if let Some(request) = request.as_ref().filter(|request| !request.is_exempt) {
            self.counts.answer(request.op);
        }
        if self.loses(id, Direction::ToClient) {
            return Verdict::Lose;
        }
        let Some(Request {
            op,
            pipeline,
            fault,
            is_exempt,
            ..
        }) = request
        else {
            return Delivery::noting(Note::Nothing);
        };
        let mut delivery = Delivery::at_once(Note::Reply(pipeline));
        delivery.release = if is_exempt {
            None
        } else {
            self.faults.release_to_await(op)
        };
        match fault {
            None => {}
            Some(Fault::SwallowReply) => return Verdict::Lose,
            Some(Fault::CutReply | Fault::CutRequest) => return Verdict::Cut,
            Some(Fault::CutBehindReply) => delivery.is_last = true,
            Some(Fault::DelayReply(delay)) => delivery.delay = delay,
            Some(Fault::HoldReply) => delivery.release = Some(self.faults.next_release()),
            Some(Fault::AlterReply(number)) => {
                delivery.alteration = self.faults.take_alteration(number);
            }
        }
        Verdict::Deliver(delivery)
    }

    /// Decides what happens to a TLS record.
    pub(crate) fn record(
        &mut self,
        id: LinkId,
        direction: Direction,
        bytes: usize,
        is_data: bool,
    ) -> Verdict {
        let Some(link) = self.links.get_mut(&id) else {
            return Delivery::noting(Note::Nothing);
        };
        let to_server = direction == Direction::ToServer;
        if to_server {
            self.counts.send(bytes);
        } else {
            self.counts.receive(bytes);
        }
        let note = match (is_data, to_server) {
            (false, _) => Note::Nothing,
            (true, true) => {
                self.counts.join_pipeline(&mut link.pipelines);
                Note::Nothing
            }
            (true, false) => Note::Reply(Some(link.pipelines.current())),
        };
        if self.loses(id, direction) {
            Verdict::Lose
        } else {
            Delivery::noting(note)
        }
    }

    /// Records that a frame has been delivered.
    pub(crate) fn delivered(&mut self, id: LinkId, note: &Note) {
        match *note {
            Note::Request(op) => self.counts.forward(op),
            Note::Reply(Some(pipeline)) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.pipelines.deliver(pipeline);
                }
            }
            Note::Reply(None) | Note::Nothing => {}
        }
    }

    /// The request that a reply answers: the oldest with this xid. Pings, and other requests that a
    /// client sends without a call of the application, have fixed xids.
    fn take_request(&mut self, id: LinkId, xid: i32) -> Option<Request> {
        let outstanding = &mut self.links.get_mut(&id)?.outstanding;
        let index = outstanding.iter().position(|request| request.xid == xid)?;
        outstanding.remove(index)
    }
}
